"""Revoked tokens and subjects: from the next request on, in open streams, in calls in flight, and in what they made."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from penstock.app.gate import local_owner, open_gate
from penstock.app.penstock import Penstock
from penstock.base.errors import Denied
from penstock.operations.gate.context import Credentials, GateLimits, ServerParts
from tests.issuers import Issuer, IssuerDirectory
from tests.unit.operations.conftest import Caller
from tests.waiting import SECONDS_MAX

pytestmark = pytest.mark.anyio

WAITS = {
    "penstock": "v1",
    "name": "waits",
    "nodes": [{"id": "go", "type": "wait", "signal": "go"}, {"id": "done", "type": "end"}],
}
ISSUER = Issuer()


@asynccontextmanager
async def opened(folder: Path, **limits: Any) -> AsyncIterator[Caller]:
    server = ServerParts(tokens=IssuerDirectory([ISSUER]).choices())
    async with (
        Penstock.open(folder / "penstock.db") as penstock,
        open_gate(penstock, server=server, chosen=GateLimits(**limits)) as gate,
    ):
        yield Caller(gate, local_owner(), penstock)


def with_token(caller: Caller, token: str) -> Caller:
    return Caller(caller.gate, Credentials(bearer=token), caller.penstock)


async def test_a_revoked_token_fails_on_the_next_request_and_others_of_the_subject_do_not(tmp_path: Path) -> None:
    async with opened(tmp_path) as owner:
        one, other = (with_token(owner, ISSUER.token(jti=name)) for name in ("one", "other"))
        await one.call("workflow.list")
        made = await owner.call("token.revoke", issuer="company", token_id="one", reason="lost")
        assert (await one.refusal("workflow.list")).code == "TOKEN_REVOKED"
        await other.call("workflow.list")
        assert [item["id"] for item in (await owner.call("token.list_revoked"))["items"]] == [made["id"]]


async def test_a_revoked_subject_cannot_come_back_with_a_new_token_until_it_is_let_in(tmp_path: Path) -> None:
    async with opened(tmp_path) as owner:
        made = await owner.call("token.revoke", issuer="company", subject="ada")
        for _ in range(2):
            assert (await with_token(owner, ISSUER.token()).refusal("workflow.list")).code == "TOKEN_REVOKED"
        await with_token(owner, ISSUER.token(sub="bob")).call("workflow.list")
        await owner.call("token.restore", revocation_id=made["id"])
        await with_token(owner, ISSUER.token()).call("workflow.list")
        assert (await owner.refusal("token.restore", revocation_id=made["id"])).code == "REVOCATION_NOT_FOUND"


async def test_keys_that_a_revoked_subject_made_end_with_it_and_so_do_theirs(tmp_path: Path) -> None:
    async with opened(tmp_path, standing_authority_ms=3_600_000) as owner:
        ada = with_token(owner, ISSUER.token(scope="workflow:read key:write"))
        made = await ada.call("key.create", name="first", scopes=["key:write", "workflow:read"])
        assert made["key"]["expires_at"] is not None  # nothing that a token makes lasts for ever
        first = ada.with_key(made["secret"])
        second = await first.new_caller("workflow:read")
        await second.call("workflow.list")
        revoked = await owner.call("token.revoke", issuer="company", subject="ada")
        assert len(revoked["revoked_keys"]) == 2
        for key in (first, second):
            assert (await key.refusal("workflow.list")).code == "KEY_REVOKED"


async def test_a_call_in_flight_and_an_open_stream_end_when_the_subject_is_revoked(tmp_path: Path) -> None:
    async with asyncio.timeout(SECONDS_MAX), opened(tmp_path) as owner:
        await owner.call("workflow.create", document=WAITS)
        ada = with_token(owner, ISSUER.token())
        started = await ada.call("workflow.execute", workflow_id="waits")
        stream = await ada.stream("execution.stream", execution_id=started["execution_id"])
        events = aiter(stream.events)
        await anext(events)
        waiting = asyncio.create_task(ada.outcome("execution.wait", execution_id=started["execution_id"]))
        await asyncio.sleep(0)
        await owner.call("token.revoke", issuer="company", subject="ada")
        last = [event async for event in events][-1]
        assert isinstance(last.data, dict)
        assert (last.event, last.data["code"]) == ("closed", "TOKEN_EXPIRED")
        outcome = await waiting
        assert outcome.error.code == "TOKEN_REVOKED"  # type: ignore[union-attr]


async def test_a_token_that_expires_ends_its_stream_and_not_its_call(tmp_path: Path) -> None:
    async with asyncio.timeout(SECONDS_MAX), opened(tmp_path) as owner:
        await owner.call("workflow.create", document=WAITS)
        ada = with_token(owner, ISSUER.token())
        principal = await ada.principal()
        assert principal.token is not None
        authenticator = owner.gate.authenticator
        assert await authenticator.still_valid(principal)

        class Later:
            def now_ms(self) -> int:
                return principal.token.expires_at  # type: ignore[union-attr]

            def elapsed_ms(self) -> int:
                return 0

        authenticator._tokens._clock = Later()  # type: ignore[union-attr]
        assert not await authenticator.still_valid(principal)
        assert await authenticator.may_finish(principal.token)


async def test_who_may_revoke(tmp_path: Path) -> None:
    async with opened(tmp_path) as owner:
        clerk = await owner.new_caller("workflow:read")
        assert (await clerk.refusal("token.revoke", issuer="company", subject="x")).code == "SCOPE_REQUIRED"
        elsewhere = await owner.new_caller("token:*", tenant="acme")
        refused = await elsewhere.refusal("token.revoke", issuer="company", subject="ada", tenant="default")
        assert refused.code == "SCOPE_REQUIRED"
        await elsewhere.call("token.revoke", issuer="company", subject="ada")
        await with_token(owner, ISSUER.token()).call("workflow.list")  # of the default tenant


async def test_what_is_revoked_must_be_named_clearly(tmp_path: Path) -> None:
    async with opened(tmp_path) as owner:
        assert (await owner.refusal("token.revoke", issuer="typo", subject="x")).code == "ISSUER_UNKNOWN"
        for wrong in ({}, {"subject": "x", "token_id": "y"}):
            assert (await owner.refusal("token.revoke", issuer="company", **wrong)).code == "INVALID_ARGUMENTS"
        with pytest.raises(Denied):
            await with_token(owner, "a.b.c").principal()
