"""Graphs: what one query, load, merge or clean-up may use."""

__all__ = [
    "GRAPH_BRANCH_NAME_CHARACTERS_MAX",
    "GRAPH_CHAIN_DEPTH_MAX",
    "GRAPH_COMMITS_HELD_MAX",
    "GRAPH_CONFLICTS_MAX",
    "GRAPH_CORPORA_KEPT_MAX",
    "GRAPH_ENTITY_ID_CHARACTERS_MAX",
    "GRAPH_EXPORT_ROWS_TOGETHER",
    "GRAPH_KEEP_DAYS_MAX",
    "GRAPH_LOAD_PIECE_MAX",
    "GRAPH_LOG_PAGES_MAX",
    "GRAPH_MERGE_ROWS_AT_ONCE",
    "GRAPH_MUTATION_SECONDS",
    "GRAPH_PAGE_MAX",
    "GRAPH_PIECE_PAUSE_SECONDS_MAX",
    "GRAPH_PIECE_ROWS_MAX",
    "GRAPH_PIECE_ROWS_MIN",
    "GRAPH_PIECE_SECONDS",
    "GRAPH_PIECE_SECONDS_ALONE",
    "GRAPH_QUERY_SECONDS",
    "GRAPH_QUERY_WORDS_KEPT_MAX",
    "GRAPH_RECORDS_PREPARED_AT_ONCE",
    "GRAPH_RESULT_BYTES_MAX",
    "GRAPH_ROWS_MAX",
    "GRAPH_SEARCH_TERMS_MAX",
    "GRAPH_SEARCH_WORD_CHARACTERS_MAX",
    "GRAPH_SHORT_READ_MISSES_MAX",
    "GRAPH_SHORT_READ_SECONDS",
    "GRAPH_STATEMENTS_KEPT_MAX",
    "GRAPH_SWEEP_ROWS_MAX",
    "GRAPH_TEXTS_INDEXED_AT_ONCE",
    "GRAPH_VIOLATIONS_MAX",
]

# Rows of one answer; more are read page by page. An assistant cannot use more, and a server must hold them in memory.
GRAPH_ROWS_MAX = 10_000
# How long one query may run: a reader thread is busy for it, and there are few.
GRAPH_QUERY_SECONDS = 10.0
# How long a query may run on the event loop before it begins anew on a reader thread. A hop to a thread and back takes
# a third of a millisecond, about as long as most queries; but everybody else waits for this long.
GRAPH_SHORT_READ_SECONDS = 0.001
# A query that took longer than that is read on a thread once, then twice as often for each further time, up to this
# many times, before the event loop tries again: so one that is always long wastes one short try in this many.
GRAPH_SHORT_READ_MISSES_MAX = 20
# Texts that queries search for whose words are kept: each is compared with every text, and may have many words itself.
GRAPH_QUERY_WORDS_KEPT_MAX = 16
# How long a step of a mutation may look for what it changes: everybody who writes waits for it.
GRAPH_MUTATION_SECONDS = 1.0
# Bytes of one answer, estimated as its cells are read; an answer is copied a few times on its way out.
GRAPH_RESULT_BYTES_MAX = 33_554_432
# Commits that one clean-up keeps by name, and how far back it can keep all of them: a hundred years is always.
GRAPH_COMMITS_HELD_MAX = 100
GRAPH_KEEP_DAYS_MAX = 36_500
# Constraints that one refused change reports; a file of another kind breaks one in every record.
GRAPH_VIOLATIONS_MAX = 100
# Conflicts that one refused merge reports; people settle them one by one.
GRAPH_CONFLICTS_MAX = 1_000
# Records that a caller adds to a load at once, so that memory stays bounded.
GRAPH_LOAD_PIECE_MAX = 5_000
# Records that are checked before the event loop has its turn again: one to two milliseconds of computing.
GRAPH_RECORDS_PREPARED_AT_ONCE = 1_000
# How long one transaction of a load, a large merge or a clean-up should take while others write, since steps of runs
# wait for it; its number of rows follows from that. About what the disk itself takes to synchronise.
GRAPH_PIECE_SECONDS = 0.006
# The same while nobody else writes. Whoever comes waits for one such piece, and the next ones are short.
GRAPH_PIECE_SECONDS_ALONE = 0.04
# Rows of such a transaction: fewer would mostly wait for the disk, and more change too many pages at once.
GRAPH_PIECE_ROWS_MIN = 100
GRAPH_PIECE_ROWS_MAX = 5_000
# While others write, they have the file for as long as a piece had it, but not for longer than this at once.
GRAPH_PIECE_PAUSE_SECONDS_MAX = 0.05
# Pages in the log at which it is copied into the file, beside the writer: well below STORE_CHECKPOINT_PAGES, at which
# the writer would stop to copy it.
GRAPH_LOG_PAGES_MAX = 4_000
# Changes that a merge writes in one transaction. A merge with more is written piece by piece, invisible until its end.
GRAPH_MERGE_ROWS_AT_ONCE = 500
# Rows of a type that an export as Parquet writes together: readers skip such groups as a whole, and memory holds one.
GRAPH_EXPORT_ROWS_TOGETHER = 20_000
# Graphs, commits or differences on one page.
GRAPH_PAGE_MAX = 1_000
# Row versions that one transaction of a clean-up removes; see GRAPH_PIECE_SECONDS.
GRAPH_SWEEP_ROWS_MAX = 1_000
# Characters of a branch name; it stands in addresses and in audit records.
GRAPH_BRANCH_NAME_CHARACTERS_MAX = 200
# Characters of a node's or an edge's identifier; each is in several indexes.
GRAPH_ENTITY_ID_CHARACTERS_MAX = 1_000
# Branches that a read may look at, one forked from the other. Each makes reads slower, and SQLite's parser has a limit;
# a branch at this depth is flattened before it can be forked.
GRAPH_CHAIN_DEPTH_MAX = 16
# Texts of a branch whose totals a store keeps for `bm25`: a few numbers each, and counting them again takes a scan.
GRAPH_CORPORA_KEPT_MAX = 1_024
# Compiled statements that a store keeps: one for each query, depth of branches and schema.
GRAPH_STATEMENTS_KEPT_MAX = 1_024
# Words in one question to a text index. What is beyond is looked up in the texts themselves, as without an index.
GRAPH_SEARCH_TERMS_MAX = 500
# Characters of a word in a text index: longer ones are cut there, and compared as a whole in the text itself.
GRAPH_SEARCH_WORD_CHARACTERS_MAX = 500
# Texts that one transaction adds to a new text index: some tens of milliseconds.
GRAPH_TEXTS_INDEXED_AT_ONCE = 500
