"""`query` nodes act for whoever started the run, with the rights of that moment, and wait for approvals."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from penstock.app.gate import local_owner, open_gate
from penstock.app.penstock import Penstock
from penstock.app.pipe_principal import PipePrincipal
from penstock.app.settings.identity import PipeSettings
from penstock.operations.gate.context import Credentials, GateLimits, ServerParts
from penstock.operations.gate.pipeline import RefusedCall
from tests.issuers import Issuer, IssuerDirectory
from tests.unit.app.test_pipe_principal import settings
from tests.unit.operations.conftest import Caller
from tests.unit.operations.graphs.crm import stored
from tests.unit.operations.running import ended, status
from tests.waiting import SECONDS_MAX, until_found

pytestmark = pytest.mark.anyio
ISSUER = Issuer()
SCOPES = "workflow:run execution:read graph:run graph:read graph:write"
CLOSE = {"id": "close", "type": "query", "graph": "crm", "query": "close_task", "params": {"slug": "t1"}}
DONE = {"id": "done", "type": "end", "output": "${ .close.affected_nodes }"}
ASK: dict[str, Any] = {
    "id": "ask",
    "type": "interrupt",
    "message": "Close it?",
    "answer": {"type": "object"},
}
DIRECT = {"penstock": "v1", "name": "direct", "nodes": [CLOSE, DONE]}
ASKS_FIRST = {"penstock": "v1", "name": "asks_first", "nodes": [ASK, CLOSE, DONE]}
PARENT = {
    "penstock": "v1",
    "name": "parent",
    "nodes": [{"id": "close", "type": "subworkflow", "workflow": "direct", "input": {}}, {"id": "done", "type": "end"}],
}


@asynccontextmanager
async def opened(
    folder: Path, *, protected: bool = False, policy: str | None = None, **limits: Any
) -> AsyncIterator[Caller]:
    """A gate with the graph and the workflows; the second time it is like a restart."""
    server, is_new = ServerParts(tokens=IssuerDirectory([ISSUER]).choices()), not (folder / "penstock.db").exists()
    files: tuple[str, ...] = ()
    if policy is not None:
        (folder / "own.cedar").write_text(policy, encoding="utf-8")
        files = (str(folder / "own.cedar"),)
    async with (
        Penstock.open(folder / "penstock.db") as penstock,
        open_gate(penstock, server=server, chosen=GateLimits(**limits), policy_files=files) as gate,
    ):
        owner = Caller(gate, local_owner(), penstock)
        if is_new:
            await stored(owner, protected_branches=["main"] if protected else [])
            for document in (DIRECT, ASKS_FIRST, PARENT):
                await owner.call("workflow.create", document=document)
        yield owner


def with_token(owner: Caller, scope: str = SCOPES, **claims: Any) -> Caller:
    return Caller(owner.gate, Credentials(bearer=ISSUER.token(scope=scope, **claims)), owner.penstock)


async def started(caller: Caller, workflow: str) -> str:
    return str((await caller.call("workflow.execute", workflow_id=workflow))["execution_id"])


async def after_answer(owner: Caller, run: str) -> dict[str, Any]:
    """Answer the question of a run, and return how the run ended."""
    await owner.call("execution.answer", execution_id=run, answer={})
    return await ended(owner, run)


async def test_a_run_of_a_token_changes_a_graph_as_its_subject(tmp_path: Path) -> None:
    async with opened(tmp_path) as owner:
        run = await started(with_token(owner), "direct")
        assert (await ended(owner, run))["output"] == 1
        commits = (await owner.call("graph.commits_list", graph_id="crm"))["commits"]
        assert commits[0]["actor_id"] == "token:company:ada"


async def test_a_child_run_acts_for_the_token_that_started_its_parent(tmp_path: Path) -> None:
    async with opened(tmp_path) as owner:
        run = await started(with_token(owner), "parent")
        assert (await ended(owner, run))["status"] == "completed"
        commits = (await owner.call("graph.commits_list", graph_id="crm"))["commits"]
        assert commits[0]["actor_id"] == "token:company:ada"


async def test_a_later_token_of_the_same_subject_does_not_widen_what_a_run_may_do(tmp_path: Path) -> None:
    async with opened(tmp_path) as owner:
        run = await started(with_token(owner, "workflow:run execution:read graph:run"), "asks_first")
        await status(owner, run, "waiting_input")
        await with_token(owner).call("graph.branches_create", graph_id="crm", name="wider")
        assert (await after_answer(owner, run))["error"]["code"] == "QUERY_NOT_FOUND"


@pytest.mark.parametrize("what", [{"token_id": "jti-run"}, {"subject": "ada"}])
async def test_a_token_that_was_revoked_reaches_no_graph_through_its_runs(tmp_path: Path, what: dict[str, str]) -> None:
    async with opened(tmp_path) as owner:
        run = await started(with_token(owner, jti="jti-run"), "asks_first")
        other = await started(with_token(owner, jti="jti-other", sub="bob"), "asks_first")
        await owner.call("token.revoke", issuer="company", **what)
        assert (await after_answer(owner, run))["error"]["code"] == "TOKEN_REVOKED"
        assert (await after_answer(owner, other))["output"] == 1


async def test_a_run_that_rested_for_too_long_reaches_no_graph_any_more(tmp_path: Path) -> None:
    async with opened(tmp_path, standing_authority_ms=0) as owner:
        run = await started(with_token(owner), "direct")
        assert (await ended(owner, run))["error"]["code"] == "AUTHORITY_EXPIRED"


async def test_what_a_run_keeps_of_a_token_outlives_the_token_and_is_no_secret(tmp_path: Path) -> None:
    async with opened(tmp_path) as owner:
        ends = owner.gate.services.clock.now_ms() // 1000 + 3600
        run = await started(with_token(owner, exp=ends, jti="jti-run"), "asks_first")
        state = await owner.gate.services.host.read(run)
        assert state is not None
        assert state.starter is not None
        kept: Any = state.starter["authority"]
        assert kept.pop("until") > ends * 1000
        assert kept == {
            "principal": "token:company:ada",
            "kind": "person",
            "scopes": sorted(SCOPES.split()),
            "name": "ada",
            "attributes": {"issuer": ISSUER.url, "subject": "ada", "client": "desktop"},
        }
        assert state.starter["credential"] == "token:company:jti-run"


async def test_a_run_of_a_schedule_acts_for_its_maker_until_that_key_is_revoked(tmp_path: Path) -> None:
    async with opened(tmp_path) as owner:
        made = await owner.call("key.create", name="maker", scopes=["*"])
        maker = owner.with_key(made["secret"])
        await maker.call("schedule.create", workflow_id="direct", cron="0 3 * * *", schedule_id="nightly")
        await maker.call("schedule.create", workflow_id="asks_first", cron="0 3 * * *", schedule_id="asking")
        scheduler = owner.gate.services.scheduler
        runs = {}
        for name in ("nightly", "asking"):
            row = await scheduler.find(name)
            assert row is not None
            assert scheduler.fire is not None
            outcome: Any = await scheduler.fire(row, "2026-01-01T03:00:00Z")
            runs[name] = outcome.run_id
        assert (await ended(owner, runs["nightly"]))["output"] == 1
        commits = (await owner.call("graph.commits_list", graph_id="crm"))["commits"]
        assert commits[0]["actor_id"] == f"key:{made['key']['id']}"
        await owner.call("key.revoke", key_id=made["key"]["id"])
        assert (await after_answer(owner, runs["asking"]))["error"]["code"] == "KEY_REVOKED"


async def test_a_run_of_the_assistant_at_a_pipe_has_its_rights_and_not_those_of_the_owner(tmp_path: Path) -> None:
    async with opened(tmp_path) as owner:
        for scopes, wanted in (
            (("workflow:run", "graph:run", "graph:write"), (1, None)),
            (("workflow:run", "graph:run"), (None, "QUERY_NOT_FOUND")),
        ):
            principal = PipePrincipal(owner.gate, settings(scopes=scopes))
            await principal.prepare()
            run = await started(Caller(owner.gate, principal(), owner.penstock), "direct")
            found = await ended(owner, run)
            assert (found["output"], found["error"] and found["error"]["code"]) == wanted
        commits = (await owner.call("graph.commits_list", graph_id="crm"))["commits"]
        assert commits[0]["actor_id"] == f"pipe:{PipeSettings().name or local_owner().name}"


HOLDS_CHANGES = """@id("all") permit (principal, action, resource);
@id("look") @outcome("approval") @approvers("reviewers")
forbid (principal, action in Action::"graph:change", resource) unless { principal.kind == "local" };
"""
HELD = pytest.mark.parametrize("setting", [{"protected": True}, {"policy": HOLDS_CHANGES}], ids=["branch", "policy"])


async def draft_of(owner: Caller) -> str:
    """Wait until a call is held, and return the id of its draft."""

    async def look() -> str | None:
        drafts = (await owner.call("draft.list"))["items"]
        return str(drafts[0]["id"]) if drafts else None

    return await until_found(look)


async def reviewer(owner: Caller) -> Caller:
    return await owner.new_caller("*", name="reviewer", kind="person", groups=["reviewers"])


async def closed(owner: Caller) -> tuple[str, int]:
    """The state of the task, and how many mutations of the graph there were."""
    rows = (await owner.call("graph.query_run", graph_id="crm", name="tasks_of", params={"owner": "ada"}))["rows"]
    commits = (await owner.call("graph.commits_list", graph_id="crm"))["commits"]
    return rows[0]["state"], sum(item["kind"] == "mutation" for item in commits)


@HELD
async def test_a_node_waits_until_its_mutation_is_approved_and_makes_it_once(
    tmp_path: Path, setting: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Whoever waits takes no place: with a single one, the approved call could not be made otherwise.
    monkeypatch.setattr("penstock.base.limits.ACTIVITIES_AT_ONCE_MAX", 1)
    # A draft may wait for longer than answers of idempotency keys are kept.
    setting = {**setting, "idempotency_ttl_ms": 1}
    async with opened(tmp_path, **setting) as owner:
        run = await started(await owner.new_caller("*", name="ada"), "direct")
        draft = await draft_of(owner)
        shown = await owner.call("draft.get", draft_id=draft)
        assert (shown["status"], shown["made_by_execution"], shown["made_by_node"]) == ("waiting", run, "close")
        # A server that stops does not wait for whoever waits for approval.
        assert owner.penstock.driver is not None
        async with asyncio.timeout(SECONDS_MAX):
            await owner.penstock.driver.drain(timeout_seconds=10 * SECONDS_MAX)
    # A restart while it waits changes nothing: the same draft is waited for.
    async with opened(tmp_path, **setting) as owner:
        assert await draft_of(owner) == draft
        assert (await owner.call("execution.status", execution_id=run))["status"] == "waiting_activity"
        assert await closed(owner) == ("open", 0)
        await (await reviewer(owner)).call("draft.approve", draft_id=draft)
        found = await ended(owner, run)
        assert found["output"] == 1, found
        assert await closed(owner) == ("done", 1)
        assert len((await owner.call("draft.list"))["items"]) == 1


@HELD
async def test_a_rejected_mutation_fails_the_node_and_changes_nothing(tmp_path: Path, setting: dict[str, Any]) -> None:
    async with opened(tmp_path, **setting) as owner:
        run = await started(await owner.new_caller("*", name="ada"), "direct")
        await (await reviewer(owner)).call("draft.reject", draft_id=await draft_of(owner))
        assert (await ended(owner, run))["error"]["code"] == "DRAFT_REJECTED"
        assert await closed(owner) == ("open", 0)


@HELD
async def test_a_draft_ends_with_the_run_that_waits_for_it(tmp_path: Path, setting: dict[str, Any]) -> None:
    async with opened(tmp_path, **setting) as owner:
        run = await started(await owner.new_caller("*", name="ada"), "direct")
        draft = await draft_of(owner)
        await owner.call("execution.cancel", execution_id=run)
        assert (await ended(owner, run))["status"] == "cancelled"
        assert (await ended(owner, draft))["status"] == "cancelled"
        assert (await owner.call("draft.list", status="open"))["items"] == []
        refused = await (await reviewer(owner)).outcome("draft.approve", draft_id=draft)
        assert isinstance(refused, RefusedCall)
        assert refused.error.code == "DRAFT_FINAL"
        assert await closed(owner) == ("open", 0)


async def test_a_mutation_is_not_made_for_a_run_that_was_cancelled_while_nobody_performed_it(tmp_path: Path) -> None:
    async with opened(tmp_path, protected=True) as owner:
        run = await started(await owner.new_caller("*", name="ada"), "direct")
        draft = await draft_of(owner)
    async with Penstock.open(tmp_path / "penstock.db", perform=False) as penstock, open_gate(penstock) as gate:
        await Caller(gate, local_owner(), penstock).call("execution.cancel", execution_id=run)
    async with opened(tmp_path, protected=True) as owner:
        assert (await ended(owner, run))["status"] == "cancelled"
        await (await reviewer(owner)).call("draft.approve", draft_id=draft)
        assert (await ended(owner, draft))["error"]["code"] == "HELD_CALL_UNWANTED"
        assert await closed(owner) == ("open", 0)


@pytest.mark.parametrize("what", [{"token_id": "jti-run"}, {"subject": "ada"}])
async def test_a_token_that_is_revoked_before_the_approval_changes_nothing(
    tmp_path: Path, what: dict[str, str]
) -> None:
    async with opened(tmp_path, protected=True) as owner:
        run = await started(with_token(owner, jti="jti-run"), "direct")
        draft = await draft_of(owner)
        await owner.call("token.revoke", issuer="company", **what)
        await (await reviewer(owner)).call("draft.approve", draft_id=draft)
        assert (await ended(owner, run))["error"]["code"] == "TOKEN_REVOKED"
        assert await closed(owner) == ("open", 0)
