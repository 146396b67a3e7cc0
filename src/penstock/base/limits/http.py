"""The server for HTTP: requests, streams, and what happens when it stops."""

__all__ = [
    "CHANGES_HEARTBEAT_SECONDS",
    "CHANGES_NAMED_MAX",
    "CHANGES_PAUSE_SECONDS",
    "CHANGES_STREAMED_PER_READ",
    "CONSOLE_AUDIT_FILE_RECORDS",
    "CONSOLE_BULK_MAX",
    "CONSOLE_CELL_CHARACTERS_MAX",
    "CONSOLE_COMPARED_LINES_MAX",
    "CONSOLE_COMPARED_WORDS_MAX",
    "CONSOLE_EXPLAINED_KEYS",
    "CONSOLE_EXPORT_CHUNK_BYTES",
    "CONSOLE_FAILED_SIGN_INS_PER_ADDRESS_PER_MINUTE",
    "CONSOLE_FAILED_SIGN_INS_PER_KEY_PER_MINUTE",
    "CONSOLE_HISTORY_ROWS",
    "CONSOLE_LINK_MS",
    "CONSOLE_NODE_ROWS",
    "CONSOLE_ROWS",
    "CONSOLE_SCHEMA_TYPES_MAX",
    "CONSOLE_SESSIONS_CACHED",
    "CONSOLE_SESSIONS_PER_PRINCIPAL_MAX",
    "CONSOLE_SESSION_GRACE_MS",
    "CONSOLE_SESSION_IDLE_MS",
    "CONSOLE_SESSION_MAX_MS",
    "CONSOLE_SESSION_RENEWED_MS",
    "CONSOLE_SESSION_WRITES_MAX",
    "CONSOLE_SIGN_IN_MS",
    "CONSOLE_VALUE_CHARACTERS_MAX",
    "DECISIONS_SHOWN_MAX",
    "DRAIN_CLOSING_SECONDS",
    "DRAIN_SECONDS",
    "DRAIN_WAIT_SECONDS",
    "FORM_BYTES_MAX",
    "FORM_FIELDS_MAX",
    "FORM_ITEMS_MAX",
    "FORM_SCHEMA_FIELDS_MAX",
    "GZIP_BYTES_MIN",
    "MEMORY_BODY_BYTES_MAX",
    "MEMORY_BYTES_PER_BODY_BYTE",
    "MEMORY_HEADROOM_BYTES",
    "MEMORY_LOOK_BODY_BYTES",
    "MEMORY_LOOK_SECONDS",
    "QUERY_PARAMETERS_MAX",
    "REQUESTS_AT_ONCE_MAX",
    "REQUEST_BODY_SECONDS_MAX",
    "REQUEST_BYTES_MAX",
    "REQUEST_DISCARD_BYTES_MAX",
    "REQUEST_HEAD_BYTES_MAX",
    "REQUEST_HEAD_SECONDS_MAX",
    "REQUEST_TARGET_BYTES_MAX",
    "STREAMS_MAX",
    "STREAMS_PER_KEY",
    "STREAM_END_SECONDS",
    "STREAM_HEARTBEAT_SECONDS",
    "STREAM_READS_AT_ONCE",
    "STREAM_RECORDS_PER_READ",
    "STREAM_RETRY_MS",
    "STREAM_SEND_SECONDS_MAX",
    "TIMELINE_BARS_MAX",
    "TIMELINE_LANES_MAX",
]

# A silent stream says that it lives before proxies cut it (commonly after 30 to 60 s).
STREAM_HEARTBEAT_SECONDS = 15.0
# How long a client waits before it connects again.
STREAM_RETRY_MS = 5_000
# Open streams of one process; each costs a few kilobytes.
STREAMS_MAX = 10_000
# Open streams of one key, so that one client cannot take them all.
STREAMS_PER_KEY = 2_000
# Streams that read and tell records at the same moment; with the number below, some milliseconds of work in one go.
STREAM_READS_AT_ONCE = 2
# Records that a stream reads in one go; a slow reader holds no more than that.
STREAM_RECORDS_PER_READ = 50
# How often a stream of changes looks for more, which is at most ten events a second, and how many rows it reads.
CHANGES_PAUSE_SECONDS = 0.1
CHANGES_STREAMED_PER_READ = 500
# Executions that one event names; a page that shows lists reads them again anyway, whichever they are.
CHANGES_NAMED_MAX = 100
# A page waits three times as long for a sign of life before it asks by itself.
CHANGES_HEARTBEAT_SECONDS = 5.0
# After a signal to stop, what is under way may finish for this long: within the 30 s that supervisors commonly grant.
DRAIN_SECONDS = 20.0
# After that, how long closing the store and everything else may take; then the process ends in any case.
DRAIN_CLOSING_SECONDS = 5.0
# Calls that wait for a run wait no longer than this in a server that stops; most runs have ended by then.
DRAIN_WAIT_SECONDS = 2.0
# A stream whose reader takes nothing is hung up on after this long, so that it does not hold up a server that stops.
STREAM_END_SECONDS = 1.0
# Smaller answers are not compressed: it costs more time than it saves.
GZIP_BYTES_MIN = 1_024
# Requests that a server works on at once, streams apart; each may wait for a run and costs some kilobytes meanwhile.
REQUESTS_AT_ONCE_MAX = 1_000
# The body of a request: a workflow document at its largest, as escaped text inside JSON.
REQUEST_BYTES_MAX = 2_097_152
# How long a body may take to arrive: the largest one over a slow mobile connection. Whoever trickles holds a place.
REQUEST_BODY_SECONDS_MAX = 30.0
# How long the request line and the headers may take; clients send them in one piece.
REQUEST_HEAD_SECONDS_MAX = 10.0
# Request line and headers together, which are kept in memory before anybody is asked who sends them.
REQUEST_HEAD_BYTES_MAX = 65_536
# Path and query: the longest filters and cursors are a few kilobytes.
REQUEST_TARGET_BYTES_MAX = 16_384
# Parameters in one query; lists are written with commas, so the largest real ones have a dozen.
QUERY_PARAMETERS_MAX = 200
# How much of a body that is too large is read and thrown away, so that its sender gets to read the answer.
REQUEST_DISCARD_BYTES_MAX = 16_777_216
# How long a stream waits for a reader that takes nothing; then it ends, and the reader resumes where it was.
STREAM_SEND_SECONDS_MAX = 30.0

# A browser that is not used for this long is signed out: half a day, so that nobody signs in twice in a working day.
CONSOLE_SESSION_IDLE_MS = 12 * 3_600_000
# A browser that is used all the time signs in again after a week: somebody may have left it open.
CONSOLE_SESSION_MAX_MS = 7 * 24 * 3_600_000
# How old the cookie of a session is before another takes its place, which is stored: often enough that a stolen one is
# noticed soon, and that the list says when a session was last used; not with every request.
CONSOLE_SESSION_RENEWED_MS = 15 * 60_000
# How long the cookie before still counts: for the requests that were on their way when it was replaced.
CONSOLE_SESSION_GRACE_MS = 30_000
# Sessions of one person; whoever has more browsers than that loses the session that was unused for longest.
CONSOLE_SESSIONS_PER_PRINCIPAL_MAX = 100
# Sessions that a process remembers while the store does not change.
CONSOLE_SESSIONS_CACHED = 1_000
# How often a change of a session is tried when others change it at the same time: tabs, and other processes.
CONSOLE_SESSION_WRITES_MAX = 8
# How long somebody may take to sign in at an issuer: to find a second factor, not to come back tomorrow.
CONSOLE_SIGN_IN_MS = 10 * 60_000
# How long a one-time link works: a browser opens it at once, a person copies it.
CONSOLE_LINK_MS = 2 * 60_000
# Failed attempts to sign in with the form, from one address (an office may share it) and with one key.
CONSOLE_FAILED_SIGN_INS_PER_ADDRESS_PER_MINUTE = 60
CONSOLE_FAILED_SIGN_INS_PER_KEY_PER_MINUTE = 10
# A form of a page: the largest field is an answer to a question.
FORM_BYTES_MAX = 1_048_576
# Fields of a form or an address.
FORM_FIELDS_MAX = 1_000
# A list with more items is easier to write as JSON.
FORM_ITEMS_MAX = 50
# A form with more fields than this fits nobody; schemas that refer to themselves would grow without it.
FORM_SCHEMA_FIELDS_MAX = 300
# Rows of a list, and records of a history on one page: a hundred rows are 3 kB compressed, 500 records 7 kB.
CONSOLE_ROWS = 100
CONSOLE_HISTORY_ROWS = 500
# Nodes of a run on one page: as many as are drawn. Workflows may have thousands.
CONSOLE_NODE_ROWS = 200
# Runs that one form cancels, retries or forks: as many as somebody looks at before pressing the button.
CONSOLE_BULK_MAX = 100
# Bytes of a history that are read at once for a file; the file itself may have any length.
CONSOLE_EXPORT_CHUNK_BYTES = 1_048_576
# Bars and lanes of a timeline; beyond that a bar stands for several visits.
TIMELINE_BARS_MAX = 300
TIMELINE_LANES_MAX = 100
# Decisions that a timeline tells of, the last ones: loops may ask thousands of times, and each answer is compared with
# the schema of its question.
DECISIONS_SHOWN_MAX = 100
# Characters of a value that a page shows; the whole of it is a page of its own. More makes browsers slow.
CONSOLE_VALUE_CHARACTERS_MAX = 50_000
# Lines and words of two texts that a page compares; with twice as many, comparing takes four times as long.
CONSOLE_COMPARED_LINES_MAX = 5_000
CONSOLE_COMPARED_WORDS_MAX = 5_000
# Keys for which one page asks what they may do: each is a call that is decided and audited.
CONSOLE_EXPLAINED_KEYS = 25
# Characters of a value in a cell of a table, which has many: the whole of it is behind a link.
CONSOLE_CELL_CHARACTERS_MAX = 300
# Audit records in one file that a page offers: some megabytes, which a server makes at once. There are several files.
CONSOLE_AUDIT_FILE_RECORDS = 5_000
# Types of nodes and edges in the picture of a schema; nobody finds their way in more. The words beside it have all.
CONSOLE_SCHEMA_TYPES_MAX = 120
# Memory that must be left before a request begins, beside what its body needs: for a new thread, for whose memory the C
# library reserves this much, and for requests that run beside it.
MEMORY_HEADROOM_BYTES = 96 * 1024 * 1024
# Bodies above this are decoded only after another look.
MEMORY_LOOK_BODY_BYTES = 4_096
# What a byte of JSON takes as a value, at most about: `[]`, of which a list has one in three bytes, takes 64.
MEMORY_BYTES_PER_BODY_BYTE = 32
# The largest body for which memory is asked. The setting for bodies may be higher; such bodies take longer than a look.
MEMORY_BODY_BYTES_MAX = 2 * 1024 * 1024
# Between two looks whether there is memory for small requests. A look takes some microseconds.
MEMORY_LOOK_SECONDS = 0.01
