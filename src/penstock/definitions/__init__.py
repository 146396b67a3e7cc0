"""The workflow document: its model, and how it is read, checked, compiled, compared, hashed and described.

`model` is the compiled workflow that the engine walks: read it first. From text to model, a document passes `source`
(text to values with positions), `outline` (nodes, routes and bodies of either format), `checks` (findings; `validate`
runs them all) and `build`. `nodes` has one module per node type, made of `node_parts`; everything that walks a document
reads these declarations. `jq` and `schemas` compile what authors write in expressions and JSON Schemas, `shapes` has
the field tables of everything but nodes, `editor_schema` the JSON Schema made from them, `diff` compares two versions.

Pure: it computes, and touches neither files nor clocks. Below it: `base`.
"""
