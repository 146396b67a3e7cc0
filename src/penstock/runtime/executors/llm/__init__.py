"""`llm_call`: asks language models. Read `executor` first; `port` is what a provider implements."""
