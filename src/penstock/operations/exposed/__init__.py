"""Workflows that are exposed to assistants as tools, prompts and resources.

`workflows` reads what each tenant exposes, and caches it; `contents` describes prompts and resources. The data types
are in `catalogue.exposure`. It reads the store through its port and changes nothing. Read `workflows` first.
"""
