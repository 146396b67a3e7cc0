"""What operators do with a file: back it up, restore it, check its integrity, and probe whether it works now.

These modules open files and connections of their own, and may block. Read `backups` first.
"""
