"""Graph schemas and queries: the size of their texts, and of what they describe."""

__all__ = [
    "GRAPH_BLOCK_DEPTH_MAX",
    "GRAPH_CLAUSES_MAX",
    "GRAPH_ENUM_VALUES_MAX",
    "GRAPH_FINDINGS_MAX",
    "GRAPH_HOPS_MAX",
    "GRAPH_LIST_ITEMS_MAX",
    "GRAPH_NAME_CHARACTERS_MAX",
    "GRAPH_PARAMETERS_MAX",
    "GRAPH_PATTERN_CHARACTERS_MAX",
    "GRAPH_PROJECTIONS_MAX",
    "GRAPH_PROPERTIES_MAX",
    "GRAPH_QUERIES_PER_FILE_MAX",
    "GRAPH_RECORD_CHARACTERS_MAX",
    "GRAPH_ROWS_DEFAULT_MAX",
    "GRAPH_STEPS_MAX",
    "GRAPH_STRING_BYTES_MAX",
    "GRAPH_TEXT_CHARACTERS_MAX",
    "GRAPH_TYPES_MAX",
    "GRAPH_VECTOR_DIMENSION_MAX",
]

# A schema or a file of queries. The largest known have a fifth of this; the parser needs about a second for it.
GRAPH_TEXT_CHARACTERS_MAX = 262_144
# Node types, edge types and interfaces of one schema: each is a table with indexes.
GRAPH_TYPES_MAX = 1_000
# Properties of one type: each is a column, and databases allow a few thousand at best.
GRAPH_PROPERTIES_MAX = 500
# Values of one enum: they are listed in schemas that language models read.
GRAPH_ENUM_VALUES_MAX = 1_000
# Names become columns, tools and file names.
GRAPH_NAME_CHARACTERS_MAX = 128
# The expression of a `@check`, which runs on every value that is written.
GRAPH_PATTERN_CHARACTERS_MAX = 1_000
# The largest embeddings that providers offer have about 4,000 numbers.
GRAPH_VECTOR_DIMENSION_MAX = 16_384
# Queries in one file; more belong in a folder.
GRAPH_QUERIES_PER_FILE_MAX = 1_000
# Parameters of one query: a model has to fill them in.
GRAPH_PARAMETERS_MAX = 64
# Clauses of one query, nested ones included: each is a join or a condition of the one SQL statement.
GRAPH_CLAUSES_MAX = 200
# Blocks, parentheses and negations inside each other. The parser and the compiler call themselves for each level.
GRAPH_BLOCK_DEPTH_MAX = 24
# Columns of one answer.
GRAPH_PROJECTIONS_MAX = 200
# Statements of one mutation; more data is loaded, not written as a query.
GRAPH_STEPS_MAX = 100
# Steps of one hop `{m,n}`: at six or seven most graphs are connected, and everything is reached.
GRAPH_HOPS_MAX = 32
# Items of a list: of a literal, a parameter, or a property.
GRAPH_LIST_ITEMS_MAX = 10_000
# One text value, in UTF-8. Longer texts are Blobs.
GRAPH_STRING_BYTES_MAX = 1_048_576
# One line of NDJSON: a node with a Blob and an embedding.
GRAPH_RECORD_CHARACTERS_MAX = 33_554_432
# Findings of one text that are reported; nobody reads more at once.
GRAPH_FINDINGS_MAX = 100
# `limit` of a query: an answer is built in memory.
GRAPH_ROWS_DEFAULT_MAX = 1_000_000
