"""A driver of the database port for PostgreSQL. Only tests use it so far: they prove that the tables need no SQLite.

`database` is the driver; read it first. `writer` makes changes and commits them in batches, `transaction` runs
statements, and `connections` opens connections. `statements` and `schema` translate our SQL and the tables of the
SQLite file. `topics` tells caches what changed, and `errors` says what errors mean. `run_index` and `changes`,
`word_index` and `erasure` are the parts of the port that every driver has of its own.

It uses no private part of psycopg. Those parts know the tables that they are about; nothing else knows any but topics.
"""
