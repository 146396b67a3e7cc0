"""The gate and the operations behind it: rates, idempotency, audit records, keys, waiting, pages."""

__all__ = [
    "ADMIN_CALLS_PER_MINUTE",
    "AUDIT_CHECKPOINT_ENTRIES",
    "AUDIT_CHECKPOINT_LOOK_SECONDS",
    "AUDIT_CHECKPOINT_MS",
    "AUDIT_CHECKPOINT_SEND_SECONDS",
    "AUDIT_CLIENT_CHARACTERS_MAX",
    "AUDIT_HOLDS_MAX",
    "AUDIT_NAME_CHARACTERS_MAX",
    "AUDIT_READS_GATHERED_MAX",
    "AUDIT_READS_GATHER_MS",
    "AUDIT_REASONS_MAX",
    "AUDIT_REASON_CHARACTERS_MAX",
    "AUDIT_REFUSALS_GATHER_MS",
    "AUDIT_REFUSALS_KEPT_MAX",
    "AUDIT_REFUSALS_UNWRITTEN_MAX",
    "AUDIT_REFUSAL_ADDRESSES_MAX",
    "AUDIT_REMOTE_CHARACTERS_MAX",
    "AUDIT_REMOVED_AT_ONCE_MAX",
    "AUDIT_REMOVED_LEAVES_MAX",
    "AUDIT_STAMP_BYTES_MAX",
    "AUDIT_STAMP_RETRY_MS",
    "AUDIT_SUBJECT_CHARACTERS_MAX",
    "CALLED_RUNS_DEPTH_MAX",
    "CONCURRENT_CALLS_PER_KEY",
    "DRAFT_ARGUMENTS_CHARACTERS_SHOWN",
    "DRAFT_MS",
    "EXECUTION_VIEWS_KEPT",
    "EXECUTION_VIEW_BYTES_KEPT_MAX",
    "FAILED_LOGINS_PER_MINUTE",
    "GRANTS_PER_TENANT_MAX",
    "GRANT_MS_MAX",
    "GROUP_NAME_CHARACTERS_MAX",
    "HELD_CALL_GATE_SECONDS",
    "HELD_CALL_WAIT_SECONDS",
    "IDEMPOTENCY_IN_FLIGHT_MS",
    "IDEMPOTENCY_KEY_CHARACTERS_MAX",
    "IDEMPOTENCY_TTL_MS",
    "IDEMPOTENCY_UNANSWERED_MS",
    "JUSTIFICATION_CHARACTERS_MAX",
    "KEYS_NAMED_MAX",
    "KEYS_PROVEN_KEPT",
    "KEY_LINEAGE_MAX",
    "KEY_LOOK_SECONDS",
    "KEY_USE_GATHER_MS",
    "LISTED_AT_ONCE",
    "LISTED_TOOLS_BYTES_MAX",
    "NODE_CALL_WAIT_SECONDS",
    "PAGE_LIMIT_DEFAULT",
    "PAGE_LIMIT_MAX",
    "PEER_BUCKETS_MAX",
    "PREFLIGHT_MS",
    "PROPOSALS_LISTED_MAX",
    "RATE_BUCKETS_MAX",
    "RATE_BURST_SECONDS",
    "RATE_ROUNDING_MS",
    "RATE_SHARED_PART",
    "RATE_SHARE_SECONDS",
    "REACH_ENTRIES_MAX",
    "READ_CALLS_PER_MINUTE",
    "SCHEDULES_PER_TENANT_MAX",
    "SCHEDULE_PREVIEW_TIMES_MAX",
    "SCOPE_CHARACTERS_MAX",
    "START_NEEDS_KEPT",
    "STORAGE_MEASURE_MS",
    "SYNC_WAIT_SECONDS",
    "SYNC_WAIT_SECONDS_MAX",
    "UNAUTHENTICATED_PER_MINUTE",
    "UNSEEN_RUNS_SKIPPED_MAX",
    "USAGE_DAYS_KEPT",
    "WRITE_CALLS_PER_MINUTE",
]

# A scope of an API key is a few words; longer text is a mistake.
SCOPE_CHARACTERS_MAX = 200
# The name of a group of an identity provider is a few words; it is part of scopes (approve:GROUP).
GROUP_NAME_CHARACTERS_MAX = 100
# Calls of one key per minute: reads are cheap and clients poll; writes cost a disk synchronisation each.
READ_CALLS_PER_MINUTE = 60_000
# Far above what people and assistants do, far below what would starve everybody else.
WRITE_CALLS_PER_MINUTE = 12_000
# Keys, policies and exports are for people; a loop over them is a mistake or an attack.
ADMIN_CALLS_PER_MINUTE = 600
# Calls of one key at once; more wait behind each other anyway.
CONCURRENT_CALLS_PER_KEY = 256
# What a bucket holds, in seconds of its rate: a client that was idle may catch up, and nobody else notices.
RATE_BURST_SECONDS = 10.0
# How often processes on one store tell each other what they took: a burst of both at once is noticed this soon.
RATE_SHARE_SECONDS = 0.25
# The part of a burst that a process takes before others hear of it; less would write for every other call.
RATE_SHARED_PART = 0.05
# What sums of fractions may lack of a whole start.
RATE_ROUNDING_MS = 0.001
# Buckets that are remembered; the least recently used is forgotten first.
RATE_BUCKETS_MAX = 100_000
# Requests without credentials from one address: pages, discovery and clients that first ask how to sign in. Many people
# may share an address.
UNAUTHENTICATED_PER_MINUTE = 3_000
# Wrong keys from one address that are told that they are wrong. A client with a key that was revoked tries for a while.
FAILED_LOGINS_PER_MINUTE = 600
# Addresses whose requests are remembered; the least recently seen is forgotten first. About 300 bytes each.
PEER_BUCKETS_MAX = 50_000
# How often it is measured what a tenant stores: that reads all of it.
STORAGE_MEASURE_MS = 60_000
# Days for which it is known what tenants used: a quarter, for whoever writes bills.
USAGE_DAYS_KEPT = 92
# How long the answer to an idempotent call is kept: as long as clients may retry after an outage.
IDEMPOTENCY_TTL_MS = 24 * 60 * 60 * 1000
# After this an unfinished call counts as lost with its process, and may be made again. It may be short: whoever repeats
# a call that still goes on joins its execution, and a change is stored only by whoever holds the claim then.
IDEMPOTENCY_IN_FLIGHT_MS = 10_000
# What a process left half done when it died is known for as long as an answer would be.
IDEMPOTENCY_UNANSWERED_MS = 86_400_000
# A key is an identifier, not a document.
IDEMPOTENCY_KEY_CHARACTERS_MAX = 255
# Waiting for a run: long enough for most, short enough for proxies that cut idle connections.
SYNC_WAIT_SECONDS = 30.0
# Nobody keeps a connection open for longer than this; the handle serves from then on.
SYNC_WAIT_SECONDS_MAX = 300.0
# Held calls that a list shows beside what is stored: enough to look at; `draft.list` has all.
PROPOSALS_LISTED_MAX = 50
# What one call can reach, followed through everything that is stored. The start of an approved run keeps the list.
REACH_ENTRIES_MAX = 1_000
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
# What a program calls itself, and what a principal is called: both are the caller's choice. Name and version fit.
AUDIT_CLIENT_CHARACTERS_MAX = 120
AUDIT_NAME_CHARACTERS_MAX = 120
# The policies that a record names as the reason of a decision, and the longest id of one. Few policies decide a call.
AUDIT_REASONS_MAX = 10
AUDIT_REASON_CHARACTERS_MAX = 100
# Legal holds of a tenant: each is a condition in every query of retention.
AUDIT_HOLDS_MAX = 100
# Audit records that retention removes in one transaction; each is read and hashed, which takes some 20 µs.
AUDIT_REMOVED_AT_ONCE_MAX = 2_000
# Leaves of removed records in one row, 32 bytes each: few rows, and none that takes long to read or to seal.
AUDIT_REMOVED_LEAVES_MAX = 1_024
# How often the last use of a key is written down.
KEY_USE_GATHER_MS = 60_000
# Keys whose secret was compared since the store last changed; others are looked up again. A few hundred bytes each.
KEYS_PROVEN_KEPT = 1_000
# How often it is asked whether another process changed the store: what was begun with a key that it revoked is to end
# within a second.
KEY_LOOK_SECONDS = 0.25
# Schedules of one tenant; every one is looked at each second.
SCHEDULES_PER_TENANT_MAX = 1_000
# Times that a preview of a schedule tells: enough to see a pattern, few enough for a page.
SCHEDULE_PREVIEW_TIMES_MAX = 50
# A page of a list, unless the caller asks for another size.
PAGE_LIMIT_DEFAULT = 50
# More in one page only makes the answer slow; the cursor goes on.
PAGE_LIMIT_MAX = 500
# Ids by which keys are listed in one call: as many as a page of the console has rows, and an address stays short.
KEYS_NAMED_MAX = 100
# Subjects that made a key, one after the other. They are compared with each approval, and kept with each run that the
# key starts. Keys are made by few people: an owner, an admin, a team.
KEY_LINEAGE_MAX = 16
# Runs that are passed over to fill a page of a list, because they hold calls that an agent may not know of. Each is
# read; beyond this, the page is shorter.
UNSEEN_RUNS_SKIPPED_MAX = 1_000

# How long a held call waits for approval: over a night, and short enough that its arguments are not stale.
DRAFT_MS = 24 * 3_600_000
# How long the handle of a preflight is valid: enough to show a plan to somebody and ask.
PREFLIGHT_MS = 10 * 60_000
# Of the arguments of a held call, the question shows this much; the draft shows all of it.
DRAFT_ARGUMENTS_CHARACTERS_SHOWN = 4_000
# Why a call is to be made is a sentence or two; approvers read it in the question.
JUSTIFICATION_CHARACTERS_MAX = 1_000
# An agent that may act by itself for longer than a quarter of a year was forgotten.
GRANT_MS_MAX = 92 * 24 * 3_600_000
# They are read for every change by an agent under the strict preset.
GRANTS_PER_TENANT_MAX = 1_000
# An approved call that starts a run waits this long for its result; it is found under its own id afterwards.
HELD_CALL_WAIT_SECONDS = 10.0
# A node that calls a capability waits this long for the run that the call starts before it gives its place to others.
NODE_CALL_WAIT_SECONDS = 1.0
# Runs that called each other, the one inside the other, as with child runs: deeper is almost always a circle.
CALLED_RUNS_DEPTH_MAX = 8
# The descriptions and schemas of the tools that a run lists: they are kept in its state, and read again at each turn.
LISTED_TOOLS_BYTES_MAX = 262_144
# After a restart, approved calls may be due before the gate is open; without a gate they are never made.
HELD_CALL_GATE_SECONDS = 60.0
# A trail is signed when it has so many new records, or some and this long has passed: what comes after the last
# checkpoint is the part that a thief of the server's secret could rewrite unseen.
AUDIT_CHECKPOINT_ENTRIES = 1_000
AUDIT_CHECKPOINT_MS = 60 * 60 * 1_000
# How often it is looked whether a trail has to be signed.
AUDIT_CHECKPOINT_LOOK_SECONDS = 5.0
# Writing a checkpoint elsewhere: a request, or a commit in a repository.
AUDIT_CHECKPOINT_SEND_SECONDS = 30.0
# A time-stamping authority that failed is asked again after this: often enough for hourly checkpoints, and no burden.
AUDIT_STAMP_RETRY_MS = 5 * 60 * 1_000
# A stamp with the certificates of its authority has some 6 KB.
AUDIT_STAMP_BYTES_MAX = 65_536
