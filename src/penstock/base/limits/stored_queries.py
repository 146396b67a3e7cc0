"""Stored queries, and the calls that reach graphs."""

__all__ = [
    "CHECKED_GRAPHS_KEPT",
    "GRAPHS_PER_TENANT_MAX",
    "GRAPH_DIFF_SHOWN_MAX",
    "GRAPH_EXPORT_RECORDS_MAX",
    "GRAPH_ID_CHARACTERS_MAX",
    "GRAPH_LOAD_CHARACTERS_MAX",
    "GRAPH_LOAD_HEARTBEAT_SECONDS",
    "GRAPH_LOAD_LEASE_MS",
    "GRAPH_RECORDS_READ_AT_ONCE",
    "QUERY_NAME_CHARACTERS_MAX",
    "QUERY_SOURCE_CHARACTERS_MAX",
    "QUERY_TOOLS_MAX",
    "STORED_QUERIES_PER_GRAPH_MAX",
]

# The id of a graph is part of addresses and of names of tools, which clients limit to 64 characters.
GRAPH_ID_CHARACTERS_MAX = 64
# A query is a tool, and MCP clients accept names of up to 64 characters.
QUERY_NAME_CHARACTERS_MAX = 64
# All queries of a graph are checked again whenever its schema changes; this many take below a second.
STORED_QUERIES_PER_GRAPH_MAX = 500
# A query or a schema for people to read. The largest queries that we know have two kilobytes, schemas twenty.
QUERY_SOURCE_CHARACTERS_MAX = 262_144
# Every graph has tables of its own, and a list of graphs is one page.
GRAPHS_PER_TENANT_MAX = 100
# Above so many exposed queries, a list of tools costs a model more than it helps: two tools take their place.
QUERY_TOOLS_MAX = 24
# The records of one call. A larger file is sent piece by piece by the command line.
GRAPH_LOAD_CHARACTERS_MAX = 33_554_432
# Lines of a load that are read before others have their turn: some ten milliseconds of computing.
GRAPH_RECORDS_READ_AT_ONCE = 1_000
# A load whose lease was not renewed for so long belongs to a process or a caller that is gone: it is abandoned, and its
# branch takes other writes again. Long enough for a process that is suspended for a while, and for a slow client.
GRAPH_LOAD_LEASE_MS = 60_000
# How often a process renews the leases of its loads, and looks for those of others that have run out.
GRAPH_LOAD_HEARTBEAT_SECONDS = 5.0
# Records in one page of an export, which is one answer.
GRAPH_EXPORT_RECORDS_MAX = 10_000
# Changes that a preview of a merge shows. People approve what they can read; the operation `graph.diff` pages on.
GRAPH_DIFF_SHOWN_MAX = 100
# Graphs whose parsed schema and checked queries are kept in memory.
CHECKED_GRAPHS_KEPT = 64
