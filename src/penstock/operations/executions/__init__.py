"""Operations on executions: start, read, wait, stream, answer, change.

Read `reads` first; `views` is how executions look to callers.
"""
