"""The shipped example: an agent proposes on a branch, a person approves the difference, the workflow merges."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import yaml

from penstock.app.serving.server import ServerOptions
from penstock.app.settings.graphs import GraphSettings
from tests.unit.rest.conftest import Client, opened
from tests.waiting import until_found

pytestmark = pytest.mark.anyio
EXAMPLES = Path(__file__).parents[2] / "examples"
GRAPH = EXAMPLES / "graphs" / "crm"
# What its own workflows do for an agent, the agent does not do by itself.
POLICY = (
    '@id("others") permit (principal, action, resource) unless { principal is Agent };\n'
    '@id("starts") permit (principal is Agent, action == Action::"workflow:close_task_reviewed", resource);\n'
    '@id("executes") permit (principal is Agent, action == Action::"workflow.execute", resource);\n'
    '@id("by-workflow") permit (principal is Agent, action, resource) when { context.surface == "run" };\n'
)


@asynccontextmanager
async def served(folder: Path) -> AsyncIterator[Client]:
    (folder / "policies.cedar").write_text(POLICY, encoding="utf-8")
    graph = GraphSettings(schema=str(GRAPH / "schema.pg"), queries=(str(GRAPH / "queries"),))
    options = ServerOptions(graphs={"crm": graph}, policy_files=(str(folder / "policies.cedar"),))
    async with opened(folder, options) as client:
        data = (GRAPH / "seed.jsonl").read_text(encoding="utf-8")
        assert (await client("POST", "graphs/crm/load", {"data": data})).status == 200
        document = yaml.safe_load((EXAMPLES / "graph-review.yaml").read_text(encoding="utf-8"))
        assert (await client("POST", "workflows", {"document": document})).status == 201
        yield client


NUMBERS = count()


async def new_key(client: Client, kind: str, *scopes: str, **more: Any) -> str:
    made = await client(
        "POST",
        "keys",
        {"name": kind, "kind": kind, "subject": f"machine:{next(NUMBERS)}", "scopes": list(scopes), **more},
    )
    assert made.status == 201, made
    return str(made.json()["secret"])


async def started(client: Client, key: str, slug: str) -> str:
    begun = await client("POST", "workflows/close_task_reviewed/executions", {"input": {"slug": slug}}, key=key)
    assert begun.status in (200, 201, 202), begun
    return str(begun.json()["execution_id"])


async def settled(client: Client, run: str, *, asks: bool = False) -> Any:
    """The run once it has ended, or (`asks`) asks somebody."""

    async def look() -> Any:
        found = (await client("GET", f"executions/{run}")).json()
        is_there = found["status"] in ("completed", "failed", "cancelled")
        return found if is_there or (asks and found["waiting_for"]["questions"]) else None

    return await until_found(look)


async def state_of(client: Client, slug: str) -> list[str]:
    found = await client("POST", "graphs/crm/queries/tasks_of", {"params": {"owner": "ada"}})
    return [row["task"] for row in found.json()["rows"] if row["task"] == slug]


async def test_a_reviewed_change_is_merged_and_the_agent_could_not_do_it_alone(tmp_path: Path) -> None:
    async with served(tmp_path) as client:
        agent = await new_key(client, "agent", "workflow:run", "execution:read", "graph:*")
        alone = await client("POST", "graphs/crm/branches", {"name": "mine"}, key=agent)
        assert alone.json()["code"] == "POLICY_DENIED"
        run = await started(client, agent, "call-acme")
        waiting = await settled(client, run, asks=True)
        assert "updated Task call-acme" in str(waiting["waiting_for"]), waiting["error"]
        assert await state_of(client, "call-acme") == ["call-acme"]
        reviewer = await new_key(client, "person", "*", groups=["reviewers"])
        answered = await client("POST", f"executions/{run}/answers", {"answer": {"approve": True}}, key=reviewer)
        assert answered.status == 200, answered
        ended = await settled(client, run)
        assert ended["output"] == {"merged": True, "changes": 1}, ended
        assert await state_of(client, "call-acme") == []
        commits = (await client("GET", "graphs/crm/commits")).json()["commits"]
        assert (commits[0]["message"], commits[0]["actor_id"].startswith("key:")) == ("reviewed: call-acme", True)
        audit = (await client("GET", "audit?operation=graph.branches_merge")).json()["items"]
        assert [record["surface"] for record in audit] == ["run"]


async def test_a_branch_that_moved_on_after_the_review_is_not_merged(tmp_path: Path) -> None:
    async with served(tmp_path) as client:
        run = await started(client, await new_key(client, "person", "*"), "call-acme")
        await settled(client, run, asks=True)
        branches = (await client("GET", "graphs/crm/branches")).json()["branches"]
        name = next(item["name"] for item in branches if item["name"] != "main")
        moved = {"params": {"slug": "renew-acme"}, "branch": name}
        assert (await client("POST", "graphs/crm/queries/close_task", moved)).status == 200
        reviewer = await new_key(client, "person", "*", groups=["reviewers"])
        answered = await client("POST", f"executions/{run}/answers", {"answer": {"approve": True}}, key=reviewer)
        assert answered.status == 200, answered
        ended = await settled(client, run)
        assert ended["error"]["code"] == "PRECONDITION_FAILED", ended


async def test_a_key_that_was_revoked_reaches_no_graph_through_its_runs(tmp_path: Path) -> None:
    async with served(tmp_path) as client:
        made = (
            await client("POST", "keys", {"name": "p", "kind": "person", "subject": "person:p", "scopes": ["*"]})
        ).json()
        run = await started(client, made["secret"], "call-acme")
        await settled(client, run, asks=True)
        await client("POST", f"keys/{made['key']['id']}/revoke", {})
        reviewer = await new_key(client, "person", "*", groups=["reviewers"])
        answered = await client("POST", f"executions/{run}/answers", {"answer": {"approve": True}}, key=reviewer)
        assert answered.status == 200, answered
        ended = await settled(client, run)
        assert ended["error"]["code"] == "KEY_REVOKED", ended
