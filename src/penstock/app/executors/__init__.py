"""Executors as the settings configure them.

It imports the executors of `runtime`, those with optional libraries only when they are needed. Read `configured` first.
"""
