"""Runs as streams of events, and what a caller who waits is told of them meanwhile. Read `reader` first."""
