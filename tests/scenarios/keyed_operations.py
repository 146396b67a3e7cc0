"""Every operation that takes an idempotency key: what has to be there before it is called, and with what it is called.

`ARRANGEMENTS` has one entry for each of them; `test_repeated_everything` compares it with the catalogue. An arrangement
makes fresh things each time, so that many of them fit into one file.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Final, TypeAlias
from urllib.parse import parse_qs, urlsplit

import httpx2
import msgspec

from penstock.app.drivers import make_storage
from penstock.app.executors.configured import open_executors
from penstock.app.executors.held_calls import HeldCallExecutor
from penstock.app.gate import local_owner, open_gate
from penstock.app.penstock import Penstock
from penstock.app.settings.model import HttpSettings, Settings
from penstock.app.settings.named import ImportSettings, McpServerSettings, ToolRuleSettings
from penstock.app.settings.upstream_auth import OAuthSettings
from penstock.base.json import JsonObject
from penstock.operations.builtin import profile_operations
from penstock.operations.catalogue.capability import Capability
from penstock.operations.gate.authentication import principal_of
from penstock.operations.gate.context import Principal, Request, ServerParts
from penstock.operations.gate.internal_callers import internal_call
from penstock.operations.gate.pipeline import AnsweredCall, Gate, Outcome
from penstock.operations.permissions.console_sessions import SessionRecord, session_row
from penstock.runtime.steps.registry import step
from penstock.runtime.system import SystemClock
from penstock.runtime.tables.api_keys import read_key
from penstock.runtime.tables.resources import put_resource
from penstock.runtime.tables.runs.store import RunStore
from tests.fixtures.oauth_server import OAuthWorld
from tests.issuers import Issuer, IssuerDirectory
from tests.scenarios.office import ERASE

__all__ = [
    "ARRANGEMENTS",
    "ARRANGEMENTS_WAITING",
    "CALLERS",
    "WAITING",
    "Desk",
    "LateClock",
    "can_wait",
    "keyed_operations",
    "open_desk",
]

Arguments: TypeAlias = dict[str, Any]
SCHEMA: Final = "node Person { name: String @key }"
FIND: Final = "query find($name: String) { match { $p: Person { name: $name } } return { $p.name } }"
ADD: Final = "query add($name: String) { insert Person { name: $name } }"
REDIRECT: Final = "http://127.0.0.1:3000/callback"
HOOK: Final = {"url": "https://example.com/events"}
EXPENSE: Final = {
    "ledgerId": "ledger_main",
    "kind": "expense",
    "title": "Lunch",
    "amount_home": 10,
    "date": "2026-03-01",
}
_NUMBERS = count(1)


class LateClock(SystemClock):
    """The machine's clock, moved forward by a test."""

    def __init__(self) -> None:
        super().__init__()
        self.ahead_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.ahead_ms


@step(name="shout")
async def shout(text: str) -> str:
    """A step that a registered tool calls."""
    return text.upper()


@dataclass
class Desk:
    """Calls every operation as the owner of a file, and those for others as them."""

    gate: Gate
    store: RunStore
    clock: LateClock
    oauth: OAuthWorld
    held_calls: HeldCallExecutor
    people: dict[str, Principal] = field(default_factory=dict)

    async def do(self, operation: str, /, **arguments: Any) -> Any:
        """The answer of a call by the owner, as JSON."""
        answer = await internal_call(self.gate, local_owner(), operation, arguments, surface="cli")
        return msgspec.to_builtins(answer)

    async def person(self, kind: str) -> Principal:
        """Somebody of a kind, with every scope."""
        if kind not in self.people:
            scopes = ["*", "approve:approvers"]
            made = await self.do("key.create", name=f"{kind}-{next(_NUMBERS)}", kind=kind, scopes=scopes)
            key = await read_key(self.gate.services.platform, made["key"]["id"])
            assert key is not None
            self.people[kind] = principal_of(key)
        return self.people[kind]

    async def outcome(self, operation: str, arguments: Arguments, key: str | None, who: str | None = None) -> Outcome:
        """What the gate says to a call with an idempotency key, by whoever makes such calls."""
        who = CALLERS.get(operation) if who is None else who
        return await self.gate.call(
            Request(
                operation=operation,
                arguments=arguments,
                principal=local_owner() if who is None else self.people[who],
                surface="rest",
                request_id="test",
                idempotency_key=key,
            )
        )

    async def staff(self) -> dict[str, Principal]:
        """Make a key for everybody who calls."""
        for kind in ("person", "agent"):
            await self.person(kind)
        return self.people

    def name(self, of: str = "n") -> str:
        """A name that nothing has yet."""
        return f"{of}{next(_NUMBERS)}"

    async def workflow(self, *nodes: JsonObject, **more: Any) -> str:
        """Store a workflow, and return its name."""
        name = self.name("w")
        document = {"penstock": "v1", "name": name, **more, "nodes": [*nodes, {"id": "done", "type": "end"}]}
        await self.do("workflow.create", document=document)
        return name

    async def run(self, *nodes: JsonObject) -> str:
        """Start a run that only calls change, and return its id."""
        made = await self.do("workflow.execute", workflow_id=await self.workflow(*nodes), mode="host_mediated")
        return str(made["execution_id"])

    async def draft(self) -> JsonObject:
        """Let an agent ask for something dangerous, and return the draft."""
        name = self.name("erase")
        await self.do("workflow.create", document={**ERASE, "name": name})
        await self.staff()
        outcome = await self.outcome(
            "workflow.execute", {"workflow_id": name, "input": {"customer": "C"}}, None, "agent"
        )
        assert isinstance(outcome, AnsweredCall), outcome
        held = msgspec.to_builtins(outcome.reply.value)["held"]  # type: ignore[union-attr]  # it is held
        found: JsonObject = await self.do("draft.get", draft_id=held["draft_id"])
        return found

    async def graph(self) -> str:
        """Make a graph with one node, a branch and a query; return its id."""
        graph = self.name("g")
        await self.do("graph.create", id=graph, schema=SCHEMA, allow_adhoc=True)
        await self.do("graph.load", graph_id=graph, data='{"type": "Person", "data": {"name": "Ada"}}')
        await self.do("graph.branches_create", graph_id=graph, name="work")
        await self.do("graph.queries_put", graph_id=graph, name="find", source=FIND)
        await self.do("graph.queries_put", graph_id=graph, name="add", source=ADD)
        return graph

    async def come_back(self) -> dict[str, str]:
        """Begin a sign-in at the other server, and return what the browser brings back."""
        begun = await self.do("upstream.begin_sign_in", server="shop", redirect_uri=REDIRECT)
        async with httpx2.AsyncClient() as browser:
            page = await browser.get(begun["authorization_url"])
        return {name: values[0] for name, values in parse_qs(urlsplit(page.headers["location"]).query).items()}


@asynccontextmanager
async def open_desk(folder: Path, oauth: OAuthWorld, *, profile: bool = False) -> AsyncIterator[Desk]:
    """Open a file with everything that operations may need; again after that is like a restart.

    With `profile`, there are also the operations of the agent profile and its demo ledger.
    """
    clock, path = LateClock(), folder / "penstock.db"
    (folder / "backups").mkdir(exist_ok=True)
    imported = ImportSettings(tools=("*",), governance={"add": ToolRuleSettings(idempotent=True)})
    shop = McpServerSettings(url=oauth.url, auth=OAuthSettings(), import_=imported)
    settings = Settings(mcp_servers={"shop": shop}, http=HttpSettings(allow_private=True))
    more = profile_operations(fixtures=True) if profile else ()
    parts = ServerParts(operations=more, tokens=IssuerDirectory([Issuer()]).choices())
    storage = make_storage(path, backup_folder=str(folder / "backups"))
    async with (
        open_executors(settings) as equipment,
        Penstock.open(
            path,
            storage=storage,
            clock=clock,
            steps=[shout],
            upstream=equipment.upstream,
            executors=equipment.executors,
        ) as penstock,
        open_gate(penstock, server=parts) as gate,
    ):
        assert isinstance(penstock.store, RunStore)
        yield Desk(gate, penstock.store, clock, oauth, penstock.held_calls)


def keyed_operations(gate: Gate) -> list[Capability]:
    """Every operation of the catalogue that callers can make with a key."""
    return [item for item in gate.catalogue.all() if not item.annotations.read_only]


def can_wait(operation: Capability) -> bool:
    """Whether a call may wait for the end of the run that it starts."""
    fields = operation.input_schema.get("properties")
    return isinstance(fields, dict) and "sync" in fields


WAITING: Final = ", waiting for its run"
WAIT: Final[JsonObject] = {"id": "hold", "type": "wait", "signal": "go"}
MORE: Final[JsonObject] = {"id": "more", "type": "wait", "signal": "again"}
ASK: Final[JsonObject] = {"id": "ask", "type": "interrupt", "message": "Well?", "answer": {"type": "object"}}
WORK: Final[JsonObject] = {"id": "work", "type": "step", "handler": "app:work", "retry": {"max_attempts": 1}}
SUBMITTED: Final = {"node_id": "work", "ok": True, "result": 1}


async def _execution(desk: Desk, *nodes: JsonObject, **more: Any) -> Arguments:
    return {"execution_id": await desk.run(*nodes), **more}


async def _paused(desk: Desk) -> Arguments:
    found = await _execution(desk, WAIT, MORE)
    await desk.do("execution.pause", **found)
    return found


async def _failed(desk: Desk) -> Arguments:
    found = await _execution(desk, WORK)
    await desk.do("execution.submit_activity", **found, node_id="work", ok=False, error="no")
    return found


async def _ended(desk: Desk) -> Arguments:
    found = await _execution(desk, WAIT)
    await desk.do("execution.cancel", **found)
    return found


async def _told(desk: Desk) -> Arguments:
    found = await _execution(desk, WAIT, notification_id="main", url="https://example.com/news")
    await desk.do("notification.set", **found)
    return {"execution_id": found["execution_id"], "notification_id": "main"}


async def _scheduled(desk: Desk, **more: Any) -> Arguments:
    made = await desk.do("schedule.create", workflow_id=await desk.workflow(WAIT), cron="0 3 * * *")
    return {"schedule_id": made["schedule_id"], **more}


async def _schedule_paused(desk: Desk) -> Arguments:
    found = await _scheduled(desk)
    await desk.do("schedule.pause", **found)
    return found


async def _graph(desk: Desk, **more: Any) -> Arguments:
    return {"graph_id": await desk.graph(), **more}


async def _branch_ahead(desk: Desk) -> Arguments:
    graph = await desk.graph()
    record = '{"type": "Person", "data": {"name": "Bob"}}'
    await desk.do("graph.load", graph_id=graph, branch="work", data=record)
    return {"graph_id": graph, "source": "work"}


async def _remembered(desk: Desk, *, with_key: bool) -> Arguments:
    session, key = desk.name("s"), {"key": "order"} if with_key else {}
    await desk.do("memory.put", scope="session", session_id=session, key="order", value=1)
    return {"scope": "session", "session_id": session, **key}


async def _key(desk: Desk, **more: Any) -> Arguments:
    made = await desk.do("key.create", name=desk.name("k"), scopes=["workflow:read"])
    return {"key_id": made["key"]["id"], **more}


async def _subject(desk: Desk, *, limited: bool) -> Arguments:
    subject = f"key:{(await _key(desk))['key_id']}"
    if limited:
        await desk.do("quota.set", subject=subject, runs_per_day=5)
    return {"subject": subject} if limited else {"subject": subject, "runs_per_day": 5}


async def _held_records(desk: Desk) -> Arguments:
    return {"hold_id": (await desk.do("audit.hold", reason="case", subject=desk.name("w")))["hold_id"]}


async def _to_redact(desk: Desk) -> Arguments:
    key = desk.name("k")
    await desk.do("key.create", name=key, scopes=["workflow:read"])
    listed = await desk.do("audit.list", operation="key.create", limit=1)
    return {"seq": listed["items"][0]["seq"], "fields": ["subject"]}


def _policy(policy_id: str) -> Arguments:
    text = f'@id("{policy_id}") forbid (principal is Agent, action in Action::"write", resource) when '
    return {"policy_id": policy_id, "text": text + "{ context.time.hour > 24 };"}


async def _with_policy(desk: Desk) -> Arguments:
    await desk.do("policy.put", **(made := _policy(desk.name("p"))))
    return {"policy_id": made["policy_id"]}


async def _token_revoked(desk: Desk) -> Arguments:
    made = await desk.do("token.revoke", issuer="company", subject=desk.name("u"))
    return {"revocation_id": made["id"]}


async def _signed_in(desk: Desk) -> Arguments:
    owner, now = local_owner(), desk.clock.now_ms()
    record = SessionRecord(principal=owner.id, name="owner", began_ms=now, used_ms=now)
    row = session_row(owner.tenant, desk.name("s"), record, owner.id)
    await put_resource(desk.gate.services.platform, row, expected_etag=None)
    return {"console_session_id": row.resource_id}


_REGISTERED: Final[dict[str, Arguments]] = {
    "schema": {"schema": {"type": "object"}},
    "model": {"provider": "openai", "model": "small"},
    "tool": {"kind": "step", "name": "shout"},
    "agent": {"description": "helps"},
}


async def _registered(desk: Desk, noun: str, *, new: bool = False, change: bool = False) -> Arguments:
    """Of the registry of a noun: what makes something new, names something, or changes it."""
    made = {"id": desk.name(noun), **_REGISTERED[noun]}
    if new:
        return made
    await desk.do(f"{noun}.create", **made)
    return {f"{noun}_id": made["id"], **(_REGISTERED[noun] | {"description": "other"} if change else {})}


async def _listed_tool(desk: Desk, *, accepted: bool, **more: Any) -> Arguments:
    """Of a tool that another server offers; each time another one, so that its first acceptance is seen."""
    await desk.do("upstream.complete_sign_in", server="shop", **await desk.come_back())
    await desk.do("upstream.refresh", server="shop")
    tool = "add" if accepted else desk.name("add")
    if accepted:
        await desk.do("upstream.accept", server="shop", tools=[tool])
    return {"server": "shop", "tool": tool, **more}


async def _acceptable(desk: Desk) -> Arguments:
    await _listed_tool(desk, accepted=True)
    await desk.do("upstream.revoke", server="shop", tool="add")
    return {"server": "shop", "tools": ["add"]}


async def _refusable(desk: Desk) -> Arguments:
    await _acceptable(desk)
    return {"server": "shop", "tool": "add", "reason": "not wanted"}


async def _come_back(desk: Desk) -> Arguments:
    return {"server": "shop", **await desk.come_back()}


async def _listed_server(desk: Desk) -> Arguments:
    await _listed_tool(desk, accepted=True)
    return {"server": "shop"}


async def _hook(desk: Desk, **more: Any) -> Arguments:
    return {"endpoint_id": (await desk.do("webhook.create", **HOOK))["webhook"]["id"], **more}


async def _delivery(desk: Desk) -> Arguments:
    return {"delivery_id": (await desk.do("webhook.test", **await _hook(desk)))["id"]}


async def _granted(desk: Desk, *, new: bool) -> Arguments:
    agent = await desk.person("agent")
    given = {"principal": agent.id, "capabilities": [f"workflow:{desk.name('w')}"], "expires_in": "2h"}
    return given if new else {"grant_id": (await desk.do("grant.create", **given))["id"]}


async def _draft(desk: Desk, *, digest: bool = False, rejected: bool = False) -> Arguments:
    draft = await desk.draft()
    if rejected:
        outcome = await desk.outcome("draft.reject", {"draft_id": draft["id"]}, None, "person")
        assert isinstance(outcome, AnsweredCall), outcome
    return {"draft_id": draft["id"], **({"digest": draft["digest"]} if digest else {})}


async def _agent(desk: Desk, **more: Any) -> Arguments:
    model, agent = desk.name("m"), desk.name("a")
    await desk.do("model.create", id=model, provider="mock", model="m", replies=["hello"])
    await desk.do("agent.create", id=agent, model=model, conversation={})
    return {"agent_id": agent, **more}


async def _session(desk: Desk) -> Arguments:
    begun = await desk.do("agent.message", **await _agent(desk, message="hi", sync=True))
    return {"session_id": begun["session_id"]}


async def _tool(desk: Desk) -> Arguments:
    text = {"type": "object", "required": ["text"], "properties": {"text": {"type": "string"}}}
    tool = desk.name("t")
    # Done again after a crash: of one that is not idempotent, a person would have to say what came of it.
    again = {"annotations": {"idempotent": True}, "governance": {"risk": "low"}}
    await desk.do("tool.create", id=tool, kind="step", name="shout", input_schema=text, **again)
    return {"tool_id": tool, "arguments": {"text": "tea"}}


async def _app(desk: Desk, **more: Any) -> Arguments:
    made = await desk.do("app.create", name=desk.name("app"), scopes=["ledger.read"])
    return {"app_id": made["id"], **more}


async def _app_revoked(desk: Desk) -> Arguments:
    found = await _app(desk)
    await desk.do("app.revoke", **found)
    return found


async def _transaction(desk: Desk, **more: Any) -> Arguments:
    return {"transactionId": (await desk.do("transaction.create", **EXPENSE))["transaction"]["id"], **more}


def _greet(name: str, output: str = "hello") -> Arguments:
    return {"penstock": "v1", "name": name, "nodes": [{"id": "done", "type": "end", "output": output}]}


async def _given(arguments: Arguments) -> Arguments:
    return arguments


async def _workflow(desk: Desk, *nodes: JsonObject, **more: Any) -> Arguments:
    return {"workflow_id": await desk.workflow(*nodes), **more}


async def _changed_workflow(desk: Desk) -> Arguments:
    found = await _workflow(desk)
    return {**found, "document": _greet(found["workflow_id"], "other")}


Arrange: TypeAlias = Callable[[Desk], Awaitable[Arguments]]
_EXTRA: Final = {"id": "extra", "type": "wait", "duration": "1s"}

CALLERS: Final = {
    "draft.approve": "person",
    "draft.reject": "person",
    "draft.commit": "person",
    "draft.propose": "agent",
}
"""Who makes a call, if that is not the owner."""
ARRANGEMENTS: Final[dict[str, Arrange]] = {
    "workflow.create": lambda desk: _given({"document": _greet(desk.name("w"))}),
    "workflow.update": _changed_workflow,
    "workflow.delete": _workflow,
    "workflow.import": lambda desk: _given({"workflows": [_greet(desk.name("w")), _greet(desk.name("w"))]}),
    "task.create": lambda desk: _workflow(desk, WAIT, task=_EXTRA, after="hold"),
    "task.update": lambda desk: _workflow(desk, WAIT, task_id="hold", task={**WAIT, "signal": "other"}),
    "task.delete": lambda desk: _workflow(desk, WAIT, MORE, task_id="more"),
    "workflow.execute": lambda desk: _workflow(desk, WAIT),
    "execution.pause": lambda desk: _execution(desk, WAIT, reason="later"),
    "execution.resume": _paused,
    "execution.cancel": lambda desk: _execution(desk, WAIT),
    "execution.retry": _failed,
    "execution.fork": lambda desk: _execution(desk, WAIT, at_sequence=1),
    "execution.delete": _ended,
    "execution.signal": lambda desk: _execution(desk, WAIT, MORE, name="go", payload=1),
    "execution.update": lambda desk: _execution(desk, WAIT, MORE, name="go", payload=1),
    "execution.answer": lambda desk: _execution(desk, ASK, MORE, answer={"yes": True}),
    "execution.submit_activity": lambda desk: _execution(desk, WORK, MORE, **SUBMITTED),
    "execution.lease_activity": lambda desk: _execution(desk, WORK, node_id="work", seconds=60),
    "schedule.create": lambda desk: _workflow(desk, WAIT, cron="0 3 * * *"),
    "schedule.update": lambda desk: _scheduled(desk, cron="0 4 * * *"),
    "schedule.delete": _scheduled,
    "schedule.pause": _scheduled,
    "schedule.resume": _schedule_paused,
    "schedule.run_now": _scheduled,
    "graph.create": lambda desk: _given({"id": desk.name("g"), "schema": SCHEMA}),
    "graph.update": lambda desk: _graph(desk, title="People"),
    "graph.delete": _graph,
    "graph.schema_apply": lambda desk: _graph(desk, schema="node Person { name: String @key  age: I32? }"),
    "graph.branches_create": lambda desk: _graph(desk, name="review"),
    "graph.branches_delete": lambda desk: _graph(desk, name="work"),
    "graph.branches_merge": _branch_ahead,
    "graph.collect": lambda desk: _graph(desk, keep_days=0),
    "graph.queries_put": lambda desk: _graph(desk, name="other", source=FIND.replace("find", "other")),
    "graph.queries_delete": lambda desk: _graph(desk, name="find"),
    "graph.query_run": lambda desk: _graph(desk, name="add", params={"name": "Eve"}),
    "graph.mutate": lambda desk: _graph(desk, query=ADD, params={"name": "Eve"}),
    "graph.load": lambda desk: _graph(desk, data='{"type": "Person", "data": {"name": "Eve"}}'),
    "memory.put": lambda desk: _given({"scope": "principal", "key": desk.name("m"), "value": 1}),
    "memory.delete": lambda desk: _remembered(desk, with_key=True),
    "memory.clear": lambda desk: _remembered(desk, with_key=False),
    "control.workflow_start": lambda desk: _given({"definition": _greet(desk.name("w")), "input": {}}),
    "control.workflow_resume": lambda desk: _execution(desk, ASK, MORE, resume_payload={"yes": True}),
    "control.workflow_submit_activity": lambda desk: _execution(
        desk, WORK, MORE, node_id="work", outcome={"ok": True, "result": 1}
    ),
    "control.workflow_signal": lambda desk: _execution(desk, WAIT, MORE, signal_name="go"),
    "control.workflow_cancel": lambda desk: _execution(desk, WAIT),
    "key.create": lambda desk: _given({"name": desk.name("k"), "scopes": ["workflow:read"]}),
    "key.revoke": _key,
    "key.rotate": _key,
    "quota.set": lambda desk: _subject(desk, limited=False),
    "quota.reset": lambda desk: _subject(desk, limited=True),
    "audit.checkpoint": lambda desk: _given({}),
    "audit.rotate_key": lambda desk: _given({}),
    "audit.hold": lambda desk: _given({"reason": "case", "subject": desk.name("w")}),
    "audit.release": _held_records,
    "audit.redact": _to_redact,
    "policy.put": lambda desk: _given(_policy(desk.name("p"))),
    "policy.delete": _with_policy,
    "token.revoke": lambda desk: _given({"issuer": "company", "subject": desk.name("u")}),
    "token.restore": _token_revoked,
    "console_session.end": _signed_in,
    **{
        f"{noun}.{verb}": (lambda desk, noun=noun, how=how: _registered(desk, noun, **how))  # type: ignore[misc]
        for noun in _REGISTERED
        for verb, how in (("create", {"new": True}), ("update", {"change": True}), ("delete", {}))
    },
    "upstream.accept": _acceptable,
    "upstream.revoke": lambda desk: _listed_tool(desk, accepted=True),
    "upstream.refuse": _refusable,
    "upstream.refresh": lambda desk: _given({"server": "shop"}),
    "upstream.call": lambda desk: _listed_tool(desk, accepted=True, arguments={"a": 1, "b": 2}),
    "upstream.begin_sign_in": lambda desk: _given({"server": "shop", "redirect_uri": REDIRECT}),
    "upstream.complete_sign_in": _come_back,
    "upstream.sign_out": _listed_server,
    "webhook.create": lambda desk: _given(dict(HOOK)),
    "webhook.update": lambda desk: _hook(desk, url="https://example.com/other"),
    "webhook.delete": _hook,
    "webhook.rotate": _hook,
    "webhook.test": _hook,
    "delivery.retry": _delivery,
    "task.execute": lambda desk: _given({"task": {"id": "shout", "type": "step", "handler": "shout"}, "input": {}}),
    "grant.create": lambda desk: _granted(desk, new=True),
    "grant.delete": lambda desk: _granted(desk, new=False),
    "draft.approve": _draft,
    "draft.reject": _draft,
    "draft.commit": lambda desk: _draft(desk, digest=True),
    "draft.cancel": _draft,
    "draft.propose": lambda desk: _draft(desk, rejected=True),
    "preflight.run": lambda desk: _given(
        {"operation": "key.create", "arguments": {"name": desk.name("k"), "scopes": ["workflow:read"]}}
    ),
    "key.sign_out": lambda desk: _given({}),
    "backup.create": lambda desk: _given({}),
    "agent.execute": lambda desk: _agent(desk, prompt="hi"),
    "agent.message": lambda desk: _agent(desk, message="hi"),
    "session.end": _session,
    "tool.execute": _tool,
    "notification.set": lambda desk: _execution(desk, WAIT, notification_id="main", url="https://example.com/news"),
    "notification.delete": _told,
    "app.create": lambda desk: _given({"name": desk.name("app"), "scopes": ["ledger.read"]}),
    "app.policy_update": lambda desk: _app(desk, policy={}),
    "app.auto_execute_update": lambda desk: _app(desk, auto_execute={}),
    "app.revoke": _app,
    "app.restore": _app_revoked,
    "app.delete": _app_revoked,
    "transaction.create": lambda desk: _given({**EXPENSE, "title": desk.name("t")}),
    "transaction.update": lambda desk: _transaction(desk, title="Dinner"),
    "transaction.delete": _transaction,
    "transaction.hard_delete": _transaction,
    "transactions.export_csv": lambda desk: _given({"ledgerId": "ledger_main"}),
}
"""The arguments of a call of each keyed operation, after what has to be there is there."""
ARRANGEMENTS_WAITING: Final[dict[str, Arrange]] = {f"workflow.execute{WAITING}": _workflow}
"""Calls that wait for their run, where the run of the other call would not end."""
