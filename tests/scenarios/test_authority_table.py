"""Every kind of key against every operation: nothing happens that the key does not allow, by whatever detour.

Whether a key has an operation's own scopes is one question; what the call may bring about is another. So after every
call it is looked at what there is now, and each difference must be one that the key's scopes allow by themselves: runs
and whatever starts them need the right to run, a key is made or taken only within one's own, and what another tenant
has stays as it is.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest

from penstock.base.ids import DEFAULT_TENANT
from penstock.base.scopes import scope_allows
from penstock.operations.catalogue.capability import Capability
from penstock.operations.gate.pipeline import AnsweredCall
from penstock.runtime.ports.platform import KeyRow
from penstock.runtime.ports.runs import DefinitionRow, RunQuery, ScheduleRow
from penstock.runtime.tables.api_keys import list_keys, read_key
from penstock.runtime.tables.resources import list_all_resources
from penstock.runtime.tables.schedules import list_schedules
from tests.live.tenants import BODIES
from tests.scenarios.test_authority import GREET, HOOK, NIGHTLY, opened
from tests.unit.operations.conftest import Caller
from tests.waiting import SECONDS_MAX

RUN_SCOPES = ("workflow:run", "upstream:run", "agent:run")
READS = tuple(f"{kind}:read" for kind in ("workflow", "execution", "schedule", "key", "webhook", "schema", "audit"))


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of key."""

    scopes: tuple[str, ...]
    tenant: str = DEFAULT_TENANT
    more: dict[str, Any] = field(default_factory=dict)


KINDS = {
    "owner": Kind(scopes=("*",)),
    "reader": Kind(scopes=READS),
    "author": Kind(scopes=("workflow:write", "workflow:read", "workflow:delete")),
    "planner": Kind(scopes=("schedule:*",)),
    "author and planner": Kind(scopes=("workflow:write", "workflow:read", "schedule:*", "execution:*")),
    "runner": Kind(scopes=("workflow:run", "execution:read")),
    "operator of runs": Kind(scopes=("execution:*",)),
    "keeper of keys": Kind(scopes=("key:*",)),
    "keeper for an hour": Kind(scopes=("key:*", "workflow:*"), more={"expires_in": "1h", "toolset": "workflows"}),
    "registrar": Kind(scopes=("schema:*", "model:*", "tool:*", "agent:*", "webhook:*", "upstream:*")),
    "owner of another tenant": Kind(scopes=("*",), tenant="other"),
}


@dataclass(frozen=True)
class Seen:
    """What there is, of all tenants."""

    runs: frozenset[str]
    schedules: dict[str, ScheduleRow]
    definitions: dict[tuple[str, str], DefinitionRow]
    keys: dict[str, KeyRow]
    resources: dict[tuple[str, str], str]


async def seen(owner: Caller) -> Seen:
    services = owner.gate.services
    runs = await services.store.list_runs(RunQuery(limit=500, tenant=None))
    definitions = await services.store.definitions.list_page(tenant=None, limit=500)
    keys = await list_keys(services.platform, tenant=None, limit=500)
    kinds = ("schema", "model", "tool", "agent", "webhook")
    resources = [row for kind in kinds for row in await list_all_resources(services.platform, kind)]
    return Seen(
        frozenset(row.run_id for row in runs.rows),
        {row.schedule_id: row for row in await list_schedules(services.store.database)},
        {(row.tenant, row.name): row for row in definitions.rows},
        {row.key_id: msgspec.structs.replace(row, last_used_at=None) for row in keys.rows},
        {(row.tenant, f"{row.kind}/{row.resource_id}"): row.etag for row in resources},
    )


def wrongs(before: Seen, now: Seen, kind: Kind, own: KeyRow) -> list[str]:
    """Everything that happened and that a key of this kind must not bring about."""

    def may(scope: str) -> bool:
        return scope_allows(kind.scopes, scope)

    found = [*_wrong_keys(before, now, kind, own)]
    if not any(map(may, RUN_SCOPES)) and now.runs - before.runs:
        found.append("a run was started")
    if not may("workflow:run"):
        for name, row in now.schedules.items():
            was = before.schedules.get(name)
            if was is None or was.spec != row.spec or was.workflow_name != row.workflow_name or was.paused > row.paused:
                found.append(f"the schedule {name} is new, other or goes on")
        for place, definition in now.definitions.items():
            known = before.definitions.get(place)
            if definition.document.get("triggers") and (known is None or known.hash != definition.hash):
                found.append(f"the workflow {place} starts by itself")
    if kind.tenant != DEFAULT_TENANT and _of_default(before) != _of_default(now):
        found.append("something of another tenant changed")
    return found


def _wrong_keys(before: Seen, now: Seen, kind: Kind, own: KeyRow) -> list[str]:
    found = []
    for key_id, key in now.keys.items():
        was = before.keys.get(key_id)
        if was == key:
            continue
        if not all(scope_allows(kind.scopes, scope) for scope in key.scopes):
            found.append(f"the key {key.name} was made or changed, and may do more")
        elif was is None and own.expires_at is not None and (key.expires_at or own.expires_at + 1) > own.expires_at:
            found.append(f"the key {key.name} outlives its maker")
        elif was is None and own.toolset is not None and key.toolset != own.toolset:
            found.append(f"the key {key.name} offers other tools")
    if before.keys.keys() - now.keys.keys():
        found.append("a key is gone")
    return found


def _of_default(state: Seen) -> Any:
    return (
        frozenset(run for run in state.runs if "other" not in run),
        {name: row for name, row in state.schedules.items() if row.tenant == DEFAULT_TENANT},
        {place: row.hash for place, row in state.definitions.items() if place[0] == DEFAULT_TENANT},
        {key_id: key for key_id, key in state.keys.items() if key.tenant == DEFAULT_TENANT},
        {place: etag for place, etag in state.resources.items() if place[0] == DEFAULT_TENANT},
    )


async def seeded(owner: Caller) -> dict[str, Any]:
    """One of everything in the default tenant, made by its owner."""
    await owner.call("workflow.create", document=GREET)
    await owner.call("workflow.create", document={**GREET, "name": "nightly", "triggers": NIGHTLY})
    run = await owner.call("workflow.execute", workflow_id="greet", sync=True)
    schedule = await owner.call("schedule.create", workflow_id="greet", cron="0 3 * * *", paused=True)
    key = await owner.call("key.create", name="powerful", scopes=["*"])
    webhook = await owner.call("webhook.create", url="https://example.com/events")
    delivery = await owner.call("webhook.test", endpoint_id=webhook["webhook"]["id"])
    await owner.call("schema.create", id="order", schema={})
    await owner.call("model.create", id="fast", provider="openai", model="b")
    await owner.call("tool.create", id="look", kind="step", name="look")
    await owner.call("agent.create", id="helper")
    return {
        "workflow_id": "greet",
        "execution_id": run["execution_id"],
        "schedule_id": schedule["schedule_id"],
        "key_id": key["key"]["id"],
        "endpoint_id": webhook["webhook"]["id"],
        "delivery_id": delivery["id"],
        "schema_id": "order",
        "model_id": "fast",
        "tool_id": "look",
        "agent_id": "helper",
        "task_id": "done",
        "node_id": "done",
        "server": "shop",
        "tool": "search",
    }


def attempts(capability: Capability, seeds: dict[str, Any]) -> list[dict[str, Any]]:
    """What an operation is called with: something usual, and what would get somebody further."""
    name, triggered = capability.name, {**GREET, "triggers": NIGHTLY}
    hooked = {**GREET, "name": "hooked", "triggers": HOOK}
    cunning: dict[str, list[dict[str, Any]]] = {
        "workflow.create": [{"document": {**triggered, "name": "new"}}, {"document": hooked}],
        "workflow.update": [{"document": triggered}, {"workflow_id": "nightly", "tasks": [{"id": "x", "type": "end"}]}],
        "workflow.import": [{"workflows": [triggered, hooked], "overwrite": True}],
        "task.update": [{"workflow_id": "nightly", "task": {"id": "done", "type": "end", "output": "evil"}}],
        "schedule.create": [{"cron": "* * * * *", "schedule_id": "mine"}],
        "schedule.update": [{"input": {"evil": True}}, {"cron": "* * * * *"}],
        "key.create": [
            {"name": "more", "scopes": ["*"]},
            {"name": "same", "scopes": ["key:*"]},
            {"name": "foreign", "scopes": ["key:*"], "tenant": "third"},
            {"name": "longer", "scopes": ["key:write"], "expires_in": "90d", "toolset": "all"},
        ],
        "workflow.execute": [{"execution_id": "mine"}],
        "control.workflow_start": [{"definition": GREET}],
    }
    usual = BODIES.get(name) or (capability.examples[0].arguments if capability.examples else {})
    members: Any = capability.input_schema["properties"]
    named = {member: seeds[member] for member in members if member in seeds}
    return [{**usual, **named}, *({**named, **given} for given in cunning.get(name, ()))]


@pytest.mark.parametrize("name", KINDS)
def test_no_operation_brings_about_what_the_key_does_not_allow(name: str, tmp_path: Path) -> None:
    kind = KINDS[name]

    async def test() -> tuple[int, int]:
        allowed = refused = 0
        async with opened(tmp_path) as owner:
            seeds = await seeded(owner)
            made = await owner.call(
                "key.create", name="tried", scopes=list(kind.scopes), tenant=kind.tenant, **kind.more
            )
            caller, own = (
                owner.with_key(made["secret"]),
                await read_key(owner.gate.services.platform, made["key"]["id"]),
            )
            assert own is not None
            changing = [item for item in owner.gate.catalogue.all() if not item.annotations.read_only]
            for capability in sorted(changing, key=lambda item: (item.annotations.destructive, item.name)):
                for given in attempts(capability, seeds):
                    before = await seen(owner)
                    outcome = await caller.outcome(capability.name, **given)
                    now = await seen(owner)
                    assert not wrongs(before, now, kind, own), (capability.name, given)
                    if isinstance(outcome, AnsweredCall):
                        scopes = capability.governance.scopes
                        allowed += bool(scopes)  # what is for everybody, such as signing oneself out, is no authority
                        assert all(scope_allows(kind.scopes, scope) for scope in scopes), capability.name
                    else:
                        refused += 1
                        assert now == before, (capability.name, given, outcome)
        return allowed, refused

    allowed, refused = asyncio.run(asyncio.wait_for(test(), SECONDS_MAX))
    assert allowed + refused > 60
    assert (allowed == 0) == (name == "reader"), (allowed, refused)
