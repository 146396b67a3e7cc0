"""The history of a graph: what is removed of it for good, and what stays."""

from __future__ import annotations

import pytest

from penstock.base import limits
from tests.unit.operations.conftest import Caller, OpenGate
from tests.unit.operations.graphs.crm import with_crm


async def closed(caller: Caller) -> list[str]:
    """Change a task three times; return the commits of main, oldest first."""
    for slug in ("t1", "t2", "t1"):
        await caller.call("graph.query_run", graph_id="crm", name="close_task", params={"slug": slug})
    listed = (await caller.call("graph.commits_list", graph_id="crm", branch="main"))["commits"]
    return [commit["commit_id"] for commit in reversed(listed)]


def test_old_versions_are_removed_in_pieces_and_what_branches_show_stays(
    open_caller: OpenGate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "GRAPH_SWEEP_ROWS_MAX", 1)

    async def test(caller: Caller) -> None:
        commits = await closed(caller)
        now = await caller.call("graph.export", graph_id="crm")
        before = await caller.call("graph.export", graph_id="crm", snapshot=commits[1])
        assert before != now
        kept = await caller.call("graph.collect", graph_id="crm", keep_days=1)
        assert kept["versions_removed"] == 0
        removed = await caller.call("graph.collect", graph_id="crm", keep_days=0)
        assert removed["versions_removed"] == 3
        assert await caller.call("graph.export", graph_id="crm") == now
        refused = await caller.refusal("graph.export", graph_id="crm", snapshot=commits[1])
        assert refused.code == "COMMIT_NOT_FOUND"
        listed = await caller.call("graph.commits_list", graph_id="crm", branch="main")
        assert len(listed["commits"]) == len(commits)

    with_crm(open_caller, test)


def test_commits_that_are_kept_by_name_can_still_be_read(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        commits = await closed(caller)
        before = await caller.call("graph.export", graph_id="crm", snapshot=commits[1])
        kept = await caller.call("graph.collect", graph_id="crm", keep_days=0, keep_commits=[commits[1]])
        assert kept["versions_removed"] == 0
        assert await caller.call("graph.export", graph_id="crm", snapshot=commits[1]) == before
        unknown = await caller.refusal("graph.collect", graph_id="crm", keep_days=0, keep_commits=["c_unknown"])
        assert unknown.code == "COMMIT_NOT_FOUND"

    with_crm(open_caller, test)
