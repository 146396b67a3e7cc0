"""Dry runs in memory, with mocked activities and a clock that jumps, and the test cases of documents.

`dry_run` is the simulator, `cases` runs the test cases of a document, `tracing` renders a history as lines. Nothing is
called and nothing is stored. Read `dry_run` first.
"""
