"""The SQLite store: one file, one writer thread with group commit, a few readers. Read `store` first, then `writer`."""
