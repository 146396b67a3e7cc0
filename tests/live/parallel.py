"""Many requests to a live server at the same moment."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx2

from tests.live.rest.servers import Answer
from tests.live.tenants import Member
from tests.waiting import SECONDS_MAX

__all__ = ["Call", "at_once"]


@dataclass(frozen=True, slots=True)
class Call:
    """One request."""

    method: str
    path: str
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)


def at_once(who: Member, calls: Sequence[Call]) -> list[Answer]:
    """Make requests at once, each on a connection of its own; their answers in the same order."""
    return asyncio.run(_all(who, calls))


async def _all(who: Member, calls: Sequence[Call]) -> list[Answer]:
    headers = {"Authorization": f"Bearer {who.key}"}
    limits = httpx2.Limits(max_connections=None)
    base = f"{who.server.url}/api/v0/"
    async with httpx2.AsyncClient(
        base_url=base, headers=headers, limits=limits, timeout=SECONDS_MAX, trust_env=False
    ) as client:

        async def make(call: Call) -> Answer:
            response = await client.request(call.method, call.path, json=call.body, headers=call.headers)
            return Answer(response.status_code, dict(response.headers), response.content)

        return list(await asyncio.gather(*map(make, calls)))
