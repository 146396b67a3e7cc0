"""`python -m docs.generator.coverage [--json]`: is every operation on every surface, and is everything documented?

It checks the surfaces from the outside, not through the tables that they are generated from:

- Every operation answers on REST (a call without a key is refused with 401, which proves that the route exists), has a
  command with an option for each argument, a client method with a parameter for each argument, and an MCP tool with the
  same schemas as REST. Exceptions are listed below with their reasons.
- Every route of the server belongs to an operation, or is one of the pages below.
- Every operation, command, reason code, event and setting is documented. This is checked only where the documentation
  folder exists.

A test calls it. Exit codes: 0 when nothing is missing, 1 otherwise.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx2

from penstock.app.gate import create_owner_key
from penstock.app.penstock import Penstock
from penstock.app.serving.server import ServerOptions, open_application
from penstock.app.settings.declarations import every_setting
from penstock.app.settings.model import settings_outline
from penstock.base.json import JsonObject, JsonValue
from penstock.cli.lazy_commands import load_command
from penstock.cli.operation_paths import command_of_operation
from penstock.cli.tree.commands import every_command, find_row
from penstock.client.asynchronous.client import AsyncClient
from penstock.client.errors import CLIENT_REASONS
from penstock.client.operations import method_name, operation_table, resource_attribute
from penstock.client.sync.client import Client
from penstock.mcp_surface.options import McpOptions
from penstock.mcp_surface.tools.naming import ToolNaming
from penstock.operations.builtin import builtin_operations
from penstock.operations.catalogue.capability import Capability
from penstock.operations.catalogue.reasons import REASONS
from penstock.operations.runs.events import EVENT_TYPES as STREAM_EVENT_TYPES
from penstock.operations.runs.tool_schemas import or_standing
from penstock.runtime.webhooks.events import EVENT_TYPES as WEBHOOK_EVENT_TYPES

__all__ = ["EXCLUDED", "PAGES", "SURFACES", "Coverage", "main", "surface_coverage"]

SURFACES: Final = ("rest", "cli", "client", "mcp")
_FOR_PEOPLE: Final = "for people who run the server: an assistant must not make keys, read the trail or trust others"
# Operations that a surface leaves out on purpose, by surface and name, with the reason.
EXCLUDED: Final[Mapping[tuple[str, str], str]] = {
    ("cli", "execution.changes"): "for pages that stay current; `penstock runs watch` follows runs at a terminal",
    (
        "cli",
        "execution.drawing",
    ): "markup for a page; `penstock workflow draw` draws a workflow, `penstock runs show` a run",
    ("cli", "execution.timeline"): "bars for a page; `penstock runs show` and `history` say the same as text",
    ("cli", "execution.progress"): "in the memory of a server that performs runs, for its pages; a file has none of it",
    ("mcp", "execution.changes"): "tools answer once; subscriptions tell that an execution changed",
    ("mcp", "execution.stream"): "tools answer once; progress, tasks and resources tell how an execution goes on",
    **{
        ("mcp", name): _FOR_PEOPLE
        for name in (
            "audit.checkpoint",
            "audit.checkpoints",
            "audit.consistency",
            "audit.export",
            "audit.hold",
            "audit.holds",
            "audit.key",
            "audit.list",
            "audit.proof",
            "audit.redact",
            "audit.release",
            "audit.rotate_key",
            "audit.verify",
            "backup.create",
            "backup.list",
            "console_session.end",
            "console_session.list",
            "grant.create",
            "grant.delete",
            "key.create",
            "key.get",
            "key.list",
            "key.revoke",
            "key.rotate",
            "key.sign_out",
            "policy.check",
            "policy.delete",
            "policy.explain",
            "policy.get",
            "policy.list",
            "policy.put",
            "policy.replay",
            "policy.tools",
            "quota.reset",
            "quota.set",
            "token.list_revoked",
            "token.restore",
            "token.revoke",
            "upstream.accept",
            "upstream.begin_sign_in",
            "upstream.complete_sign_in",
            "upstream.refuse",
            "upstream.revoke",
            "upstream.sign_out",
        )
    },
}
# Routes that are not operations, with the reason. A name that ends in `/*` stands for all below it.
PAGES: Final[Mapping[str, str]] = {
    "/healthz": "a probe for whoever keeps the process alive; needs no key",
    "/readyz": "a probe for whoever sends it requests; needs no key",
    "/metrics": "the counters in the form of Prometheus; `system.metrics` gives them as JSON",
    "/openapi.json": "the description of REST itself",
    "/docs": "the description of REST for people",
    "/.well-known/openwop": "the discovery document of the published protocol",
    "/.well-known/agent-card.json": "the A2A card of the only agent",
    "/a2a/{agent_id}/.well-known/agent-card.json": "the A2A card of an agent",
    "/a2a/{agent_id}": "the A2A address of an agent",
    "/v1/*": "the wire of the published protocol; each of its routes calls operations",
    "/mcp": "the MCP surface; operations are its tools",
    "/mcp/healthz": "a probe of the MCP surface; needs no key",
    "/mcp/sse": "the MCP surface for clients of 2024-11-05, if the settings want that",
    "/graphs/{graph_id}/mcp": "the MCP surface of one graph; its stored queries and operations on it are its tools",
    "/mcp/messages": "where these clients send their messages",
    "/answer": "where whoever has a key is let in to the page of a question",
    "/answer/{token}": "a page that answers one question; `execution.answer` does the same",
    "/console": "the first page of the console",
    "/console/*": "pages of the console for people; whatever they show or do is an operation",
    "/hooks/{path:path}": "webhooks that come in; their address is their workflow's choice, `trigger.list` lists them",
}
# Arguments that a command expresses with another option.
_EXPRESSED_OTHERWISE: Final[Mapping[tuple[str, str], str]] = {
    ("audit.export", "format"): "--format names the form of the file",
    ("audit.verify", "hash"): "--hash has another name in the code, where hash is a function",
    ("execution.submit_activity", "ok"): "a failure has an --error",
    ("execution.history", "wait_seconds"): "--follow waits for as long as it takes",
    ("policy.check", "text"): "the command takes files",
    ("policy.check", "server_wide"): "--tenant says that they are not",
    ("policy.explain", "key"): "--as names a key or a principal",
    ("policy.explain", "principal"): "--as names a key or a principal",
    ("policy.replay", "text"): "the command takes files",
}
_SERVER: Final = "http://coverage.invalid"
_PATH_NAME: Final = re.compile(r"\{\w+\}")
_UNAUTHENTICATED: Final = 401


@dataclass(slots=True)
class Coverage:
    """What was checked, and what is missing."""

    operations: int = 0
    routes: int = 0
    documented: dict[str, int] | None = None
    excluded: list[JsonValue] = field(default_factory=list)
    uncovered: list[str] = field(default_factory=list)

    def to_json(self) -> JsonObject:
        """The report for programs."""
        documented: JsonValue = None if self.documented is None else dict(self.documented)
        return {
            "ok": not self.uncovered,
            "operations": self.operations,
            "surfaces": list(SURFACES),
            "routes": self.routes,
            "documented": documented,
            "excluded": self.excluded,
            "uncovered": list(self.uncovered),
        }


def surface_coverage(documentation: Path | None) -> Coverage:
    """Check every surface, and the documentation if its folder exists."""
    capabilities = builtin_operations()
    found = Coverage(operations=len(capabilities))
    served, paths, tools = asyncio.run(_served(capabilities))
    wording = _wording(capabilities, tools)
    missing = {
        "rest": [item.name for item in capabilities if item.name not in served],
        "cli": [problem for item in capabilities for problem in _command_problems(item)],
        "client": list(_client_problems(capabilities)),
        "mcp": [problem for item in capabilities for problem in _tool_problems(item, tools, wording)],
    }
    for surface, problems in missing.items():
        found.uncovered.extend(_unless_excluded(surface, problems, found.excluded))
    found.uncovered.extend(_stale_exclusions(capabilities, missing))
    found.routes = len(paths)
    found.uncovered.extend(_strange_routes(capabilities, paths))
    if documentation is not None:
        found.documented = {}
        for page, what, marks in _documented(capabilities):
            found.documented[what] = len(marks)
            found.uncovered.extend(_undocumented(documentation / page, what, marks))
    return found


def _unless_excluded(surface: str, problems: Iterable[str], excluded: list[JsonValue]) -> Iterator[str]:
    for problem in problems:
        operation = problem.partition(":")[0]
        reason = EXCLUDED.get((surface, operation))
        if reason is None:
            yield f"{surface}: {problem}"
        else:
            excluded.append({"surface": surface, "operation": operation, "reason": reason})


def _stale_exclusions(capabilities: Iterable[Capability], missing: Mapping[str, list[str]]) -> Iterator[str]:
    known = {item.name for item in capabilities}
    for surface, operation in EXCLUDED:
        if operation not in known:
            yield f"{surface}: {operation} is excluded, but there is no such operation"
        elif operation not in {problem.partition(":")[0] for problem in missing[surface]}:
            yield f"{surface}: {operation} is excluded, but is there"


async def _served(capabilities: Iterable[Capability]) -> tuple[set[str], list[str], Mapping[str, JsonObject]]:
    """The operations that answer on REST, the paths of every route, and the tools by name."""
    options = ServerOptions(mcp=McpOptions(output_schemas=True))
    with tempfile.TemporaryDirectory() as folder:
        async with (
            Penstock.open(Path(folder) / "coverage.db", perform=False) as penstock,
            open_application(penstock, options) as (application, gate),
            httpx2.AsyncClient(transport=httpx2.ASGITransport(app=application), base_url=_SERVER) as http,
        ):
            base_path = ServerOptions().rest.base_path
            served = set()
            for item in capabilities:
                if item.route is None:
                    continue
                path = base_path + _PATH_NAME.sub("x", item.route.path)
                response = await http.request(item.route.method, path)
                if response.status_code == _UNAUTHENTICATED:
                    served.add(item.name)
            tools = await _tools(http, await create_owner_key(gate))
            return served, [route.path for route in _routes(application)], tools


async def _tools(http: httpx2.AsyncClient, key: str | None) -> Mapping[str, JsonObject]:
    """The tools that are listed to a key with every scope."""
    method, version = "tools/list", "2026-07-28"
    meta: JsonObject = {
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    headers = {
        "Authorization": f"Bearer {key}",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": version,
        "Mcp-Method": method,
    }
    request: JsonObject = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"_meta": meta}}
    answer = await http.post(f"{McpOptions().path}?toolset=all", json=request, headers=headers)
    return {tool["name"]: tool for tool in answer.json()["result"]["tools"]}


def _tool_name(operation: str) -> str:
    return f"{McpOptions().tool_prefix}_{operation.replace('.', '_')}"


def _wording(capabilities: Iterable[Capability], tools: Mapping[str, JsonObject]) -> ToolNaming:
    """The renaming of operations to tools that texts for models go through."""
    names = {item.name: _tool_name(item.name) for item in capabilities}
    return ToolNaming({name: tool for name, tool in names.items() if tool in tools})


def _tool_problems(capability: Capability, tools: Mapping[str, JsonObject], wording: ToolNaming) -> Iterator[str]:
    tool = tools.get(_tool_name(capability.name))
    if tool is None:
        yield f"{capability.name}: there is no tool"
        return
    output = capability.output_schema
    answers = None if output is None else or_standing(wording.of_schema(output))
    for member, schema in (("inputSchema", wording.of_schema(capability.input_schema)), ("outputSchema", answers)):
        if tool.get(member) != schema:
            yield f"{capability.name}: the tool has another {member}"


def _routes(application: Any) -> Iterable[Any]:
    """The routes of an application, below its middleware."""
    while not hasattr(application, "routes"):
        application = getattr(application, "app", None) or application._app
    found: Iterable[Any] = application.routes
    return found


def _strange_routes(capabilities: Iterable[Capability], paths: Iterable[str]) -> Iterator[str]:
    base_path = ServerOptions().rest.base_path
    known = {base_path + item.route.path for item in capabilities if item.route is not None}
    for path in paths:
        if path not in known and not _is_page(path):
            yield f"rest: the route {path} belongs to no operation and is no listed page"


def _is_page(path: str) -> bool:
    return path in PAGES or any(name.endswith("/*") and path.startswith(name[:-1]) for name in PAGES)


def _members(capability: Capability) -> set[str]:
    properties = capability.input_schema.get("properties")
    return set(properties) if isinstance(properties, dict) else set()


def _command_problems(capability: Capability) -> Iterator[str]:
    path = command_of_operation(capability.name)
    row = None if path is None else find_row(path)
    if path is None or row is None:
        yield f"{capability.name}: there is no command"
        return
    missing = _members(capability) - {parameter.name for parameter in load_command(path, row).params}
    missing = {name for name in missing if (capability.name, name) not in _EXPRESSED_OTHERWISE}
    if missing:
        yield f"{capability.name}: the command has nothing for {', '.join(sorted(missing))}"


def _client_problems(capabilities: Iterable[Capability]) -> Iterator[str]:
    with Client(_SERVER) as waiting:
        # Never connected, so there is nothing to close.
        clients = (waiting, AsyncClient(_SERVER))
        for capability in capabilities:
            if capability.name in operation_table():
                yield from (problem for client in clients for problem in _method_problems(capability, client))
            else:
                yield f"{capability.name}: the client does not know it; run scripts/docs"


def _method_problems(capability: Capability, client: Client | AsyncClient) -> Iterator[str]:
    resource, action = resource_attribute(capability.resource), method_name(capability.name.partition(".")[2])
    found = getattr(getattr(client, resource, None), action, None)
    kind = type(client).__name__
    if found is None:
        yield f"{capability.name}: {kind} has no {resource}.{action}"
        return
    missing = _members(capability) - set(inspect.signature(found).parameters)
    if missing:
        yield f"{capability.name}: {kind} has no parameter for {', '.join(sorted(missing))}"


def _documented(capabilities: Iterable[Capability]) -> Iterator[tuple[str, str, list[str]]]:
    """What every page of the reference must contain."""
    yield "reference/rest.md", "operations", [f"### {item.name}\n" for item in capabilities]
    yield "reference/errors.md", "reasons", [f"| `{code}` |" for code in (*REASONS, *CLIENT_REASONS)]
    yield "reference/events.md", "events", [f"| `{name}` |" for name in (*STREAM_EVENT_TYPES, "closed")]
    yield "reference/events.md", "webhook events", [f"| `{name}` |" for name in WEBHOOK_EVENT_TYPES]
    yield "reference/configuration.md", "settings", [f"| `{item.path}` |" for item in every_setting(settings_outline())]
    yield "reference/cli.md", "commands", [f"### penstock {name}\n" for name, _ in every_command()]


def _undocumented(page: Path, what: str, marks: Iterable[str]) -> Iterator[str]:
    text = page.read_text(encoding="utf-8") if page.is_file() else ""
    for mark in marks:
        if mark not in text:
            yield f"docs: {page.name} lacks {mark.strip('#| `').strip()} ({what})"


def main() -> int:
    """Print what is missing, or the whole report with `--json`; return 1 if something is missing."""
    found = surface_coverage(Path(__file__).parents[1])
    if "--json" in sys.argv[1:]:
        print(json.dumps(found.to_json(), indent=2))
        return 1 if found.uncovered else 0
    for problem in found.uncovered:
        print(f"missing {problem}")
    for item in found.excluded:
        if isinstance(item, dict):
            print(f"excluded {item['surface']}: {item['operation']}: {item['reason']}")
    documented = ", ".join(f"{count} {what}" for what, count in (found.documented or {}).items())
    print(f"{found.operations} operations on {', '.join(SURFACES)}; {found.routes} routes; documented: {documented}")
    return 1 if found.uncovered else 0


if __name__ == "__main__":
    sys.exit(main())
