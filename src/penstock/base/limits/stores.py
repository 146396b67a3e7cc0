"""Stores: pages of listings, files, and how old data is forgotten."""

__all__ = [
    "BACKUPS_KEPT",
    "BACKUPS_MAX",
    "BACKUPS_SCHEDULED_MAX",
    "BACKUP_LOOK_SECONDS",
    "BACKUP_RETRY_MS",
    "BACKUP_UNFINISHED_SECONDS",
    "DEFINITIONS_KEPT_MAX",
    "DEFINITIONS_PAGE_MAX",
    "HISTORY_PAGE_MAX",
    "INTEGRITY_PROBLEMS_MAX",
    "PLATFORM_PAGE_MAX",
    "RETENTION_BATCH_CALLS_MAX",
    "RETENTION_BATCH_MS",
    "RETENTION_BATCH_RECORDS_MAX",
    "RETENTION_BATCH_RUNS_MAX",
    "RETENTION_LOOK_SECONDS",
    "RETENTION_NAMED_MAX",
    "RETENTION_PAUSE_BEHIND_SECONDS",
    "RETENTION_PAUSE_SECONDS",
    "RETENTION_REASON_CHARACTERS_MAX",
    "RETENTION_SET_ASIDE_MAX",
    "RUNS_COUNTED_MAX",
    "RUNS_PAGE_MAX",
    "SEARCH_TEXT_CHARACTERS_MAX",
    "STORED_PAGE_RECORDS_MAX",
    "STORE_BUSY_TIMEOUT_MS",
    "STORE_CHECKPOINT_PAGES",
    "STORE_CHECK_BYTES_MAX",
    "STORE_CHECK_SECONDS",
    "STORE_FREE_PAGES_KEPT",
    "STORE_FREE_PAGES_KEPT_PART",
    "STORE_LOG_END_NOTED_SECONDS",
    "STORE_LOOP_CACHE_KILOBYTES",
    "STORE_PAGES_RETURNED_MAX",
    "STORE_PROBE_SECONDS",
    "STORE_VACUUM_BYTES_PER_SECOND",
]

# Backups in the folder of a server that somebody asked for. The server deletes none of them, so there must be an end;
# three months of daily ones fit.
BACKUPS_MAX = 100
# Scheduled backups in the folder: hourly ones for more than two weeks. They are counted apart, so that no caller can
# keep the schedule from making the next one.
BACKUPS_SCHEDULED_MAX = 400
# Scheduled backups that are kept if the settings do not say: a week of daily ones.
BACKUPS_KEPT = 7
# How often a server looks whether a scheduled backup is due: it reads one row.
BACKUP_LOOK_SECONDS = 10.0
# How long a server waits after a scheduled backup failed, or was claimed by a process that then ended.
BACKUP_RETRY_MS = 600_000
# After this long nobody goes on with an unfinished backup: a copy of even a large store takes minutes.
BACKUP_UNFINISHED_SECONDS = 86_400.0
# Records in one row of a store; a decision with more, as a long loop makes, is stored as several. Whoever reads some of
# them looks over a whole row: a quarter of a millisecond, where a row of 20,000 takes ten.
STORED_PAGE_RECORDS_MAX = 500
# Records read in one go.
HISTORY_PAGE_MAX = 1_000
# How long a store waits for another process to let go of its file. A commit takes milliseconds, a backup's lock none.
STORE_BUSY_TIMEOUT_MS = 10_000
# How old the last commit may be for a store to count as writable; then a look at it writes.
STORE_PROBE_SECONDS = 1.0
# How often a store of up to this size is looked through for damage while somebody asks whether it is well: a tenth of
# a second of reading at most.
STORE_CHECK_SECONDS = 10.0
STORE_CHECK_BYTES_MAX = 67_108_864
# Runs on one page of a listing; more are read page by page.
RUNS_PAGE_MAX = 1_000
# Definitions on one page of a listing; each comes with its whole document.
DEFINITIONS_PAGE_MAX = 200
# A text that is looked for in ids and labels; longer ones are pasted by mistake, and each word costs a lookup.
SEARCH_TEXT_CHARACTERS_MAX = 256
# Keys, registered things, audit records or deliveries on one page; more are read page by page.
PLATFORM_PAGE_MAX = 1_000
# Runs forgotten in one transaction; the runs that go on wait for it, so it must be over in a moment.
RETENTION_BATCH_RUNS_MAX = 200
# Records forgotten in one transaction, for the same reason; a single longer history still goes in one piece.
RETENTION_BATCH_RECORDS_MAX = 20_000
# How long a transaction that forgets answers to repeated calls should take: others that write wait for it.
RETENTION_BATCH_MS = 20
# Answers forgotten in one transaction at most, however fast the disk is.
RETENTION_BATCH_CALLS_MAX = 20_000
# Free pages that one such transaction gives back to the system: more than it frees, so that the file keeps up.
STORE_PAGES_RETURNED_MAX = 1_000
# Free pages that stay in a file for what is written next: so many, or this part of the file if that is more.
STORE_FREE_PAGES_KEPT = 256
STORE_FREE_PAGES_KEPT_PART = 20
# Pages in the write-ahead log before they are copied into the file: ten times what SQLite would wait for, since a page
# that changes often is then copied once instead of many times (40 % less is written); the log has some 40 MB then.
STORE_CHECKPOINT_PAGES = 10_000
# How long after a commit the end of the log is noted at the latest. Noting it with every commit takes the writer's
# thread a tenth of a millisecond under load, because each look at the log releases Python's lock.
STORE_LOG_END_NOTED_SECONDS = 0.05
# Pages that the connection for reads on the event loop keeps, in kilobytes. SQLite's own 2,000 hold hardly more than
# the upper pages of the tables of a large graph; with these, two hops in it take a fifth less. More helps little.
STORE_LOOP_CACHE_KILOBYTES = 8_000
# How fast a whole file is written anew, for telling beforehand how long it takes.
STORE_VACUUM_BYTES_PER_SECOND = 50_000_000
# Between two such transactions, so that forgetting much takes a small part of the disk's time only.
RETENTION_PAUSE_SECONDS = 0.05
# The same while more is left than fits into one transaction.
RETENTION_PAUSE_BEHIND_SECONDS = 0.002
# How often each kind is looked at: with a retention of a minute, little more than a minute's worth is stored.
RETENTION_LOOK_SECONDS = 5.0
# Rows that could not be deleted and are passed over, of each kind; more of them are no single damaged rows.
RETENTION_SET_ASIDE_MAX = 1_000
# What is told of the reason; texts of SQLite are short.
RETENTION_REASON_CHARACTERS_MAX = 200
# Rows that are named in the health of a server; the rest is counted.
RETENTION_NAMED_MAX = 5
# Problems reported by one check of a store; a file with more is damaged beyond reading on.
INTEGRITY_PROBLEMS_MAX = 200
# Definitions that a store keeps in memory for whoever starts runs of them; a start then reads no document.
DEFINITIONS_KEPT_MAX = 256
# How far the runs of a list are counted: beyond this nobody reads the number, and counting takes a while.
RUNS_COUNTED_MAX = 10_000
