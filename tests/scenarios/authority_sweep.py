"""A sweep: every operation, over every surface, with every kind of key, in its own tenant and from another one.

    python -m tests.scenarios.authority_sweep          the last line is one JSON object

What is expected of each call comes from `authority.yaml`, which is kept by hand. A call that is refused there and let
in by the server is a bypass; one that is let in there and refused is reported too. Arguments do not fit, or name
nothing that exists, so that a call which is let in changes nothing: the gate asks for scopes before it looks at
arguments. Calls from another tenant name what the swept tenant has, with arguments that fit; nothing of it may be in an
answer, and afterwards everything is as it was.

Keys: none, malformed, forged, revoked, expired; a person's, an agent's and a service's with everything; every scope by
name; each scope alone, each family (`workflow:*`), and everything but one scope.

Surfaces: REST and MCP as requests to the application, the command line's client over a socket to the same server, and
calls of the gate in the process (`sdk`).

Above it: `scripts/authority`, `test_authority_sweep`. Below it: a server with everything on one file.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import urlencode, urlsplit

import yaml
from msgspec.structs import replace

from penstock.app.executors.configured import open_executors
from penstock.app.gate import local_owner
from penstock.app.serving.server import ServerOptions
from penstock.app.settings.model import Settings
from penstock.app.settings.named import ImportSettings, McpServerSettings
from penstock.app.settings.upstream_auth import OAuthSettings
from penstock.base.errors import Denied, PenstockError
from penstock.base.json import JsonObject
from penstock.cli.targets.clients import OperationClient, open_client
from penstock.cli.targets.selection import ServerTarget
from penstock.cli.terminal.exits import CallHeld
from penstock.client.errors import CallFailed
from penstock.client.operations import find_operation
from penstock.mcp_surface.options import McpOptions
from penstock.operations.catalogue.capability import Capability
from penstock.operations.gate.chosen_limits import GateLimits
from penstock.operations.gate.context import Credentials, Request
from penstock.operations.gate.internal_callers import internal_call
from penstock.operations.gate.pipeline import RefusedCall
from penstock.runtime.tables.api_keys import put_key, read_key
from tests.issuers import PUBLIC_URL, Issuer, IssuerDirectory
from tests.live.tenants import BODIES
from tests.scenarios.test_mcp_crowds import modern
from tests.thorough import is_tried
from tests.unit.rest.conftest import Client, opened
from tests.unit.runtime.executors.asgi_server import serving_asgi

__all__ = ["SURFACES", "Sweep", "expected", "run_sweep", "table"]

Decision: TypeAlias = Literal["unauthenticated", "refused", "admitted"]
SURFACES: Final = ("rest", "mcp", "cli", "sdk")
_TABLE: Final = Path(__file__).with_name("authority.yaml")
_MANY: Final = 10**9
_AT_ONCE: Final = 64
_COMMANDS_AT_ONCE: Final = 2
_NARROW_PART: Final = 20
_COMMAND_PART: Final = 6
_NO_ARGUMENT: Final = "no such argument"
_MARK: Final = "planted-content"
_PATH_NAME: Final = re.compile(r"\{(\w+)\}")
_MCP_HEADERS: Final = {"accept": "application/json, text/event-stream", "host": "127.0.0.1"}
_UNAUTHENTICATED: Final = frozenset({"UNAUTHENTICATED", "KEY_REVOKED", "KEY_EXPIRED", "TOKEN_INVALID"})
_PLANTED: Final[dict[str, Any]] = {
    "penstock": "v1",
    "name": "planted",
    "description": _MARK,
    "expose": {"tool": {"name": "planted_tool"}},
    "nodes": [{"id": "ask", "type": "wait", "signal": "go"}, {"id": "done", "type": "end", "output": _MARK}],
}
_DANGEROUS: Final[dict[str, Any]] = {**_PLANTED, "name": "dangerous", "expose": {}, "governance": {"risk": "high"}}
_POLICY: Final = (
    f'@id("planted") @description("{_MARK}") '
    'forbid (principal is Agent, action in Action::"write", resource) when { context.time.hour > 24 };'
)
# Wait for the run to end, or need two checkpoints.
_ASKED_WITH: Final = {
    "system.clients": "?address=http://127.0.0.1:8080",
    "graph.branches_preview": "?source=main",
    "graph.diff": "?source=main",
    "memory.search": "?text=planted",
}
_NOT_ASKED: Final = frozenset({"execution.wait", "execution.stream", "execution.changes", "audit.consistency"})
# Goes on for as long as somebody listens, so it is asked to go on after something that no stream has.
_ENDLESS: Final = "execution.changes"
_NO_POSITION: Final = "x" * 81


@dataclass(frozen=True)
class Table:
    """What the table says."""

    needs: dict[str, frozenset[str]]
    not_over_mcp: frozenset[str]
    operator_only: frozenset[str]

    @property
    def scopes(self) -> list[str]:
        return sorted({scope for needed in self.needs.values() for scope in needed})


@cache
def table() -> Table:
    """The table, with the scopes that each operation needs."""
    said = yaml.safe_load(_TABLE.read_text(encoding="utf-8"))
    needs = {name: frozenset({scope}) for scope, names in said["opens"].items() for name in names}
    listed = sum(len(names) for names in said["opens"].values())
    assert len(needs) == listed, "an operation stands under two scopes: say so in `opens_together`"
    needs |= {name: frozenset(scopes) for name, scopes in said["opens_together"].items()}
    needs |= {name: frozenset[str]() for name in said["opens_to_every_key"]}
    return Table(needs, frozenset(said["not_over_mcp"]), frozenset(said["operator_only"]))


@dataclass(frozen=True, kw_only=True)
class Key:
    """A kind of key: its secret, what it may do, and whether it is valid."""

    name: str
    secret: str
    scopes: frozenset[str]
    valid: bool = True
    tenant: str = "default"


def expected(operation: str, surface: str, key: Key) -> Decision:
    """What the table says about a call. Nothing of the source has a part in it."""
    if not key.valid:
        return "unauthenticated"
    if surface == "mcp" and operation in table().not_over_mcp:
        return "refused"
    granted = "*" in key.scopes or all(
        needed in key.scopes or f"{needed.partition(':')[0]}:*" in key.scopes for needed in table().needs[operation]
    )
    return "admitted" if granted else "refused"


@dataclass
class Sweep:
    """What came of it."""

    operations: int = 0
    keys: int = 0
    calls: dict[str, int] = field(default_factory=dict)
    bypasses: list[str] = field(default_factory=list)
    wrongly_refused: list[str] = field(default_factory=list)
    leaks: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not (self.bypasses or self.wrongly_refused or self.leaks or self.errors or self.changed)

    def judge(self, operation: str, surface: str, key: Key, found: Decision) -> None:
        """Compare a decision with the table."""
        self.calls[surface] = self.calls.get(surface, 0) + 1
        wanted = expected(operation, surface, key)
        is_operator = "*" in key.scopes and key.tenant == "default"
        if wanted == "admitted" and operation in table().operator_only and not is_operator:
            return  # arguments that do not fit are refused before that is asked
        if found != wanted:
            told = f"{operation} over {surface} with {key.name}: {found}, expected {wanted}"
            (self.bypasses if found == "admitted" else self.wrongly_refused).append(told)


class World:
    """A server, and the ways to call it."""

    def __init__(self, client: Client, address: str) -> None:
        self.client = client
        self.address = address
        catalogue = client.gate.services.catalogue
        assert catalogue is not None
        self.operations: dict[str, Capability] = {item.name: item for item in catalogue.all() if item.route is not None}

    # --- surfaces: each gives the decision, and the text of the answer ------------------------------

    async def rest(self, name: str, key: Key, arguments: dict[str, Any] | None) -> tuple[Decision, str]:
        route = self.operations[name].route
        assert route is not None
        given = dict(arguments or {})
        path = _PATH_NAME.sub(lambda found: str(given.pop(found[1], "sweep")), route.path).removeprefix("/")
        body = None if route.method in ("GET", "DELETE") else (given if arguments is not None else {_NO_ARGUMENT: 1})
        headers = {"last-event-id": _NO_POSITION} if name == _ENDLESS else {}
        answer = await self.client(route.method, path, body, headers=headers, key=key.secret)
        text = answer.body.decode("utf-8", "replace")
        if answer.status == 401:
            return "unauthenticated", text
        if answer.status == 403:
            return "refused", text
        if answer.status >= 500:
            raise RuntimeError(f"{name}: {text}")
        return "admitted", text

    async def mcp(self, name: str, key: Key, arguments: dict[str, Any] | None) -> tuple[Decision, str]:
        given = {_NO_ARGUMENT: 1} if arguments is None else arguments
        headers, body = modern("tools/call", {"name": f"penstock_{name.replace('.', '_')}", "arguments": given})
        sent = {**_MCP_HEADERS, **headers}
        answer = await self.client("POST", "/mcp?toolset=all", body, headers=sent, key=key.secret)
        text = answer.body.decode("utf-8", "replace")
        if answer.status == 401:
            return "unauthenticated", text
        if answer.status == 403 or "Unknown tool" in text or '"SCOPE_REQUIRED"' in text:
            return "refused", text
        if answer.status >= 500 or '"code":-32603' in text:
            raise RuntimeError(f"{name}: {text}")
        return "admitted", text

    async def sdk(self, name: str, key: Key, arguments: dict[str, Any] | None) -> tuple[Decision, str]:
        gate = self.client.gate
        try:
            credentials = Credentials(bearer=key.secret or None)
            principal = await gate.authenticate(credentials, surface="sdk", request_id="sweep", operation=name)
        except Denied as error:
            return _decision(error), str(error)
        given: JsonObject = {_NO_ARGUMENT: 1} if arguments is None else arguments
        outcome = await gate.call(
            Request(operation=name, arguments=given, principal=principal, surface="sdk", request_id="sweep")
        )
        if isinstance(outcome, RefusedCall):
            return _decision(outcome.error), str(outcome.error)
        return "admitted", str(getattr(outcome.reply, "value", ""))

    def commands(self, key: Key, named: dict[str, dict[str, Any] | None]) -> dict[str, tuple[Decision, str]]:
        """What commands do on a server: they call operations through the command line's client. Blocks."""
        target = ServerTarget(self.address, key.secret or "none")
        with open_client(target, find_operation("workflow.list")) as surface:
            return {name: self._command(surface, name, arguments) for name, arguments in named.items()}

    def _command(self, surface: OperationClient, name: str, arguments: dict[str, Any] | None) -> tuple[Decision, str]:
        capability = self.operations[name]
        assert capability.route is not None
        about = _PATH_NAME.findall(capability.route.path)
        # The client asks for what is required; of a kind that nothing takes.
        listed = capability.make_input_schema().get("required")
        required = map(str, listed) if isinstance(listed, list) else ()
        given = {member: "sweep" if member in about else -1 for member in [*about, *required]} | (arguments or {})
        try:
            if find_operation(name).streams:
                return "admitted", str(next(iter(surface.events(name, given)), ""))
            return "admitted", json.dumps(surface.call(name, given))
        except CallHeld as held:
            return "admitted", json.dumps(held.answer)
        except CallFailed as error:
            return _decision(error), f"{error.code} {error}"


def _decision(error: PenstockError) -> Decision:
    if error.code in _UNAUTHENTICATED:
        return "unauthenticated"
    return "refused" if error.code == "SCOPE_REQUIRED" else "admitted"


@asynccontextmanager
async def _world(folder: Path) -> AsyncIterator[World]:
    limits = GateLimits(
        read_per_minute=_MANY,
        write_per_minute=_MANY,
        admin_per_minute=_MANY,
        unauthenticated_per_minute=_MANY,
        failed_logins_per_minute=_MANY,
        concurrent_per_key=_MANY,
    )
    issuers = IssuerDirectory([Issuer()]).choices()
    options = ServerOptions(mcp=McpOptions(toolset="all"), gate=limits, tokens=issuers, public_url=PUBLIC_URL)
    shop = McpServerSettings(url="http://127.0.0.1:9/mcp", auth=OAuthSettings(), import_=ImportSettings(tools=("*",)))
    async with (
        open_executors(Settings(mcp_servers={"planted": shop})) as equipment,
        opened(folder, options, upstream=equipment.upstream) as client,
        serving_asgi(client.app) as address,
    ):
        yield World(client, address)


async def _keys(world: World) -> list[Key]:
    """Every kind of key."""
    gate, scopes = world.client.gate, table().scopes

    async def made(name: str, granted: list[str], **more: Any) -> tuple[Key, str]:
        given: JsonObject = {"name": name[:60], "scopes": list(granted), **more}
        answer = await internal_call(gate, local_owner(), "key.create", given, surface="cli")
        key = Key(name=name, secret=answer.secret, scopes=frozenset(granted), tenant=str(more.get("tenant", "default")))
        return key, answer.key.id

    def invalid(name: str, secret: str) -> Key:
        return Key(name=name, secret=secret, scopes=frozenset(), valid=False)

    found = [invalid("no key", ""), invalid("something that is no key", "pen_nonsense")]
    revoked, revoked_id = await made("a revoked key", ["*"])
    await internal_call(gate, local_owner(), "key.revoke", {"key_id": revoked_id}, surface="cli")
    expired, expired_id = await made("an expired key", ["*"])
    row = await read_key(gate.services.platform, expired_id)
    assert row is not None
    await put_key(gate.services.platform, replace(row, expires_at=1))
    found += [invalid(revoked.name, revoked.secret), invalid(expired.name, expired.secret)]
    forged = revoked.secret[:-4] + ("aaaa" if revoked.secret[-4:] != "aaaa" else "bbbb")
    found.append(invalid("a key with a forged secret", forged))
    for kind in ("person", "agent", "service"):
        found.append((await made(f"everything, as {kind}", ["*"], kind=kind))[0])
    found.append((await made("every scope by name", scopes))[0])
    found.append((await made("everything of another tenant", scopes, tenant="other"))[0])
    for family in sorted({scope.partition(":")[0] for scope in scopes}):
        found.append((await made(f"{family}:*", [f"{family}:*"]))[0])
    for scope in scopes:
        found.append((await made(scope, [scope]))[0])
        found.append((await made(f"everything but {scope}", [name for name in scopes if name != scope]))[0])
    return found


def _is_worth_it(operation: str, surface: str, key: Key, *, thorough: bool) -> bool:
    """Leave out what says nothing new: a key with almost everything is about what it lacks.

    Unless the sweep is thorough, everything is tried in the process, and of the other surfaces, which all ask the same
    gate, what a key with one scope or family opens, and a part of the rest.
    """
    needs = table().needs[operation]
    if key.name.startswith("everything but "):
        return key.name.removeprefix("everything but ") in needs
    is_narrow = key.valid and len(key.scopes) == 1 and "*" not in key.scopes
    families = {scope.partition(":")[0] for scope in key.scopes}
    is_near = any(scope.partition(":")[0] in families for scope in needs)
    if surface == "cli" and is_narrow and not is_near:
        return False  # commands take longer
    named = f"{operation} {key.name} {surface}"
    if surface in ("rest", "mcp") and is_narrow and not is_near:
        return is_tried(named, _NARROW_PART, thorough=thorough)
    return surface != "cli" or (is_near and is_narrow) or is_tried(named, _COMMAND_PART, thorough=thorough)


async def _gathered(calls: list[Callable[[], Awaitable[None]]]) -> None:
    places = asyncio.Semaphore(_AT_ONCE)

    async def one(call: Callable[[], Awaitable[None]]) -> None:
        async with places:
            await call()

    await asyncio.gather(*map(one, calls))


async def _plant(world: World) -> dict[str, str]:
    """Give the default tenant something of everything; gives the names."""
    gate = world.client.gate

    async def do(operation: str, **arguments: Any) -> Any:
        return await internal_call(gate, local_owner(), operation, arguments, surface="cli")

    for document in (_PLANTED, _DANGEROUS):
        await do("workflow.create", document=document)
    run = await do("workflow.execute", workflow_id="planted", input={"text": _MARK})
    schedule = await do("schedule.create", workflow_id="planted", cron="0 3 * * *", input={"text": _MARK})
    hook = await do("webhook.create", url="https://example.com/planted-content", events=["run.completed"])
    delivery = await do("webhook.test", endpoint_id=hook.webhook.id)
    told = {"notification_id": "planted", "url": "https://example.com/planted-content"}
    await do("notification.set", execution_id=run.execution_id, **told)
    key = await do("key.create", name=_MARK, scopes=["workflow:run"], kind="agent")
    await do("schema.create", id="planted", schema={"description": _MARK})
    await do("model.create", id="planted", provider="openai", model=_MARK)
    await do("tool.create", id="planted", name=_MARK, kind="step")
    await do("agent.create", id="planted", model="planted", description=_MARK)
    started = await world.client("POST", "workflows/dangerous/executions", {"input": {"text": _MARK}}, key=key.secret)
    assert started.status == 202, started
    talk = await world.client("POST", "agents/planted/messages", {"message": _MARK})
    assert talk.status == 202, talk
    await do("memory.put", scope="tenant", key="planted", value=_MARK)
    agent = f"key:{key.key.id}"
    hold = await do("audit.hold", reason=_MARK, principal=agent)
    grant = await do("grant.create", principal=agent, capabilities=["workflow:dangerous"], expires_in="2h", note=_MARK)
    await do("policy.put", policy_id="planted", text=_POLICY)
    await do("quota.set", subject=agent, runs_per_day=4711)
    revoked = await do("token.revoke", issuer="company", subject=_MARK, reason=_MARK)
    checkpoint = await do("audit.checkpoint")
    await do("graph.create", id="planted", schema="node Person { name: String @key }", description=_MARK)
    record = json.dumps({"type": "Person", "data": {"name": _MARK}})
    loaded = await do("graph.load", graph_id="planted", data=record)
    source = "query find($name: String) { match { $p: Person { name: $name } } return { $p } }"
    await do("graph.queries_put", graph_id="planted", name="find", source=source)
    return {
        "console_session_id": await _signed_in(world.client),
        "workflow_id": "planted",
        "execution_id": run.execution_id,
        "schedule_id": schedule.schedule_id,
        "endpoint_id": hook.webhook.id,
        "key_id": key.key.id,
        "schema_id": "planted",
        "model_id": "planted",
        "graph_id": "planted",
        "commit_id": loaded.commit.commit_id,
        "name": "find",
        "tool_id": "planted",
        "agent_id": "planted",
        "session_id": talk.json()["session_id"],
        "task_id": "done",
        "node_id": "ask",
        "server": "planted",
        "tool": "planted",
        "subject": agent,
        "delivery_id": delivery.id,
        "notification_id": "planted",
        "draft_id": started.json()["held"]["draft_id"],
        "hold_id": hold.hold_id,
        "policy_id": "planted",
        "grant_id": grant.id,
        "revocation_id": revoked.id,
        "seq": str(checkpoint.size),
        "version": "1",
        "scope": "tenant",
        "key": "planted",
    }


async def _signed_in(client: Client) -> str:
    """Sign the owner in to the console; gives the id of the session."""
    form = {
        "content-type": "application/x-www-form-urlencoded",
        "origin": PUBLIC_URL,
        "host": urlsplit(PUBLIC_URL).netloc,
    }
    answer = await client("POST", "/console/sign-in", urlencode({"key": client.key}).encode(), headers=form, key="")
    assert (answer.status, answer.headers["location"]) == (303, "/console"), answer
    [session] = (await client("GET", "console-sessions")).json()["items"]
    return str(session["id"])


async def _refuse_invented(world: World, names: dict[str, str]) -> None:
    """Every name must be of something that is there: a sweep about what nobody has proves nothing."""
    paths = [item.route.path.removeprefix("/") for item in world.operations.values() if item.route is not None]
    named = {name for path in paths for name in _PATH_NAME.findall(path)}
    assert named == names.keys(), "plant one of each, and no other"
    told = ""
    for item in world.operations.values():
        assert item.route is not None
        if item.route.method == "GET" and item.name not in _NOT_ASKED:
            path = _PATH_NAME.sub(lambda found: names[found[1]], item.route.path).removeprefix("/")
            answer = await world.client("GET", path + _ASKED_WITH.get(item.name, ""))
            assert answer.status == 200, (item.name, answer)
            told += answer.body.decode()
    for name in named - {"node_id", "tool"}:  # of a node and an imported tool there are no lists that are asked here
        # Numbers are not in quotes; that there is something of that number was answered with 200 above.
        assert f'"{names[name]}"' in told or name in ("seq", "version"), name


async def _there_is(world: World, names: dict[str, str]) -> dict[str, Any]:
    """What the default tenant has, by where it is read."""
    paths = [
        "workflows/planted",
        f"executions/{names['execution_id']}",
        f"executions/{names['execution_id']}/history",
        f"executions/{names['execution_id']}/notifications",
        f"schedules/{names['schedule_id']}",
        f"webhooks/{names['endpoint_id']}",
        "schemas/planted",
        "models/planted",
        "tools/planted",
        "agents/planted",
        "graphs/planted",
        "graphs/planted/export",
        "graphs/planted/queries/find",
        "workflows",
        "executions?workflow_id=planted",
        "schedules",
        f"drafts/{names['draft_id']}",
        "grants",
        "audit/holds",
        "policies/planted",
        "quotas",
        "tokens/revocations",
        "console-sessions",
    ]
    answers = {path: await world.client("GET", path) for path in [*paths, "upstreams"]}
    assert all(answer.status == 200 for answer in answers.values()), answers
    found = {path: answer.json() for path, answer in answers.items()}
    # Whether its server can be reached changes by itself.
    found["upstreams"] = [(item["server"], item["tools"], item["sign_in"]) for item in found["upstreams"]["items"]]
    return found


async def run_sweep(folder: Path, *, thorough: bool = True) -> Sweep:
    """Make every call, and judge each."""
    sweep = Sweep()
    async with _world(folder) as world:
        names = await _plant(world)
        await _refuse_invented(world, names)
        before = await _there_is(world, names)
        keys = await _keys(world)
        sweep.operations, sweep.keys = len(world.operations), len(keys)

        def arguments(operation: str, key: Key) -> dict[str, Any] | None:
            """For another tenant's key: arguments that fit, about what is not theirs."""
            if operation == _ENDLESS:
                return {"last_event_id": _NO_POSITION}
            if key.tenant == "default":
                return None
            about = _PATH_NAME.findall(world.operations[operation].route.path)  # type: ignore[union-attr]  # all have one
            return {name: names[name] for name in about} | BODIES.get(operation, {})

        def judge(operation: str, surface: str, key: Key, found: Decision, text: str) -> None:
            sweep.judge(operation, surface, key, found)
            if key.tenant != "default" and _MARK in text:
                sweep.leaks.append(f"{operation} over {surface}: {text[:200]}")

        async def one(operation: str, surface: str, key: Key) -> None:
            try:
                found, text = await getattr(world, surface)(operation, key, arguments(operation, key))
            except RuntimeError as error:
                sweep.errors.append(f"{surface}: {error}")
                return
            judge(operation, surface, key, found, text)

        async def commands(key: Key) -> None:
            chosen = {name: arguments(name, key) for name in swept if _is_worth_it(name, "cli", key, thorough=thorough)}
            # Not in the loop's own threads: the server in this process needs them for the answers.
            found_by_name = await asyncio.get_running_loop().run_in_executor(threads, world.commands, key, chosen)
            for operation, (found, text) in found_by_name.items():
                judge(operation, "cli", key, found, text)

        swept = [name for name in world.operations if name in table().needs]
        direct = [
            partial(one, operation, surface, key)
            for surface in ("rest", "mcp", "sdk")
            for key in keys
            for operation in swept
            if _is_worth_it(operation, surface, key, thorough=thorough)
        ]
        threads = ThreadPoolExecutor(_COMMANDS_AT_ONCE)
        try:
            await _gathered([*(partial(commands, key) for key in keys), *direct])
        finally:
            # Never wait here: commands wait for answers of this very loop.
            threads.shutdown(wait=False, cancel_futures=True)
        after = await _there_is(world, names)
        sweep.changed = [path for path, value in before.items() if after[path] != value]
    return sweep


def main() -> int:
    """Sweep, and print the figures."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="penstock-sweep-") as folder:
        sweep = asyncio.run(run_sweep(Path(folder)))
    told = {
        "operations": sweep.operations,
        "keys": sweep.keys,
        "calls": sweep.calls,
        "bypasses": sweep.bypasses,
        "wrongly_refused": sweep.wrongly_refused,
        "leaks": sweep.leaks,
        "errors": sweep.errors,
        "changed": sweep.changed,
        "seconds": round(time.monotonic() - began, 1),
        "ok": sweep.ok,
    }
    print(json.dumps(told))
    return 0 if sweep.ok else 1


if __name__ == "__main__":
    sys.exit(main())
