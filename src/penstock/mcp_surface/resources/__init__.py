"""Resources, prompts and completion.

Everything is read through the gate. Only `methods` imports the SDK. Read `contents` first.
"""
