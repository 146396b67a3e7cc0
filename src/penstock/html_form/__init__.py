"""A JSON schema as an HTML form, and what a browser sends as a value that is meant to fit it.

`fields` makes fields from a schema, `markup` renders them, `values` reads what was sent and writes a value back into a
form, and `form` has what pages use. The receiver of the value validates it; this package only converts types. Fields,
and the errors about them, are named by their place in the value, as in a JSON pointer. A surface imports `form` only.
Read `fields` first.
"""
