"""Drivers of databases, and what is stored with statements of one database only: graphs and memory.

A driver implements `runtime.ports.database`; `runtime.tables` has the SQL that is the same for every database. Stores
do not import executors, and only `app` names a driver. Read `sqlite` first.
"""
