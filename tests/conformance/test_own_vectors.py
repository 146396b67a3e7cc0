"""A few vectors of our own through the real harness process: they also run where the published ones are not at hand.

Each is about what the published ones are about: what a schema refuses, what a signature covers, that a history is gone
on with and not begun again, and that the same steps are answered alike on every surface. The documents are ours.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.base.json import JsonObject
from tests.unit.definitions.documents import changed, minimal_published
from tests.waiting import SECONDS_MAX

Ask = Callable[..., Any]
ROOT = Path(__file__).parents[2]

DOUBLED: JsonObject = minimal_published(
    {"id": "work", "type": "step", "config": {"handler": "work"}},
    edges=[
        {"source": "__start__", "target": "begin"},
        {"source": "begin", "target": "work"},
        {"source": "work", "target": "finish"},
    ],
)


@pytest.fixture(scope="module", params=[(), ("--sqlite",)], ids=["memory", "sqlite"])
def ask(request: pytest.FixtureRequest) -> Iterator[Ask]:
    """What a harness answers to an operation."""
    command = [sys.executable, "-m", "tests.conformance.harness", *request.param]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        numbers = iter(range(1, 1_000))

        def asked(op: str, **given: Any) -> Any:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(json.dumps({"id": next(numbers), "op": op, **given}) + "\n")
            process.stdin.flush()
            answer = json.loads(process.stdout.readline())
            assert answer["ok"], answer
            return answer["value"]

        yield asked
        process.stdin.close()
        assert process.wait(SECONDS_MAX) == 0


@pytest.mark.parametrize(
    ("path", "value", "keyword"),
    [
        ("/nodes/0/type", "begin", "const"),
        ("/edges/0/target", "nobody", ""),
        ("/document/version", 3, "type"),
    ],
)
def test_a_document_is_refused_where_it_is_wrong(ask: Ask, path: str, value: Any, keyword: str) -> None:
    assert ask("validate", definition=DOUBLED) == {"ok": True}
    refused = ask("validate", definition=changed(DOUBLED, path, value))
    assert refused["ok"] is False
    assert any(keyword in error["keyword"] for error in refused["errors"]), refused


def test_a_signature_covers_the_document_and_nothing_else_passes_for_it(ask: Ask) -> None:
    signed = ask("sign_fixture", definition=DOUBLED, key_id="ours")
    definition, keys = signed["definition"], signed["public_keys"]

    def verified(document: JsonObject, mode: str = "require") -> tuple[bool, bool]:
        said = ask("verify_signature", definition=document, policy={"mode": mode}, public_keys=keys)
        return said["ok"], said["verified"]

    assert verified(definition) == (True, True)
    assert verified(changed(definition, "/nodes/1/config/handler", "other")) == (False, False)
    assert verified(DOUBLED, "optional") == (True, False)
    assert verified(DOUBLED) == (False, False)


def test_a_history_is_gone_on_with_and_not_begun_again(ask: Ask) -> None:
    def gone_on(given: list[JsonObject], output: int) -> tuple[Any, list[Any]]:
        """What comes of a history with a step that would give another number now, and the history then."""
        session = ask("open", surface="kernel", activity={"kind": "stub", "outputs": {"work": {"doubled": output}}})
        ask("append", session=session, execution_id="e", rows=given)
        done = ask("run", session=session, execution_id="e", definition=DOUBLED, input={"n": 21}, mode="in_process")
        found = ask("history", session=session, execution_id="e")
        ask("close", session=session)
        return done, [{name: row[name] for name in ("kind", "name", "payload")} for row in found]

    first, rows = gone_on([], 42)
    assert (first["status"], first["result"]) == ("completed", {"n": 21, "doubled": 42})
    for length in range(1, len(rows)):
        again, found = gone_on(rows[:length], 0)
        was_done = any(row["name"] == "ActivityCompleted" for row in rows[:length])
        assert again["result"] == {"n": 21, "doubled": 42 if was_done else 0}, length
        assert [row["name"] for row in found] == [row["name"] for row in rows], length


def test_the_same_steps_are_answered_alike_on_every_surface(ask: Ask) -> None:
    surfaces = ask("hello")["surfaces"]
    start = {"execution_id": "e", "definition": DOUBLED, "input": {"n": 21}}
    steps = [
        ("workflow_start", {**start, "activity_execution_mode": "host_mediated"}),
        ("workflow_start", start),  # a name is given once
        ("workflow_submit_activity", {**start, "node_id": "work", "outcome": {"ok": True, "result": {"x": 1}}}),
        ("workflow_status", {"execution_id": "e"}),
        ("workflow_status", {"execution_id": "nobody"}),
    ]
    answers = {}
    for surface in surfaces:
        session = ask("open", surface=surface, definition=DOUBLED)
        answers[surface] = [ask("call", session=session, tool=tool, args=given) for tool, given in steps]
        ask("close", session=session)
    first, *others = answers.values()
    assert [answer["is_error"] for answer in first] == [False, True, False, False, True], first
    assert all(other == first for other in others), answers
