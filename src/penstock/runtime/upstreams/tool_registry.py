"""Which tools of other MCP servers each tenant has accepted, and how the servers describe them now.

Accepting a tool pins it: its name, description and schemas are stored, with who accepted it and when. The tool is in
the tenant's catalogue as long as the server's description matches the pin. A changed or new tool stays out until
somebody accepts it; one that somebody refused waits for that only when its server describes it otherwise. The servers'
latest listings are stored too: a server that cannot be reached changes nothing, and a process that starts knows at once
what is quarantined.

Everything stored here is stored by calls of the gate, with their audit records. These are calls of people, and calls
that the registry makes itself (`accepting`) when a listing changes or when the settings accept a new tool.

Above it: `operations.runs.imported_tools` makes capabilities from pinned tools, `operations.upstreams.operations` has
the operations; executors ask it before each call. Below it: the platform port. It connects to no server.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import msgspec

from penstock.base import limits
from penstock.base.clock import Clock
from penstock.base.ids import DEFAULT_TENANT
from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.schemas.compiled import SchemaProblem, load_schema
from penstock.runtime.ports.database import Database
from penstock.runtime.ports.platform import CallRecord, ResourceRow, body_etag
from penstock.runtime.tables.resources import list_all_resources, list_resources, put_resources, read_resource
from penstock.runtime.upstreams.followed_resources import FollowedResources
from penstock.runtime.upstreams.refusals import REFUSALS, Refusal, refusal_body, refusal_of, refuses, withdrawn_body
from penstock.runtime.upstreams.tools import (
    ImportRules,
    ServerState,
    ToolRefusal,
    UpstreamConnections,
    UpstreamResource,
    UpstreamTool,
    tenant_refusal,
    tool_hash,
)

__all__ = [
    "ACCEPT_FIRST",
    "DEFINE_CALL",
    "KEEP_LISTING",
    "QUARANTINED",
    "Act",
    "Pin",
    "ToolReview",
    "ToolStatus",
    "UpstreamToolRegistry",
    "difference",
]

ACCEPT_FIRST, KEEP_LISTING, DEFINE_CALL = "upstream.accept_first", "upstream.keep_listing", "upstream.define_call"
QUARANTINED = "UPSTREAM_TOOL_QUARANTINED"

_LOGGER = logging.getLogger("penstock.upstream")
_PINS, _LISTINGS = "upstream_tool", "upstream_listing"
# Listings belong to no tenant; no tenant can have this name.
_LISTINGS_TENANT = "-upstream"
_PROBLEM_CHARACTERS = 300
_REVOKED = "revoked"

ToolStatus: TypeAlias = Literal["pinned", "changed", "new", "refused", "gone", "excluded"]
Act: TypeAlias = Callable[[str, str, JsonObject], Awaitable[Any]]
"""Makes a call of the gate in a tenant, as the part of the process that watches other servers."""


class Pin(msgspec.Struct, frozen=True, kw_only=True):
    """A tool as somebody accepted it."""

    tool: UpstreamTool
    hash: str
    """Empty if the record cannot be read: then the tool counts as changed, and has to be accepted again."""
    accepted_by: str | None
    accepted_at: int


class ToolReview(msgspec.Struct, frozen=True, kw_only=True):
    """The review state of a tool for a tenant: as it was accepted, and as the server describes it now."""

    server: str
    name: str
    status: ToolStatus
    pin: Pin | None = None
    seen: UpstreamTool | None = None
    seen_hash: str | None = None
    refusal: Refusal | None = None
    """The last refusal, whether or not it is of what the server says now."""


@dataclass(slots=True)
class _Listing:
    """The latest listing of a server."""

    tools: dict[str, UpstreamTool]
    hashes: dict[str, str]
    at: int


@dataclass(slots=True)
class _Known:
    """The pins and refusals of a tenant, as they were last read."""

    pins: dict[tuple[str, str], Pin]
    refusals: dict[tuple[str, str], Refusal]
    read_at: int


def difference(before: UpstreamTool, now: UpstreamTool) -> JsonObject:
    """The fields that a server now describes differently, with their accepted and current values."""
    found: JsonObject = {}
    for name in ("title", "description", "input_schema", "output_schema"):
        old: JsonValue = getattr(before, name)
        new: JsonValue = getattr(now, name)
        if old != new:
            found[name] = {"accepted": old, "now": new}
    return found


@dataclass(slots=True, kw_only=True)
class UpstreamToolRegistry:
    """The servers whose tools are imported. Without rules, no server is."""

    platform: Database
    clock: Clock
    act: Act | None = None
    """Makes the registry's own calls. Without a gate, the registry accepts and stores nothing by itself."""
    rules: Mapping[str, ImportRules] = field(default_factory=dict)
    connections: UpstreamConnections | None = None
    changed: Callable[[str], None] = field(default=lambda tenant: None)
    """Called with a tenant whose catalogue has changed."""
    states: dict[str, ServerState] = field(default_factory=dict)
    resources: dict[str, tuple[UpstreamResource, ...]] = field(default_factory=dict)
    """By server: its resources as this process listed them last."""
    followed: FollowedResources = field(default_factory=FollowedResources)
    """The resources whose changes somebody follows."""
    _listings: dict[str, _Listing] = field(default_factory=dict)
    _listings_read_at: int | None = None
    _known: dict[str, _Known] = field(default_factory=dict)
    _unsaved_listings: dict[str, tuple[UpstreamTool, ...]] = field(default_factory=dict)
    """Listings that are waiting to be stored."""
    _decision_lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Decisions are made one at a time, so that each sees the earlier ones and none is made twice."""
    _decisions: int = 0
    """Counts decisions. Pins that were read before the latest one are not cached."""

    def rules_for(self, tenant: str) -> dict[str, ImportRules]:
        """The servers whose tools a tenant may use, by name."""
        return {name: self.rules[name] for name in sorted(self.rules) if self.rules[name].is_for(tenant)}

    # --- called by executors ----------------------------------------------------------------------

    def state(self, server: str, state: ServerState) -> None:
        """Record a new connection state of a server."""
        self.states[server] = msgspec.structs.replace(state, since=self.clock.now_ms())

    async def tools_listed(self, server: str, tools: tuple[UpstreamTool, ...]) -> None:
        """Store a server's listing, and withdraw tools whose description no longer matches their pin."""
        await self._read_listings()
        rules = self.rules.get(server)
        if rules is not None:
            tools = tuple([await _with_schema_problem(tool) if rules.admits(tool.name) else tool for tool in tools])
        async with self._decision_lock:
            known, listing = self._listings.get(server), _listing(tools, self.clock.now_ms())
            if known is not None and known.hashes == listing.hashes:
                return
            if self.act is not None:
                self._unsaved_listings[server] = tools
                await self.act(DEFAULT_TENANT, KEEP_LISTING, {"server": server})
            self._listings[server] = listing
        tenants = self._tenants(server)
        for tenant in tenants:
            self.changed(tenant)
        for tenant in tenants:
            await self._warn_of_changed(tenant, server)

    def resources_listed(self, server: str, resources: tuple[UpstreamResource, ...]) -> None:
        """Keep the resources of a server in memory: they may change all the time."""
        if self.resources.get(server, ()) != resources:
            self.resources[server] = resources
            for tenant in self._tenants(server):
                self.changed(tenant)

    async def keep_listing(self, server: str, *, call: CallRecord) -> int:
        """Store the waiting listing of a server with its audit record. Returns the number of tools."""
        tools = self._unsaved_listings.pop(server, None)
        if tools is None:
            return 0  # it is already stored
        known, now = self._listings.get(server), _listing(tools, self.clock.now_ms()).hashes
        before = {} if known is None else known.hashes
        call.about(
            None,
            tools=len(now),
            new=len(now.keys() - before.keys()),
            changed=sum(now[name] != before[name] for name in now.keys() & before.keys()),
            gone=len(before.keys() - now.keys()),
        )
        body: JsonObject = {"tools": [msgspec.to_builtins(tool) for tool in tools]}
        await put_resources(self.platform, [self._row(_LISTINGS_TENANT, _LISTINGS, server, body, None)], call=call)
        return len(now)

    async def refusal(self, tenant: str, server: str, tool: str) -> ToolRefusal | None:
        """Why a tool must not be called: it is not accepted yet, or its server now describes it differently.

        A workflow names the tools it calls, so its author may call a tool that the settings do not list. A tenant that
        the server is not meant for may call none of its tools.
        """
        rules = self.rules.get(server)
        foreign = tenant_refusal(tenant, server, rules)
        if foreign is not None or rules is None:
            return foreign
        row = await read_resource(self.platform, tenant, _PINS, _pin_id(server, tool))
        if rules.admits(tool) and (row is None or row.body.get(_REVOKED) is True):
            if rules.accept == "manual" or not await self._is_pinned(tenant, server, tool):
                message = f"nobody has accepted {tool} of {server} for this tenant; accept it with upstream.accept"
                return ToolRefusal(QUARANTINED, message)
            return None
        if row is None:
            return None
        pin = _pin(row)
        if not pin.hash:
            return ToolRefusal(QUARANTINED, f"who accepted {tool} of {server} cannot be read; accept it again")
        await self._read_listings()
        listing = self._listings.get(server)
        seen = listing.hashes.get(tool) if listing is not None else None
        if listing is not None and seen is not None and listing.tools[tool].problem is not None:
            message = f"{tool} of {server} cannot be used: {listing.tools[tool].problem}; it is quarantined"
            return ToolRefusal(QUARANTINED, message)
        if seen in (None, pin.hash):
            return None
        return ToolRefusal(
            QUARANTINED, f"{server} changed its description of {tool} since it was accepted; the tool is quarantined"
        )

    async def _is_pinned(self, tenant: str, server: str, tool: str) -> bool:
        """True if a tool is accepted, by a person or by the settings, which accept a tool when it is first seen."""
        tool_reviews = await self.tool_reviews(tenant, server)
        return any(item.name == tool and item.status == "pinned" for item in tool_reviews)

    # --- queries ----------------------------------------------------------------------------------

    async def tool_reviews(self, tenant: str, server: str | None = None) -> list[ToolReview]:
        """Every tool of the servers that a tenant may use, by server and name.

        Tools that the settings accept are accepted here, on the first query.
        """
        found = await self._current_reviews(tenant, server)
        if self.act is None or not any(map(self._accepted_by_settings, found)):
            return found
        async with self._decision_lock:
            waiting = filter(self._accepted_by_settings, await self._current_reviews(tenant, server))
            for name in dict.fromkeys(item.server for item in waiting):
                await self.act(tenant, ACCEPT_FIRST, {"server": name})
        return await self._current_reviews(tenant, server)

    async def accepted_by_settings(self, tenant: str, server: str) -> list[ToolReview]:
        """The tools of a server that nobody has accepted and that the settings accept."""
        return [item for item in await self._current_reviews(tenant, server) if self._accepted_by_settings(item)]

    def _accepted_by_settings(self, item: ToolReview) -> bool:
        rules, seen = self.rules[item.server], item.seen
        return item.status == "new" and rules.accept == "first" and seen is not None and seen.problem is None

    async def _current_reviews(self, tenant: str, server: str | None) -> list[ToolReview]:
        rules = self.rules_for(tenant)
        if not rules:
            return []
        await self._read_listings()
        known = await self._decided(tenant)
        found: list[ToolReview] = []
        for name in rules if server is None else [server]:
            if name in rules:
                found.extend(self._of_server(name, rules[name], known))
        return found

    def looked_at(self, server: str) -> int | None:
        """When a server's listing last changed; None before its first listing."""
        listing = self._listings.get(server)
        return None if listing is None else listing.at

    def _of_server(self, server: str, rules: ImportRules, known: _Known) -> list[ToolReview]:
        listing = self._listings.get(server)
        listed = {} if listing is None else listing.tools
        names = {*listed, *(tool for owner, tool in known.pins if owner == server)}
        found: list[ToolReview] = []
        for name in sorted(names):
            pin, seen = known.pins.get((server, name)), listed.get(name)
            refusal = known.refusals.get((server, name))
            seen_hash = listing.hashes.get(name) if listing is not None else None
            status = _status(rules, name, pin, seen_hash)
            if status == "pinned" and seen is not None and seen.problem is not None:
                status = "changed"
            if status in ("new", "changed") and refuses(refusal, seen_hash):
                status = "refused"
            found.append(
                ToolReview(
                    server=server,
                    name=name,
                    status=status,
                    pin=pin,
                    seen=seen,
                    seen_hash=seen_hash,
                    refusal=refusal,
                ),
            )
        return found

    # --- decisions --------------------------------------------------------------------------------

    async def accept(
        self, tenant: str, tool_reviews: Sequence[ToolReview], by: str, call: Callable[[list[Pin]], CallRecord]
    ) -> list[Pin]:
        """Pin tools as their servers describe them now: all of them or none, each with its own audit entry.

        `call` makes the record of the accepting call once the pins are known.
        """
        rows: list[ResourceRow] = []
        entries: list[tuple[str, JsonObject]] = []
        for item in tool_reviews:
            if item.seen is not None:
                seen_hash = tool_hash(item.seen)
                body: JsonObject = {"server": item.server, "hash": seen_hash, "tool": msgspec.to_builtins(item.seen)}
                rows.append(self._row(tenant, _PINS, _pin_id(item.server, item.name), body, by))
                replaced: JsonObject = {} if item.pin is None else {"replaces": item.pin.hash}
                entries.append((rows[-1].resource_id, {"hash": seen_hash, **replaced}))
        pins = list(map(_pin, rows))
        # Accepting a tool withdraws its refusal.
        rows += [
            self._row(tenant, REFUSALS, _pin_id(item.server, item.name), withdrawn_body(), by)
            for item in tool_reviews
            if item.refusal is not None
        ]
        record = call(pins)
        if rows:
            record.each(entries)
            await put_resources(self.platform, rows, call=record)
            _LOGGER.info("%s accepted %s", by, ", ".join(resource_id for resource_id, _ in entries))
            self.forget(tenant)
        return pins

    async def refuse(
        self, tenant: str, review: ToolReview, reason: str, by: str, call: Callable[[ToolReview], CallRecord]
    ) -> ToolReview:
        """Put on record that a tool is not wanted as its server describes it now: it is not offered again as it is.

        `call` makes the record of the refusing call once the refusal is known.
        """
        pin_id, seen_hash = _pin_id(review.server, review.name), str(review.seen_hash)
        body = refusal_body(review.server, review.name, seen_hash, reason)
        row = self._row(tenant, REFUSALS, pin_id, body, by)
        refused = msgspec.structs.replace(review, status="refused", refusal=refusal_of(row))
        record = call(refused)
        record.about(pin_id, hash=seen_hash, reason=reason)
        await put_resources(self.platform, [row], call=record)
        self.forget(tenant)
        return refused

    async def revoke(self, tenant: str, review: ToolReview, by: str, call: CallRecord) -> None:
        """Revoke an acceptance. The pin is kept, because it still shows when the tool changes."""
        if review.pin is None:
            return
        pin_id, pin = _pin_id(review.server, review.name), review.pin
        body: JsonObject = {
            "server": review.server,
            "hash": pin.hash,
            "tool": msgspec.to_builtins(pin.tool),
            _REVOKED: True,
        }
        call.about(pin_id, hash=pin.hash)
        await put_resources(self.platform, [self._row(tenant, _PINS, pin_id, body, by)], call=call)
        self.forget(tenant)

    def forget(self, tenant: str) -> None:
        """Drop the cached pins of a tenant, and report that its catalogue may have changed."""
        self._decisions += 1
        self._known.pop(tenant, None)
        self.changed(tenant)

    # --- the store --------------------------------------------------------------------------------

    def _row(self, tenant: str, kind: str, resource_id: str, body: JsonObject, by: str | None) -> ResourceRow:
        now = self.clock.now_ms()
        return ResourceRow(
            tenant=tenant,
            kind=kind,
            resource_id=resource_id,
            body=body,
            etag=body_etag(body),
            created_at=now,
            updated_at=now,
            updated_by=by,
        )

    async def _read_listings(self) -> None:
        """Read the listings that other processes stored, at most once per interval."""
        now = self.clock.now_ms()
        if self._listings_read_at is not None and now - self._listings_read_at < limits.EXPOSED_REREAD_MS:
            return
        self._listings_read_at = now
        for row in await list_all_resources(self.platform, _LISTINGS):
            known = self._listings.get(row.resource_id)
            if row.resource_id in self.rules and (known is None or known.at < row.updated_at):
                try:
                    tools = msgspec.convert(row.body.get("tools"), tuple[UpstreamTool, ...])
                except msgspec.ValidationError as error:
                    _LOGGER.error("the stored listing of %s cannot be read: %s", row.resource_id, error)  # noqa: TRY400
                    continue
                self._listings[row.resource_id] = _listing(tools, row.updated_at)

    async def _decided(self, tenant: str) -> _Known:
        known, now = self._known.get(tenant), self.clock.now_ms()
        if known is not None and now - known.read_at < limits.EXPOSED_REREAD_MS:
            return known
        while True:
            decisions = self._decisions
            found = _Known(await self._read_pins(tenant), await self._read_refusals(tenant), now)
            if decisions == self._decisions:
                break
        self._known[tenant] = found
        while len(self._known) > limits.EXPOSED_TENANTS_KEPT:
            del self._known[next(iter(self._known))]
        return found

    async def _read_pins(self, tenant: str) -> dict[tuple[str, str], Pin]:
        pins: dict[tuple[str, str], Pin] = {}
        for row in await self._rows(tenant, _PINS):
            if row.body.get(_REVOKED) is not True:
                pin = _pin(row)
                if not pin.hash:
                    message = "who accepted %s for %s cannot be read; it has to be accepted again"
                    _LOGGER.error(message, row.resource_id, row.tenant)
                pins[row.resource_id.partition("/")[0], pin.tool.name] = pin
        return pins

    async def _read_refusals(self, tenant: str) -> dict[tuple[str, str], Refusal]:
        refusals: dict[tuple[str, str], Refusal] = {}
        for row in await self._rows(tenant, REFUSALS):
            refusal = refusal_of(row)
            if refusal is not None:
                refusals[refusal.server, refusal.tool] = refusal
        return refusals

    async def _rows(self, tenant: str, kind: str) -> list[ResourceRow]:
        rows: list[ResourceRow] = []
        cursor: str | None = None
        while True:
            page = await list_resources(self.platform, tenant, kind, limit=limits.PAGE_LIMIT_MAX, cursor=cursor)
            rows.extend(page.rows)
            cursor = page.next_cursor
            if cursor is None:
                return rows

    def _tenants(self, server: str) -> list[str]:
        """The tenants whose catalogues have a server's tools, as far as they are known here."""
        rules = self.rules.get(server)
        if rules is None:
            return []
        named = {tenant for tenant in rules.tenants if tenant != "*"}
        return sorted(named | {tenant for tenant in self._known if rules.is_for(tenant)})

    async def _warn_of_changed(self, tenant: str, server: str) -> None:
        """Log a warning for each tool of a tenant that differs from what was accepted."""
        for item in await self.tool_reviews(tenant, server):
            if item.status == "changed":
                message = (
                    "%s changed its description of %s since %s accepted it; the tool is quarantined until "
                    "somebody accepts it"
                )
                _LOGGER.warning(message, server, item.name, tenant)


async def _with_schema_problem(tool: UpstreamTool) -> UpstreamTool:
    """Check the schemas of a tool. A problem quarantines this tool, not the other tools of its server."""
    await asyncio.sleep(0)  # many schemas take a while; let other tasks run
    for name, schema in (("input", tool.input_schema), ("output", tool.output_schema or {})):
        found = load_schema(schema)
        if tool.problem is None and isinstance(found, SchemaProblem):
            return msgspec.structs.replace(tool, problem=f"its {name} schema: {found.message[:_PROBLEM_CHARACTERS]}")
    return tool


def _listing(tools: Sequence[UpstreamTool], at: int) -> _Listing:
    return _Listing({tool.name: tool for tool in tools}, {tool.name: tool_hash(tool) for tool in tools}, at)


def _pin_id(server: str, tool: str) -> str:
    return f"{server}/{tool}"


def _pin(row: ResourceRow) -> Pin:
    name, pinned = row.resource_id.partition("/")[2], row.body.get("hash")
    try:
        tool = msgspec.convert(row.body.get("tool"), UpstreamTool)
    except msgspec.ValidationError:
        tool, pinned = UpstreamTool(name=name), None
    is_readable = isinstance(pinned, str) and tool.name == name and not row.body.get(_REVOKED)
    return Pin(
        tool=tool if is_readable else UpstreamTool(name=name),
        hash=str(pinned) if is_readable else "",
        accepted_by=row.updated_by,
        accepted_at=row.updated_at,
    )


def _status(rules: ImportRules, name: str, pin: Pin | None, seen_hash: str | None) -> ToolStatus:
    if not rules.admits(name):
        return "excluded"
    if seen_hash is None:
        return "gone"
    if pin is None:
        return "new"
    return "pinned" if pin.hash == seen_hash else "changed"
