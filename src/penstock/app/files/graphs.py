"""The graphs that the settings declare, in files: read at the start, and again whenever a file changes.

A mistake at the start stops the start, or quarantines its graph, as the settings say; a file that is missing or
declares nothing is a mistake. Later, the previous schema, queries and policies stay in force, and the log and
`system.health` report the mistake. The server is then not ready, unless mistakes quarantine the graph.

A command that works on a file applies only the policies of graphs (`GraphPolicies`). It uses the graphs as they are
stored, because reading must not change a schema. A command that changes a graph first creates those that are
declared and not stored yet (`create_declared_graphs`), so that data can be loaded before a server was ever started.

Above it: `gate`. Below it: `watcher`, the internal operations of `operations.graphs.configuring`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from penstock.app.files.named import FoundFiles, UnreadableFile, find_files, read_text
from penstock.app.files.policies import find_policies, read_policy_texts
from penstock.app.files.watcher import FileWatcher
from penstock.app.settings.graphs import GraphSettings
from penstock.base.errors import PenstockError, Rejected
from penstock.base.ids import DEFAULT_TENANT
from penstock.base.json import JsonObject, JsonValue
from penstock.operations.gate.context import Principal
from penstock.operations.gate.internal_callers import internal_call, system_principal
from penstock.operations.gate.pipeline import Gate
from penstock.operations.graphs.configuring import CONFIGURE, GUARD, QUARANTINE, RELEASE
from penstock.operations.stored_queries.checking import declared_in, schema_from
from penstock.operations.stored_queries.definitions import StoredQuery
from penstock.operations.system.health import GRAPH_FILES_CHECK, GRAPHS_CHECK
from penstock.runtime.ports.graphs import GraphRef

__all__ = [
    "GraphFiles",
    "GraphPolicies",
    "create_declared_graphs",
    "declared_graph",
    "graph_checks",
    "list_graph_files",
    "load_graphs",
]

_LOGGER = logging.getLogger("penstock.graphs")
_SUFFIX = ".gq"
_INVALID = "GRAPH_FILES_INVALID"


def _find_queries(named: Iterable[str]) -> FoundFiles:
    return find_files(named, _SUFFIX)


def _text(path: Path) -> str:
    text = read_text(path)
    if isinstance(text, UnreadableFile):
        raise Rejected(_INVALID, str(text), "correct `graphs` in the settings, or restore the file")
    return text


def declared_graph(graph_id: str, settings: GraphSettings) -> JsonObject:
    """Return a declared graph with the contents of its files. Raises `Rejected` with all mistakes."""
    schema = _read_schema(Path(settings.schema))
    problems: list[str] = []
    queries: list[JsonValue] = [*_queries(settings, problems)]
    if problems:
        listed: list[JsonValue] = [*problems]
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        message = f"the queries of the graph {graph_id} cannot be used: {problems[0]}{more}"
        raise Rejected(_INVALID, message, "correct the mistakes that `problems` lists", {"problems": listed})
    return {
        "graph_id": graph_id,
        "schema": schema,
        "queries": queries,
        "title": settings.title,
        "description": settings.description,
        "allow_adhoc": settings.allow_adhoc,
        "protected_branches": [*settings.protected_branches],
        "tools_max": settings.tools_max,
        "policies": [{"name": name, "text": text} for name, text in read_policy_texts(settings.policy)],
    }


def _read_schema(path: Path) -> str:
    """Return the text of a schema; raise `Rejected` if it has mistakes or declares nothing."""
    text = _text(path)
    try:
        schema = schema_from(text)
    except Rejected as error:
        raise Rejected(error.code, f"{path}: {error.message}", error.hint, error.details) from None
    if not schema.nodes:
        raise Rejected(
            _INVALID, f"{path} declares no node type", "correct the file, or remove the graph from the settings"
        )
    return text


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
    found = _find_queries(settings.queries)
    problems += map(str, found.problems)
    for path in found.paths:
        for name, query in _declared(path, problems).items():
            known = taken.setdefault(name, path)
            if known != path:
                problems.append(f"`{name}` is declared in {known} and in {path}")
            yield msgspec.to_builtins(query)


def _declared(path: Path, problems: list[str]) -> Mapping[str, StoredQuery]:
    try:
        declared = declared_in(_text(path))
    except Rejected as error:
        problems.append(f"{path}: {error.message}" if error.code != _INVALID else error.message)
        return {}
    if not declared:
        problems.append(f"{path} declares no query")
    return declared


def list_graph_files(settings: GraphSettings) -> tuple[Path, ...]:
    """Return the files of a declared graph as they are now."""
    queries = settings.queries
    named = [item.file for item in queries.values()] if isinstance(queries, Mapping) else queries
    return (Path(settings.schema), *_find_queries(named).paths, *find_policies(settings.policy).paths)


class GraphFiles:
    """The files of one declared graph, for the watcher of a server's files."""

    def __init__(self, graph_id: str, settings: GraphSettings, gate: Gate, *, beside_server: bool = False) -> None:
        self.name = f"graph {graph_id}"
        self._graph_id = graph_id
        self._settings = settings
        self._gate = gate
        self._beside_server = beside_server
        """Whether the server has policies of its own."""
        self.quarantined: str | None = None
        """Why the graph has been out of use since the start; None if it is in use."""

    @property
    def stops_the_start(self) -> bool:
        """Whether mistakes stop the start, and later make the server not ready."""
        return self._settings.on_broken == "refuse"

    def list_paths(self) -> Sequence[Path]:
        """Return the files as they are now."""
        return list_graph_files(self._settings)

    async def take_up(self, changed: Sequence[Path]) -> None:
        """Apply the graph of these files; raise if they have a mistake."""
        given = await asyncio.to_thread(declared_graph, self._graph_id, self._settings)
        given["beside_server"] = self._beside_server
        await internal_call(self._gate, _principal(self._settings.tenant), CONFIGURE, given)
        self.quarantined = None
        _LOGGER.info("the files of the graph %s are in force", self._graph_id)

    async def quarantine(self, reason: str) -> None:
        """Take the graph out of use."""
        self.quarantined = reason
        _LOGGER.error("the graph %s is quarantined: %s", self._graph_id, reason)
        given: JsonObject = {"graph_id": self._graph_id, "reason": reason}
        await internal_call(self._gate, _principal(self._settings.tenant), QUARANTINE, given)


async def load_graphs(
    watcher: FileWatcher, gate: Gate, declared: Mapping[str, GraphSettings], *, beside_server: bool = False
) -> list[GraphFiles]:
    """Apply every graph and watch its files. A graph with mistakes stops the start or is quarantined."""
    tenants = {DEFAULT_TENANT, *(settings.tenant for settings in declared.values())}
    for tenant in sorted(tenants):
        names: list[JsonValue] = [name for name, item in declared.items() if item.tenant == tenant]
        await internal_call(gate, _principal(tenant), RELEASE, {"declared": names})
    found = []
    for graph_id, settings in declared.items():
        files = GraphFiles(graph_id, settings, gate, beside_server=beside_server)
        found.append(files)
        try:
            await watcher.load(files)
        except PenstockError as error:
            if files.stops_the_start:
                raise
            await files.quarantine(error.message)
    return found


async def create_declared_graphs(gate: Gate, declared: Mapping[str, GraphSettings]) -> None:
    """Create the declared graphs that the store does not have yet, and leave all others as they are stored."""
    graphs = gate.services.graphs
    for graph_id, settings in declared.items():
        if graphs is None or await graphs.graph(GraphRef(settings.tenant, graph_id)) is not None:
            continue
        files = GraphFiles(graph_id, settings, gate)
        try:
            await files.take_up(files.list_paths())
        except PenstockError as error:
            if files.stops_the_start:
                raise
            await files.quarantine(error.message)


def graph_checks(watcher: FileWatcher, graphs: Iterable[GraphFiles]) -> dict[str, str]:
    """Return the checks of `system.health` about graphs: those that are out of use, and files that are not in force."""
    quarantined, outdated = [], []
    for files in graphs:
        problem = watcher.problem(files.name)
        later = None if problem is None else f"older files are in force: {problem}"
        if files.stops_the_start:
            outdated += [f"{files.name}: {later}"] if later else []
        else:
            reason = files.quarantined or later
            quarantined += [f"{files.name}: {reason}"] if reason else []
    return {GRAPHS_CHECK: "; ".join(quarantined) or "ok", GRAPH_FILES_CHECK: "; ".join(outdated) or "ok"}


class GraphPolicies:
    """The policies of the declared graphs, for a process that takes the graphs as they are stored."""

    def __init__(self, declared: Mapping[str, GraphSettings], *, beside_server: bool = False) -> None:
        self._declared = {name: settings for name, settings in declared.items() if settings.policy}
        self._beside_server = beside_server

    @asynccontextmanager
    async def in_force(self, gate: Gate) -> AsyncIterator[None]:
        """Apply the policies as they are now; raise if they have a mistake."""
        for graph_id, settings in self._declared.items():
            texts = await asyncio.to_thread(read_policy_texts, settings.policy)
            files: list[JsonValue] = [{"name": name, "text": text} for name, text in texts]
            given: JsonObject = {"graph_id": graph_id, "policies": files, "beside_server": self._beside_server}
            await internal_call(gate, _principal(settings.tenant), GUARD, given)
        yield


def _principal(tenant: str) -> Principal:
    return system_principal("graphs", "graph:admin", tenant=tenant)
