"""What the declaration of a node type is made of: the words in which the modules of `nodes` are written.

Read `kind` first: `NodeKind` is everything that the document side knows of a node type. `outline` has the plain form of
nodes, routes and bodies, `compiling` turns written values into compiled ones, `jq_places` says where jq stands,
`changes` what a change means to runs in flight, `captions` what a drawing shows. `activity` and `branches` are what
whole families of node types share.

Below it: `model`, `shapes.fields` and the compilers of jq and schemas. It names no node type.
"""
