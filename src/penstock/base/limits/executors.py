"""Executors: HTTP requests, steps in Python, agents, language models and secrets."""

__all__ = [
    "AGENT_ANSWER_BYTES_MAX",
    "AGENT_ANSWER_TOKENS_MAX",
    "AGENT_POLL_MS_DEFAULT",
    "AGENT_RESULT_BYTES_MAX",
    "AGENT_TIMEOUT_MS_DEFAULT",
    "FAREWELL_SECONDS_MAX",
    "HTTP_CONNECTIONS_MAX",
    "HTTP_REDIRECTS_MAX",
    "HTTP_RESPONSE_BYTES_MAX",
    "HTTP_RESPONSE_TOKENS_MAX",
    "HTTP_TIMEOUT_MS_DEFAULT",
    "LLM_ANSWER_BYTES_MAX",
    "LLM_ANSWER_TOKENS_MAX",
    "LLM_COST_BELIEVED_MAX",
    "LLM_FALLBACKS_MAX",
    "LLM_MODELS_CACHED_MAX",
    "LLM_OUTPUT_TOKENS_ESTIMATED",
    "LLM_REGISTERED_PROVIDERS_MAX",
    "LLM_THOUGHTS_CHARACTERS_MAX",
    "LLM_TIMEOUT_MS_DEFAULT",
    "LLM_TOKENS_BELIEVED_MAX",
    "LLM_TOOLS_MAX",
    "LLM_TOOL_CALLS_MAX",
    "LLM_TOOL_CALL_ID_CHARACTERS_MAX",
    "LLM_TOOL_DESCRIPTION_CHARACTERS_MAX",
    "LLM_VIOLATIONS_SHOWN_MAX",
    "MODEL_FALLBACKS_FOLLOWED_MAX",
    "SECRET_BYTES_MAX",
    "SECRET_COMMAND_KEPT_SECONDS",
    "SECRET_COMMAND_SECONDS_MAX",
    "STEP_PROCESSES_MAX",
    "STEP_THREADS_MAX",
]

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
# Connection pools to models that tenants registered; the one that was used longest ago is closed for a new one.
LLM_REGISTERED_PROVIDERS_MAX = 64
# Models that are tried after the first, with the fallbacks of fallbacks; after more, the answer comes too late.
LLM_FALLBACKS_MAX = 8
# What a reply counts as until it is there: a usual turn of an agent. A lost request keeps this count.
LLM_OUTPUT_TOKENS_ESTIMATED = 256
# More tokens or dollars than one request can use with any model that is sold: a provider that reports more is wrong.
LLM_TOKENS_BELIEVED_MAX = 100_000_000
LLM_COST_BELIEVED_MAX = 10_000
# Models that are read to find out whether the fallbacks of a registered one lead back to it.
MODEL_FALLBACKS_FOLLOWED_MAX = 100
# Violations of an output schema that a model is shown for its one repair; more confuse it.
LLM_VIOLATIONS_SHOWN_MAX = 20
# Tools that a model is offered at once: providers accept about as many, and models choose badly among more.
LLM_TOOLS_MAX = 128
# Thoughts of one turn that are kept to be sent back. They are in the state of the run, beside what is said.
LLM_THOUGHTS_CHARACTERS_MAX = 32_000
# Calls that a model may make in one turn; further ones are left out of the turn, and it can make them in the next.
LLM_TOOL_CALLS_MAX = 32
# The id of a call, which the provider chooses; it stands in every later request of the conversation.
LLM_TOOL_CALL_ID_CHARACTERS_MAX = 128
# What a tool says of itself: more is an attempt to instruct the model. Providers cut at about as much.
LLM_TOOL_DESCRIPTION_CHARACTERS_MAX = 4_000
# How long the value that a command gave for a secret is used; starting a program for each activity would be slow.
SECRET_COMMAND_KEPT_SECONDS = 300.0
# How long a command may take to give a secret; some ask a person to touch a device.
SECRET_COMMAND_SECONDS_MAX = 30.0
