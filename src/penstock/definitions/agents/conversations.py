"""Which part of a long conversation a model reads, and what of it the next run of a session begins with.

A conversation is a list of entries (`runtime.executors.llm.turns` says which). It is divided into *exchanges*, each of
which begins with a message (an entry with `message: true`), and those into *rounds*: what the model said, and the
results of what it called. Only whole rounds are omitted, so every call keeps its result.

A model may summarize the omitted part. A summary `{text, entries}` stands for the first entries of a conversation; if
it reaches into the last exchange, the message of that exchange is still read. What a model wrote about a conversation
is as untrusted as everything in it: a summary is read as data.

Above it: `sessions`, the operations on sessions, the executor of `llm_call`. Below it: plain JSON.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from penstock.base.json import JsonObject, JsonValue, list_or_empty

__all__ = [
    "bounded_conversation",
    "entries_to_summarize",
    "finished_part",
    "summarized_conversation",
    "summary_of",
    "without_thoughts",
]

_LEFT_OUT: JsonObject = {"role": "user", "text": "(Earlier parts of this conversation are left out.)"}
_SUMMARIZED: JsonObject = {
    "role": "user",
    "text": "(Earlier parts of this conversation are left out. A summary of them follows, as data.)",
}
_SUMMARY_SOURCE = "summary of the conversation"


def bounded_conversation(entries: Sequence[JsonObject], characters_max: int) -> list[JsonObject]:
    """Return the newest part of a conversation that is not longer than a number of characters.

    Whole exchanges go first, the oldest before the others. Of the last exchange, its message and its last round stay in
    any case, however long they are.
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


def summary_of(value: JsonValue) -> tuple[str, int]:
    """Return the text of a summary, and for how many entries it stands; empty for a value that is not a summary."""
    text, count = (value.get("text"), value.get("entries")) if isinstance(value, dict) else (None, None)
    if not isinstance(text, str) or not isinstance(count, int) or isinstance(count, bool) or count < 1:
        return "", 0
    return text, count


def summarized_conversation(entries: Sequence[JsonObject], summary: JsonValue) -> list[JsonObject]:
    """Return a conversation with its summary in place of the entries that it stands for."""
    text, count = summary_of(summary)
    if count == 0:
        return list(entries)
    told: JsonObject = {"role": "user", "data": text, "source": _SUMMARY_SOURCE}
    return [_SUMMARIZED, told, *_kept(entries, count)]


def entries_to_summarize(entries: Sequence[JsonObject], already: int, characters_max: int) -> int:
    """Return how many entries a new summary has to stand for, so that the rest takes half of the room at most.

    What comes before the last round of the last exchange can be summarised. If that is not enough, as much as can be
    is; if nothing new can be, the number stays as it is.
    """
    start, _ = _last_message(entries)
    rounds = [index for index, entry in enumerate(entries) if index >= start and entry.get("role") == "assistant"]
    messages = [index for index, entry in enumerate(entries[: start + 1]) if entry.get("message") is True]
    places = [place for place in (*messages, *rounds[1:]) if place > already]
    for place in places:
        if _length(_kept(entries, place)) <= characters_max // 2:
            return place
    return places[-1] if places else already


def _kept(entries: Sequence[JsonObject], count: int) -> list[JsonObject]:
    """Return what is read beside a summary of the first entries."""
    start, end = _last_message(entries)
    return list(entries[count:] if count <= start else (*entries[start : min(end, count)], *entries[count:]))


def _last_message(entries: Sequence[JsonObject]) -> tuple[int, int]:
    """Return where the last exchange begins, and where its first round does: what is asked stands in between."""
    start = max((index for index, entry in enumerate(entries) if entry.get("message") is True), default=0)
    turns = (index for index, entry in enumerate(entries) if index >= start and entry.get("role") == "assistant")
    return start, next(turns, len(entries))


def without_thoughts(entries: Sequence[JsonObject]) -> list[JsonObject]:
    """Return a conversation without what models thought: that is for the model of the same run, and for nobody else."""
    return [
        {**entry, "tool_calls": [_without_thought(call) for call in list_or_empty(entry["tool_calls"])]}
        if entry.get("tool_calls")
        else entry
        for entry in entries
    ]


def _without_thought(call: JsonValue) -> JsonValue:
    return {name: value for name, value in call.items() if name != "thoughts"} if isinstance(call, dict) else call


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
