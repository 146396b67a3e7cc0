"""Agents: how long they go on by themselves, and how much of a result their model reads."""

__all__ = [
    "A2A_HEARTBEAT_SECONDS",
    "A2A_WAIT_SECONDS",
    "AGENT_PARALLEL_TOOLS_DEFAULT",
    "AGENT_REPAIRS_MAX",
    "AGENT_RESULT_CHARACTERS_MAX",
    "AGENT_TOOLS_MAX",
    "AGENT_TURNS_DEFAULT",
    "AGENT_TURNS_MAX",
    "TOOLS_PER_TENANT_MAX",
]

# How long the answer to a message over A2A waits for its task; then the task is told as it stands. Below the minute
# after which clients and proxies give up.
A2A_WAIT_SECONDS = 25.0
# A stream over A2A on which nothing happens says so this often, so that nobody takes it for dead.
A2A_HEARTBEAT_SECONDS = 15.0
# Turns of an agent whose block does not say: most work is done in five, and a model that goes in circles stops soon.
AGENT_TURNS_DEFAULT = 10
# More than this is no conversation any more; a workflow calls several agents, or one of them several times.
AGENT_TURNS_MAX = 200
# Calls of one turn that are under way at a time, unless the block says otherwise.
AGENT_PARALLEL_TOOLS_DEFAULT = 4
# How often a model may correct an answer that does not fit: a second try helps, a fourth has never been seen to.
AGENT_REPAIRS_MAX = 2
# Of the result of a call, the model reads this much, some ten thousand tokens; the whole of it is in the history. Also
# what keeps a conversation of some turns within the state of a run.
AGENT_RESULT_CHARACTERS_MAX = 40_000
# Entries of the list of tools in a block; patterns stand for many.
AGENT_TOOLS_MAX = 100
# Registered tools of a tenant. All of them are read when what the tenant exposes is read again, after each change.
TOOLS_PER_TENANT_MAX = 500
