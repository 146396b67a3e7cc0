"""Bodies that are wrong: each is a 4xx in the envelope, on both planes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from penstock.cli.verify.checks import expect
from penstock.cli.verify.kit import Kit
from penstock.cli.verify.profiles.abuse.table import ABUSE
from penstock.cli.verify.target import Answer, Json, expect_refused

__all__: list[str] = []

_WHY = "A 5xx says that the server did not expect it; what else did it not expect?"
_DEPTH = 20_000
_HUGE = 12_000_000
_TRACES = ("Traceback", 'File "', "site-packages", "node_modules", "    at ", ".py:", "sqlite3")


def _nested() -> bytes:
    return b'{"action": "transaction.create", "payload": ' + b'{"a":' * _DEPTH + b"1" + b"}" * _DEPTH + b"}"


_BODIES: dict[str, tuple[str, Callable[[], bytes]]] = {
    "malformed-json": ("A body that is not JSON", lambda: b'{"action": "transaction.create", '),
    "empty-body": ("An empty body", lambda: b""),
    "array": ("A body that is a list", lambda: b"[1, 2, 3]"),
    "text": ("A body that is a text", lambda: b'"transaction.create"'),
    "null": ("A body that is null", lambda: b"null"),
    "not-utf8": ("A body that is not UTF-8", lambda: b'{"action": "\xff\xfe"}'),
    "deep": ("A body of many levels", _nested),
    "huge": ("A body of many megabytes", lambda: b'{"action": "' + b"x" * _HUGE + b'"}'),
    "lone-surrogate": ("Half of a surrogate pair", lambda: b'{"action": "\\ud800", "payload": {}}'),
    "no-action": ("A body without an action", lambda: b'{"payload": {}}'),
    "action-number": ("An action that is a number", lambda: b'{"action": 7, "payload": {}}'),
    "payload-text": ("A payload that is a text", lambda: b'{"action": "transaction.create", "payload": "x"}'),
    "payload-null": ("A payload that is null", lambda: b'{"action": "transaction.create", "payload": null}'),
    "infinity": (
        "NaN as a number",
        lambda: b'{"action": "transaction.create", "payload": {"amount_home": NaN}}',
    ),
    "big-number": (
        "A number beyond all bounds",
        lambda: b'{"action": "transaction.create", "payload": {"ledgerId": "ledger_main", "amount_home": 1e999}}',
    ),
}


async def _refused(name: str, path: str, kit: Kit) -> None:
    plane = (await kit.shared_app()).agent
    expect_refused(await plane.request("POST", path, content=_BODIES[name][1]()))


for _name, (_what, _) in _BODIES.items():
    ABUSE.add(f"actions-{_name}", f"{_what} is a 4xx in the envelope.", _WHY, partial(_refused, _name, "/actions"))
for _name in ("malformed-json", "array", "not-utf8", "deep", "no-action"):
    ABUSE.add(
        f"preflight-{_name}",
        f"{_BODIES[_name][0]} is a 4xx in the envelope for a preflight too.",
        _WHY,
        partial(_refused, _name, "/preflight"),
    )


async def _refused_by_admin(name: str, kit: Kit) -> None:
    answer = await kit.admin.request("POST", "/apps", content=_BODIES[name][1]())
    expect_refused(answer)


for _name in ("malformed-json", "empty-body", "array", "deep"):
    ABUSE.add(
        f"admin-{_name}",
        f"{_BODIES[_name][0]} is a 4xx in the envelope on the admin plane too.",
        _WHY,
        partial(_refused_by_admin, _name),
    )


@ABUSE.check("A 400 for a body that is not JSON has a code of validation.", "Clients act on the code.")
async def malformed_json_has_code(kit: Kit) -> None:
    plane = (await kit.shared_app()).agent
    answer = await plane.request("POST", "/actions", content=b"{")
    expect_refused(answer, 400, codes=("common.validation", "agent.action_invalid"))


@ABUSE.check("A body of another media type is refused.", "A form of a web page can send text without asking anybody.")
async def other_media_type(kit: Kit) -> None:
    plane = (await kit.shared_app()).agent
    body = b'{"action": "transaction.create", "payload": {}}'
    for kind in ("text/plain", "application/x-www-form-urlencoded", "application/xml"):
        answer = await plane.request("POST", "/actions", content=body, headers={"content-type": kind})
        expect_refused(answer, 400, 415)


@ABUSE.check("Refusals say nothing of the inside of the server.", "Paths and traces are a map for an attacker.")
async def no_traces(kit: Kit) -> None:
    plane = (await kit.shared_app()).agent
    answers: list[Answer] = [
        await plane.request("POST", "/actions", content=_BODIES[name][1]()) for name in ("deep", "not-utf8", "infinity")
    ]
    answers.append(await plane.request("GET", "/drafts/%00"))
    answers.append(await plane.request("GET", "/transactions", query={"ledgerId": "'; DROP TABLE runs; --"}))
    leaked: list[Json] = [
        {"sign": sign, "answer": str(answer)} for answer in answers for sign in _TRACES if sign in answer.text
    ]
    expect(not leaked, "no trace of the inside", leaked[:1])
