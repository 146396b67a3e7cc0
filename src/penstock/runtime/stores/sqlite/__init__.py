"""The SQLite adapters: one file, one writer with group commit, a few readers.

Read `database` first: it is an open file. `runs` has what only SQLite can do with runs, `memory` and `graphs` are
stores, `schema` is the file format, and `maintenance` is what operators do with a file. It may use sqlite3 and the file
system.
"""
