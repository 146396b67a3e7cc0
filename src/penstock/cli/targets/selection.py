"""The target of a command: a server, named by its address or by a profile, or a file.

Options of the command come first, then the environment, then the current profile. Without any of these a command works
on the file that the settings name.

Above it: the commands about operations and runs. Below it: `profiles`, the client.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias
from urllib.parse import urlsplit

from penstock.base.lazy_import import lazy_import
from penstock.cli.declaration import Option, echo
from penstock.cli.targets.profiles import PROFILE_VARIABLE, Profiles, profiles_path, read_profiles
from penstock.cli.terminal.values import UsageError
from penstock.client.options import KEY_VARIABLE, SERVER_VARIABLE, is_loopback

if TYPE_CHECKING:
    from penstock.client.sync import connection
else:
    connection = lazy_import("penstock.client.sync.connection")

__all__ = [
    "FileTarget",
    "IdempotencyOption",
    "ProfileOption",
    "ServerOption",
    "ServerTarget",
    "Target",
    "TargetFileOption",
    "choose_target",
    "connect",
]

_SECRET_SOURCES = "penstock.app.executors.secret_sources"
_RETRIES = 2
_RETRIES_PATIENT = 8

ServerOption = Annotated[
    str | None,
    Option("--server", metavar="URL", help=f"The server to talk to; the key is in {KEY_VARIABLE}.", panel="Where"),
]
ProfileOption = Annotated[
    str | None,
    Option(
        "--profile",
        metavar="NAME",
        help="The server of a profile (`penstock config profile`).",
        panel="Where",
    ),
]
TargetFileOption = Annotated[
    Path | None,
    Option("--db", metavar="FILE", help="Work on this file, without a server.", panel="Where"),
]

IdempotencyOption = Annotated[
    str | None,
    Option(
        "--idempotency-key", metavar="KEY", help="The same key makes the call happen once, however often it is made."
    ),
]


@dataclass(frozen=True, slots=True)
class ServerTarget:
    """A server; without a key of its own, the client looks into the environment."""

    server: str
    key: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class FileTarget:
    """A file; None for the one that the settings name."""

    path: Path | None


Target: TypeAlias = ServerTarget | FileTarget


def choose_target(
    server: str | None,
    profile: str | None,
    database: Path | None,
    environment: Mapping[str, str] | None = None,
) -> Target:
    """Choose the target; `UsageError` when several are named."""
    variables = os.environ if environment is None else environment
    given = [name for name, value in (("--server", server), ("--profile", profile), ("--db", database)) if value]
    if len(given) > 1:
        raise UsageError(f"{' and '.join(given)} exclude each other; name one place to work")
    if database is not None:
        return FileTarget(database)
    if server:
        return ServerTarget(server)
    if profile:
        return _of_profile(read_profiles(profiles_path(variables)), profile)
    if variables.get(SERVER_VARIABLE):
        return ServerTarget(variables[SERVER_VARIABLE])
    profiles = read_profiles(profiles_path(variables))
    named = variables.get(PROFILE_VARIABLE) or profiles.current
    return FileTarget(None) if named is None else _of_profile(profiles, named)


def _of_profile(profiles: Profiles, name: str) -> ServerTarget:
    profile = profiles.get(name)
    if profile.key is None:
        return ServerTarget(profile.server)
    # Imported only for a key: it brings a good part of what documents are read with.
    key: str = importlib.import_module(_SECRET_SOURCES).resolve_secret(profile.key)
    return ServerTarget(profile.server, key)


def connect(target: ServerTarget, *, patient: bool) -> connection.Connection:
    """A connection to a server, with a warning when the key is sent without encryption.

    `patient`: keep trying for as long as a server takes to restart. Otherwise give up soon, because a person waits.
    """
    parts = urlsplit(target.server)
    if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
        echo(f"warning: the key goes to {parts.hostname} without encryption; use https", err=True)
    return connection.Connection(target.server, target.key, retries=_RETRIES_PATIENT if patient else _RETRIES)
