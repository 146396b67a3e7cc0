"""The workflow document: its model, and how it is read, checked, compiled, compared, hashed and described.

Read `model` first. It is the compiled workflow that the engine walks; on the way there, a document passes through
`source` (text to values with positions), `outline` (nodes, routes and bodies of either format), `checks` (findings;
`validate` runs them all) and `build`. `nodes` has one module per node type, built from `node_parts`; `jq` and `schemas`
compile the expressions and JSON Schemas of authors; `shapes` has the other field tables, from which `editor_schema`
makes JSON Schemas; `diff` compares two versions. The package is pure: it touches neither files nor clocks, and imports
only `base`.
"""
