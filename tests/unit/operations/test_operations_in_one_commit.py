"""Operations that store several things store all of them or none, whichever change the database refuses."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from penstock.app.gate import local_owner, open_gate
from penstock.app.penstock import Penstock
from penstock.base import limits
from penstock.base.errors import PenstockError
from penstock.base.json import JsonObject
from penstock.operations.gate.context import Principal, ServerParts
from penstock.operations.gate.internal_callers import internal_call, system_principal
from penstock.operations.permissions.console_sessions import LOGOUT_KIND, SessionRecord, new_session_id
from penstock.runtime.ports.platform import ANY_ETAG, ResourceRow
from penstock.runtime.tables.resources import list_all_resources, put_resource
from tests.issuers import Issuer, IssuerDirectory
from tests.unit.operations.conftest import Caller, double

pytestmark = pytest.mark.anyio

NOW = 1_767_225_600_000
ADA = "token:company:ada"
CONSOLE = system_principal("console", "key:write")
TOOL: JsonObject = {"id": "refund", "kind": "step", "name": "double"}
GUARD: JsonObject = {"scopes": ["refunds:pay"]}
LOOK: JsonObject = {"operation": "tool.create", "arguments": TOOL}

SCHEMA = "node Person {\n  name: String @key\n}\n"

Prepare = Callable[[Caller], Awaitable[tuple[Principal, JsonObject]]]


async def keys_of_a_subject(owner: Caller) -> tuple[Principal, JsonObject]:
    """Somebody with a token has made a key, and with it another one."""
    ada = Principal(id=ADA, tenant="default", kind="person", scopes=frozenset({"key:write"}), name="ada")
    first = await Caller(owner.gate, ada, owner.penstock).new_caller("key:write")
    await first.new_caller("key:write")
    return await owner.principal(), {"issuer": "company", "subject": "ada"}


async def two_sessions(owner: Caller) -> tuple[Principal, JsonObject]:
    return (await sessions(owner, 2))[0], {}


async def as_many_sessions_as_one_has(owner: Caller) -> tuple[Principal, JsonObject]:
    return await sessions(owner, limits.CONSOLE_SESSIONS_PER_PRINCIPAL_MAX)


async def sessions(owner: Caller, count: int) -> tuple[Principal, JsonObject]:
    """Begin so many sessions; return the arguments for one more."""
    person = await owner.principal()
    given: JsonObject = {}
    for number in range(count + 1):
        if given:
            await internal_call(owner.gate, person, "console_session.begin", given)
        record = SessionRecord(principal=person.id, name="ada", began_ms=NOW + number, used_ms=NOW + number)
        given = {"session_id": new_session_id(person.id), "record": msgspec.to_builtins(record)}
    return person, given


async def a_logout_of_long_ago(owner: Caller) -> tuple[Principal, JsonObject]:
    noted = ResourceRow(
        tenant="default", kind=LOGOUT_KIND, resource_id="old", body={}, etag="e", created_at=1, updated_at=1
    )
    await put_resource(owner.gate.services.platform, noted, expected_etag=None)
    return CONSOLE, {"logout_id": "new", "issuer": "company", "ended": 1}


async def a_guarded_tool(owner: Caller) -> tuple[Principal, JsonObject]:
    await owner.call("tool.create", **TOOL, governance=GUARD)
    return await owner.principal(), {"tool_id": "refund"}


async def a_tool_in_place_of_a_guarded_one(owner: Caller) -> tuple[Principal, JsonObject]:
    person, named = await a_guarded_tool(owner)
    await owner.call("tool.delete", **named)
    await owner.call("tool.create", **TOOL)
    return person, named


async def a_preflight_of_long_ago(owner: Caller) -> tuple[Principal, JsonObject]:
    platform = owner.gate.services.platform
    await owner.call("preflight.run", **LOOK)
    (row,) = await list_all_resources(platform, "preflight")
    expired = msgspec.structs.replace(row, body={**row.body, "expires_at": 1})
    await put_resource(platform, expired, expected_etag=ANY_ETAG)
    return await owner.principal(), LOOK


async def graphs_of_the_settings(owner: Caller) -> tuple[Principal, JsonObject]:
    """Two graphs that the settings declared."""
    platform = owner.gate.services.platform
    for name in ("crm", "erp"):
        await owner.call("graph.create", id=name, schema=SCHEMA)
    for row in await list_all_resources(platform, "graph"):
        declared = msgspec.structs.replace(row, body={**row.body, "of_settings": True})
        await put_resource(platform, declared, expected_etag=ANY_ETAG)
    return system_principal("settings", "graph:admin"), {"declared": []}


# The operation, what is there before it, and a change that the database refuses.
CASES: list[tuple[str, Prepare, str]] = [
    ("token.revoke", keys_of_a_subject, "INSERT ON resources WHEN NEW.kind = 'token_revocation'"),
    ("token.revoke", keys_of_a_subject, "UPDATE ON api_keys WHEN NEW.created_by = 'token:company:ada'"),
    ("token.revoke", keys_of_a_subject, "UPDATE ON api_keys WHEN NEW.created_by <> 'token:company:ada'"),
    ("key.sign_out", two_sessions, "INSERT ON resources WHEN NEW.kind = 'console_sign_out'"),
    ("key.sign_out", two_sessions, "DELETE ON resources WHEN OLD.updated_at = 1767225600000"),
    ("key.sign_out", two_sessions, "DELETE ON resources WHEN OLD.updated_at = 1767225600001"),
    ("console_session.begin", as_many_sessions_as_one_has, "DELETE ON resources WHEN OLD.kind = 'console_session'"),
    ("console_session.note_logout", a_logout_of_long_ago, "DELETE ON resources WHEN OLD.kind = 'console_logout'"),
    ("tool.delete", a_guarded_tool, "INSERT ON resources WHEN NEW.kind = 'deleted_tool'"),
    ("tool.delete", a_guarded_tool, "DELETE ON resources WHEN OLD.kind = 'tool'"),
    ("tool.delete", a_tool_in_place_of_a_guarded_one, "DELETE ON resources WHEN OLD.kind = 'deleted_tool'"),
    ("tool.delete", a_tool_in_place_of_a_guarded_one, "DELETE ON resources WHEN OLD.kind = 'tool'"),
    ("graph.release", graphs_of_the_settings, "UPDATE ON resources WHEN NEW.resource_id = 'crm'"),
    ("graph.release", graphs_of_the_settings, "UPDATE ON resources WHEN NEW.resource_id = 'erp'"),
    ("preflight.run", a_preflight_of_long_ago, "INSERT ON resources WHEN NEW.kind = 'preflight'"),
]


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[Caller]:
    server = ServerParts(tokens=IssuerDirectory([Issuer()]).choices())
    async with (
        Penstock.open(folder / "penstock.db", steps=[double]) as penstock,
        open_gate(penstock, server=server) as gate,
    ):
        yield Caller(gate, local_owner(), penstock)


async def stored(caller: Caller) -> list[tuple[Any, ...]]:
    """All keys and resources, and what was done."""
    database = caller.gate.services.platform
    keys = await database.rows("SELECT key_id, revoked_at FROM api_keys ORDER BY key_id")
    resources = await database.rows(
        "SELECT kind, tenant, resource_id, body FROM resources ORDER BY kind, tenant, resource_id"
    )
    allowed = await database.rows("SELECT operation, subject FROM audit WHERE outcome = 'allowed' ORDER BY seq")
    return [*keys, *resources, *allowed]


@pytest.mark.parametrize(("operation", "prepare", "refused"), CASES)
async def test_an_operation_stores_nothing_if_one_of_its_changes_is_refused(
    operation: str, prepare: Prepare, refused: str, tmp_path: Path
) -> None:
    async with opened(tmp_path) as owner:
        principal, arguments = await prepare(owner)
        database, before = owner.gate.services.platform, await stored(owner)
        trigger = f"CREATE TRIGGER refused BEFORE {refused} BEGIN SELECT RAISE(ABORT, 'refused'); END"
        await database.write(lambda transaction: transaction.execute(trigger))
        with pytest.raises(PenstockError):
            await internal_call(owner.gate, principal, operation, arguments)
        assert await stored(owner) == before
        await database.write(lambda transaction: transaction.execute("DROP TRIGGER refused"))
        await internal_call(owner.gate, principal, operation, arguments)
        assert await stored(owner) != before
