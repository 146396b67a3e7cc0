"""Answers for people: tables, YAML and lines, none of which can steer a terminal."""

import re
import sys

import pytest

from penstock.base.json import JsonObject, JsonValue
from penstock.cli.terminal.answers import print_answer, print_event
from penstock.client.events import StreamEvent


def shown(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().out


def test_a_list_is_a_table_without_what_nobody_has(capsys: pytest.CaptureFixture[str]) -> None:
    items: list[JsonValue] = [
        {"id": "a", "hash": "0" * 64, "url": "/a", "title": None, "paused": True, "scopes": ["x", "y"]},
        {"id": "long name", "hash": "1" * 64, "url": "/b", "title": None, "paused": False, "scopes": []},
    ]
    print_answer({"items": items, "next_cursor": "c2"})
    lines = shown(capsys).splitlines()
    assert lines[0].split() == ["id", "hash", "paused", "scopes"]
    assert lines[1].split() == ["a", "0" * 12, "yes", '["x",', '"y"]']
    assert lines[2].split() == ["long", "name", "1" * 12, "no", "[]"]
    assert lines[3] == "more: --cursor c2"


def test_an_audit_record_is_shown_without_what_links_it_to_others(capsys: pytest.CaptureFixture[str]) -> None:
    record: JsonValue = {
        "seq": 1,
        "operation": "key.create",
        "salt": "0" * 32,
        "previous_hash": "1" * 64,
        "hash": "2" * 64,
    }
    print_answer({"items": [record]})
    assert shown(capsys).splitlines()[0].split() == ["seq", "operation"]


@pytest.mark.parametrize(
    ("width", "columns"), [(8, ["id"]), (9, ["id"]), (18, ["id", "name"]), (19, ["id", "name", "x"])]
)
def test_a_column_that_a_terminal_has_no_room_for_is_named_instead(
    width: int, columns: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    print_answer({"items": [{"id": "a" * 9, "name": "b" * 5, "x": 1}]})
    text = re.sub(r"\x1b\[[0-9;]*m", "", shown(capsys))
    assert text.splitlines()[0].split() == columns
    hidden = [name for name in ("id", "name", "x") if name not in columns]
    assert ("too wide" in text, all(name in text for name in hidden)) == (bool(hidden), True)


def test_a_sentence_becomes_shorter_before_a_column_is_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    print_answer({"items": [{"id": "a" * 9, "title": "Refund 180 for order A-7? It waits for a person.", "x": 1}]})
    heading, row, *more = re.sub(r"\x1b\[[0-9;]*m", "", shown(capsys)).splitlines()
    assert heading.split() == ["id", "title", "x"]
    assert row.startswith("aaaaaaaaa  Refund 180 for order A-7")
    assert "…" in row
    assert len(row) <= 40
    assert more == []


def test_rows_of_a_graph_are_a_table_with_the_version_that_was_read(capsys: pytest.CaptureFixture[str]) -> None:
    answer: dict[str, JsonValue] = {"query_name": "q", "target": {"branch": "main"}, "graph_commit_id": "c_1"}
    print_answer({**answer, "columns": [], "rows": [{"t.name": "Data", "people": 1}], "more": True})
    assert [line.split() for line in shown(capsys).splitlines()[:2]] == [["t.name", "people"], ["Data", "1"]]
    print_answer({**answer, "columns": [], "rows": [], "more": False})
    assert shown(capsys) == "0 rows · branch main at c_1\n"


def test_an_empty_list_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    print_answer({"items": [], "next_cursor": None})
    assert shown(capsys) == "nothing to list\n"


def test_other_answers_are_yaml(capsys: pytest.CaptureFixture[str]) -> None:
    print_answer({"id": "a", "nested": {"list": [1, None]}})
    assert shown(capsys) == "id: a\nnested:\n  list:\n  - 1\n  - null\n"


def test_nothing_steers_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    evil = "\x1b[2Jgone\u202e"
    print_answer({"items": [{"id": evil}], "next_cursor": evil})
    print_answer({"id": evil, evil: 1})
    print_event(StreamEvent(event="output", data={"at": evil, "output": evil}))
    assert "\x1b" not in shown(capsys)


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (StreamEvent(event="status", data={"at": "T", "status": "running"}), "T  status   running"),
        (
            StreamEvent(event="node", data={"at": "T", "node_id": "pay", "phase": "started", "attempt": 2}),
            "T  node     pay started (attempt 2)",
        ),
        (StreamEvent(event="error", data={"at": "T", "code": "X", "message": "no"}), "T  error    X no"),
        (StreamEvent(event="output", data={"at": "T", "output": {"a": 1}}), 'T  output   {"a": 1}'),
        (StreamEvent(event="progress", data={"at": "T", "value": 0.5}), 'T  progress {"value": 0.5}'),
    ],
    ids=lambda value: value.event if isinstance(value, StreamEvent) else "",
)
def test_an_event_is_one_line(event: StreamEvent, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    print_event(event)
    assert shown(capsys) == f"{words}\n"


def test_who_wrote_something_is_told_in_words_with_the_draft(capsys: pytest.CaptureFixture[str]) -> None:
    robot: JsonObject = {"principal": "key:robot", "kind": "agent", "accepted_by": [], "by_model": False, "look": None}
    items: list[JsonValue] = [
        {"id": "a", "author": {**robot, "status": "proposed", "draft_id": None}},
        {"id": "b", "author": {**robot, "status": "accepted", "draft_id": "r_1"}},
        {"id": "c", "author": {**robot, "principal": "os:ada", "status": "trusted", "draft_id": None}},
        {"id": "d", "author": None},
    ]
    print_answer({"items": items, "next_cursor": None, "proposals": []})
    shown = capsys.readouterr().out
    assert "proposed by key:robot" in shown
    assert "accepted, by key:robot, draft r_1" in shown
    assert "os:ada" in shown
    assert "{" not in shown
    assert "proposals" not in shown


def test_proposals_come_after_a_list_with_the_command_that_looks_at_them(capsys: pytest.CaptureFixture[str]) -> None:
    proposal: JsonValue = {
        "draft_id": "r_1",
        "operation": "workflow.create",
        "name": "greet",
        "proposed_by": "key:robot",
        "proposed_at": "2026-01-01T00:00:00Z",
        "look": "/drafts/r_1",
    }
    print_answer({"items": [], "next_cursor": None, "proposals": [proposal]})
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "nothing to list"
    assert lines[1] == "proposed, not stored yet; look at one with `penstock approval review DRAFT_ID`:"
    assert lines[2].split() == ["draft_id", "operation", "name", "proposed_by", "proposed_at"]
    assert "r_1" in lines[3]


def test_what_waits_and_what_was_decided_are_rows_that_somebody_can_read(capsys: pytest.CaptureFixture[str]) -> None:
    waiting: JsonValue = {
        "kind": "question",
        "id": "r_1",
        "title": "pay",
        "asked_by": "key:k1",
        "asked_by_name": "Bo Berg",
        "decidable": True,
        "question": {"prompt": "Pay 5?"},
        "draft": None,
    }
    print_answer({"items": [waiting], "next_cursor": None})
    lines = shown(capsys).splitlines()
    assert lines[0].split() == ["for", "kind", "id", "what", "asked", "by"]
    assert lines[1].split() == ["you", "question", "r_1", "pay:", "Pay", "5?", "Bo", "Berg"]
    decision: JsonValue = {"decision": "declined", "by": "key:k2", "name": "Ana Lima", "at": "T", "prompt": "Pay 5?"}
    print_answer(
        {"items": [{"kind": "question", "id": "r_1", "title": "pay", "decision": decision, "status": "failed"}]}
    )
    lines = shown(capsys).splitlines()
    assert lines[0].split() == ["decision", "by", "at", "kind", "what", "status", "id"]
    assert lines[1].split()[:3] == ["declined", "Ana", "Lima"]


def test_a_list_of_drafts_says_who_decides_about_each_and_what_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    draft: JsonObject = {
        "id": "r_1",
        "status": "waiting",
        "operation": "query:crm/close_task",
        "title": "Close task",
        "digest": "0" * 64,
        "question": {"prompt": "May the agent root call query:crm/close_task?\nArguments: {}"},
        "decidable": True,
        "requester_name": "root",
        "expires_at": "2030-01-01T00:00:00.000Z",
    }
    print_answer({"items": [draft]})
    head, row = shown(capsys).splitlines()
    assert head.split() == ["for", "kind", "id", "what", "asked", "by", "expires"]
    assert row.split() == ["you", "call", "r_1", "Close", "task", "root", "2030-01-01T00:00:00.000Z"]
