"""Where you are: the project, the place where commands work, who is at work there, and what waits for you.

It only looks. A server gets a second to answer; a file is counted without opening it as a store.

Above it: `command`. Below it: the settings, `targets.selection`, `app.drivers`, the client.
"""

from __future__ import annotations

import os
import socket
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from penstock.app.drivers import maintenance_of
from penstock.app.settings.sources import DEFAULT_FILE, InvalidSettings, load_settings
from penstock.base.errors import PenstockError
from penstock.base.json import JsonObject
from penstock.base.lazy_import import lazy_import
from penstock.definitions.durations import format_instant

if TYPE_CHECKING:
    from penstock.app.settings.model import Settings
    from penstock.cli.targets import profiles as known
    from penstock.cli.targets import selection
    from penstock.cli.terminal import values
    from penstock.client.sync import connection as connections
else:
    known = lazy_import("penstock.cli.targets.profiles")
    selection = lazy_import("penstock.cli.targets.selection")
    values = lazy_import("penstock.cli.terminal.values")
    connections = lazy_import("penstock.client.sync.connection")

__all__ = ["FAILED_WITHIN", "Counts", "Position", "find_position"]

FAILED_WITHIN: Final = "24h"
_FAILED_WITHIN_MS: Final = 24 * 60 * 60 * 1000
_ANSWER_SECONDS: Final = 1.0
_LISTEN_SECONDS: Final = 0.1
_COUNTED_MAX: Final = 100
_SERVER_VARIABLE: Final = "PENSTOCK_SERVER"
_APPROVALS, _QUESTIONS, _UNKNOWN = "waiting_approval", "waiting_input", "waiting_decision"


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What waits and what failed; `more` says that the server has more than the command read."""

    approvals: int
    questions: int
    failed: int
    unknown_outcomes: int = 0
    live: int | None = None
    more: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Where commands work from here, and how it is there."""

    version: str
    folder: str
    project: str | None
    """The settings file; None without a project."""
    project_above: str | None
    """The folder above this one that has a project."""
    kind: Literal["file", "server"]
    place: str
    """The database file, or the address of the server."""
    profile: str | None = None
    exists: bool = False
    """Whether the database exists, or the server answers."""
    format_version: int | None = None
    current_format: int | None = None
    workers: int | None = None
    listening: str | None = None
    """The address of the settings, if something answers there."""
    counts: Counts | None = None
    problem: str | None = None
    hint: str | None = None

    def to_json(self) -> JsonObject:
        """The position for programs."""
        found: JsonObject = asdict(self)
        return found


def find_position(version: str) -> Position:
    """Look around."""
    folder = Path.cwd()
    here: dict[str, Any] = {
        "version": version,
        "folder": str(folder),
        "project": DEFAULT_FILE if (folder / DEFAULT_FILE).is_file() else None,
        "project_above": next((str(above) for above in folder.parents if (above / DEFAULT_FILE).is_file()), None),
    }
    try:
        named = _named_server()
    except (values.UsageError, PenstockError) as error:
        return Position(**here, kind="server", place="", problem=str(error), hint="penstock config profile list")
    if named is not None:
        address, profile = named
        return _look_at_server(address, {**here, "kind": "server", "place": address, "profile": profile})
    try:
        loaded = load_settings(None)
    except InvalidSettings as error:
        count = len(error.findings)
        problem = f"the settings have {count} {'mistake' if count == 1 else 'mistakes'}"
        return Position(**here, kind="file", place="", problem=problem, hint="penstock config validate")
    return _look_at_file(loaded.settings, here)


def _named_server() -> tuple[str, str | None] | None:
    """The address and the profile of the server that commands talk to; None if they work on a file."""
    if os.environ.get(_SERVER_VARIABLE):
        return os.environ[_SERVER_VARIABLE], None
    profiles = known.read_profiles(known.profiles_path(os.environ))
    name = os.environ.get(known.PROFILE_VARIABLE) or profiles.current
    return None if name is None else (profiles.get(name).server, name)


def _look_at_file(settings: Settings, here: dict[str, Any]) -> Position:
    path, now = Path(settings.storage.path), time.time_ns() // 1_000_000
    here = {**here, "kind": "file", "place": str(path), "listening": _listening(settings)}
    try:
        database = maintenance_of(path)
    except PenstockError as error:
        return Position(**here, problem=str(error), hint="penstock config show storage.path")
    if not database.exists():
        return Position(**here)
    found = database.glance(failed_since=now - _FAILED_WITHIN_MS, now=now)
    here |= {"exists": True, "format_version": found.format_version or None, "current_format": found.current_format}
    if found.problem is not None:
        return Position(**here, problem=f"{path}: {found.problem}", hint=f"penstock server check --db {path}")
    if found.format_version != found.current_format:
        return Position(**here)
    counts = Counts(
        approvals=found.live.get(_APPROVALS, 0),
        questions=found.live.get(_QUESTIONS, 0),
        unknown_outcomes=found.live.get(_UNKNOWN, 0),
        failed=found.failed,
        live=sum(found.live.values()),
    )
    return Position(**here, workers=found.workers, counts=counts)


def _listening(settings: Settings) -> str | None:
    """The address of the settings if something takes connections there."""
    host, port = settings.server.host, settings.server.port
    reached = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # compared, not listened on
    try:
        socket.create_connection((reached, port), _LISTEN_SECONDS).close()
    except OSError:
        return None
    return f"http://{reached}:{port}"


def _look_at_server(address: str, here: dict[str, Any]) -> Position:
    since = format_instant(time.time_ns() // 1_000_000 - _FAILED_WITHIN_MS)
    try:
        target = selection.choose_target(None, None, None)
        assert isinstance(target, selection.ServerTarget)
        with connections.Connection(target.server, target.key, retries=0, timeout_seconds=_ANSWER_SECONDS) as server:
            waiting = server.call("approval.list", limit=_COUNTED_MAX)
            failed = server.call("execution.list", status=["failed"], updated_after=since, limit=_COUNTED_MAX)
    except (values.UsageError, PenstockError) as error:
        code = getattr(error, "code", "")
        hint = (
            "penstock config profile add --help"
            if code == "UNAUTHENTICATED"
            else f"penstock mcp doctor --server {address}"
        )
        return Position(**here, problem=f"{code + ': ' if code else ''}{error}", hint=hint)
    kinds = [item["kind"] for item in waiting["items"]]
    more = waiting["next_cursor"] is not None or failed["next_cursor"] is not None
    counts = Counts(
        approvals=kinds.count("call"), questions=kinds.count("question"), failed=len(failed["items"]), more=more
    )
    return Position(**here, exists=True, counts=counts)
