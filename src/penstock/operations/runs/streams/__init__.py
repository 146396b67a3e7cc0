"""Runs as streams of events, and what a caller who waits gets of them meanwhile. Read `reader` first."""
