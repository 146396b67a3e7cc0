"""Workflows that are exposed to assistants as tools, prompts and resources.

`workflows` reads what each tenant exposes; read it first. The data is in `catalogue.exposure`.
"""
