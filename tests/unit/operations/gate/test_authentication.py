"""Keys are looked up as they are now, however little has to be read for it."""

from __future__ import annotations

import sqlite3

import pytest
from msgspec.structs import replace

from penstock.base.errors import Denied
from penstock.governance.keys import secret_matches
from penstock.operations.gate import authentication
from penstock.operations.gate.context import Credentials
from penstock.runtime.ports.database import Database
from penstock.runtime.ports.platform import KeyRow
from penstock.runtime.tables.api_keys import put_key, read_key, touch_keys
from penstock.runtime.tables.workers import list_workers
from tests.unit.operations.conftest import Caller, OpenGate

pytestmark = pytest.mark.anyio


async def refused(caller: Caller, secret: str) -> str | None:
    """The code with which a key is refused."""
    try:
        await caller.gate.authenticator.authenticate(Credentials(bearer=secret))
    except Denied as error:
        return error.code
    return None


async def test_a_key_that_another_process_revokes_fails_on_the_next_request(open_caller: OpenGate) -> None:
    async with open_caller() as caller:
        made = await caller.call("key.create", name="one", scopes=["workflow:read"])
        secret, key_id = made["secret"], made["key"]["id"]
        other = await caller.new_caller("workflow:read")
        reader = caller.with_key(secret)
        for _ in range(3):
            await reader.call("workflow.list")
            await other.call("workflow.list")
        elsewhere = sqlite3.connect(str(caller.penstock.store.database.path), isolation_level=None)  # type: ignore[attr-defined]
        try:
            elsewhere.execute("UPDATE api_keys SET revoked_at = 1 WHERE key_id = ?", (key_id,))
        finally:
            elsewhere.close()
        # Another request is another turn of the event loop.
        await list_workers(caller.penstock.store.database)
        assert (await reader.refusal("workflow.list")).code == "KEY_REVOKED"
        await other.call("workflow.list")


async def test_a_key_that_is_changed_here_is_judged_anew_at_once(open_caller: OpenGate) -> None:
    async with open_caller() as caller:
        made = await caller.call("key.create", name="one", scopes=["workflow:read"])
        platform, secret = caller.gate.services.platform, made["secret"]
        assert await refused(caller, secret) is None
        row = await read_key(platform, made["key"]["id"])
        assert row is not None
        await put_key(platform, replace(row, expires_at=1))
        assert await refused(caller, secret) == "KEY_EXPIRED"
        await put_key(platform, replace(row, revoked_at=1))
        assert await refused(caller, secret) == "KEY_REVOKED"


async def test_a_key_expires_although_nothing_is_stored(open_caller: OpenGate) -> None:
    async with open_caller() as caller:
        made = await caller.call("key.create", name="one", scopes=["workflow:read"])
        row = await read_key(caller.gate.services.platform, made["key"]["id"])
        assert row is not None
        clock = caller.gate.services.clock
        await put_key(caller.gate.services.platform, replace(row, expires_at=clock.now_ms() + 60_000))
        assert await refused(caller, made["secret"]) is None
        later = caller.gate.services.clock.now_ms() + 61_000

        class Later:
            def now_ms(self) -> int:
                return later

            def elapsed_ms(self) -> int:
                return 0

        caller.gate.authenticator._clock = Later()
        assert await refused(caller, made["secret"]) == "KEY_EXPIRED"


async def test_only_the_whole_secret_opens(open_caller: OpenGate) -> None:
    async with open_caller() as caller:
        secret = (await caller.call("key.create", name="one", scopes=["workflow:read"]))["secret"]
        other = (await caller.call("key.create", name="two", scopes=["workflow:read"]))["secret"]
        assert await refused(caller, secret) is None
        swapped = secret[: secret.rindex("_")] + other[other.rindex("_") :]
        for wrong in (secret[:-1], secret + "x", swapped, secret.upper(), "", "\ud800"):
            for _ in range(2):
                assert await refused(caller, wrong) == "UNAUTHENTICATED", wrong
        assert await refused(caller, secret) is None


async def test_whoever_goes_on_is_looked_up_again_only_after_a_change(
    open_caller: OpenGate, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_caller() as caller:
        made = await caller.call("key.create", name="one", scopes=["workflow:read"])
        key_id, platform = made["key"]["id"], caller.gate.services.platform
        row = await read_key(platform, key_id)
        assert row is not None
        looked_up: list[str] = []

        async def noting(database: Database, wanted: str) -> KeyRow | None:
            looked_up.append(wanted)
            return await read_key(database, wanted)

        monkeypatch.setattr(authentication, "read_key", noting)
        assert all([await caller.gate.authenticator.holds(key_id) for _ in range(50)])
        assert looked_up == [key_id]
        await put_key(platform, replace(row, revoked_at=1))
        assert not await caller.gate.authenticator.holds(key_id)


async def test_a_key_that_somebody_else_saw_changed_is_judged_as_it_is_now(open_caller: OpenGate) -> None:
    async with open_caller() as caller:
        made = await caller.call("key.create", name="one", scopes=["workflow:read"])
        key_id, secret = made["key"]["id"], made["secret"]
        platform, authenticator = caller.gate.services.platform, caller.gate.authenticator
        assert await refused(caller, secret) is None
        row = await read_key(platform, key_id)
        assert row is not None
        await put_key(platform, replace(row, scopes=("workflow:run",)))
        assert await authenticator.holds(key_id)  # a stream was faster
        principal = await authenticator.authenticate(Credentials(bearer=secret))
        assert principal.scopes == frozenset({"workflow:run"})
        await put_key(platform, replace(row, revoked_at=1))
        assert not await authenticator.holds(key_id)
        assert await refused(caller, secret) == "KEY_REVOKED"


async def test_a_secret_that_was_replaced_opens_nothing_any_more(open_caller: OpenGate) -> None:
    async with open_caller() as caller:
        made = await caller.call("key.create", name="one", scopes=["workflow:read"])
        platform, secret = caller.gate.services.platform, made["secret"]
        assert await refused(caller, secret) is None
        row = await read_key(platform, made["key"]["id"])
        assert row is not None
        await put_key(platform, replace(row, secret_hash="0" * 64))
        assert await refused(caller, secret) == "UNAUTHENTICATED"
        await put_key(platform, row)
        assert await refused(caller, secret) is None


async def test_a_secret_that_was_proven_is_not_hashed_again_after_every_commit(
    open_caller: OpenGate, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_caller() as caller:
        made = await caller.call("key.create", name="one", scopes=["workflow:read"])
        assert await refused(caller, made["secret"]) is None
        hashed: list[str] = []

        def noting(pepper: bytes, key_id: str, secret: str, secret_hash: str) -> bool:
            hashed.append(key_id)
            return secret_matches(pepper, key_id, secret, secret_hash)

        monkeypatch.setattr(authentication, "secret_matches", noting)
        platform = caller.gate.services.platform
        for number in range(3):
            await touch_keys(platform, {"nobody": number})
            assert await refused(caller, made["secret"]) is None
        assert hashed == []
