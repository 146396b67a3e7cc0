"""Webhooks that are received, and events that are delivered to endpoints."""

__all__ = [
    "CHANGES_PER_READ",
    "DELIVERIES_AT_ONCE_MAX",
    "DELIVERIES_PER_ENDPOINT_MAX",
    "DELIVERIES_PER_LOOK",
    "DELIVERY_DELAY_MS_MAX",
    "DELIVERY_FIRST_DELAY_MS",
    "DELIVERY_RETENTION_MS",
    "ENDPOINTS_PER_TENANT_MAX",
    "ENDPOINT_SECRET_OVERLAP_MS_MAX",
    "EVENT_OUTPUT_BYTES_MAX",
    "NOTIFICATIONS_PER_RUN_MAX",
    "NOTIFICATIONS_PER_TENANT_MAX",
    "WEBHOOK_ATTEMPTS_MAX",
    "WEBHOOK_BYTES_MAX",
    "WEBHOOK_DELIVERY_SECONDS_MAX",
    "WEBHOOK_SKEW_MS",
]

# Attempts to deliver an event; with growing pauses they span a night, after which a person should look.
WEBHOOK_ATTEMPTS_MAX = 12
# The body of a received webhook; senders stay well below a megabyte.
WEBHOOK_BYTES_MAX = 1_048_576
# How long a receiver may take to accept an event; it should store it and work later.
WEBHOOK_DELIVERY_SECONDS_MAX = 10.0
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
# Receivers that are told of one execution: its client, and perhaps somebody who watches.
NOTIFICATIONS_PER_RUN_MAX = 10
# All of these of a tenant: they go when their executions end, and every event is matched against them.
NOTIFICATIONS_PER_TENANT_MAX = 500
# How far the time in a signature may be from ours, as most senders recommend.
WEBHOOK_SKEW_MS = 300_000
