"""`penstock mcp install CLIENT`: print the entry that an assistant needs, or write it into its configuration file.

Below it: `clients` knows the assistants, `files` their files.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from penstock.base.json import JsonObject
from penstock.cli.declaration import Argument, Option, echo
from penstock.cli.mcp.install.files import Written, write_addition
from penstock.cli.mcp.servers import (
    AsOwnerOption,
    GraphOption,
    ManagementOption,
    ToolsetOption,
    chosen_toolset,
    mcp_address,
)
from penstock.cli.terminal.exits import exit_with, print_json
from penstock.cli.terminal.values import UsageError
from penstock.client.options import KEY_VARIABLE
from penstock.definitions.source.findings import nearest
from penstock.operations.system.clients import (
    CLIENTS,
    Addition,
    Connection,
    InstallEnvironment,
    McpClient,
    PipeConnection,
    Scope,
    snippet,
)

__all__ = ["install_command", "install_environment"]

_PROGRAM = "penstock"
_SETTINGS, _DATABASE = "penstock.yaml", "penstock.db"
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,31}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_KEY_BEGINS = "pen_"
# Variables that move the folder of a client.
_FOLDERS = ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "COPILOT_HOME")


def install_command(  # noqa: PLR0913  # every option is one the user can give
    client: Annotated[str, Argument(metavar="CLIENT", help=f"One of {', '.join(CLIENTS)}.")],
    *,
    server: Annotated[
        str | None, Option("--server", metavar="URL", help="Connect to this server instead of a file.")
    ] = None,
    config: Annotated[
        str | None,
        Option("--config", metavar="FILE", help="The settings; else penstock.yaml in this folder, if there."),
    ] = None,
    database: Annotated[
        str | None, Option("--db", metavar="FILE", help="The database that the assistant works on.")
    ] = None,
    workflows: Annotated[
        list[str] | None,
        Option("--workflows", metavar="PATH", help="Workflow files or folders to make known; repeatable."),
    ] = None,
    toolset: ToolsetOption = None,
    graph: GraphOption = None,
    management: ManagementOption = False,
    as_owner: AsOwnerOption = False,
    key_env: Annotated[
        str, Option("--key-env", metavar="NAME", help="The variable of the environment that has the key.")
    ] = KEY_VARIABLE,
    name: Annotated[str, Option("--name", metavar="NAME", help="What the server is called there.")] = _PROGRAM,
    scope: Annotated[
        str | None, Option("--scope", metavar="user|project", help="For you everywhere, or for this folder.")
    ] = None,
    command: Annotated[
        str | None, Option("--command", metavar="PROGRAM", help="The program to start; penstock without.")
    ] = None,
    write: Annotated[bool, Option("--write", help="Write it; what was there stays, with a copy.")] = False,
    replace: Annotated[bool, Option("--replace", help="Replace another entry of that name.")] = False,
    as_json: Annotated[bool, Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Print the entry that an assistant needs to use Penstock, or write it into its file.

    Without --write nothing is changed. The key is never part of it, only where the assistant finds it.
    """

    def work() -> int:
        known = _client(client)
        here = install_environment(os.environ, Path.home(), Path.cwd(), sys.platform)
        chosen = _scope(known, scope)
        _check_names(name, key_env)
        program = command or (_program() if chosen == "user" else _PROGRAM)
        tools = chosen_toolset(toolset, management=management, graph=graph)
        listed = ("--graph", graph) if graph else ("--toolset", tools) if tools else ()
        connection: Connection
        if server is not None:
            if config is not None or database is not None or workflows or as_owner:
                raise UsageError("--server goes without --config, --db, --workflows and --as-owner: it has its own")
            address = mcp_address(server, tools)
            bridge = ("mcp", "--profile", name, *listed)
            connection = known.to_server(address, key_env, PipeConnection(command=program, arguments=bridge))
        else:
            placed = _Placed(here.project, known.workspace if chosen == "project" else None)
            files = _files(placed, config, database, workflows or [])
            owner = ("--as-owner",) if as_owner else ()
            connection = PipeConnection(command=program, arguments=("mcp", *files, *listed, *owner))
        addition = Addition.of(known, connection, name)
        path = known.places[chosen](here)
        written = write_addition(path, addition, replaces=replace) if write else None
        todo = known.next_steps(connection, server, name, key_env)
        _tell(client, path, addition, written, todo, as_json=as_json)
        return 0

    exit_with(work, as_json=as_json)


def install_environment(variables: Mapping[str, str], home: Path, project: Path, platform: str) -> InstallEnvironment:
    """This machine, as far as clients keep their files on it."""
    system: Literal["linux", "macos", "windows"] = "linux"
    if platform == "darwin":
        system = "macos"
    elif platform in ("win32", "cygwin"):
        system = "windows"
    data, configuration = variables.get("APPDATA"), variables.get("XDG_CONFIG_HOME")
    moved = {name: Path(folder) for name in _FOLDERS if (folder := variables.get(name, "").strip())}
    return InstallEnvironment(
        system=system,
        home=home,
        project=project,
        application_data=Path(data) if data else None,
        configuration=Path(configuration) if configuration else None,
        moved=moved,
    )


def _client(name: str) -> McpClient:
    found = CLIENTS.get(name)
    if found is None:
        near = nearest(name, CLIENTS)
        meant = f"did you mean {near}? There" if near else "there"
        raise UsageError(f"there is no client {name!r}; {meant} are {', '.join(CLIENTS)}")
    return found


def _scope(client: McpClient, given: str | None) -> Scope:
    if given is None:
        return next(iter(client.places))
    for scope in client.places:
        if scope == given:
            return scope
    raise UsageError(f"--scope of {client.title} is {' or '.join(client.places)}, not {given!r}")


def _check_names(name: str, key_variable: str) -> None:
    if not _NAME.fullmatch(name):
        raise UsageError(f"--name takes up to 32 letters, digits, - and _ that begin with a letter, not {name!r}")
    if not _VARIABLE.fullmatch(key_variable) or key_variable.startswith(_KEY_BEGINS):
        raise UsageError("--key-env takes the name of a variable, not the key itself")


def _program() -> str:
    """The path of this program: graphical assistants rarely have the search path of a terminal.

    The one beside this interpreter comes first, because the environment may not be active.
    """
    return shutil.which(_PROGRAM, path=str(Path(sys.executable).parent)) or shutil.which(_PROGRAM) or _PROGRAM


@dataclass(frozen=True, slots=True)
class _Placed:
    """Writes paths so that they hold wherever the assistant starts the program."""

    project: Path
    workspace: str | None
    """How the client writes the project folder, for entries that a project shares; None for absolute paths."""

    def path(self, given: str) -> str:
        if self.workspace is None:
            return str(self.project / Path(given).expanduser())
        return f"{self.workspace}/{given}" if self.workspace and not Path(given).is_absolute() else given


def _files(placed: _Placed, config: str | None, database: str | None, workflows: list[str]) -> tuple[str, ...]:
    """The arguments that name the program's files: the settings of this folder, unless files are named one by one."""
    if config is None and database is None and not workflows and (placed.project / _SETTINGS).is_file():
        # A client that starts programs in the folder of the project finds them there.
        config = None if placed.workspace == "" else _SETTINGS
    elif config is None and database is None and placed.workspace is None:
        database = _DATABASE
    named = (("--config", config), ("--db", database), *(("--workflows", path) for path in workflows))
    return tuple(word for name, path in named if path is not None for word in (name, placed.path(path)))


def _tell(
    client: str, path: Path, addition: Addition, written: Written | None, todo: list[str], *, as_json: bool
) -> None:
    text = snippet(addition)
    if as_json:
        report: JsonObject = {
            "client": client,
            "file": str(path),
            "format": addition.form,
            "snippet": text,
            "written": written is not None and written.changed,
            "backup": None if written is None or written.backup is None else str(written.backup),
            "next": list(todo),
        }
        print_json(report)
        return
    if written is None:
        echo(text, nl=False)
        echo(f"\nThis goes into {path}; --write puts it there.", err=True)
    elif written.changed:
        echo(f"wrote {addition.name} into {path}")
        if written.backup is not None:
            echo(f"what was there before is in {written.backup}")
    else:
        echo(f"{addition.name} is already in {path}")
    for step in todo:
        echo(step, err=written is None)
