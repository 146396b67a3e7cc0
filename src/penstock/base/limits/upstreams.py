"""MCP servers and APIs that Penstock calls: sessions, messages, tools and OpenAPI documents."""

__all__ = [
    "MCP_CONNECT_SECONDS_MAX",
    "MCP_CONTENT_BLOCKS_MAX",
    "MCP_IDLE_SECONDS_MAX",
    "MCP_PARKED_CALLS_MAX",
    "MCP_PARKED_SECONDS_MAX",
    "MCP_QUESTIONS_PER_CALL_MAX",
    "MCP_RECONNECT_SECONDS_MAX",
    "MCP_ROOTS_MAX",
    "MCP_SAMPLING_BYTES_MAX",
    "MCP_SAMPLING_MESSAGES_MAX",
    "MCP_SAMPLING_REQUESTS_DEFAULT",
    "MCP_SAMPLING_SECONDS_DEFAULT",
    "MCP_SAMPLING_TOKENS_DEFAULT",
    "MCP_TIMEOUT_MS_DEFAULT",
    "OAUTH_ANSWER_BYTES_MAX",
    "OAUTH_ANSWER_SECONDS_MAX",
    "OAUTH_ASSERTION_SECONDS",
    "OAUTH_REFRESH_LEASE_MS",
    "OAUTH_REFRESH_POLL_SECONDS",
    "OAUTH_RENEWALS_MAX",
    "OAUTH_SCOPES_MAX",
    "OAUTH_SCOPE_CHARACTERS_MAX",
    "OAUTH_SIGN_IN_MS_MAX",
    "OAUTH_TOKEN_CHARACTERS_MAX",
    "OAUTH_TOKEN_EARLY_MS",
    "OPENAPI_BYTES_MAX",
    "OPENAPI_DESCRIPTION_CHARACTERS_MAX",
    "OPENAPI_OPERATIONS_MAX",
    "OPENAPI_PROPERTY_CHARACTERS_MAX",
    "OPENAPI_SCHEMA_BYTES_MAX",
    "OPENAPI_TOOL_NAME_CHARACTERS_MAX",
    "OPENAPI_VALUES_MAX",
    "UPSTREAM_ANSWER_BYTES_MAX",
    "UPSTREAM_ANSWER_TOKENS_MAX",
    "UPSTREAM_FOLLOWED_MAX",
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
]

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
# What a server may have a lent model read in one request: some ten thousand tokens, which the operator pays for.
MCP_SAMPLING_BYTES_MAX = 65_536
MCP_SAMPLING_MESSAGES_MAX = 50
# What a server that is lent a model may use of it in one call, unless the settings say otherwise: a summary or two.
MCP_SAMPLING_REQUESTS_DEFAULT = 5
MCP_SAMPLING_TOKENS_DEFAULT = 1_000
MCP_SAMPLING_SECONDS_DEFAULT = 30.0
# Folders that a server is told of, for one tenant: each is looked up whenever the server asks.
MCP_ROOTS_MAX = 32
# Tools of one server, and one of them with its schemas; the largest real catalogues have some hundred.
UPSTREAM_TOOLS_MAX = 500
UPSTREAM_TOOL_BYTES_MAX = 65_536
# Resources of one server whose changes this process asks for: each is a subscription that the server keeps.
UPSTREAM_FOLLOWED_MAX = 500
# How long a tool of an MCP server may take when its node does not say.
MCP_TIMEOUT_MS_DEFAULT = 60_000
# What an authorization server may answer, or a server that describes itself; real documents have ten kilobytes.
OAUTH_ANSWER_BYTES_MAX = 262_144
# How long one of its answers may take. A call of a tool waits for it.
OAUTH_ANSWER_SECONDS_MAX = 15.0
# A token or a code: real ones have up to a few kilobytes, and headers of servers end at eight or sixteen.
OAUTH_TOKEN_CHARACTERS_MAX = 16_384
# How many scopes a server may ask for, and how long each may be: they are put into an address.
OAUTH_SCOPES_MAX = 100
OAUTH_SCOPE_CHARACTERS_MAX = 200
# How often a request is repeated with another token: once for a token that is not valid, once for more scopes.
OAUTH_RENEWALS_MAX = 2
# How long before it expires a token is renewed, so that it does not expire on its way.
OAUTH_TOKEN_EARLY_MS = 30_000
# How long a process has the sole right to use a refresh token, which often works only once; then it counts as dead.
OAUTH_REFRESH_LEASE_MS = 30_000
# How often the others look whether it is done.
OAUTH_REFRESH_POLL_SECONDS = 0.2
# How long a person has to sign in.
OAUTH_SIGN_IN_MS_MAX = 600_000
# How long the signed proof of who we are is valid; it is made anew for each request.
OAUTH_ASSERTION_SECONDS = 60
# The document itself: the largest public ones (code hosts, payment providers, clouds) have thirteen megabytes.
OPENAPI_BYTES_MAX = 33_554_432
# Values in it, each an object in memory. The largest public ones have about a million.
OPENAPI_VALUES_MAX = 4_000_000
# Operations of one document: the largest public ones have about a thousand.
OPENAPI_OPERATIONS_MAX = 5_000
# What a model is told about an operation, and about one argument. Documents hold whole manuals, which every model that
# has the tool would read with every request.
OPENAPI_DESCRIPTION_CHARACTERS_MAX = 1_000
OPENAPI_PROPERTY_CHARACTERS_MAX = 240
# The schema of the arguments of one operation. What is larger is made smaller: texts and then levels are left out.
OPENAPI_SCHEMA_BYTES_MAX = 16_384
# The longest name of a tool that every client takes is 64 characters; the prefix of the API comes before this one.
OPENAPI_TOOL_NAME_CHARACTERS_MAX = 56
