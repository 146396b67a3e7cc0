"""The format of the file: `migrations` has all tables and steps, `files` opens a file, `vacuum` gives space back.

`sql_functions` are the functions of ours that statements call. Read `migrations` first.
"""
