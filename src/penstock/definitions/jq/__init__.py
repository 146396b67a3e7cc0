"""jq: expressions and templates that are compiled once, and what is known about a program without running it.

Read `expressions` first.
"""
