"""Every limit of Penstock by name, each with the reason for its value.

Plain constants only: no settings, no environment. A limit that operators may change is read from the settings by `app`,
with the constant here as its default.
"""

__all__ = [
    "ABANDONED_PICK_UPS_MAX",
    "ABANDONED_RUNS_PER_LOOK",
    "ACTIVITIES_AT_ONCE_MAX",
    "ACTIVITY_LEASE_MS_MAX",
    "ACTIVITY_QUESTIONS_MAX",
    "ADMIN_CALLS_PER_MINUTE",
    "AGENT_ANSWER_BYTES_MAX",
    "AGENT_ANSWER_TOKENS_MAX",
    "AGENT_POLL_MS_DEFAULT",
    "AGENT_RESULT_BYTES_MAX",
    "AGENT_TIMEOUT_MS_DEFAULT",
    "AUDIT_READS_GATHERED_MAX",
    "AUDIT_READS_GATHER_MS",
    "AUDIT_REFUSALS_GATHER_MS",
    "AUDIT_REFUSALS_KEPT_MAX",
    "AUDIT_REFUSALS_UNWRITTEN_MAX",
    "AUDIT_REFUSAL_ADDRESSES_MAX",
    "AUDIT_REMOTE_CHARACTERS_MAX",
    "AUDIT_SUBJECT_CHARACTERS_MAX",
    "BODY_DEPTH_MAX",
    "BRANCH_STEPS_MAX",
    "CHANGES_PER_READ",
    "CHILDREN_WATCHED_MAX",
    "CLAIM_BATCH_MAX",
    "CLIENT_QUESTIONS_MAX",
    "CLIENT_ROOTS_MAX",
    "CLIENT_ROOT_CHARACTERS_MAX",
    "CLIENT_TOKENS_DEFAULT",
    "CLIENT_TOKENS_MAX",
    "CLOCK_SETTLES_MS",
    "CLOCK_STEP_MS_MAX",
    "CONCURRENT_CALLS_PER_KEY",
    "CONTINUATIONS_WITHOUT_WAIT_MAX",
    "DECIDED_AT_ONCE",
    "DEFINITIONS_KEPT_MAX",
    "DEFINITIONS_PAGE_MAX",
    "DELIVERIES_AT_ONCE_MAX",
    "DELIVERIES_PER_ENDPOINT_MAX",
    "DELIVERIES_PER_LOOK",
    "DELIVERY_DELAY_MS_MAX",
    "DELIVERY_FIRST_DELAY_MS",
    "DELIVERY_RETENTION_MS",
    "DOCUMENT_BYTES_MAX",
    "DOCUMENT_CHECK_MS_MAX",
    "DOCUMENT_DEPTH_MAX",
    "DOCUMENT_EXPRESSIONS_MAX",
    "DOCUMENT_IN_PROCESS_BYTES_MAX",
    "DOCUMENT_VALUES_MAX",
    "DOCUMENT_WORKERS_MAX",
    "DOCUMENT_WORKERS_PER_TENANT",
    "DRAIN_CLOSING_SECONDS",
    "DRAIN_SECONDS",
    "DRAIN_WAIT_SECONDS",
    "DURATION_MS_MAX",
    "ENDPOINTS_PER_TENANT_MAX",
    "ENDPOINT_SECRET_OVERLAP_MS_MAX",
    "ERROR_TEXT_CHARACTERS_MAX",
    "EVENT_OUTPUT_BYTES_MAX",
    "EXECUTION_VIEWS_KEPT",
    "EXECUTION_VIEW_BYTES_KEPT_MAX",
    "EXPOSED_REREAD_MS",
    "EXPOSED_TENANTS_KEPT",
    "FAREWELL_SECONDS_MAX",
    "FINDINGS_MAX",
    "FOLDED_AT_ONCE",
    "FOREIGN_CHANGE_POLL_SECONDS",
    "FOR_EACH_ITEMS_MAX",
    "GC_NEW_OBJECTS",
    "GUESS_CHARACTERS_MAX",
    "GUESS_COMPARISONS_MAX",
    "GZIP_BYTES_MIN",
    "HISTORY_BYTES_ADVISED",
    "HISTORY_BYTES_MAX",
    "HISTORY_PAGE_MAX",
    "HISTORY_ROWS_ADVISED",
    "HISTORY_ROWS_MAX",
    "HTTP_CONNECTIONS_MAX",
    "HTTP_REDIRECTS_MAX",
    "HTTP_RESPONSE_BYTES_MAX",
    "HTTP_RESPONSE_TOKENS_MAX",
    "HTTP_TIMEOUT_MS_DEFAULT",
    "IDEMPOTENCY_IN_FLIGHT_MS",
    "IDEMPOTENCY_KEY_CHARACTERS_MAX",
    "IDEMPOTENCY_TTL_MS",
    "INTEGRITY_PROBLEMS_MAX",
    "JQ_CACHE_ENTRIES_MAX",
    "JQ_COMPILE_MS_MAX",
    "JQ_CONSTANT_CHARACTERS_MAX",
    "JQ_IN_PROCESS_BYTES_MAX",
    "JQ_IN_PROCESS_CHARACTERS_MAX",
    "JQ_OUTPUTS_MAX",
    "JQ_OUTPUT_BYTES_MAX",
    "JQ_PROGRAM_CHARACTERS_MAX",
    "JQ_TIME_BUDGET_MS",
    "JQ_WORKERS_MAX",
    "JQ_WORKERS_PER_HOLDER",
    "JQ_WORKER_MEMORY_BYTES_MAX",
    "JQ_WORKER_START_MS_MAX",
    "JSON_DEPTH_MAX",
    "JSON_VALUES_MAX",
    "KEYS_PROVEN_KEPT",
    "KEY_LOOK_SECONDS",
    "KEY_USE_GATHER_MS",
    "LEASE_HOLDER_CHARACTERS_MAX",
    "LISTED_AT_ONCE",
    "LIVE_RUNS_BYTES_MAX",
    "LIVE_RUNS_MAX",
    "LLM_ANSWER_BYTES_MAX",
    "LLM_ANSWER_TOKENS_MAX",
    "LLM_MODELS_CACHED_MAX",
    "LLM_TIMEOUT_MS_DEFAULT",
    "LLM_VIOLATIONS_SHOWN_MAX",
    "LOG_LINE_CHARACTERS_MAX",
    "LOOP_ITERATIONS_MAX",
    "LOOP_NOTE_SECONDS",
    "LOOP_STALL_SECONDS",
    "MCP_BATCH_MESSAGES_MAX",
    "MCP_CALLS_AT_ONCE_MAX",
    "MCP_CALL_MS_MAX",
    "MCP_CATALOGUE_BYTES_MAX",
    "MCP_COMPLETIONS_MAX",
    "MCP_CONNECT_SECONDS_MAX",
    "MCP_CONTENT_BLOCKS_MAX",
    "MCP_CONTENT_BYTES_MAX",
    "MCP_EVENTS_KEPT",
    "MCP_EVENT_BYTES_KEPT",
    "MCP_EXECUTIONS_LISTED",
    "MCP_FAST_BODY_BYTES_MAX",
    "MCP_FAST_ENVELOPES_KEPT",
    "MCP_FAST_ENVELOPE_BYTES_MAX",
    "MCP_FAST_PAGES_KEPT",
    "MCP_FAST_PAGE_BYTES_MAX",
    "MCP_FAST_VIEWS_KEPT",
    "MCP_FORM_BYTES_MAX",
    "MCP_IDLE_SECONDS_MAX",
    "MCP_LOOK_PAUSE_FACTOR",
    "MCP_PARKED_CALLS_MAX",
    "MCP_PARKED_SECONDS_MAX",
    "MCP_QUESTIONS_PER_CALL_MAX",
    "MCP_QUESTION_SECONDS_MAX",
    "MCP_RECONNECT_SECONDS_MAX",
    "MCP_RESULT_CHARACTERS_MAX",
    "MCP_SESSIONS_MAX",
    "MCP_SESSIONS_PER_KEY",
    "MCP_SESSION_IDLE_SECONDS",
    "MCP_SUBSCRIBED_MAX",
    "MCP_TASK_AFTER_SECONDS",
    "MCP_TIMEOUT_MS_DEFAULT",
    "MCP_TOOLSET_CHARACTERS_MAX",
    "MCP_TOOL_NAME_CHARACTERS_MAX",
    "MCP_WARM_AFTER_SECONDS",
    "METRIC_SERIES_MAX",
    "OPENINGS_KEPT_MAX",
    "PAGE_LIMIT_DEFAULT",
    "PAGE_LIMIT_MAX",
    "PAYLOAD_INLINE_BYTES_MAX",
    "PLANS_KEPT_MAX",
    "PLATFORM_PAGE_MAX",
    "PROGRESS_BUFFERED_MAX",
    "QUERY_PARAMETERS_MAX",
    "RATE_BUCKETS_MAX",
    "READ_CALLS_PER_MINUTE",
    "REQUESTS_AT_ONCE_MAX",
    "REQUEST_BODY_SECONDS_MAX",
    "REQUEST_BYTES_MAX",
    "REQUEST_DISCARD_BYTES_MAX",
    "REQUEST_HEAD_BYTES_MAX",
    "REQUEST_HEAD_SECONDS_MAX",
    "REQUEST_TARGET_BYTES_MAX",
    "RESOURCE_URI_CHARACTERS_MAX",
    "RETENTION_BATCH_CALLS_MAX",
    "RETENTION_BATCH_MS",
    "RETENTION_BATCH_RECORDS_MAX",
    "RETENTION_BATCH_RUNS_MAX",
    "RETENTION_PAUSE_SECONDS",
    "RETENTION_ROUND_SECONDS",
    "RUNS_PAGE_MAX",
    "SCHEDULES_PER_TENANT_MAX",
    "SCHEMA_CACHE_ENTRIES_MAX",
    "SCHEMA_DEFAULTS_MAX",
    "SCHEMA_IN_PROCESS_BYTES_MAX",
    "SCHEMA_IN_PROCESS_EXPANDED_MAX",
    "SCHEMA_IN_PROCESS_LISTING_BYTES_MAX",
    "SCHEMA_IN_PROCESS_MATCHING_MAX",
    "SCHEMA_IN_PROCESS_PATTERN_UNITS_MAX",
    "SCHEMA_IN_PROCESS_VISITS_MAX",
    "SCHEMA_NESTING_MAX",
    "SCHEMA_VIOLATIONS_MAX",
    "SCHEMA_VIOLATION_BYTES_MAX",
    "SCHEMA_VISITS_MAX",
    "SCOPE_CHARACTERS_MAX",
    "SEARCH_TEXT_CHARACTERS_MAX",
    "SECRET_BYTES_MAX",
    "SECRET_COMMAND_KEPT_SECONDS",
    "SECRET_COMMAND_SECONDS_MAX",
    "SECRET_SEARCH_LOOKS_MAX",
    "SIGNALS_BUFFERED_MAX",
    "SIGNAL_IDS_CARRIED_MAX",
    "SLOW_WORKFLOWS_REMEMBERED",
    "START_NEEDS_KEPT",
    "STATE_BYTES_MAX",
    "STEPS_PER_RUN_MAX",
    "STEP_PROCESSES_MAX",
    "STEP_THREADS_MAX",
    "STORED_PAGE_RECORDS_MAX",
    "STORE_BUSY_TIMEOUT_MS",
    "STORE_CHECKPOINT_PAGES",
    "STORE_CHECK_BYTES_MAX",
    "STORE_CHECK_SECONDS",
    "STORE_FREE_PAGES_KEPT",
    "STORE_FREE_PAGES_KEPT_PART",
    "STORE_PAGES_RETURNED_MAX",
    "STORE_PROBE_SECONDS",
    "STORE_VACUUM_BYTES_PER_SECOND",
    "STREAMS_MAX",
    "STREAMS_PER_KEY",
    "STREAM_END_SECONDS",
    "STREAM_HEARTBEAT_SECONDS",
    "STREAM_READS_AT_ONCE",
    "STREAM_RECORDS_PER_READ",
    "STREAM_RETRY_MS",
    "STREAM_SEND_SECONDS_MAX",
    "SUBWORKFLOW_DEPTH_MAX",
    "SYNC_WAIT_SECONDS",
    "SYNC_WAIT_SECONDS_MAX",
    "TIMERS_AHEAD_MAX",
    "TRUST_KEPT_SECONDS",
    "UPSTREAM_ANSWER_BYTES_MAX",
    "UPSTREAM_ANSWER_TOKENS_MAX",
    "UPSTREAM_LOOK_AGE_SECONDS_MAX",
    "UPSTREAM_LOOK_PAUSE_SECONDS",
    "UPSTREAM_LOOK_SECONDS",
    "UPSTREAM_MESSAGES_PER_SECOND",
    "UPSTREAM_SESSIONS_MAX",
    "UPSTREAM_SESSIONS_PER_TENANT_MAX",
    "UPSTREAM_SESSION_WAIT_SECONDS_MAX",
    "UPSTREAM_SKIPPED_BYTES_MAX",
    "UPSTREAM_TOOLS_MAX",
    "UPSTREAM_TOOL_BYTES_MAX",
    "VALUES_AT_ONCE",
    "WATCHED_RUNS_PER_READ",
    "WATCHED_RUNS_PER_SECOND",
    "WEBHOOK_ATTEMPTS_MAX",
    "WEBHOOK_BYTES_MAX",
    "WEBHOOK_DELIVERY_SECONDS_MAX",
    "WEBHOOK_SKEW_MS",
    "WORKER_LEASE_MARGIN_MS",
    "WORKER_LEASE_MS",
    "WORKFLOW_NAME_CHARACTERS_MAX",
    "WRITE_CALLS_PER_MINUTE",
]

# A workflow document is written by people; the largest real ones are a few hundred kilobytes.
DOCUMENT_BYTES_MAX = 1_048_576
# Nesting deeper than this is no longer readable, and deeper values exhaust recursive JSON encoders.
DOCUMENT_DEPTH_MAX = 64
# Values in a document after YAML aliases are expanded; stops documents that grow exponentially ("billion laughs").
DOCUMENT_VALUES_MAX = 100_000

# A document up to this size, without references and with short expressions, is checked in a thread of the server; any
# other in a process that can be stopped.
DOCUMENT_IN_PROCESS_BYTES_MAX = 4_096
# How long checking a document may take; the largest real ones take some seconds on a slow machine.
DOCUMENT_CHECK_MS_MAX = 20_000
# Processes that check documents, and how many of them one tenant has at a time.
DOCUMENT_WORKERS_MAX = 3
DOCUMENT_WORKERS_PER_TENANT = 1

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
# Guarded evaluations at once: one that uses up its time must not hold up the next run's.
JQ_WORKERS_MAX = 8
# Of these, for one tenant or one caller: whoever asks for endless ones must not make others wait.
JQ_WORKERS_PER_HOLDER = 4
# Workflows known to have expressions that need a worker; forgetting one costs an attempt that is given up.
SLOW_WORKFLOWS_REMEMBERED = 10_000
# Plans of definitions in memory; one that was dropped is compiled again, a fraction of a millisecond for each node.
PLANS_KEPT_MAX = 1_000
# Circumstances of starts that are remembered of a workflow, a kilobyte each: who starts runs, in which tenant.
OPENINGS_KEPT_MAX = 100
# Starting a worker loads an interpreter and libjq; even a busy machine does it in a second or two.
JQ_WORKER_START_MS_MAX = 20_000

# Programs up to this length are compiled inside the server; libjq takes up to 20 ms for them, and ever more per
# character for longer ones, while nothing else moves.
JQ_IN_PROCESS_CHARACTERS_MAX = 1_000
# How long compiling a longer one may take, beside its evaluation: the longest take a second, on a busy machine more.
JQ_COMPILE_MS_MAX = 4_000

# Compiled schemas kept; one definition has a handful (state, input, answers, outputs).
SCHEMA_CACHE_ENTRIES_MAX = 2_048
# Violations reported for one value; more do not help a reader.
SCHEMA_VIOLATIONS_MAX = 200
# All texts of reported violations together; names and places in them come from the value.
SCHEMA_VIOLATION_BYTES_MAX = 65_536
# Subschemas visited by one check, references expanded. The largest real schemas for the input of a tool have some
# thousands; what has more is a mistake, or made to keep a processor busy.
SCHEMA_VISITS_MAX = 100_000
# Schemas inside each other, through references too: the validator's stack. Values are not nested deeper than 64 levels.
SCHEMA_NESTING_MAX = 256
# Filling in defaults: schemas looked at for one value. Defaults inside defaults may double with each level.
SCHEMA_DEFAULTS_MAX = 100_000
# Finding the secret members of an answer: parts of its schema looked at, a few times for every member of the answer.
# About 10 µs each, in a thread.
SECRET_SEARCH_LOOKS_MAX = 10_000
# What is checked inside the server, because it takes a few milliseconds at most: about 50 ns a visit.
SCHEMA_IN_PROCESS_VISITS_MAX = 50_000
# The value is first copied for the validator, at a few hundred nanoseconds per element.
SCHEMA_IN_PROCESS_BYTES_MAX = 65_536
# With `unevaluatedProperties` references are expanded when the schema is compiled: about 20 µs a visit.
SCHEMA_IN_PROCESS_EXPANDED_MAX = 1_000
# Patterns of a schema, counted repetitions written out: compiling takes about a microsecond per unit.
SCHEMA_IN_PROCESS_PATTERN_UNITS_MAX = 20_000
# Units of patterns times bytes of text: the matcher's work in the worst case, at ten nanoseconds each.
SCHEMA_IN_PROCESS_MATCHING_MAX = 2_000_000
# Violations that may be found times the bytes of the value that each of them copies: about 25 ms.
SCHEMA_IN_PROCESS_LISTING_BYTES_MAX = 100_000

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
# From here on a run is told to continue as a new one: a tenth of what is possible leaves time to do it in peace.
HISTORY_ROWS_ADVISED = 50_000
# What all records of one run say, as JSON, repeated values counted each time: a hundred changes of the largest state
# and as many checkpoints of it. It is decoded and folded as a whole whenever the run is loaded.
HISTORY_BYTES_MAX = 268_435_456
# As for the number of records: early enough to act.
HISTORY_BYTES_ADVISED = 26_214_400
# Runs of a chain that waited for nobody and asked for no work, one after the other: an endless loop over many runs.
CONTINUATIONS_WITHOUT_WAIT_MAX = 100
# The state of one run; it is written whole after each change, so it must stay small. Larger data belongs in a store.
STATE_BYTES_MAX = 1_048_576
# A value in a record as JSON; a larger one is kept once by its hash, however many records hold it.
PAYLOAD_INLINE_BYTES_MAX = 65_536
# Nesting of inputs, answers and results; deeper values exhaust recursive JSON encoders.
JSON_DEPTH_MAX = 64
# Values on one level of an input, answer or result: far more than fit into a state, and few enough to be counted. Also
# what stops a value of a Python program that holds itself twice.
JSON_VALUES_MAX = 2_000_000
# Child runs inside child runs; deeper is almost always a workflow that starts itself.
SUBWORKFLOW_DEPTH_MAX = 8
# Children of an execution whose questions are shown with its own; nobody answers more at once.
CHILDREN_WATCHED_MAX = 50
# Questions that the activity of one visit may ask people; who asks more goes in a circle.
ACTIVITY_QUESTIONS_MAX = 20
# Questions that a run may ask the program that started it; each may cost its owner a request to a model.
CLIENT_QUESTIONS_MAX = 50
# What a client's model may write for a node that does not say how much, and at most: somebody else pays for it.
CLIENT_TOKENS_DEFAULT = 1_000
CLIENT_TOKENS_MAX = 16_000
# Folders that a client may tell of, and the length of an address or a name; editors have some tens of short ones.
CLIENT_ROOTS_MAX = 500
CLIENT_ROOT_CHARACTERS_MAX = 4_096
# How long a host may have an activity without saying that it is still at it.
ACTIVITY_LEASE_MS_MAX = 24 * 60 * 60 * 1000
# The name of whoever has a lease: a host name, a process and a session fit, a document does not.
LEASE_HOLDER_CHARACTERS_MAX = 200
# Items of one for_each; the results stand together in one record.
FOR_EACH_ITEMS_MAX = 10_000
# Signals that wait in a run for somebody to take them.
SIGNALS_BUFFERED_MAX = 1_000
# Ids of signals that a run hands on to the one that continues it; a sender repeats itself soon or not at all.
SIGNAL_IDS_CARRIED_MAX = 1_000
# Expressions of one document; each takes milliseconds to compile, so this bounds what checking a document costs.
DOCUMENT_EXPRESSIONS_MAX = 1_000

# Runs whose state is kept in memory; others are read again when something happens to them.
LIVE_RUNS_MAX = 1_000
# What these states may take together: a thousand ordinary ones take a tenth of it, and a hundred with a megabyte each
# fit. Runs that somebody is busy with are kept in any case.
LIVE_RUNS_BYTES_MAX = 134_217_728
# Records of a decision that is made between two turns of the event loop; one that makes more is made in a thread.
DECIDED_AT_ONCE = 100
# Values in a request, or in what is given to a run, that are looked through between two turns of the event loop; more
# are looked through in a thread. About a millisecond for each look.
VALUES_AT_ONCE = 10_000
# Records that are folded into a state in one go; more are folded with pauses for others. About five milliseconds.
FOLDED_AT_ONCE = 500
# Records in one row of a store; a decision with more, as a long loop makes, is stored as several. Whoever reads some of
# them looks over a whole row: a quarter of a millisecond, where a row of 20,000 takes ten.
STORED_PAGE_RECORDS_MAX = 500
# How often a waiting reader looks for changes that another process made.
FOREIGN_CHANGE_POLL_SECONDS = 0.1
# Runs whose sequence numbers are looked up per second on behalf of waiters: some hundredths of a processor.
WATCHED_RUNS_PER_SECOND = 2_000
# Runs looked up in one read, so that a reader's thread is free again in a moment.
WATCHED_RUNS_PER_READ = 500
# News about the progress of activities that wait for one listener; older ones are about a moment that is over.
PROGRESS_BUFFERED_MAX = 100
# Characters of a line that a step writes into its log, for those who follow the run; people read no longer ones.
LOG_LINE_CHARACTERS_MAX = 4_000
# Activities one process performs at a time.
ACTIVITIES_AT_ONCE_MAX = 256
# The name of a workflow that is stored; native ones have half of it at most, and longer ones are hard to tell apart.
WORKFLOW_NAME_CHARACTERS_MAX = 128
# By how much the time of day may move against the machine's steady clock and be followed at once: a correction.
CLOCK_STEP_MS_MAX = 2_000
# How long a time of day that jumped must stay where it is until it is believed: longer than a mistake lasts that
# somebody mends at once, shorter than anybody waits for a schedule after setting the clock.
CLOCK_SETTLES_MS = 30_000
# How long a process must give no sign of life until others take over its runs.
WORKER_LEASE_MS = 5_000
# By how much sooner a process doubts its own lease: what may pass between that look and an effect that others see.
WORKER_LEASE_MARGIN_MS = 1_000
# Runs that are looked after because a clock that was ahead put their timers too late; their ids are kept in memory.
TIMERS_AHEAD_MAX = 100_000
# Runs of this process that the watchdog compares with what is under way at each look, every lease's third: a few
# milliseconds of work, and ten thousand runs in less than a minute.
ABANDONED_RUNS_PER_LOOK = 500
# How often a run that does not move is gone on with before it counts as stuck: what failed thrice fails again.
ABANDONED_PICK_UPS_MAX = 3
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
# Values in such a body, if it is JSON: each becomes an object, and decoding them cannot be interrupted.
HTTP_RESPONSE_TOKENS_MAX = 100_000
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
# What an agent may send in one answer or event, decompressed, and the values in it. The library for A2A decodes each of
# them in Python, in some five microseconds, and cannot be interrupted: more data belongs into a file or a text.
AGENT_ANSWER_BYTES_MAX = 4_194_304
AGENT_ANSWER_TOKENS_MAX = 5_000
# All that an agent may send about one task as a stream: it is kept until the task ends.
AGENT_RESULT_BYTES_MAX = 4_194_304
# How long a courtesy to somebody else may take: telling them that nobody waits any more, or closing a connection.
FAREWELL_SECONDS_MAX = 5.0
# How long a language model may take when its node does not say; long answers take minutes.
LLM_TIMEOUT_MS_DEFAULT = 180_000
# The answer of a model with everything around it, decompressed: models write a few hundred kilobytes at most.
LLM_ANSWER_BYTES_MAX = 4_194_304
# Values in it, each of which the provider's library checks by itself, some ten microseconds for each on the event loop;
# a structured answer of a model has some hundred.
LLM_ANSWER_TOKENS_MAX = 4_000
# Ready-made clients for models, one per provider and model name; documents choose the names, so they are bounded.
LLM_MODELS_CACHED_MAX = 64
# Violations of an output schema that a model is shown for its one repair; more confuse it.
LLM_VIOLATIONS_SHOWN_MAX = 20
# How long an MCP server may take to start and to say hello; some are downloaded first.
MCP_CONNECT_SECONDS_MAX = 60.0
# How long an MCP session is kept open without calls; a started server process costs tens of megabytes.
MCP_IDLE_SECONDS_MAX = 300.0
# Calls at older MCP servers that stay open while a person answers the server's question; each holds its session.
MCP_PARKED_CALLS_MAX = 100
MCP_PARKED_SECONDS_MAX = 3_600.0
# The longest pause before a server whose tools are imported is tried again; the first is a fraction of a second.
MCP_RECONNECT_SECONDS_MAX = 60.0
# Sessions with one MCP server at a time, each of one principal: over a pipe each is a process of tens of megabytes. A
# tenant has at most half of them, and whoever finds none free waits this long for one.
UPSTREAM_SESSIONS_MAX = 32
UPSTREAM_SESSIONS_PER_TENANT_MAX = 16
UPSTREAM_SESSION_WAIT_SECONDS_MAX = 10.0
# How often the tools of such a server are listed when it says nothing of changes.
UPSTREAM_LOOK_SECONDS = 300.0
# Between two looks at the tools of a server that keeps saying they changed: what is new each time is stored, with an
# audit record, and nobody else's server may fill the disk with those.
UPSTREAM_LOOK_PAUSE_SECONDS = 1.0
# What an MCP server may send in one message, decompressed: a result of the largest size and what is around it. Decoding
# cannot be interrupted. It takes less than fifty milliseconds, and up to seventy for an event of nothing but escapes.
UPSTREAM_ANSWER_BYTES_MAX = 4_194_304
# Values in one message: each becomes an object, and a message of nothing but brackets would be millions.
UPSTREAM_ANSWER_TOKENS_MAX = 50_000
# What is skipped of a line that is too long before its server is given up.
UPSTREAM_SKIPPED_BYTES_MAX = 67_108_864
# Messages of one connection that are read in a second; whoever sends more is read more slowly.
UPSTREAM_MESSAGES_PER_SECOND = 500
# How old the last look at a server's tools may be when one that somebody accepted is called.
UPSTREAM_LOOK_AGE_SECONDS_MAX = 60.0
# Blocks of content in a result, each of which is checked by itself; what a model is given has a few.
MCP_CONTENT_BLOCKS_MAX = 1_000
# What a server may ask during one call: no person answers more.
MCP_QUESTIONS_PER_CALL_MAX = 50
# Tools of one server, and one of them with its schemas; the largest real catalogues have some hundred.
UPSTREAM_TOOLS_MAX = 500
UPSTREAM_TOOL_BYTES_MAX = 65_536
# How long a tool of an MCP server may take when its node does not say.
MCP_TIMEOUT_MS_DEFAULT = 60_000
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
# A scope of an API key is a few words; longer text is a mistake.
SCOPE_CHARACTERS_MAX = 200
# Runs forgotten in one transaction; the runs that go on wait for it, so it must be over in a moment.
RETENTION_BATCH_RUNS_MAX = 200
# Records forgotten in one transaction, for the same reason; a single longer history still goes in one piece.
RETENTION_BATCH_RECORDS_MAX = 20_000
# How long a transaction that forgets answers to repeated calls should take: others that write wait for it.
RETENTION_BATCH_MS = 20
# Answers forgotten in one transaction at most, however fast the disk is.
RETENTION_BATCH_CALLS_MAX = 20_000
# How long forgetting them goes on before the next round; what is left then goes on at once.
RETENTION_ROUND_SECONDS = 4.0
# Free pages that one such transaction gives back to the system: more than it frees, so that the file keeps up.
STORE_PAGES_RETURNED_MAX = 1_000
# Free pages that stay in a file for what is written next: so many, or this part of the file if that is more.
STORE_FREE_PAGES_KEPT = 256
STORE_FREE_PAGES_KEPT_PART = 20
# Pages in the write-ahead log before they are copied into the file: ten times what SQLite would wait for, since a page
# that changes often is then copied once instead of many times (40 % less is written); the log has some 40 MB then.
STORE_CHECKPOINT_PAGES = 10_000
# How fast a whole file is written anew, for telling beforehand how long it takes.
STORE_VACUUM_BYTES_PER_SECOND = 50_000_000
# Between two such transactions, so that forgetting much takes a small part of the disk's time only.
RETENTION_PAUSE_SECONDS = 0.05
# Problems reported by one check of a store; a file with more is damaged beyond reading on.
INTEGRITY_PROBLEMS_MAX = 200

# Calls of one key per minute: reads are cheap and clients poll; writes cost a disk synchronisation each.
READ_CALLS_PER_MINUTE = 60_000
# Far above what people and assistants do, far below what would starve everybody else.
WRITE_CALLS_PER_MINUTE = 12_000
# Keys, policies and exports are for people; a loop over them is a mistake or an attack.
ADMIN_CALLS_PER_MINUTE = 600
# Calls of one key at once; more wait behind each other anyway.
CONCURRENT_CALLS_PER_KEY = 256
# Keys whose rate is remembered; the least recently seen is forgotten first.
RATE_BUCKETS_MAX = 100_000
# How long the answer to an idempotent call is kept: as long as clients may retry after an outage.
IDEMPOTENCY_TTL_MS = 24 * 60 * 60 * 1000
# After this an unfinished call counts as lost with its process, and may be made again. It may be short: whoever repeats
# a call that still goes on joins its execution, and a change is stored only by whoever holds the claim then.
IDEMPOTENCY_IN_FLIGHT_MS = 10_000
# A key is an identifier, not a document.
IDEMPOTENCY_KEY_CHARACTERS_MAX = 255
# Waiting for a run: long enough for most, short enough for proxies that cut idle connections.
SYNC_WAIT_SECONDS = 30.0
# Nobody keeps a connection open for longer than this; the handle serves from then on.
SYNC_WAIT_SECONDS_MAX = 300.0
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
# Versions of workflows of which it is kept what their starts need; a few hundred bytes each.
START_NEEDS_KEPT = 10_000
# New objects before a server looks for garbage among them (Python: 700): its runs make hardly any cycles, and what
# there is meanwhile takes a few megabytes.
GC_NEW_OBJECTS = 10_000
# Runs of a page that is read on the event loop's own thread, if it has no filter: a third of a millisecond.
LISTED_AT_ONCE = 100
# Definitions that a store keeps in memory for whoever starts runs of them; a start then reads no document.
DEFINITIONS_KEPT_MAX = 256
# Views of executions that are kept for whoever asks again.
EXECUTION_VIEWS_KEPT = 512
# Larger views are made anew each time, so that those kept stay within some megabytes.
EXECUTION_VIEW_BYTES_KEPT_MAX = 32_768
# Equal reads of one principal are gathered into one audit record for this long.
AUDIT_READS_GATHER_MS = 60_000
# Gathered reads in memory; more are written sooner.
AUDIT_READS_GATHERED_MAX = 10_000
# Refusals that anybody can cause (no key, no such route, a body that cannot be read, above a limit) are gathered for
# this long, too: equal ones become one record.
AUDIT_REFUSALS_GATHER_MS = 60_000
# Different refusals of one tenant, or of all strangers, that have a record of their own in that time; one record counts
# the rest. Each is written twice at most, so that a flood writes some 40 rows a minute, about 20 MB a day.
AUDIT_REFUSALS_KEPT_MAX = 20
# Addresses that the record of the rest names: enough to see whether it is one machine or many.
AUDIT_REFUSAL_ADDRESSES_MAX = 10
# Records of refusals that wait in memory while none can be written; more are lost with their counts.
AUDIT_REFUSALS_UNWRITTEN_MAX = 1_000
# An address as a proxy may tell it: the longest IPv6 address with a zone fits, and nobody can fill the trail with it.
AUDIT_REMOTE_CHARACTERS_MAX = 64

# What a record says a call was about: an id or a few names fit, and a caller cannot make the trail grow with it.
AUDIT_SUBJECT_CHARACTERS_MAX = 200
# How often the last use of a key is written down.
KEY_USE_GATHER_MS = 60_000
# Keys whose secret was compared since the store last changed; others are looked up again. A few hundred bytes each.
KEYS_PROVEN_KEPT = 1_000
# How often it is asked whether another process changed the store: what was begun with a key that it revoked is to end
# within a second.
KEY_LOOK_SECONDS = 0.25
# Schedules of one tenant; every one is looked at each second.
SCHEDULES_PER_TENANT_MAX = 1_000
# A page of a list, unless the caller asks for another size.
PAGE_LIMIT_DEFAULT = 50
# More in one page only makes the answer slow; the cursor goes on.
PAGE_LIMIT_MAX = 500

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
# Requests of MCP clients that a server works on at once; a hundred clients that discover tools at once are served.
MCP_CALLS_AT_ONCE_MAX = 100
# Messages of one list, in the revision that has these: each is worked on like a request of its own.
MCP_BATCH_MESSAGES_MAX = 50
# How long an MCP client waits for an answer before it gets a handle instead; clients commonly give up after 60 s.
MCP_CALL_MS_MAX = 30_000
# How long a tenant's exposed workflows are shown without a look at the store: what other processes change is seen then.
EXPOSED_REREAD_MS = 1_000
# Tenants whose exposed workflows are kept ready; those of others are read when they are asked for.
EXPOSED_TENANTS_KEPT = 1_000
# Characters of a result that a model is given at once; more is a preview with a link. About six thousand tokens.
MCP_RESULT_CHARACTERS_MAX = 25_000
# Images, sounds and files in one result of a tool; clients take a few megabytes at most. More is a link.
MCP_CONTENT_BYTES_MAX = 4_000_000
# Executions among the resources, the newest first: more are found with a tool, and a client may read every one listed.
MCP_EXECUTIONS_LISTED = 50
# What the protocol lets an answer to a completion have.
MCP_COMPLETIONS_MAX = 100
# What a list of tools may cost before the long tail is left to a search; about ten thousand tokens.
MCP_CATALOGUE_BYTES_MAX = 40_000
# What an address may say about the tools that it wants: some tens of names.
MCP_TOOLSET_CHARACTERS_MAX = 2_000
# How long after its start a server that shows workflows to assistants loads what MCP needs; that takes most of a second
# of processor time, which first belongs to whoever waited for the start.
MCP_WARM_AFTER_SECONDS = 1.0
# A request that is larger is nothing to be quick about.
MCP_FAST_BODY_BYTES_MAX = 65_536
# What a client says of itself; with the number below, what is remembered of clients fits in a megabyte.
MCP_FAST_ENVELOPE_BYTES_MAX = 4_096
MCP_FAST_ENVELOPES_KEPT = 256
# Lists that are kept as they were sent: callers with the same grants share one. Larger ones are made each time.
MCP_FAST_PAGES_KEPT = 128
MCP_FAST_PAGE_BYTES_MAX = 2_000_000
# Executions that are polled, as they were sent; with the bound of a result, three megabytes at most.
MCP_FAST_VIEWS_KEPT = 64
# The address of a resource: as long as what browsers and proxies take.
RESOURCE_URI_CHARACTERS_MAX = 2_048
# Events of older MCP clients' streams that are kept for those who were cut off, of all sessions together.
MCP_EVENTS_KEPT = 20_000
MCP_EVENT_BYTES_KEPT = 32_000_000
# Addresses and tasks that one subscription is about; each of them may be looked at whenever anything is stored.
MCP_SUBSCRIBED_MAX = 200
# The pause after a look for changes, in units of what the look took: a fiftieth of the time at most.
MCP_LOOK_PAUSE_FACTOR = 50
# The schema of a form that a client sends: more fields than anybody fills in.
MCP_FORM_BYTES_MAX = 32_768
# Clients refuse longer names of tools.
MCP_TOOL_NAME_CHARACTERS_MAX = 64
# Sessions of older MCP clients in one process; each costs some tens of kilobytes.
MCP_SESSIONS_MAX = 10_000
# Sessions of one key: whoever begins another one ends their oldest, and others keep theirs.
MCP_SESSIONS_PER_KEY = 2_000
# How long such a session may do nothing. Nothing is lost with it: what comes later is served without one.
MCP_SESSION_IDLE_SECONDS = 1_800.0
# What takes longer becomes a task for clients that take tasks; what is done at once need not be asked for again.
MCP_TASK_AFTER_SECONDS = 0.5
# How long a sealed question may be answered; the question itself stays open, and can be asked again.
MCP_QUESTION_SECONDS_MAX = 3_600
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
# How long the value that a command gave for a secret is used; starting a program for each activity would be slow.
SECRET_COMMAND_KEPT_SECONDS = 300.0
# How long a command may take to give a secret; some ask a person to touch a device.
SECRET_COMMAND_SECONDS_MAX = 30.0
# Attempts to deliver an event; with growing pauses they span a night, after which a person should look.
WEBHOOK_ATTEMPTS_MAX = 12
# The body of a received webhook; senders stay well below a megabyte.
WEBHOOK_BYTES_MAX = 1_048_576
# How long a receiver may take to accept an event; it should store it and work later.
WEBHOOK_DELIVERY_SECONDS_MAX = 10.0
# How long a stream waits for a reader that takes nothing; then it ends, and the reader resumes where it was.
STREAM_SEND_SECONDS_MAX = 30.0
# Decisions that are looked through for events in one read.
CHANGES_PER_READ = 200
# Events on their way to receivers at once; each holds a connection while its receiver thinks.
DELIVERIES_AT_ONCE_MAX = 16
# Of these, to one receiver: a slow one must not hold up the others.
DELIVERIES_PER_ENDPOINT_MAX = 4
# Due deliveries that are looked at in one go, so that a backlog of one receiver does not hide the others.
DELIVERIES_PER_LOOK = 500
# The longest pause between two attempts: a receiver that is back in the morning is served by then.
DELIVERY_DELAY_MS_MAX = 7_200_000
# The pause before the second attempt; each later one is three times as long.
DELIVERY_FIRST_DELAY_MS = 5_000
# How long deliveries that ended are kept for people to look at: a week, as for most incidents.
DELIVERY_RETENTION_MS = 7 * 24 * 60 * 60 * 1000
# Receivers of one tenant: every event is matched against all of them.
ENDPOINTS_PER_TENANT_MAX = 100
# How long events may be signed with an old secret too after it was replaced.
ENDPOINT_SECRET_OVERLAP_MS_MAX = 7 * 24 * 60 * 60 * 1000
# An output within an event; receivers commonly take 256 kB, and a larger one is read with the API.
EVENT_OUTPUT_BYTES_MAX = 65_536
# How far the time in a signature may be from ours, as most senders recommend.
WEBHOOK_SKEW_MS = 300_000
# From here on a pause of the event loop is a stall, which is measured and logged: people notice a tenth of a second.
LOOP_STALL_SECONDS = 0.1
# How often the loop notes that it turns; a stall is measured to that precision.
LOOP_NOTE_SECONDS = 0.02
# Label sets of one family of metrics; routes and operations are a few hundred, and more would be a leak.
METRIC_SERIES_MAX = 5_000
# How long certificates that the machine trusts are kept in memory; who replaces them need not start the server again.
TRUST_KEPT_SECONDS = 3_600.0
# How long `penstock doctor` waits for a server to take a connection; a person waits beside it.
DOCTOR_CONNECT_SECONDS_MAX = 3.0
# How much of an answer it reads: a server says in far less how it is.
DOCTOR_ANSWER_BYTES_MAX = 64 * 1024
# Below this much free disk the log of one burst of writes may not fit any more.
DISK_FREE_BYTES_MIN = 128 * 1024 * 1024
# Below this much somebody should look soon: a backup beside the database may not fit.
DISK_FREE_BYTES_LOW = 1024 * 1024 * 1024
