"""Fuzzing: random requests on both planes and over MCP, with and without a token; none of them is a 5xx.

The random numbers have a fixed seed, so that a failure can be repeated.
"""

from __future__ import annotations

import json
from functools import partial
from random import Random
from typing import Any

from penstock.cli.verify.checks import expect
from penstock.cli.verify.kit import Kit
from penstock.cli.verify.profiles.abuse.table import ABUSE
from penstock.cli.verify.target import Answer, Plane

__all__: list[str] = []

_SEED = 20_260_728
_REQUESTS = 150
_SERVER_ERROR = 500
_DEPTH_MAX = 4
_TEXTS = ("", "transaction.create", "ledger_main", "txn_1", "\u0000", "\ud83d\udca3", "../", "a" * 5_000, "true", "💣")
_NUMBERS = (0, -1, 1, 2**31, 2**53, 2**63, 2**64, -(2**63), 0.1, 1e308, 10**30)
_MEMBERS = (
    "action",
    "payload",
    "preflightId",
    "execute",
    "forceDraft",
    "requestId",
    "idempotencyKey",
    "justification",
    "preflightHash",
    "stateWitnessHash",
    "name",
    "scope",
    "scopes",
    "expiresAt",
    "network",
    "data",
    "writes",
    "high_risk",
    "__proto__",
    "__entity",
)
_AGENT_PATHS = (
    "/manifest",
    "/ledgers",
    "/transactions",
    "/preflight",
    "/actions",
    "/drafts/x",
    "/drafts/",
    "//",
    "/%2e",
)
_ADMIN_PATHS = (
    "/apps",
    "/apps/x",
    "/apps/x/keys",
    "/apps/x/revoke",
    "/apps/x/restore",
    "/apps/x/policy",
    "/apps/x/auto-execute",
    "/apps/x/tools",
    "/keys/x/revoke",
    "/drafts",
    "/drafts/x/approve",
    "/drafts/x/reject",
    "/audit",
)
_METHODS = ("GET", "POST", "PATCH", "PUT", "DELETE", "OPTIONS", "HEAD")
_RPC_METHODS = ("tools/list", "tools/call", "initialize", "ping", "resources/read", "prompts/get", "", "x")


def _value(random: Random, depth: int = 0) -> Any:
    kind = random.randrange(8 if depth < _DEPTH_MAX else 5)
    if kind == 0:
        return None
    if kind == 1:
        return random.random() < 0.5  # noqa: PLR2004  # a coin
    if kind == 2:  # noqa: PLR2004
        return random.choice(_NUMBERS)
    if kind in (3, 4):
        return random.choice(_TEXTS)
    if kind == 5:  # noqa: PLR2004
        return [_value(random, depth + 1) for _ in range(random.randrange(4))]
    return {random.choice(_MEMBERS): _value(random, depth + 1) for _ in range(random.randrange(6))}


def _content(random: Random) -> bytes:
    body = json.dumps(_value(random)).encode()
    if random.random() < 0.2:  # noqa: PLR2004  # one in five is broken
        place = random.randrange(len(body) + 1)
        body = body[:place] + random.randbytes(random.randrange(1, 8)) + body[place:]
    return body


async def _plane_holds(path: str, caller: str, kit: Kit) -> None:
    random, agent, known = Random(f"{_SEED}{path}{caller}"), path == "agent", caller == "known"
    if agent:
        plane: Plane = kit.agent((await kit.shared_app()).token if known else None)
    else:
        plane = kit.admin if known else kit.admin_with(None)
    broken: list[Answer] = []
    for _ in range(_REQUESTS):
        method = random.choice(_METHODS)
        # What the admin plane is sent must not succeed by chance: only reads and addresses that are not there.
        paths = _AGENT_PATHS if agent else _ADMIN_PATHS[1:]
        # Strangers are limited soon, and a refusal is an answer too.
        send = plane.request if known else plane.request_once
        answer = await send(method, random.choice(paths), content=_content(random))
        if answer.status >= _SERVER_ERROR:
            broken.append(answer)
    expect(not broken, f"no 5xx in {_REQUESTS} requests", f"{len(broken)}, first: {broken[:1] and broken[0]}")


for _path, _caller in (("agent", "known"), ("agent", "stranger"), ("admin", "known"), ("admin", "stranger")):
    ABUSE.add(
        f"fuzzed-{_path}-{_caller}",
        f"No random request of a {_caller.replace('known', 'known caller')} breaks the {_path} plane.",
        "A request that crashes one worker crashes all of them, one by one.",
        partial(_plane_holds, _path, _caller),
    )


@ABUSE.check("No random message breaks the MCP endpoint.", "A request that crashes one worker crashes all of them.")
async def fuzzed_mcp(kit: Kit) -> None:
    random = Random(_SEED)
    client = await kit.mcp((await kit.shared_app()).token)
    broken: list[Answer] = []
    for number in range(_REQUESTS):
        message = {"jsonrpc": "2.0", "id": number, "method": random.choice(_RPC_METHODS), "params": _value(random)}
        answer = await client.post(message if random.random() < 0.7 else _value(random))  # noqa: PLR2004
        if answer.status >= _SERVER_ERROR:
            broken.append(answer)
    expect(not broken, f"no 5xx in {_REQUESTS} messages", f"{len(broken)}, first: {broken[:1] and broken[0]}")
