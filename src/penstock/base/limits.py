"""Every limit of Penstock by name, each with the reason for its value.

Plain constants only: no settings, no environment. A limit that operators may change is read from the settings by `app`,
with the constant here as its default.
"""

__all__ = [
    "ACTIVITIES_AT_ONCE_MAX",
    "AGENT_POLL_MS_DEFAULT",
    "AGENT_TIMEOUT_MS_DEFAULT",
    "BODY_DEPTH_MAX",
    "BRANCH_STEPS_MAX",
    "CLAIM_BATCH_MAX",
    "DOCUMENT_BYTES_MAX",
    "DOCUMENT_DEPTH_MAX",
    "DOCUMENT_EXPRESSIONS_MAX",
    "DOCUMENT_VALUES_MAX",
    "DURATION_MS_MAX",
    "ERROR_TEXT_CHARACTERS_MAX",
    "FAREWELL_SECONDS_MAX",
    "FINDINGS_MAX",
    "FOREIGN_CHANGE_POLL_SECONDS",
    "FOR_EACH_ITEMS_MAX",
    "GUESS_CHARACTERS_MAX",
    "GUESS_COMPARISONS_MAX",
    "HISTORY_PAGE_MAX",
    "HISTORY_ROWS_MAX",
    "HTTP_CONNECTIONS_MAX",
    "HTTP_REDIRECTS_MAX",
    "HTTP_RESPONSE_BYTES_MAX",
    "HTTP_TIMEOUT_MS_DEFAULT",
    "INTEGRITY_PROBLEMS_MAX",
    "JQ_CACHE_ENTRIES_MAX",
    "JQ_CONSTANT_CHARACTERS_MAX",
    "JQ_IN_PROCESS_BYTES_MAX",
    "JQ_OUTPUTS_MAX",
    "JQ_OUTPUT_BYTES_MAX",
    "JQ_PROGRAM_CHARACTERS_MAX",
    "JQ_TIME_BUDGET_MS",
    "JQ_WORKER_MEMORY_BYTES_MAX",
    "JQ_WORKER_START_MS_MAX",
    "JSON_DEPTH_MAX",
    "LIVE_RUNS_MAX",
    "LLM_MODELS_CACHED_MAX",
    "LLM_TIMEOUT_MS_DEFAULT",
    "LLM_VIOLATIONS_SHOWN_MAX",
    "LOOP_ITERATIONS_MAX",
    "MCP_CONNECT_SECONDS_MAX",
    "MCP_IDLE_SECONDS_MAX",
    "MCP_TIMEOUT_MS_DEFAULT",
    "RETENTION_BATCH_RECORDS_MAX",
    "RETENTION_BATCH_RUNS_MAX",
    "RETENTION_PAUSE_SECONDS",
    "RUNS_PAGE_MAX",
    "SCHEMA_CACHE_ENTRIES_MAX",
    "SCHEMA_VIOLATIONS_MAX",
    "SECRET_BYTES_MAX",
    "SIGNALS_BUFFERED_MAX",
    "STATE_BYTES_MAX",
    "STEPS_PER_RUN_MAX",
    "STEP_PROCESSES_MAX",
    "STEP_THREADS_MAX",
    "STORE_BUSY_TIMEOUT_MS",
    "SUBWORKFLOW_DEPTH_MAX",
    "WORKER_FORGOTTEN_AFTER_MS",
    "WORKER_LEASE_MS",
]

# A workflow document is written by people; the largest real ones are a few hundred kilobytes.
DOCUMENT_BYTES_MAX = 1_048_576
# Nesting deeper than this is no longer readable, and deeper values exhaust recursive JSON encoders.
DOCUMENT_DEPTH_MAX = 64
# Values in a document after YAML aliases are expanded; stops documents that grow exponentially ("billion laughs").
DOCUMENT_VALUES_MAX = 100_000

# Ten years: longer waits are mistakes, and the sum with any instant stays well inside 64 bits.
DURATION_MS_MAX = 10 * 366 * 24 * 60 * 60 * 1000

# An expression is one line or a short paragraph; longer text belongs in a step.
JQ_PROGRAM_CHARACTERS_MAX = 16_384
# Text that libjq would build from constants while compiling (`"=" * 80`); more is an attempt to exhaust memory.
JQ_CONSTANT_CHARACTERS_MAX = 65_536
# Compiled programs kept; a busy server has hundreds of definitions with a few dozen expressions each.
JQ_CACHE_ENTRIES_MAX = 4_096
# A generator that yields more than this is a mistake; the list would not be usable as state.
JQ_OUTPUTS_MAX = 10_000
# All outputs of one evaluation together; the same order as the largest state worth keeping in a history row.
JQ_OUTPUT_BYTES_MAX = 1_048_576
# Wall time one guarded evaluation may take before its worker is killed.
JQ_TIME_BUDGET_MS = 1_000
# Roots up to this size are evaluated inside the server when the program is bounded: at about 10 µs per element and
# step, even an unlucky program then blocks it for a fraction of a second.
JQ_IN_PROCESS_BYTES_MAX = 65_536
# Address space of a jq worker process, the interpreter included.
JQ_WORKER_MEMORY_BYTES_MAX = 536_870_912
# Starting a worker loads an interpreter and libjq; even a busy machine does it in a second or two.
JQ_WORKER_START_MS_MAX = 20_000

# Compiled schemas kept; one definition has a handful (state, input, answers, outputs).
SCHEMA_CACHE_ENTRIES_MAX = 2_048
# Violations reported for one value; more do not help a reader.
SCHEMA_VIOLATIONS_MAX = 200

# A loop that needs more rounds is a job for a step or for several runs; each round costs several history rows.
LOOP_ITERATIONS_MAX = 10_000
# Findings reported for one document; looking for suggestions costs time, and nobody reads on.
FINDINGS_MAX = 1_000

# Bodies inside bodies; what needs more levels is a workflow of its own, and each level costs up to five levels of JSON.
BODY_DEPTH_MAX = 8
# Longer names are not misspelt names, and comparing them costs the product of both lengths.
GUESS_CHARACTERS_MAX = 64
# Name comparisons for the "did you mean" hints of one document: about a second of work in the worst case.
GUESS_COMPARISONS_MAX = 50_000
# Nodes visited while following the branches of one document; real documents need a few thousand.
BRANCH_STEPS_MAX = 1_000_000

# Node visits of one run; a run that needs more should continue as a new one. Also what ends an endless loop.
STEPS_PER_RUN_MAX = 100_000
# Records of one run. At roughly 200 bytes each this is a 100 MB history: more cannot be read or moved comfortably.
HISTORY_ROWS_MAX = 500_000
# The state of one run; it is written whole after each change, so it must stay small. Larger data belongs in a store.
STATE_BYTES_MAX = 1_048_576
# Nesting of inputs, answers and results; deeper values exhaust recursive JSON encoders.
JSON_DEPTH_MAX = 64
# Child runs inside child runs; deeper is almost always a workflow that starts itself.
SUBWORKFLOW_DEPTH_MAX = 8
# Items of one for_each; the results stand together in one record.
FOR_EACH_ITEMS_MAX = 10_000
# Signals that wait in a run for somebody to take them.
SIGNALS_BUFFERED_MAX = 1_000
# Expressions of one document; each takes milliseconds to compile, so this bounds what checking a document costs.
DOCUMENT_EXPRESSIONS_MAX = 1_000

# Runs whose state is kept in memory; others are read again when something happens to them.
LIVE_RUNS_MAX = 1_000
# How often a waiting reader looks for changes that another process made.
FOREIGN_CHANGE_POLL_SECONDS = 0.1
# Activities one process performs at a time.
ACTIVITIES_AT_ONCE_MAX = 256
# How long a process is believed alive after its last sign of life.
WORKER_LEASE_MS = 5_000
# Runs claimed or woken in one go; more are found in the next round.
CLAIM_BATCH_MAX = 200
# Records read in one go.
HISTORY_PAGE_MAX = 1_000

# An error text in a history; the rest of a longer one is in the log.
ERROR_TEXT_CHARACTERS_MAX = 2_000
# Connections to other servers that the http executor holds at a time.
HTTP_CONNECTIONS_MAX = 100
# Redirects followed for one request; a longer chain is a loop.
HTTP_REDIRECTS_MAX = 5
# The body of an answer to an http node after decompression: as large as the state it may become part of.
HTTP_RESPONSE_BYTES_MAX = 1_048_576
# How long an http node waits when its document does not say.
HTTP_TIMEOUT_MS_DEFAULT = 30_000
# A secret is a key or a certificate; a larger file is not a secret.
SECRET_BYTES_MAX = 65_536
# Worker processes for steps that compute; each holds an interpreter and what its step imports.
STEP_PROCESSES_MAX = 4
# Threads for steps that block: most of them wait for something, so there are more than processors.
STEP_THREADS_MAX = 64

# How long an agent may work on a delegated task when its node does not say.
AGENT_TIMEOUT_MS_DEFAULT = 120_000
# How often an agent that cannot stream is asked how far it is.
AGENT_POLL_MS_DEFAULT = 500
# How long a courtesy to somebody else may take: telling them that nobody waits any more, or closing a connection.
FAREWELL_SECONDS_MAX = 5.0
# How long a language model may take when its node does not say; long answers take minutes.
LLM_TIMEOUT_MS_DEFAULT = 180_000
# Ready-made clients for models, one per provider and model name; documents choose the names, so they are bounded.
LLM_MODELS_CACHED_MAX = 64
# Violations of an output schema that a model is shown for its one repair; more confuse it.
LLM_VIOLATIONS_SHOWN_MAX = 20
# How long an MCP server may take to start and to say hello; some are downloaded first.
MCP_CONNECT_SECONDS_MAX = 60.0
# How long an MCP session is kept open without calls; a started server process costs tens of megabytes.
MCP_IDLE_SECONDS_MAX = 300.0
# How long a tool of an MCP server may take when its node does not say.
MCP_TIMEOUT_MS_DEFAULT = 60_000
# How long a store waits for another process to let go of its file. A commit takes milliseconds, a backup's lock none.
STORE_BUSY_TIMEOUT_MS = 10_000
# Runs on one page of a listing; more are read page by page.
RUNS_PAGE_MAX = 1_000
# Runs forgotten in one transaction; the runs that go on wait for it, so it must be over in a moment.
RETENTION_BATCH_RUNS_MAX = 200
# Records forgotten in one transaction, for the same reason; a single longer history still goes in one piece.
RETENTION_BATCH_RECORDS_MAX = 20_000
# Between two such transactions, so that forgetting much takes a small part of the disk's time only.
RETENTION_PAUSE_SECONDS = 0.05
# How long a worker that stopped without a word stays listed: long enough to see that it is gone.
WORKER_FORGOTTEN_AFTER_MS = 24 * 60 * 60 * 1000
# Problems reported by one check of a store; a file with more is damaged beyond reading on.
INTEGRITY_PROBLEMS_MAX = 200
