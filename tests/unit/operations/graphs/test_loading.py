"""Loads of many pieces are one commit or nothing, and exports are read page by page."""

from __future__ import annotations

import json
from typing import Any

from penstock.base import limits
from tests.unit.operations.conftest import Caller, OpenGate
from tests.unit.operations.graphs.crm import with_crm

MANY = limits.GRAPH_RECORDS_READ_AT_ONCE * 2 + 10


def users(count: int, first: int = 0) -> list[str]:
    return [
        json.dumps({"type": "User", "data": {"handle": f"u{number:05d}"}}) for number in range(first, first + count)
    ]


async def head(caller: Caller) -> str:
    return str((await caller.call("graph.commits_list", graph_id="crm", limit=1))["commits"][0]["commit_id"])


def test_a_load_of_several_pieces_is_one_commit(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        before = await head(caller)
        loaded = await caller.call("graph.load", graph_id="crm", data="\n".join(users(MANY)), mode="append")
        assert (loaded["total_entities"], loaded["commit"]["parent_id"]) == (MANY, before)

    with_crm(open_caller, test)


def test_mistakes_in_any_piece_are_listed_with_their_lines_and_nothing_is_loaded(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        before = await head(caller)
        lines = users(MANY)
        lines[3], lines[MANY - 1] = "{", '{"type": "Nobody", "data": {}}'
        refused = await caller.refusal("graph.load", graph_id="crm", data="\n".join(lines))
        problems: Any = refused.details["problems"]
        assert (refused.code, [item["line"] for item in problems]) == ("GRAPH_RECORDS_INVALID", [4, MANY])
        assert await head(caller) == before
        again = await caller.call("graph.load", graph_id="crm", data="\n".join(users(2)))
        assert again["total_entities"] == 2

    with_crm(open_caller, test)


def test_a_load_that_came_too_late_leaves_its_branch_to_others(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        record = users(1)[0]
        refused = await caller.refusal("graph.load", graph_id="crm", data=record, if_graph_commit="c_0")
        assert refused.code == "PRECONDITION_FAILED"
        assert (await caller.call("graph.load", graph_id="crm", data=record))["total_entities"] == 1

    with_crm(open_caller, test)


def test_the_pages_of_an_export_together_are_the_whole_of_one_commit(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        whole = await caller.call("graph.export", graph_id="crm")
        assert whole["next_cursor"] is None
        found, cursor = "", None
        while True:
            more: dict[str, Any] = {} if cursor is None else {"cursor": cursor}
            snapshot = whole["graph_commit_id"]
            page = await caller.call("graph.export", graph_id="crm", snapshot=snapshot, limit=2, **more)
            assert page["records"] == len(page["data"].splitlines()) <= 2
            found += page["data"]
            cursor = page["next_cursor"]
            await caller.call("graph.load", graph_id="crm", data="\n".join(users(1, len(found))))
            if cursor is None:
                break
        assert found == whole["data"]
        refused = await caller.refusal("graph.export", graph_id="crm", cursor="IkhlaWxvOjEi")
        assert refused.code == "INVALID_LIST_CURSOR"

    with_crm(open_caller, test)
