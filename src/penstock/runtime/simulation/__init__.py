"""Dry runs in memory with mocked activities and a clock that jumps, and the test cases of documents."""
