"""A run as the engine sees it: its history, its state, its questions, its children."""

__all__ = [
    "ACTIVITY_LEASE_MS_MAX",
    "ACTIVITY_QUESTIONS_MAX",
    "CHILDREN_WATCHED_MAX",
    "CLIENT_QUESTIONS_MAX",
    "CLIENT_ROOTS_MAX",
    "CLIENT_ROOT_CHARACTERS_MAX",
    "CLIENT_TOKENS_DEFAULT",
    "CLIENT_TOKENS_MAX",
    "CONTINUATIONS_WITHOUT_WAIT_MAX",
    "ERROR_TEXT_CHARACTERS_MAX",
    "FOR_EACH_ITEMS_MAX",
    "HISTORY_BYTES_ADVISED",
    "HISTORY_BYTES_MAX",
    "HISTORY_ROWS_ADVISED",
    "HISTORY_ROWS_MAX",
    "JSON_DEPTH_MAX",
    "JSON_VALUES_MAX",
    "LEASE_HOLDER_CHARACTERS_MAX",
    "OPENINGS_KEPT_MAX",
    "PAYLOAD_INLINE_BYTES_MAX",
    "PLANS_KEPT_MAX",
    "SIGNALS_BUFFERED_MAX",
    "SIGNAL_IDS_CARRIED_MAX",
    "STATE_BYTES_MAX",
    "STEPS_PER_RUN_MAX",
    "SUBWORKFLOW_DEPTH_MAX",
]

# Plans of definitions in memory; one that was dropped is compiled again, a fraction of a millisecond for each node.
PLANS_KEPT_MAX = 1_000
# Circumstances of starts that are remembered of a workflow, a kilobyte each: who starts runs, in which tenant.
OPENINGS_KEPT_MAX = 100
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
# An error text in a history; the rest of a longer one is in the log.
ERROR_TEXT_CHARACTERS_MAX = 2_000
