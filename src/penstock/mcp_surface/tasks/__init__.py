"""The tasks extension: a long call becomes a task, and a task is a run.

Only `methods` imports the SDK. Read `tasks` first.
"""
