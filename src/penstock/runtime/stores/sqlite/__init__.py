"""The SQLite driver: one file, one writer with group commit, a few readers.

Read `database` first: it is an open file. `runs` has what only SQLite can do with runs, `graphs` is a store, `schema`
is the file format, and `maintenance` is what operators do with a file. It may use sqlite3 and the file system.
"""
