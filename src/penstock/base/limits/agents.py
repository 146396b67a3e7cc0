"""Agents: how long they go on by themselves, how much of a result their model reads, and how they are evaluated."""

__all__ = [
    "A2A_LOOK_SECONDS",
    "A2A_PAGE_DEFAULT",
    "A2A_PAGE_MAX",
    "A2A_WAIT_SECONDS",
    "AGENT_CONVERSATION_CHARACTERS_DEFAULT",
    "AGENT_CONVERSATION_CHARACTERS_MAX",
    "AGENT_CONVERSATION_CHARACTERS_MIN",
    "AGENT_PARALLEL_TOOLS_DEFAULT",
    "AGENT_REPAIRS_MAX",
    "AGENT_RESULT_CHARACTERS_MAX",
    "AGENT_SUMMARY_SHARE",
    "AGENT_TOOLS_MAX",
    "AGENT_TREE_TURNS_DEFAULT",
    "AGENT_TURNS_DEFAULT",
    "AGENT_TURNS_MAX",
    "CHAT_LOOK_SECONDS",
    "EVALUATION_AT_ONCE_DEFAULT",
    "EVALUATION_AT_ONCE_MAX",
    "EVALUATION_BAD_LINES_SHOWN_MAX",
    "EVALUATION_CASES_MAX",
    "EVALUATION_FILE_BYTES_MAX",
    "EVALUATION_JUDGED_CHARACTERS_MAX",
    "EVALUATION_LINE_BYTES_MAX",
    "EVALUATION_SIMILAR_CHARACTERS_MAX",
    "MEMORY_BYTES_MAX",
    "MEMORY_ENTRIES_MAX",
    "MEMORY_ERASED_AT_ONCE_BYTES_MAX",
    "MEMORY_FORGOTTEN_AT_ONCE_MAX",
    "MEMORY_FOUND_DEFAULT",
    "MEMORY_FOUND_MAX",
    "MEMORY_KEY_CHARACTERS_MAX",
    "MEMORY_SEARCHED_WORDS_MAX",
    "MEMORY_SESSION_TTL_SECONDS_DEFAULT",
    "MEMORY_TENANT_BYTES_MAX",
    "MEMORY_TTL_SECONDS_MAX",
    "MEMORY_VALUE_BYTES_MAX",
    "MEMORY_WORD_CHARACTERS_MAX",
    "SESSION_TURNS_READ_MAX",
    "TOOLS_PER_TENANT_MAX",
]

# How long the answer to a message over A2A waits for its task; then the task is told as it stands. Below the minute
# after which clients and proxies give up.
A2A_WAIT_SECONDS = 25.0
# How often somebody who waits over A2A, or in a chat, looks whether calls of the agent wait for approval: such a call
# moves its run only when it is decided.
A2A_LOOK_SECONDS = 2.0
CHAT_LOOK_SECONDS = 1.0
# Tasks on a page of a list over A2A, and the most that may be asked for, as the protocol says.
A2A_PAGE_DEFAULT = 50
A2A_PAGE_MAX = 100
# Turns of an agent whose block does not say: most work is done in five, and a model that goes in circles stops soon.
AGENT_TURNS_DEFAULT = 10
# Turns of an agent and all agents below it, if its block does not say how many: enough for a hundred agents that take
# ten each, and an end to agents that call each other for ever.
AGENT_TREE_TURNS_DEFAULT = 1_000
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
# Of a conversation, a model reads this much unless the block says otherwise: some 25 thousand tokens, which every
# current model has room for beside its tools.
AGENT_CONVERSATION_CHARACTERS_DEFAULT = 100_000
# Less than this would not hold one question and its answer.
AGENT_CONVERSATION_CHARACTERS_MIN = 1_000
# A conversation is in the state of its run: with four bytes for each character, this leaves room for the next answers.
AGENT_CONVERSATION_CHARACTERS_MAX = 180_000
# The summary of what is left out may have one character in so many of those that the model reads: it is to stand for
# the beginning of a conversation, and not to push out the rest.
AGENT_SUMMARY_SHARE = 4
# Turns of a session in one answer: each of them is a run that has to be read.
SESSION_TURNS_READ_MAX = 100

# Registered tools of a tenant. All of them are read when what the tenant exposes is read again, after each change.
TOOLS_PER_TENANT_MAX = 500

# Cases of an evaluation that are under way at a time unless it says otherwise: few enough for the limits of a provider.
EVALUATION_AT_ONCE_DEFAULT = 4
# More would not be faster: a process performs this many activities at once.
EVALUATION_AT_ONCE_MAX = 64
# Cases of one data set. The report of all of them is kept in memory, and a page with more is no page for people.
EVALUATION_CASES_MAX = 10_000
# One line of a data set. An input cannot be larger than the state of a run.
EVALUATION_LINE_BYTES_MAX = 1024 * 1024
# A data set, or the report of an earlier evaluation, as it is read into memory.
EVALUATION_FILE_BYTES_MAX = 256 * 1024 * 1024
# Bad lines that are listed at the terminal: whoever has more mistakes has made the same one often.
EVALUATION_BAD_LINES_SHOWN_MAX = 50
# What a judge reads of an output: some twenty-five thousand tokens. A longer one is cut off, and the judge is told.
EVALUATION_JUDGED_CHARACTERS_MAX = 100_000
# Texts that are compared by similarity are counted in memory, three characters at a time.
EVALUATION_SIMILAR_CHARACTERS_MAX = 1_000_000

# The key of an entry of memory, and one value: notes and facts, not documents. A model reads values whole.
MEMORY_KEY_CHARACTERS_MAX = 200
MEMORY_VALUE_BYTES_MAX = 64 * 1024
# Entries and bytes of one space, that of a session, a principal or a tenant; searching looks at this many at most.
MEMORY_ENTRIES_MAX = 1_000
MEMORY_BYTES_MAX = 4 * 1024 * 1024
# All spaces of a tenant together: sessions and principals can be many.
MEMORY_TENANT_BYTES_MAX = 256 * 1024 * 1024
# The longest time that an entry is kept for. One without an end is kept until it is deleted.
MEMORY_TTL_SECONDS_MAX = 10 * 365 * 24 * 3_600
# What is remembered for a session ends a month after it was written, unless it says otherwise: nobody deletes sessions.
MEMORY_SESSION_TTL_SECONDS_DEFAULT = 30 * 24 * 3_600
# Words of a search, and letters of a word that count.
MEMORY_SEARCHED_WORDS_MAX = 20
MEMORY_WORD_CHARACTERS_MAX = 64
# Entries that a search gives: a model reads them all.
MEMORY_FOUND_DEFAULT = 10
MEMORY_FOUND_MAX = 100
# Deletions overwrite at once if all that is remembered is at most this large, which takes some tens of milliseconds;
# with more, once a minute.
MEMORY_ERASED_AT_ONCE_BYTES_MAX = 8 * 1024 * 1024
# Entries that have ended and are erased in one go.
MEMORY_FORGOTTEN_AT_ONCE_MAX = 1_000
