"""Operations on runs: start, wait, read, stream, answer, change, and the published control plane.

Each module declares a few operations; the views that they answer with are in `runs.views`. Runs are reached through the
host and store ports. No other resource is imported. Read `reads` first.
"""
