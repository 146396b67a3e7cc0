"""Which part of a long conversation a model reads, and what of it the next run of a session begins with.

A conversation is a list of entries (`runtime.executors.llm.turns` says which). It is divided into *exchanges*, each of
which begins with a message (an entry with `message: true`), and those into *rounds*: what the model said, and the
results of what it called. Nothing smaller than a round is left out, so no call is ever without its result.

Above it: `sessions`, the operations on sessions, the executor of `llm_call`. Below it: plain JSON.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from penstock.base.json import JsonObject, JsonValue

__all__ = ["bounded_conversation", "finished_part"]

_LEFT_OUT: JsonObject = {"role": "user", "text": "(Earlier parts of this conversation are left out.)"}


def bounded_conversation(entries: Sequence[JsonObject], characters_max: int) -> list[JsonObject]:
    """Return the newest part of a conversation that is not longer than a number of characters.

    Whole exchanges are left out first, the oldest before the others. Of the last exchange, its message and its last
    round stay in any case, however long they are.
    """
    if _length(entries) <= characters_max:
        return list(entries)
    room = characters_max - _length((_LEFT_OUT,))
    exchanges = _exchanges(entries)
    last = exchanges.pop()
    kept: list[JsonObject] = []
    room -= _length(last)
    if room < 0:
        return [_LEFT_OUT, *_shortened(last, room + _length(last))]
    while exchanges and _length(exchanges[-1]) <= room:
        exchange = exchanges.pop()
        room -= _length(exchange)
        kept = [*exchange, *kept]
    return [_LEFT_OUT, *kept, *last]


def finished_part(entries: JsonValue) -> list[JsonObject]:
    """Return a conversation without a last round that was not finished: calls whose results never came."""
    found = [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
    place = max((index for index, entry in enumerate(found) if entry.get("role") == "assistant"), default=None)
    if place is None:
        return found
    calls = found[place].get("tool_calls")
    asked = {call.get("id") for call in calls if isinstance(call, dict)} if isinstance(calls, list) else set()
    returned = {entry.get("id") for entry in found[place + 1 :] if entry.get("role") == "tool"}
    return found if asked <= returned else found[:place]


def _length(entries: Sequence[JsonObject]) -> int:
    return sum(len(json.dumps(entry, ensure_ascii=False)) for entry in entries)


def _exchanges(entries: Sequence[JsonObject]) -> list[list[JsonObject]]:
    found: list[list[JsonObject]] = [[]]
    for entry in entries:
        if entry.get("message") is True and found[-1]:
            found.append([])
        found[-1].append(entry)
    return found


def _shortened(exchange: list[JsonObject], room: int) -> list[JsonObject]:
    """Return an exchange without its oldest rounds; what comes before the first round stays, and the last round."""
    starts = [index for index, entry in enumerate(exchange) if entry.get("role") == "assistant"]
    if not starts:
        return exchange
    head = exchange[: starts[0]]
    rounds = [exchange[start:end] for start, end in zip(starts, [*starts[1:], len(exchange)], strict=True)]
    kept = rounds.pop()
    room -= _length(head) + _length(kept)
    while rounds and _length(rounds[-1]) <= room:
        found = rounds.pop()
        room -= _length(found)
        kept = [*found, *kept]
    return [*head, *kept]
