"""Subscribes to resources of a server for as long as a connection lasts, in the way of its protocol era.

Older servers are sent `resources/subscribe` for each address. Those of the newest era get one `subscriptions/listen`
with all addresses, which is reopened when the addresses change.

Above it: `tool_listing` keeps a connection open for it. Below it: the official `mcp` client.
"""

from __future__ import annotations

import asyncio
import logging

from mcp.client.client import Client
from mcp.client.subscriptions import SubscriptionLost
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import ResourceUpdated
from mcp_types import (
    EmptyResult,
    SubscribeRequest,
    SubscribeRequestParams,
    UnsubscribeRequest,
    UnsubscribeRequestParams,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from penstock.runtime.upstreams.followed_resources import FollowedResources

__all__ = ["follow_resources"]

_LOGGER = logging.getLogger("penstock.mcp")
_AGAIN_SECONDS = 5.0


async def follow_resources(server: str, client: Client, followed: FollowedResources) -> None:
    """Subscribe to what is wanted of a server, until cancelled."""
    follow = _listen if client.protocol_version in MODERN_PROTOCOL_VERSIONS else _subscribe
    await follow(server, client, followed)


async def _subscribe(server: str, client: Client, followed: FollowedResources) -> None:
    subscribed: frozenset[str] = frozenset()
    while True:
        wanted = followed.wanted(server)
        for uri in sorted(wanted - subscribed):
            await _sent(server, client, SubscribeRequest(params=SubscribeRequestParams(uri=uri)))
        for uri in sorted(subscribed - wanted):
            await _sent(server, client, UnsubscribeRequest(params=UnsubscribeRequestParams(uri=uri)))
        subscribed = wanted
        await followed.moved(server)


async def _sent(server: str, client: Client, request: SubscribeRequest | UnsubscribeRequest) -> None:
    try:
        await client.session.send_request(request, EmptyResult)
    except MCPError as error:
        _LOGGER.info("%s: %s was refused: %s", server, request.method, error)


async def _listen(server: str, client: Client, followed: FollowedResources) -> None:
    while True:
        moved = asyncio.ensure_future(followed.moved(server))
        listening = asyncio.ensure_future(_heard(server, client, followed))
        try:
            done, _ = await asyncio.wait((moved, listening), return_when=asyncio.FIRST_COMPLETED)
            if listening in done and moved not in done:
                followed.lost(server)
                await asyncio.wait((moved,), timeout=_AGAIN_SECONDS)
        finally:
            moved.cancel()
            listening.cancel()
            await asyncio.wait((moved, listening))


async def _heard(server: str, client: Client, followed: FollowedResources) -> None:
    """Report changes until the server ends the stream. With nothing to follow, wait."""
    wanted = sorted(followed.wanted(server))
    if not wanted:
        await asyncio.Event().wait()
    try:
        async with client.listen(resource_subscriptions=wanted) as subscription:
            async for event in subscription:
                if isinstance(event, ResourceUpdated):
                    followed.updated(server, event.uri)
    except (SubscriptionLost, TimeoutError, MCPError) as error:
        _LOGGER.info("%s: it does not report changed resources now: %s", server, error)
