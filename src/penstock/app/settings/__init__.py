"""Everything that an operator can set, declared once and typed.

`model` declares the settings, `sources` reads them from files, variables and flags, `view` shows them and `schema`
describes them for editors. A setting is a typed member of a class with a `Field`; `declarations` turns it into a
`Setting` whose type (`types`, `composite_types`) parses, checks, describes and writes its value. `named` has the
settings that come by name (MCP servers, models, agents), `formats` the formats of texts, `rules` the rules between
settings, `secrets` the references that stand for secrets. Only `sources` reads files and variables. Read `model` first.
"""
