"""The synchronous client, generated from the asynchronous one: calls are written once, in `client/asynchronous`.

A module of the synchronous client is the asynchronous one without `async` and `await`, and with the names below in
place of those for an event loop. httpcore and psycopg generate their clients in the same way.
"""

import re

__all__ = ["sync_source"]

# What differs besides the keywords: names of libraries and of ours. If one begins with another, the longer comes first.
_NAMES = {
    "asyncio.get_running_loop().time": "time.monotonic",
    "asyncio": "time",
    "aread": "read",
    "aiter_bytes": "iter_bytes",
    "aclose": "close",
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "penstock.client.asynchronous": "penstock.client.sync",
    "penstock.client.generated.asynchronous": "penstock.client.generated.sync",
}
# Sentences that are true of one kind of client only.
_SENTENCES = {
    "that are awaited:": "that wait for their answer:",
    "calls are awaited.": "calls wait for their answer.",
    ", awaited.": ", typed.",
    ", awaited:": ":",
    "Calls by name, for one event loop. Close it, or use it in an `async with` statement.": (
        "Calls by name. Threads may share it; close it, or use it in a `with` statement."
    ),
    "A server, for one event loop. Without arguments it is the one in PENSTOCK_SERVER, with PENSTOCK_API_KEY.": (
        "A server. Without arguments it is the one in PENSTOCK_SERVER, with the key in PENSTOCK_API_KEY."
    ),
}
_KEYWORDS = re.compile(r"\b(?:async|await) ")
_ASYNC_CLASS = re.compile(r"\bAsync(?=[A-Z])")
_ASYNC_LINT = re.compile(r"  # noqa: ASYNC\d+.*")
_YIELD_LOOP = re.compile(r"for (\w+) in (.+):\n +yield \1\n")


def sync_source(source: str) -> str:
    """The source of a synchronous module, from the source of the asynchronous one."""
    for ours, theirs in _SENTENCES.items():
        source = source.replace(ours, theirs)
    for ours, theirs in _NAMES.items():
        source = re.sub(rf"(?<!\w){re.escape(ours)}(?!\w)", theirs, source)
    source = _ASYNC_LINT.sub("", _ASYNC_CLASS.sub("", _KEYWORDS.sub("", source)))
    return _YIELD_LOOP.sub(r"yield from \2\n", source)
