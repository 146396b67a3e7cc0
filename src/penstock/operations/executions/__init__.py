"""Operations on executions: start, wait, read, stream, answer, change, and the published control plane.

Read `reads` first. How executions look to callers is `runs.views`.
"""
