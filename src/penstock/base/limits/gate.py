"""The gate and the operations behind it: rates, idempotency, audit records, keys, waiting, pages."""

__all__ = [
    "ADMIN_CALLS_PER_MINUTE",
    "AUDIT_READS_GATHERED_MAX",
    "AUDIT_READS_GATHER_MS",
    "AUDIT_REFUSALS_GATHER_MS",
    "AUDIT_REFUSALS_KEPT_MAX",
    "AUDIT_REFUSALS_UNWRITTEN_MAX",
    "AUDIT_REFUSAL_ADDRESSES_MAX",
    "AUDIT_REMOTE_CHARACTERS_MAX",
    "AUDIT_SUBJECT_CHARACTERS_MAX",
    "CONCURRENT_CALLS_PER_KEY",
    "EXECUTION_VIEWS_KEPT",
    "EXECUTION_VIEW_BYTES_KEPT_MAX",
    "IDEMPOTENCY_IN_FLIGHT_MS",
    "IDEMPOTENCY_KEY_CHARACTERS_MAX",
    "IDEMPOTENCY_TTL_MS",
    "KEYS_PROVEN_KEPT",
    "KEY_LOOK_SECONDS",
    "KEY_USE_GATHER_MS",
    "LISTED_AT_ONCE",
    "PAGE_LIMIT_DEFAULT",
    "PAGE_LIMIT_MAX",
    "RATE_BUCKETS_MAX",
    "READ_CALLS_PER_MINUTE",
    "SCHEDULES_PER_TENANT_MAX",
    "SCOPE_CHARACTERS_MAX",
    "START_NEEDS_KEPT",
    "SYNC_WAIT_SECONDS",
    "SYNC_WAIT_SECONDS_MAX",
    "WRITE_CALLS_PER_MINUTE",
]

# A scope of an API key is a few words; longer text is a mistake.
SCOPE_CHARACTERS_MAX = 200
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
# Versions of workflows of which it is kept what their starts need; a few hundred bytes each.
START_NEEDS_KEPT = 10_000
# Runs of a page that is read on the event loop's own thread, if it has no filter: a third of a millisecond.
LISTED_AT_ONCE = 100
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
# An address as a proxy may tell it: the longest IPv6 address with a zone fits, and nobody can fill the log with it.
AUDIT_REMOTE_CHARACTERS_MAX = 64
# What a record says a call was about: an id or a few names fit, and a caller cannot make the audit log grow with it.
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
