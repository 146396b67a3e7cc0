"""`llm_call`: asks language models.

`port` is what a provider implements; `pydantic_ai` is the only module that uses the network. Read `executor` first.
"""
