"""The graphs that the settings declare, in files: read at the start, and again whenever a file changes.

A mistake at the start stops the start, or quarantines its graph, as the settings say. Later, the server goes on with
the schema and the queries that it has, and says so in the log and in `system.health`.

A command on a file only takes the policies of graphs (`GraphPolicies`). The graphs themselves it takes as they are
stored: to look at something must not change a schema.

Above it: `gate`. Below it: the internal operations of `operations.graphs.configuring`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from penstock.app.policy_files import policy_paths, read_policy_texts
from penstock.app.settings.graphs import GraphSettings
from penstock.base import limits
from penstock.base.errors import PenstockError, Rejected
from penstock.base.ids import DEFAULT_TENANT
from penstock.base.json import JsonObject, JsonValue
from penstock.operations.gate.context import Principal
from penstock.operations.gate.internal_callers import internal_call, system_principal
from penstock.operations.gate.pipeline import Gate
from penstock.operations.graphs.configuring import CONFIGURE, GUARD, QUARANTINE, RELEASE
from penstock.operations.stored_queries.checking import declared_in
from penstock.operations.stored_queries.definitions import StoredQuery
from penstock.operations.system.health import GRAPHS_CHECK

__all__ = ["GraphFiles", "GraphPolicies", "declared_graph", "query_paths", "with_graph_check"]

_LOGGER = logging.getLogger("penstock.graphs")
_SUFFIX = "*.gq"
_INVALID = "GRAPH_FILES_INVALID"


def query_paths(named: Iterable[str]) -> list[Path]:
    """Return the files that the settings name: themselves, and all `.gq` files below folders."""
    found: list[Path] = []
    for text in named:
        path = Path(text)
        found += sorted(path.rglob(_SUFFIX)) if path.is_dir() else [path]
    return found


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Rejected(_INVALID, f"{path} cannot be read: {error}", "correct the settings of the graph") from None


def declared_graph(graph_id: str, settings: GraphSettings) -> JsonObject:
    """Return a graph as the settings declare it, with the contents of its files; raise `Rejected` with all mistakes."""
    problems: list[str] = []
    queries: list[JsonValue] = [*_queries(settings, problems)]
    if problems:
        listed: list[JsonValue] = [*problems]
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        message = f"the queries of the graph {graph_id} cannot be used: {problems[0]}{more}"
        raise Rejected(_INVALID, message, "see `problems`", {"problems": listed})
    return {
        "graph_id": graph_id,
        "schema": _text(Path(settings.schema)),
        "queries": queries,
        "title": settings.title,
        "description": settings.description,
        "allow_adhoc": settings.allow_adhoc,
        "protected_branches": [*settings.protected_branches],
        "tools_max": settings.tools_max,
        "policies": [{"name": name, "text": text} for name, text in read_policy_texts(settings.policy)],
    }


def _queries(settings: GraphSettings, problems: list[str]) -> Iterator[JsonObject]:
    """Yield the stored queries of a graph; add what is wrong with them to the problems."""
    if isinstance(settings.queries, Mapping):
        for name, named in settings.queries.items():
            declared = _declared(Path(named.file), problems)
            if declared and name not in declared:
                problems.append(f"{named.file} declares {', '.join(declared)}, and not `{name}`")
            elif declared:
                shown = named.mcp
                exposure: JsonObject = {} if shown is None else {"expose": shown.expose, "tool_name": shown.tool_name}
                yield {**msgspec.to_builtins(declared[name]), **exposure}
        return
    taken: dict[str, Path] = {}
    for path in query_paths(settings.queries):
        for name, query in _declared(path, problems).items():
            known = taken.setdefault(name, path)
            if known != path:
                problems.append(f"`{name}` is declared in {known} and in {path}")
            yield msgspec.to_builtins(query)


def _declared(path: Path, problems: list[str]) -> Mapping[str, StoredQuery]:
    try:
        return declared_in(_text(path))
    except Rejected as error:
        problems.append(f"{path}: {error.message}" if error.code != _INVALID else error.message)
        return {}


class GraphFiles:
    """The declared graphs of one server."""

    def __init__(self, declared: Mapping[str, GraphSettings], *, beside_server: bool = False) -> None:
        self.declared = declared
        self._beside_server = beside_server
        """Whether the server has policies of its own."""
        self._seen: dict[str, object] = {}
        """What the files of each graph looked like when they were last read."""
        self.problems: dict[str, str] = {}
        """Why the newest files of a graph are not in force, by graph."""

    def health(self) -> str:
        """Return `ok`, or what is wrong."""
        return "; ".join(f"{name}: {text}" for name, text in sorted(self.problems.items())) or "ok"

    async def load(self, gate: Gate, graph_id: str) -> None:
        """Read the files of a graph and bring them into force; raise if something in them is wrong."""
        settings = self.declared[graph_id]
        self._seen[graph_id] = await asyncio.to_thread(_looks, settings)
        given = await asyncio.to_thread(declared_graph, graph_id, settings)
        given["beside_server"] = self._beside_server
        await internal_call(gate, _principal(settings.tenant), CONFIGURE, given)
        self.problems.pop(graph_id, None)

    async def start(self, gate: Gate) -> None:
        """Bring every graph into force. A graph with mistakes stops the start, or is quarantined."""
        tenants = {DEFAULT_TENANT, *(settings.tenant for settings in self.declared.values())}
        for tenant in sorted(tenants):
            names: list[JsonValue] = [name for name, item in self.declared.items() if item.tenant == tenant]
            await internal_call(gate, _principal(tenant), RELEASE, {"declared": names})
        for graph_id, settings in self.declared.items():
            try:
                await self.load(gate, graph_id)
            except PenstockError as error:
                if settings.on_broken == "refuse":
                    raise
                self.problems[graph_id] = error.message
                _LOGGER.error("the graph %s is quarantined: %s", graph_id, error.message)  # noqa: TRY400  # known errors
                reason: JsonObject = {"graph_id": graph_id, "reason": error.message}
                await internal_call(gate, _principal(settings.tenant), QUARANTINE, reason)

    @asynccontextmanager
    async def in_force(self, gate: Gate) -> AsyncIterator[None]:
        """Bring the graphs into force, and read their files again whenever they change, until the block ends."""
        if not self.declared:
            yield
            return
        await self.start(gate)
        watching = asyncio.create_task(self.watch(gate))
        try:
            yield
        finally:
            watching.cancel()
            await asyncio.wait([watching])

    async def watch(self, gate: Gate) -> None:
        """Read the files again whenever they change, until cancelled."""
        while True:
            await asyncio.sleep(limits.GRAPH_FILES_LOOK_SECONDS)
            await self.look(gate)

    async def look(self, gate: Gate) -> None:
        """Read the files of graphs that have changed. With a mistake, what was in force before stays so."""
        for graph_id, settings in self.declared.items():
            if await asyncio.to_thread(_looks, settings) == self._seen.get(graph_id):
                continue
            try:
                await self.load(gate, graph_id)
            except PenstockError as error:
                self.problems[graph_id] = f"older files are in force: {error.message}"
                _LOGGER.error("the changed files of the graph %s are not used: %s", graph_id, error.message)  # noqa: TRY400
            else:
                _LOGGER.info("the changed files of the graph %s are in force", graph_id)


class GraphPolicies:
    """The policies of the declared graphs, for a process that takes the graphs as they are stored."""

    def __init__(self, declared: Mapping[str, GraphSettings], *, beside_server: bool = False) -> None:
        self._declared = {name: settings for name, settings in declared.items() if settings.policy}
        self._beside_server = beside_server

    @asynccontextmanager
    async def in_force(self, gate: Gate) -> AsyncIterator[None]:
        """Bring the policies into force, as they are now; raise if something in them is wrong."""
        for graph_id, settings in self._declared.items():
            texts = await asyncio.to_thread(read_policy_texts, settings.policy)
            files: list[JsonValue] = [{"name": name, "text": text} for name, text in texts]
            given: JsonObject = {"graph_id": graph_id, "policies": files, "beside_server": self._beside_server}
            await internal_call(gate, _principal(settings.tenant), GUARD, given)
        yield


def _principal(tenant: str) -> Principal:
    return system_principal("graphs", "graph:admin", tenant=tenant)


def _looks(settings: GraphSettings) -> object:
    """Return what changes when a file does: names, sizes and times."""
    queries = settings.queries
    named = [item.file for item in queries.values()] if isinstance(queries, Mapping) else queries
    found: list[tuple[object, ...]] = []
    for path in (Path(settings.schema), *query_paths(named), *_policy_paths(settings)):
        try:
            status = path.stat()
        except OSError as error:
            found.append((str(path), str(error)))
        else:
            found.append((str(path), status.st_size, status.st_mtime_ns, status.st_ino))
    return found


def _policy_paths(settings: GraphSettings) -> list[Path]:
    try:
        return policy_paths(settings.policy)
    except Rejected:  # too many of them: reading them says so
        return []


def with_graph_check(
    checks: Callable[[], Awaitable[dict[str, str]]], files: GraphFiles
) -> Callable[[], Awaitable[dict[str, str]]]:
    """Return the checks of `system.health`, with one that says whether the newest files of graphs are in force."""
    if not files.declared:
        return checks

    async def look() -> dict[str, str]:
        return {**await checks(), GRAPHS_CHECK: files.health()}

    return look
