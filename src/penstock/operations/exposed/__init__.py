"""Workflows and imported tools as capabilities that assistants call: tools, prompts and resources.

Read `workflows` first.
"""
