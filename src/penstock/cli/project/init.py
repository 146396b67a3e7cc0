"""`penstock init`: a project folder with something that runs, and what to type next.

Above it: the command line. Below it: `templates`, which has the files.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, TypeAlias

from penstock.base.errors import Conflict, Unavailable
from penstock.base.json import JsonValue
from penstock.base.text import clean
from penstock.cli.declaration import Argument, Option, echo
from penstock.cli.project.templates import TEMPLATES, Template, project_files
from penstock.cli.terminal.conversation import TerminalConversation, can_ask
from penstock.cli.terminal.event_loop import exit_with_async
from penstock.cli.terminal.exits import JsonOption, print_json
from penstock.cli.terminal.prompts import Conversation
from penstock.cli.terminal.values import UsageError
from penstock.definitions.source.findings import suggestion

__all__ = ["ask_for_template", "create_project", "init_command"]

_DEFAULT = next(iter(TEMPLATES.values()))
_FolderArgument: TypeAlias = Annotated[Path, Argument(metavar="FOLDER", help="The folder to create the project in.")]


def init_command(
    folder: _FolderArgument = Path(),
    *,
    template: Annotated[
        str | None,
        Option(
            ("--template", "-t"),
            metavar="|".join(TEMPLATES),
            help=f"What the project shows. Without it, a terminal asks; otherwise {_DEFAULT.name}.",
        ),
    ] = None,
    list_templates: Annotated[bool, Option("--list-templates", help="List the templates and create nothing.")] = False,
    force: Annotated[bool, Option("--force", help="Replace existing files.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Create a project that runs, with its steps, tests and settings.

    It shows an approval, an agent, an imported API or a graph: choose with --template.

    If one of the files exists, nothing is written unless you give --force. With --json: ok, folder, template, files and
    next (the commands to try).
    """

    async def work() -> int:
        if list_templates:
            _print_templates(as_json=as_json)
            return 0
        if template is not None:
            chosen = _find_template(template)
        elif can_ask() and not as_json:
            chosen = await ask_for_template(TerminalConversation())
        else:
            chosen = _DEFAULT
        written = create_project(folder, chosen, force=force)
        here = folder.resolve() == Path.cwd()
        enter = [] if here else [f"cd {shlex.quote(str(folder))}"]
        if as_json:
            commands: list[JsonValue] = [*enter, *(command for command, _ in chosen.next)]
            named: JsonValue = [*written]
            answer: JsonValue = {
                "ok": True,
                "folder": str(folder),
                "template": chosen.name,
                "files": named,
                "next": commands,
            }
            print_json(answer)
            return 0
        lines = [f"Created a project in {'this folder' if here else clean(str(folder))}:"]
        width = max(map(len, written)) + 2
        lines += [f"  {path:<{width}}{chosen.about.get(path, '')}".rstrip() for path in written]
        lines += ["Next:", *(f"  {clean(command)}" for command in enter)]
        width = max(len(command) for command, _ in chosen.next) + 3
        lines += [f"  {command:<{width}}{purpose}" for command, purpose in chosen.next]
        lines.append("Complete commands with Tab: penstock --install-completion")
        echo("\n".join(lines))
        return 0

    exit_with_async(work, as_json=as_json)


def _find_template(name: str) -> Template:
    if name in TEMPLATES:
        return TEMPLATES[name]
    hint = suggestion(name, TEMPLATES) or f"there are {', '.join(TEMPLATES)}"
    raise UsageError(f"--template: there is no template {clean(name)!r}; {hint}")


def _print_templates(*, as_json: bool) -> None:
    if as_json:
        listed: list[JsonValue] = [
            {"name": item.name, "title": item.title, "default": item is _DEFAULT} for item in TEMPLATES.values()
        ]
        print_json({"templates": listed})
        return
    width = max(map(len, TEMPLATES)) + 2
    for item in TEMPLATES.values():
        echo(f"{item.name:<{width}}{item.title}{' (default)' if item is _DEFAULT else ''}")


async def ask_for_template(conversation: Conversation) -> Template:
    """Ask for a template by name or number, until there is one; an empty line is the default."""
    listed = list(TEMPLATES.values())
    width = max(map(len, TEMPLATES)) + 2
    conversation.tell("What should the project show?")
    for number, item in enumerate(listed, 1):
        conversation.tell(f"  {number}  {item.name:<{width}}{item.title}")
    while True:
        line = await conversation.ask(f"Template [{_DEFAULT.name}]: ")
        if line is None:
            raise UsageError("no template was chosen; name one with --template")
        answer = line.strip().lower()
        if not answer:
            return _DEFAULT
        if answer in TEMPLATES:
            return TEMPLATES[answer]
        if answer.isdecimal() and 1 <= int(answer) <= len(listed):
            return listed[int(answer) - 1]
        conversation.tell(f"type a number from 1 to {len(listed)}, or a name")


def create_project(folder: Path, template: Template = _DEFAULT, *, force: bool = False) -> list[str]:
    """Write a project into a folder, made if necessary; return the paths of its files.

    `Conflict` names files that are there already, and nothing is written then; with `force` they are replaced.
    """
    wanted = project_files(template.name)
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
