"""MCP clients that call Penstock: tools, results, sessions and tasks."""

__all__ = [
    "EXPOSED_REREAD_MS",
    "EXPOSED_TENANTS_KEPT",
    "MCP_BATCH_MESSAGES_MAX",
    "MCP_CALLS_AT_ONCE_MAX",
    "MCP_CALL_MS_MAX",
    "MCP_CATALOGUE_BYTES_MAX",
    "MCP_COMPLETIONS_MAX",
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
    "MCP_LOOK_PAUSE_FACTOR",
    "MCP_QUESTION_SECONDS_MAX",
    "MCP_RESOURCES_PAGE",
    "MCP_RESULT_CHARACTERS_MAX",
    "MCP_SESSIONS_MAX",
    "MCP_SESSIONS_PER_KEY",
    "MCP_SESSION_IDLE_SECONDS",
    "MCP_SUBSCRIBED_MAX",
    "MCP_TASK_AFTER_SECONDS",
    "MCP_TOOLSET_CHARACTERS_MAX",
    "MCP_TOOL_NAME_CHARACTERS_MAX",
    "MCP_VIEW_NODES_MAX",
    "MCP_WARM_AFTER_SECONDS",
    "RESOURCE_URI_CHARACTERS_MAX",
]

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
# Resources on one page of a list: most clients read only the first page, and few tenants have more.
MCP_RESOURCES_PAGE = 500
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
# Nodes of a run that a page beside a result lists; the console has all of them.
MCP_VIEW_NODES_MAX = 100
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
