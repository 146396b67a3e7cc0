"""An evaluation on a server: each case is an execution there, started through the gate with the caller's key.

The ids of the runs are derived from the evaluation and the case, and are the idempotency keys of their starts: an
evaluation that is repeated, or continues after this process died, finds its runs and starts nothing twice. All that
has to be remembered is on the server; the report is beside the database of this folder.

Above it: `command`. Below it: the HTTP client, `places`, `versions`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from penstock.base import limits
from penstock.base.errors import Denied, NotFound, Rejected
from penstock.base.json import JsonObject
from penstock.cli.documents.reading import load_runnable
from penstock.cli.evaluation.dataset import Case
from penstock.cli.evaluation.opening import EvaluationFiles
from penstock.cli.evaluation.places import EvaluationRuns, Version
from penstock.cli.evaluation.report import Earlier
from penstock.cli.evaluation.versions import is_file, is_version, report_named
from penstock.cli.run.source import AsyncCall
from penstock.cli.targets.selection import ServerTarget, connect
from penstock.cli.terminal.values import UsageError
from penstock.client.asynchronous.connection import AsyncConnection
from penstock.definitions.model import Workflow

__all__ = ["EVALUATION_LABEL", "ServerPlace", "open_place"]

EVALUATION_LABEL = "evaluation"
"""The label of the runs of an evaluation; its value is the id."""
_RETRIES: Final = 8  # about as long as a server takes to restart
_SCRIPTS: Final = ("model", "mock")


@asynccontextmanager
async def open_place(target: ServerTarget) -> AsyncIterator[ServerPlace]:
    """Connect to a server."""
    connect(target, patient=False).close()  # for its warning about keys that are not encrypted
    async with AsyncConnection(target.server, target.key, retries=_RETRIES) as connection:
        yield ServerPlace(call=_calls(connection), address=connection.server)


def _calls(connection: AsyncConnection) -> AsyncCall:
    async def call(operation: str, arguments: JsonObject) -> Any:
        named = arguments.get("execution_id") if operation.endswith(".execute") else None
        key = named if isinstance(named, str) else None
        return await connection.invoke_any(operation, arguments, (Any,), idempotency_key=key)

    return call


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerPlace:
    """A server: it performs the runs, with the models and tools that it has."""

    call: AsyncCall
    address: str

    @property
    def title(self) -> str:
        """What the first line says of it."""
        return f" on {self.address}"

    async def target(self, named: str) -> Version:
        """Find what is to be evaluated: `NAME`, `NAME@VERSION`, or a file whose version the server has.

        A name is that of a workflow, or of an agent that is only an entry of the registry.
        """
        if is_file(named):
            return await self._of_file(named)
        name, _, version = named.partition("@")
        if not version:
            return await self._newest(name)
        chosen = await self._version(name, version)
        if chosen is None:
            message = f"--against {named}: there is no such version of {name} on {self.address}"
            raise UsageError(f"{message}; `penstock workflow versions` lists them")
        return chosen

    async def baseline(self, named: str, target: Version, files: EvaluationFiles) -> Version | Earlier:
        """Find what to compare with: a report, an evaluation, or another version that the server has."""
        found: Version | Earlier | None = report_named(named, files)
        if found is None and is_file(named):
            found = await self._of_file(named)
            if found.name != target.name:
                raise UsageError(f"--baseline has {found.name}, which is no other version of {target.name}")
        if found is None and target.is_entry:
            message = f"--baseline {named}: there is no such report, and {target.name} is an entry of the registry"
            raise UsageError(f"{message}, of which the server keeps no other version; name the report of an evaluation")
        if found is None:
            found = await self._version(target.name, named.removeprefix(f"{target.name}@"))
        if found is None:
            message = f"--baseline {named}: there is no such file or evaluation (in {files.folder}), and {self.address}"
            raise UsageError(f"{message} has no such version of {target.name}")
        return found

    def mistake(self, target: Version, case: Case) -> str | None:
        """Say why a case cannot be run here: a server follows no script of a caller."""
        scripts: Mapping[str, object] = {"model": case.model, "mock": case.mock}
        used = next((name for name in _SCRIPTS if scripts[name]), None)
        if used is None:
            return _not_for_agent(case) if target.is_entry else None
        message = f"`{used}` is a script, and a server performs {target.name} in earnest"
        return f"{message}; evaluate it in a file (--db), or have the workflow name a model whose provider is `mock`"

    @asynccontextmanager
    async def opened(
        self, evaluation: str, target: Version, cases: Sequence[Case], judges: Mapping[str, Workflow]
    ) -> AsyncIterator[EvaluationRuns]:
        """Open the runs of an evaluation; the server performs them."""
        yield EvaluationRuns(
            call=self.call,
            target=target,
            judges=judges,
            prefix=f"eval.{evaluation}.",
            labels={EVALUATION_LABEL: evaluation},
            judges_are_tasks=True,
        )

    async def _newest(self, name: str) -> Version:
        """Return the newest version of a workflow, or the agent of the registry that has this name."""
        try:
            return _version_of(await self._found("workflow.get", {"workflow_id": name}))
        except UsageError:
            entry = await self._entry(name)
            if entry is None:
                raise
            return entry

    async def _entry(self, name: str) -> Version | None:
        """Return the agent of the registry that a name means; None if it means something else."""
        try:
            found = await self.call("agent.get", {"agent_id": name})
        except (NotFound, Denied, Rejected):  # a workflow, perhaps with a key that may not read agents
            return None
        if found.get("source", "registry") != "registry":
            message = f"--against {name}: it is an agent of the settings of {self.address}, which others can change"
            raise UsageError(f"{message}; evaluate a workflow that gives it work")
        etag = str(found["etag"])
        return Version(name=name, version=f"etag {etag[:12]}", hash=etag, is_entry=True)

    async def _found(self, operation: str, arguments: JsonObject) -> Any:
        try:
            return await self.call(operation, arguments)
        except NotFound:
            message = f"--against {arguments['workflow_id']}: {self.address} has no such workflow for this key"
            raise UsageError(f"{message}; `penstock workflow list` shows which it has") from None

    async def _of_file(self, path: str) -> Version:
        """Return the version in a file, if the server has exactly this one."""
        workflow = load_runnable(path)
        try:
            found = await self.call("workflow.get", {"workflow_id": workflow.name, "hash": workflow.hash})
        except NotFound:
            message = f"{path}: {self.address} does not have this version of {workflow.name} ({workflow.hash[:19]})"
            raise UsageError(f"{message}; store it there first, or evaluate the file here with --db") from None
        return _version_of(found)

    async def _version(self, name: str, version: str) -> Version | None:
        """Return a stored version by its number, or by the beginning of its hash."""
        arguments: JsonObject = {"workflow_id": name, "limit": limits.PAGE_LIMIT_MAX}
        while True:
            page = await self._found("workflow.versions", arguments)
            for item in page["items"]:
                if is_version(item["version"], item["hash"], version):
                    return _version_of(item)
            if page["next_cursor"] is None:
                return None
            arguments["cursor"] = page["next_cursor"]


def _not_for_agent(case: Case) -> str | None:
    """Say why an agent of the registry cannot take the input of a case."""
    given = case.input
    if isinstance(given, dict) and isinstance(given.get("prompt"), str) and given.keys() <= {"prompt", "context"}:
        return None
    return "the input of an agent of the registry is {prompt, context}; `context` may be left out"


def _version_of(found: Any) -> Version:
    return Version(name=str(found["id"]), version=str(found["version"]), hash=str(found["hash"]))
