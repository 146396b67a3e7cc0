"""The building blocks from which the modules of `nodes` declare their node types.

Read `kind` first. Its `NodeKind` is everything that the document side knows about a node type. `outline` has the plain
form of nodes, routes and bodies, `compiling` compiles written values, `jq_places` says where jq occurs. `changes` says
what a change means for runs in flight, and `captions` what a drawing shows; `activity` and `branches` are shared by
families of node types. The package is pure and names no node type; below it are `model`, `shapes.fields` and the
compilers of jq and schemas.
"""
