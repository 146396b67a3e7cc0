"""Long conversations are shortened by whole rounds: calls stay with their results."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.agents.conversations import (
    bounded_conversation,
    entries_to_summarize,
    finished_part,
    summarized_conversation,
)

NOTE = "(Earlier parts of this conversation are left out.)"


def asked(text: str) -> JsonObject:
    return {"role": "user", "text": text, "message": True}


def answered(text: str, *ids: str) -> JsonObject:
    return {
        "role": "assistant",
        "text": text,
        "tool_calls": [{"id": name, "name": "t", "arguments": {}} for name in ids],
    }


def result(name: str, content: str = "r") -> JsonObject:
    return {"role": "tool", "id": name, "name": "t", "content": content}


def length(entries: list[JsonObject]) -> int:
    return sum(len(json.dumps(entry, ensure_ascii=False)) for entry in entries)


def test_what_fits_stays_as_it_is() -> None:
    said = [asked("a"), answered("b")]
    assert bounded_conversation(said, 1000) == said


def test_the_oldest_exchange_goes_first_and_is_named_as_left_out() -> None:
    said = [asked("a" * 300), answered("b"), asked("c"), answered("d", "1"), result("1"), answered("e"), asked("f")]
    found = bounded_conversation(said, 500)
    assert found[0]["text"] == NOTE
    assert found[1:] == said[2:]


def test_of_the_last_exchange_the_message_and_the_last_round_stay() -> None:
    said = [asked("a"), answered("b", "1"), result("1", "x" * 900), answered("c", "2"), result("2", "y" * 900)]
    found = bounded_conversation(said, 1000)
    assert [entry.get("text", entry.get("id")) for entry in found] == [NOTE, "a", "c", "2"]


def test_a_note_is_not_repeated() -> None:
    said = [asked("a" * 300), answered("b"), asked("c" * 300), answered("d")]
    once = bounded_conversation(said, 500)
    again = bounded_conversation([*once, asked("e" * 300)], 700)
    assert [entry.get("text") == NOTE for entry in again].count(True) == 1


def test_a_round_without_all_of_its_results_is_not_finished() -> None:
    said: list[JsonObject] = [asked("a"), answered("b", "1"), result("1"), answered("c", "2", "3"), result("2")]
    assert finished_part([*said]) == said[:3]
    assert finished_part([*said, result("3")]) == [*said, result("3")]
    assert finished_part([asked("a")]) == [asked("a")]
    assert finished_part(None) == []


EXCHANGES = st.lists(
    st.tuples(st.text(max_size=80), st.lists(st.lists(st.text(max_size=80), max_size=3), max_size=4)),
    min_size=1,
    max_size=6,
)


@given(EXCHANGES, st.integers(200, 2000))
def test_no_call_is_without_its_result_and_no_result_without_its_call(
    exchanges: list[tuple[str, list[list[str]]]], characters: int
) -> None:
    said: list[JsonObject] = []
    for place, (message, rounds) in enumerate(exchanges):
        said.append(asked(message))
        for number, results in enumerate(rounds):
            ids = [f"{place}.{number}.{index}" for index in range(len(results))]
            said.append(answered("", *ids))
            said.extend(result(name, content) for name, content in zip(ids, results, strict=True))
    found = bounded_conversation(said, characters)
    calls = [call["id"] for entry in found for call in entry.get("tool_calls", []) if isinstance(call, dict)]  # type: ignore[union-attr]  # made above
    assert calls == [entry["id"] for entry in found if entry["role"] == "tool"]
    last = max(index for index, entry in enumerate(said) if entry.get("message") is True)
    assert said[last] in found
    if length(found) > characters:
        # Only the message and its last round are left, and they are longer by themselves.
        assert sum(entry.get("message") is True for entry in found) == 1
        assert sum(entry["role"] == "assistant" for entry in found) <= 1
    if found != said:
        assert found[0]["text"] == NOTE
        assert found[-1] == said[-1]


def test_a_summary_is_read_as_data_in_place_of_the_entries_that_it_stands_for() -> None:
    said = [asked("a"), answered("b"), asked("c"), answered("d")]
    note, told, *rest = summarized_conversation(said, {"text": "They said b.", "entries": 2})
    assert "summary" in str(note["text"])
    assert (told["data"], "text" in told) == ("They said b.", False)
    assert rest == said[2:]
    none: list[JsonValue] = [None, {}, {"text": "", "entries": 0}, {"text": 1, "entries": 2}]
    none.append({"text": "b", "entries": True})
    for nothing in none:
        assert summarized_conversation(said, nothing) == said


def test_the_message_of_the_last_exchange_is_read_also_if_its_rounds_are_summarised() -> None:
    said = [asked("a"), answered("b", "1"), result("1", "x" * 900), answered("c", "2"), result("2", "y" * 900)]
    count = entries_to_summarize(said, 0, 1000)
    assert count == 3
    assert summarized_conversation(said, {"text": "s", "entries": count})[2:] == [said[0], *said[3:]]
    assert entries_to_summarize(said, count, 1000) == count  # there is nothing more to summarise
    assert entries_to_summarize(said[:3], 0, 100) == 0  # the only round stays


def test_as_little_is_summarised_as_leaves_half_of_the_room() -> None:
    said = [asked("a" * 400), answered("b"), asked("c" * 400), answered("d"), asked("e" * 100), answered("f")]
    assert entries_to_summarize(said, 0, 2000) == 2
    assert entries_to_summarize(said, 0, 1000) == 4
    assert entries_to_summarize(said, 2, 2000) == 4  # a new summary stands for more than the one before


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 300)), min_size=1, max_size=12),
    st.integers(100, 3000),
    st.integers(0, 20),
)
def test_no_call_is_parted_from_its_result_by_a_summary(
    exchanges: list[tuple[int, int]], most: int, already: int
) -> None:
    said: list[JsonObject] = []
    for number, (rounds, size) in enumerate(exchanges):
        said.append(asked(f"{number} " + "q" * size))
        for one in range(rounds):
            said += [answered("", f"{number}.{one}"), result(f"{number}.{one}", "r" * size)]
        said.append(answered("a" * size))
    before = entries_to_summarize(said, 0, most) if already else 0
    count = entries_to_summarize(said, before, most)
    assert before <= count < len(said)
    if count:
        kept = summarized_conversation(said, {"text": "s", "entries": count})[2:]
        assert kept[-1] == said[-1]
        assert said[-1 - next(i for i, e in enumerate(reversed(said)) if e.get("message"))] in kept
        made = {call["id"] for entry in kept for call in entry.get("tool_calls", [])}  # type: ignore[union-attr, index, call-overload]  # built above
        assert {entry["id"] for entry in kept if entry["role"] == "tool"} == made
