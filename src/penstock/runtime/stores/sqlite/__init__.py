"""The SQLite adapters: one file, one writer with group commit, a few readers.

`database` is an open file. `runs` and `platform` are the two stores on it, `history` the pages of records, `schema` the
file format, and `maintenance` what operators do with a file. It may use sqlite3 and the file system. Read `database`
first.
"""
