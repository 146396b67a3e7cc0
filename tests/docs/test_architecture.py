"""The map of the project is true: its walks are those of a real call, and its pictures show every package."""

from __future__ import annotations

import ast
import asyncio
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import FrameType

import pytest

from docs.generator.floors import fewest_edges, with_pictures
from penstock import step
from penstock.app.gate import create_owner_key
from penstock.app.penstock import Penstock
from penstock.app.serving.server import ServerOptions, open_application
from tests.scenarios.test_mcp_crowds import modern
from tests.unit.rest.conftest import Client
from tests.waiting import SECONDS_MAX

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "penstock"
PAGE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
_PLACE = re.compile(r"`([\w/]+\.py):([\w.]+)`")
_STEP = re.compile(r"^\d+\. `([\w/]+\.py):([\w.]+)`", re.MULTILINE)
_FLOOR = re.compile(r"<!-- floor: (\w+) -->")
# They have no picture: there is nothing in them yet, or they are one file.
_WITHOUT_PICTURE = {"asgi", "html_form", "testing", "__main__"}


DOUBLE = {
    "penstock": "v1",
    "name": "double",
    "expose": {"tool": True},
    "input": {"type": "object", "properties": {"n": {"type": "integer"}}},
    "nodes": [
        {"id": "twice", "type": "step", "handler": "twice", "with": {"n": "${ .input.n }"}},
        {"id": "again", "type": "step", "handler": "twice", "with": {"n": "${ .twice }"}},
        {"id": "done", "type": "end", "output": "${ .again }"},
    ],
}


@step(name="twice")
def _twice(n: int) -> int:
    return 2 * n


class _Calls:
    """The functions of ours that are called, in any thread, in their order."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []
        self._is_on = False

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        if self._is_on and event == "call":
            _, ours, path = frame.f_code.co_filename.rpartition("/src/penstock/")
            if ours:
                self.seen.append((path, frame.f_code.co_qualname))

    @contextmanager
    def noted(self) -> Iterator[None]:
        self._is_on = True
        try:
            yield
        finally:
            self._is_on = False


@contextmanager
def _profiled() -> Iterator[_Calls]:
    calls = _Calls()
    threading.setprofile(calls)
    sys.setprofile(calls)
    try:
        yield calls
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


@pytest.fixture(scope="module")
def called(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, str]]:
    """What is called while an assistant calls a tool: a workflow with two steps that the server knows already."""
    path = tmp_path_factory.mktemp("architecture") / "penstock.db"

    async def body(calls: _Calls) -> None:
        async with (
            asyncio.timeout(SECONDS_MAX),
            Penstock.open(path, steps=[_twice]) as penstock,
            open_application(penstock, ServerOptions()) as (app, gate),
        ):
            key = await create_owner_key(gate)
            assert key is not None
            client = Client(app, gate, key)
            assert (await client("POST", "workflows", {"document": DOUBLE})).status == 201
            headers, message = modern("tools/call", {"name": "double", "arguments": {"n": 1}})
            headers |= {"accept": "application/json, text/event-stream", "host": "127.0.0.1"}
            # The first call compiles what the others find; who was idle for a while has to prove again who it is.
            assert b'"isError":true' not in (await client("POST", "/mcp", message, headers=headers)).body
            with calls.noted():
                answer = await client("POST", "/mcp", message, headers=headers)
            assert answer.status == 200
            assert b'"output":4' in answer.body, answer.body

    with _profiled() as calls:
        asyncio.run(body(calls))
    return calls.seen


def _section(heading: str) -> str:
    found = re.search(rf"^### {re.escape(heading)}\n(.*?)^##", PAGE, re.MULTILINE | re.DOTALL)
    assert found is not None, heading
    return found[1]


@cache
def _names(path: str) -> frozenset[str]:
    """The qualified names of functions and classes in a file."""

    def walk(body: list[ast.stmt], above: str) -> list[str]:
        found = []
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                found += [above + node.name, *walk(node.body, f"{above}{node.name}.")]
        return found

    return frozenset(walk(ast.parse((SOURCE / path).read_text(encoding="utf-8")).body, ""))


@pytest.mark.parametrize(("path", "name"), sorted(set(_PLACE.findall(PAGE))))
def test_what_the_map_names_exists(path: str, name: str) -> None:
    assert (SOURCE / path).is_file(), f"src/penstock/{path} is gone"
    assert name in _names(path), f"src/penstock/{path} has no {name}"


@pytest.mark.parametrize(("walk", "steps_min"), [("A `tools/call`", 15), ("A durable step", 12)])
def test_each_walk_is_a_numbered_list_of_files_and_functions(walk: str, steps_min: int) -> None:
    steps = re.findall(r"^(\d+)\. (.*)", _section(walk), re.MULTILINE)
    assert [int(number) for number, _ in steps] == list(range(1, len(steps) + 1))
    assert len(_STEP.findall(_section(walk))) == len(steps) >= steps_min


@pytest.mark.parametrize("walk", ["A `tools/call`", "A durable step"])
def test_a_real_call_passes_each_walk_in_its_order(walk: str, called: list[tuple[str, str]]) -> None:
    left = iter(called)
    for number, (path, name) in enumerate(_STEP.findall(_section(walk)), 1):
        assert (path, name) in left, f"step {number}: {path}:{name} is not called, or not after the step before"


def test_every_package_has_a_picture() -> None:
    packages = {path.parent.name for path in SOURCE.glob("*/__init__.py")} | {path.stem for path in SOURCE.glob("*.py")}
    assert set(_FLOOR.findall(PAGE)) == packages - _WITHOUT_PICTURE - {"__init__"}


def test_the_pictures_are_those_of_this_tree() -> None:
    assert with_pictures(PAGE) == PAGE, "run scripts/docs"


def test_an_arrow_that_follows_from_others_is_not_drawn() -> None:
    edges = {"a": {"b", "c", "d"}, "b": {"c"}, "c": {"d"}, "d": set[str]()}
    assert fewest_edges(edges) == {"a": {"b"}, "b": {"c"}, "c": {"d"}, "d": set()}
