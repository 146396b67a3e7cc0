"""`penstock init`: a project folder with a workflow that runs, and what to type next.

The files are in the folder `template`, as they will be in the project. Those that would mean something where they are
now (`steps.py`, `.gitignore`) have the suffix `.template`.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated

import typer

from penstock.base.errors import Conflict, Unavailable
from penstock.base.json import JsonValue
from penstock.base.text import clean
from penstock.cli.terminal.event_loop import exit_with_async
from penstock.cli.terminal.exits import JsonOption, print_json

__all__ = ["create_project", "init_command", "project_files"]

_ABOUT = {
    "penstock.yaml": "settings",
    "policies/starter.cedar": "a policy to start from; name it in penstock.yaml",
    "steps.py": "Python functions that workflows call",
    "workflows/refund.yaml": "a workflow with an approval, and its tests",
}
_NEXT = (
    ("penstock mcp call refund_order order_id=A-7 amount=20", "call it like an assistant"),
    ("penstock test workflows", "run its test cases"),
    ("penstock validate", "check your changes"),
    ("penstock dev", "serve it, reload on save"),
)


def init_command(
    folder: Annotated[Path, typer.Argument(metavar="[FOLDER]", help="The folder to create the project in.")] = Path(),
    *,
    force: Annotated[bool, typer.Option("--force", help="Replace existing files.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Create a project: a workflow that runs, its Python step, its tests, and settings.

    If one of the files exists, nothing is written unless you give --force. With --json: ok, folder, files and next
    (the commands to try).
    """

    async def work() -> int:
        written = create_project(folder, force=force)
        here = folder.resolve() == Path.cwd()
        enter = [] if here else [f"cd {shlex.quote(str(folder))}"]
        if as_json:
            commands: list[JsonValue] = [*enter, *(command for command, _ in _NEXT)]
            print_json({"ok": True, "folder": str(folder), "files": [*written], "next": commands})
            return 0
        lines = [f"Created a project in {'this folder' if here else clean(str(folder))}:"]
        lines += [f"  {path:<24}{_ABOUT.get(path, '')}".rstrip() for path in written]
        lines += ["Next:", *(f"  {clean(command)}" for command in enter)]
        width = max(len(command) for command, _ in _NEXT) + 3
        lines += [f"  {command:<{width}}{purpose}" for command, purpose in _NEXT]
        typer.echo("\n".join(lines))
        return 0

    exit_with_async(work, as_json=as_json)


# --- the files ------------------------------------------------------------------------------------


_SUFFIX = ".template"
_HIDDEN = {"gitignore": ".gitignore"}


def project_files() -> dict[str, str]:
    """The files of a new project by their paths in it."""
    return dict(sorted(_files_in(files("penstock.cli.project") / "template", "")))


def _files_in(folder: Traversable, place: str) -> Iterator[tuple[str, str]]:
    for item in folder.iterdir():
        if item.is_dir():
            yield from _files_in(item, f"{place}{item.name}/")
            continue
        name = item.name.removesuffix(_SUFFIX)
        yield place + _HIDDEN.get(name, name), item.read_text(encoding="utf-8")


def create_project(folder: Path, *, force: bool = False) -> list[str]:
    """Write a project into a folder, which is made if need be; the paths of its files.

    `Conflict` names files that are there already, and nothing is written then; with `force` they are replaced.
    """
    wanted = project_files()
    # A link counts even if it leads nowhere: writing through it would put the file somewhere else.
    taken = [path for path in wanted if (folder / path).exists() or (folder / path).is_symlink()]
    if taken and not force:
        listed = ", ".join(taken)
        hint = "choose another folder, or replace them with --force"
        raise Conflict("PROJECT_EXISTS", f"{folder} already has {listed}", hint, {"files": [*taken]})
    try:
        for path, text in wanted.items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
    except OSError as error:
        message = f"{error.filename or folder} cannot be written: {error.strerror or error}"
        raise Unavailable("PROJECT_UNWRITABLE", message, "choose a folder that you can write to") from error
    return list(wanted)
