"""Profile `core`: the seven requests of the profile's published runner, and its 35 assertions, one check each.

A pass says that clients of the profile can talk to the server. It says little about governance: a stub passes too. The
other profiles carry the weight.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from penstock.cli.verify.checks import CheckFailed, Profile, expect
from penstock.cli.verify.kit import LEDGER, TRANSACTION, Kit
from penstock.cli.verify.target import Answer, Json

__all__ = ["CORE"]

CORE = Profile("core", "Clients of the profile can talk to the server.")

_OK = 200
_UNAUTHENTICATED = 401
_NOT_SERVED = (404, 405, 501)
_WHY = "Clients of the profile read exactly this; without it they stop."


async def _no_auth(kit: Kit) -> Answer:
    return await kit.agent(None).request("GET", "/manifest")


async def _manifest(kit: Kit) -> Answer:
    return await kit.agent(await kit.token()).request("GET", "/manifest")


async def _ledgers(kit: Kit) -> Answer:
    return await kit.agent(await kit.token()).request("GET", "/ledgers")


async def _transactions(kit: Kit) -> Answer:
    return await kit.agent(await kit.token()).request("GET", "/transactions", query={"ledgerId": await _ledger(kit)})


async def _preflight(kit: Kit) -> Answer:
    body = {"action": "transaction.delete", "payload": {"transactionId": TRANSACTION}}
    return await kit.agent(await kit.token()).request("POST", "/preflight", body)


async def _action(kit: Kit) -> Answer:
    payload = {
        "ledgerId": await _ledger(kit),
        "kind": "expense",
        "title": "Conformance Test",
        "amount_home": 10,
        "currency_home": "USD",
        "date": "2026-02-13T00:00:00.000Z",
    }
    body = {"action": "transaction.create", "payload": payload}
    return await kit.agent(await kit.token()).request("POST", "/actions", body)


async def _draft(kit: Kit) -> Answer:
    return await kit.agent(await kit.token()).request("GET", f"/drafts/{_draft_id(await _sent(kit, 'action'))}")


_REQUESTS: dict[str, Callable[[Kit], Awaitable[Answer]]] = {
    "no-auth": _no_auth,
    "manifest": _manifest,
    "ledgers": _ledgers,
    "transactions": _transactions,
    "preflight": _preflight,
    "action": _action,
    "draft": _draft,
}


async def _sent(kit: Kit, name: str) -> Answer:
    """Return the answer to one of the seven requests, which is made once."""
    return await kit.once(f"core.{name}", lambda: _REQUESTS[name](kit))


async def _ledger(kit: Kit) -> str:
    """Return the id of the first ledger, as the published runner chooses it."""
    items = (await _sent(kit, "ledgers")).items
    return str(items[0]["id"]) if items and isinstance(items[0].get("id"), str) else LEDGER


def _draft_id(answer: Answer) -> object:
    draft = answer.data.get("draft")
    return draft.get("id") if isinstance(draft, dict) else None


@dataclass(frozen=True, slots=True)
class _Assertion:
    """One assertion on the answer to a request."""

    request: str
    name: str
    requirement: str
    holds: Callable[[Answer], bool]

    async def __call__(self, kit: Kit) -> None:
        answer = await _sent(kit, self.request)
        expect(self.holds(answer), self.requirement, str(answer))


def _success(name: str, what: str) -> list[_Assertion]:
    """Return the four assertions on every success."""
    return [
        _Assertion(name, "status", f"{what} answers 200.", lambda answer: answer.status == _OK),
        _Assertion(name, "ok", f"{what} says `ok: true`.", lambda answer: answer.body.get("ok") is True),
        _Assertion(name, "code", f"{what} has a code.", lambda answer: answer.code is not None),
        _Assertion(name, "data", f"{what} has an object as `data`.", _has_data),
    ]


def _has_data(answer: Answer) -> bool:
    return isinstance(answer.body.get("data"), dict)


def _has(member: str, kind: type) -> Callable[[Answer], bool]:
    return lambda answer: isinstance(answer.data.get(member), kind)


_ASSERTIONS: list[_Assertion] = [
    _Assertion("no-auth", "status", "Without a token the manifest is a 401.", lambda a: a.status == _UNAUTHENTICATED),
    _Assertion("no-auth", "ok", "The 401 says `ok: false`.", lambda a: a.body.get("ok") is False),
    _Assertion("no-auth", "code", "The 401 has a code.", lambda a: a.code is not None),
    _Assertion("no-auth", "message", "The 401 has a message.", lambda a: isinstance(a.body.get("message"), str)),
    *_success("manifest", "The manifest"),
    _Assertion("manifest", "tools", "The manifest lists tools.", _has("tools", list)),
    *_success("ledgers", "The list of ledgers"),
    _Assertion("ledgers", "items", "Ledgers are listed as `items`.", _has("items", list)),
    *_success("transactions", "The list of transactions"),
    _Assertion("transactions", "items", "Transactions are listed as `items`.", _has("items", list)),
    *_success("preflight", "A preflight"),
    _Assertion("preflight", "hash", "A preflight has the hash of its impact.", _has("impactHash", str)),
    *_success("action", "An action"),
    _Assertion("action", "draft", "An action becomes a draft.", lambda a: isinstance(_draft_id(a), str)),
    *_success("draft", "A draft"),
]


@CORE.check("Each of the six addresses of the profile is served.", _WHY)
async def addresses(kit: Kit) -> None:
    """The published runner checks its own list here; a black box can check that the addresses are there."""
    for name in _REQUESTS:
        answer = await _sent(kit, name)
        if answer.status in _NOT_SERVED:
            raise CheckFailed("an address that is served", str(answer))


for _assertion in _ASSERTIONS:
    CORE.add(f"{_assertion.request}-{_assertion.name}", _assertion.requirement, _WHY, _assertion)


@CORE.check("A draft is read under the id that the action answered with.", _WHY)
async def draft_id(kit: Kit) -> None:
    """The last assertion compares two answers."""
    action, draft = await _sent(kit, "action"), await _sent(kit, "draft")
    found: Json = draft.data
    expect(_draft_id(draft) == _draft_id(action), f"the draft {_draft_id(action)}", found)
