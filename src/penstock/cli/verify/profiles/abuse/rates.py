"""Rates: only a caller who asks too much has to wait. These checks exhaust limits, so they run last."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from itertools import count

from penstock.cli.verify.checks import CheckFailed, NotApplicable, expect
from penstock.cli.verify.kit import App, Kit
from penstock.cli.verify.profiles.abuse.table import ABUSE
from penstock.cli.verify.target import Answer, Json, expect_data

__all__: list[str] = []

_REQUESTS_MAX = 3_000
_AT_ONCE = 24
_TOO_MANY = 429
_BUCKET = "A limit that anybody can step around limits only the honest."


async def _flooded(send: Callable[[], Awaitable[Answer]]) -> Answer:
    """Send requests until one of them has to wait; the check is not applicable if none has to.

    A server may also limit how many requests it works on at once. Fewer at once are sent after that.
    """
    sent, at_once = 0, _AT_ONCE
    while sent < _REQUESTS_MAX:
        answers = await asyncio.gather(*(send() for _ in range(at_once)))
        sent += at_once
        if any(answer.status == _TOO_MANY for answer in answers):
            answer = await send()
            if answer.status == _TOO_MANY:
                return answer
            at_once = max(1, at_once // 2)
    raise NotApplicable(f"no limit was reached with {_REQUESTS_MAX} requests; configure a lower one to check it")


async def _limited(kit: Kit) -> tuple[App, Answer]:
    """Return an app that is above its limit, and the answer that told it so."""
    app = await kit.app()
    return app, await _flooded(lambda: app.agent.request_once("GET", "/ledgers"))


async def _asks(app: App, headers: Mapping[str, str] | None = None) -> Answer:
    return await app.agent.request_once("GET", "/ledgers", headers=headers)


def _forged_address(number: int) -> str:
    return f"203.0.{number // 250 % 250}.{number % 250}"


@ABUSE.check("Too many requests are a 429 with `agent.rate_limited` in the envelope.", "Clients act on the code.")
async def rate_limited(kit: Kit) -> None:
    _, answer = await _limited(kit)
    expect(answer.is_enveloped_refusal and answer.code == "agent.rate_limited", "agent.rate_limited", answer)


@ABUSE.check("A 429 says when to come back.", "Clients that are not told come back at once, all together.")
async def retry_after(kit: Kit) -> None:
    _, answer = await _limited(kit)
    wait = answer.headers.get("retry-after", "")
    expect(wait.isdecimal() and int(wait) >= 1, "Retry-After in whole seconds", wait or "no Retry-After")


@ABUSE.check("A forged address does not get around the limit.", _BUCKET)
async def forged_address_does_not_help(kit: Kit) -> None:
    app, _ = await _limited(kit)
    numbers = count(1)

    def send() -> Awaitable[Answer]:
        forged = _forged_address(next(numbers))
        return _asks(app, {"x-forwarded-for": forged, "x-real-ip": forged})

    try:
        await _flooded(send)
    except NotApplicable:
        raise CheckFailed("a 429 as without forged addresses", f"none after {_REQUESTS_MAX} requests") from None


@ABUSE.check("Another app is not limited with it.", "One greedy agent must not stop the others.")
async def others_are_not_limited(kit: Kit) -> None:
    other = await kit.app()
    await _limited(kit)
    expect_data(await _asks(other))


@ABUSE.check("A caller who waits is served again.", "A limit that does not end is an outage.")
async def served_after_waiting(kit: Kit) -> None:
    app, answer = await _limited(kit)
    wait = answer.headers.get("retry-after", "")
    if not wait.isdecimal() or int(wait) > 65:  # noqa: PLR2004  # a minute is how long limits usually are
        raise NotApplicable("the server does not say within a minute when to come back")
    await asyncio.sleep(int(wait) + 0.2)
    expect((await _asks(app)).status != _TOO_MANY, "no 429", "429")


@ABUSE.check("Reads count against a limit as well.", "Copying everything is an attack too.")
async def reads_count(kit: Kit) -> None:
    app = await kit.app()
    answer = await _flooded(lambda: app.agent.request_once("GET", "/transactions", query={"ledgerId": "ledger_main"}))
    expect(answer.status == _TOO_MANY, "429", answer)


@ABUSE.check("A limited call over MCP has to wait too.", "A second door with other limits is the one that is used.")
async def mcp_is_limited(kit: Kit) -> None:
    app = await kit.app()
    client = await kit.mcp(app.token)
    name = await client.tool("ledger.list")
    seen: list[Answer] = []
    for _ in range(_REQUESTS_MAX // _AT_ONCE):
        sent = (client.send_once("tools/call", {"name": name, "arguments": {}}) for _ in range(_AT_ONCE))
        seen = [item for item in await asyncio.gather(*sent) if item.status == _TOO_MANY or "RATE_LIMITED" in item.text]
        if seen:
            break
    if not seen:
        raise NotApplicable(f"no limit was reached with {_REQUESTS_MAX} calls; configure a lower one to check it")
    # Answers that had begun when the limit was reached have a status already; those after it have the right one.
    seen += [await client.send_once("tools/call", {"name": name, "arguments": {}}) for _ in range(_AT_ONCE)]
    told = [answer for answer in seen if answer.status == _TOO_MANY and answer.headers.get("retry-after")]
    expect(told, "429 with Retry-After", seen[-1])


@ABUSE.check("Strangers are limited by their address.", "Guessing tokens must not be free.")
async def strangers_are_limited(kit: Kit) -> None:
    answer = await _flooded(lambda: kit.agent("op_" + "G" * 43).request_once("GET", "/manifest"))
    expect(answer.is_enveloped_refusal, "429 in the envelope", answer)
    expect(answer.headers.get("retry-after"), "Retry-After", answer)


@ABUSE.check("A forged address does not help strangers either.", _BUCKET)
async def forged_strangers_are_limited(kit: Kit) -> None:
    numbers = count(1)

    def send() -> Awaitable[Answer]:
        forged = {"x-forwarded-for": _forged_address(next(numbers))}
        return kit.agent("op_" + "H" * 43).request_once("GET", "/manifest", headers=forged)

    answer = await _flooded(send)
    expect(answer.status == _TOO_MANY, "429", answer)


@ABUSE.check("A known caller is served while strangers are limited.", "Otherwise a flood locks everybody out.")
async def known_callers_are_served(kit: Kit) -> None:
    await _flooded(lambda: kit.agent("op_" + "K" * 43).request_once("GET", "/manifest"))
    expect_data(await _asks(await kit.app()))


@ABUSE.check("A 429 leaves an event.", "A flood that nobody sees afterwards is a flood that returns.")
async def limited_call_is_recorded(kit: Kit) -> None:
    before = {event.get("id") for event in await kit.audit()}
    app, _ = await _limited(kit)

    def holds(event: Json) -> bool:
        own = event.get("key_id") == app.key_id and event.get("code") == "agent.rate_limited"
        # A server may count the refusals of a flood in one event, after a while.
        counted = event.get("id") not in before and "agent.rate_limited" in str(event.get("details"))
        return own or counted

    found = await kit.events(holds, seconds_max=90.0)
    expect(found, "an event with agent.rate_limited", found or "none")
