"""Registered tools: what an entry of the registry of tools stands for, and how it is called.

`documents` writes the workflow of one call, `capabilities` makes a capability of each entry, `generated` stores
workflows that the server writes itself. The registry of tools and the exposed tools of a tenant both stand on it. It
reaches entries through the platform store. Read `documents` first.
"""
