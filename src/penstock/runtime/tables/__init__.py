"""The rows of every table, and the SQL that reads and writes them: written once, for every database.

Functions take a database, and those of one transaction a `Transaction` or a `Reader`. Nothing here knows which database
it is. Read `api_keys` first, a small table; `call_records` has what is stored with every change.
"""
