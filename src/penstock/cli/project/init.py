"""`penstock init`: a project folder with a workflow that runs, and what to type next."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from penstock.base.json import JsonValue
from penstock.base.text import clean
from penstock.cli.project.templates import create_project
from penstock.cli.sessions.sessions import JsonOption, conduct, print_json

__all__ = ["init_command"]

_ABOUT = {
    "penstock.yaml": "the settings",
    "steps.py": "Python functions that workflows call",
    "workflows/refund.yaml": "a workflow with an approval, and its tests",
}
_NEXT = (
    ("penstock mcp call refund_order order_id=A-7 amount=20", "call it as an assistant would"),
    ("penstock validate", "find every mistake"),
    ("penstock test workflows", "run the test cases"),
    ("penstock dev", "serve it, and take up what you change"),
)


def init_command(
    folder: Annotated[Path, typer.Argument(metavar="[FOLDER]", help="Where to; made if it is not there.")] = Path(),
    *,
    force: Annotated[bool, typer.Option("--force", help="Replace files that are there already.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Make a project: a workflow that runs, its Python step, its tests, and settings.

    Nothing is written if one of the files is there already, unless --force is given. With --json: ok, folder, files and
    next, the commands to go on with.
    """

    async def work() -> int:
        written = create_project(folder, force=force)
        here = folder.resolve() == Path.cwd()
        enter = [] if here else [f"cd {shlex.quote(str(folder))}"]
        if as_json:
            commands: list[JsonValue] = [*enter, *(command for command, _ in _NEXT)]
            print_json({"ok": True, "folder": str(folder), "files": [*written], "next": commands})
            return 0
        lines = [f"a new project in {'this folder' if here else clean(str(folder))}"]
        lines += [f"  {path:<24}{_ABOUT.get(path, '')}".rstrip() for path in written]
        lines += ["next:", *(f"  {clean(command)}" for command in enter)]
        width = max(len(command) for command, _ in _NEXT) + 3
        lines += [f"  {command:<{width}}{purpose}" for command, purpose in _NEXT]
        typer.echo("\n".join(lines))
        return 0

    conduct(work, as_json=as_json)
