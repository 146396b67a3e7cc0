"""Everything that an operator can set: declared once (`model`, read it first), read from files, variables and flags
(`sources`), shown (`view`) and described for editors (`schema`).

A setting is declared as a typed member of a class with a `Field`; `declarations` turns it into a `Setting` whose type
(`types`, `composite_types`) parses, checks, describes and writes its value. `named` has the settings that come by name
(MCP servers, models, agents), `formats` what texts must look like, `rules` what must fit together, `secrets` the
references in the place of secrets.
"""
