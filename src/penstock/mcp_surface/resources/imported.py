"""Resources of other MCP servers, under addresses of ours: `penstock://upstreams/SERVER/ADDRESS`.

The server is the name that the operator gave it, and its own address follows as it is. So no server can take the place
of our resources or of another server's. What is listed is what the server listed last. Reading is a call of the tool
that reads resources of the server, through the gate: only where somebody accepted it, and only what the settings admit.
"""

from __future__ import annotations

from urllib.parse import quote

from penstock.base.addresses import OWN_SCHEME, normalised_address
from penstock.base.errors import NotFound
from penstock.base.json import JsonObject, JsonValue
from penstock.mcp_surface.callers import Caller, ProtocolFault
from penstock.mcp_surface.calls.calls import ToolCalls
from penstock.mcp_surface.content.blocks import marked
from penstock.mcp_surface.questions.clients import Client
from penstock.mcp_surface.resources.exposed import completed_output
from penstock.mcp_surface.tools.graph_tools import graph_of
from penstock.operations.catalogue.capability import Capability
from penstock.operations.catalogue.exposure import RESOURCE_READER, ImportedResource
from penstock.operations.gate.pipeline import Gate
from penstock.operations.runs.results import ExecutionResult

__all__ = ["ImportedResources"]

_PREFIX = f"{OWN_SCHEME}://upstreams/"
# The server was not asked, because the settings do not admit the address.
_EXCLUDED = "UPSTREAM_RESOURCE_EXCLUDED"
_KEPT = ("mimeType", "text", "blob")


class ImportedResources:
    """Lists and reads resources of other servers for all callers."""

    def __init__(self, gate: Gate, calls: ToolCalls) -> None:
        self._gate = gate
        self._calls = calls

    async def listed(self, caller: Caller, *, templates: bool) -> list[JsonObject]:
        """Return the resources that a caller may read, or the templates. Their words are those of their servers."""
        if graph_of(caller.toolset) is not None:
            return []
        exposure = await self._gate.exposed.of(caller.principal.tenant)
        wanted = [item for item in exposure.imported if item.listed.is_template == templates]
        allowed = await self._allowed(caller, [item.capability for item in wanted])
        shown = (_shown(item) for item in wanted if item.capability.name in allowed)
        return [item for item in shown if item is not None]

    async def read(self, caller: Caller, uri: str, client: Client) -> JsonObject | None:
        """Return the contents at an address of ours; None if it is not the address of such a resource."""
        if not uri.startswith(_PREFIX) or graph_of(caller.toolset) is not None:
            return None
        name, _, address = uri.removeprefix(_PREFIX).partition("/")
        capability = await self._reader(caller, name)
        if capability is None or not address:
            return None

        def shown(result: ExecutionResult) -> JsonObject:
            output = completed_output(result)
            found = output.get("contents") if isinstance(output, dict) else None
            contents: list[JsonValue] = [
                marked(_contents(name, item), untrusted=True)
                for item in (found if isinstance(found, list) else ())
                if isinstance(item, dict)
            ]
            return marked({"contents": contents}, untrusted=True)

        try:
            return await self._calls.read(caller, capability, {"uri": address}, client, shown)
        except ProtocolFault as fault:
            if isinstance(fault.data, dict) and fault.data.get("code") == _EXCLUDED:
                return None
            raise
        except NotFound:
            return None

    async def place(self, caller: Caller, uri: str) -> tuple[str, str] | None:
        """Return the server, and the address there, of a resource that a caller may read, or None."""
        if not uri.startswith(_PREFIX) or graph_of(caller.toolset) is not None:
            return None
        name, _, address = uri.removeprefix(_PREFIX).partition("/")
        reader = await self._reader(caller, name)
        upstreams = self._gate.services.upstreams
        if reader is None or upstreams is None:
            return None
        server = str(reader.metadata.get("server"))
        return (server, address) if upstreams.rules[server].admits_resource(address) else None

    async def _reader(self, caller: Caller, name: str) -> Capability | None:
        """Return the tool that reads resources of a server, if somebody accepted it and the caller may call it."""
        tools = (await self._gate.exposed.of(caller.principal.tenant)).tools.values()
        found = [
            item
            for item in tools
            if item.metadata.get("upstream") == RESOURCE_READER
            and quote(str(item.metadata.get("server")), safe="") == name
        ]
        allowed = await self._allowed(caller, found)
        return next((item for item in found if item.name in allowed), None)

    async def _allowed(self, caller: Caller, capabilities: list[Capability]) -> frozenset[str]:
        found = {item.name: item for item in capabilities}
        return frozenset(await self._gate.lists.allowed(caller.principal, found.values(), caller.standpoint))


def _own_address(server: str, address: str) -> str:
    return f"{_PREFIX}{quote(server, safe='')}/{address}"


def _contents(name: str, item: JsonObject) -> JsonObject:
    """Return contents under our address, whatever address the server gives them."""
    return {"uri": f"{_PREFIX}{name}/{item.get('uri')}", **{key: item[key] for key in _KEPT if key in item}}


def _shown(item: ImportedResource) -> JsonObject | None:
    """Return the entry of a resource; None if its address cannot be read here."""
    listed = item.listed
    address = _own_address(item.server, listed.uri)
    example = address.replace("{", "").replace("}", "") if listed.is_template else address
    if normalised_address(example) is None:
        return None
    words = {"title": listed.title, "description": listed.description, "mimeType": listed.mime_type}
    entry: JsonObject = {"uriTemplate" if listed.is_template else "uri": address, "name": listed.name}
    entry.update({name: text for name, text in words.items() if text})
    return marked({**entry, "_meta": {"penstock/server": item.server}}, untrusted=True)
