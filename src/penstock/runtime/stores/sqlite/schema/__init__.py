"""The format of the file: `migrations` has all tables and steps, `files` opens a file, `vacuum` releases free space.

`sql_functions` are our functions that SQL statements call. Only this package contains DDL, except for the tables that
each graph has of its own (`graphs.type_tables`). Read `migrations` first.
"""
