"""The workflow document: its model, and how it is read, checked, compiled, compared, hashed and described.

Read `model` first: it is the compiled workflow that the engine walks. On its way from text to model, a document passes
through `source` (text to values with positions), `outline` (nodes, routes and bodies of either format), `checks`
(findings; `validate` runs them all) and `build`. `nodes` has one module per node type, built from `node_parts`;
everything that walks a document reads these declarations. `jq` and `schemas` compile the expressions and JSON Schemas
of authors. `shapes` has the field tables of everything but nodes, `editor_schema` makes JSON Schemas from all tables,
and `diff` compares two versions.

The package is pure: it touches neither files nor clocks. Below it: `base`.
"""
