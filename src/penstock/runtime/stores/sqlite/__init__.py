"""The SQLite adapters: one file, one writer with group commit, a few readers.

`database` is an open file. `runs` and `platform` are the two stores on it, `history` the pages of runs, `schema` the
format of the file, `maintenance` what operators do with it. Read `database` first, then `group_commit`.
"""
