"""The tasks extension: a call that takes longer becomes a task, and a task is an execution. Read `tasks` first."""
