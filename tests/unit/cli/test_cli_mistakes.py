"""Every command that fails exits non-zero and says why on stderr; every mistyped choice is answered with the nearest.

Commands and choices come from the tree of commands. A command that takes a database fails at a file that is none, one
that takes a server at one that is not there; every other command has a row in `FAILING`.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin, get_type_hints

import pytest
from click.testing import CliRunner

from penstock.cli.main import app

DATABASE, NO_SERVER = ("--db", "garbage.db"), ("--server", "http://127.0.0.1:9")
FAILING: Final[dict[str, tuple[str, ...]]] = {
    "validate": ("missing.yaml",),
    "workflow draw": ("missing.yaml",),
    "workflow diff": ("missing.yaml", "broken.yaml"),
    "workflow simulate": ("broken.yaml",),
    "workflow json-schema": ("--nope",),
    "test": ("broken.yaml",),
    "workflow sign": ("broken.yaml", "--key", "missing.pem"),
    "workflow verify-signature": ("broken.yaml", "--trusted", "missing.pem"),
    "graph schema check": ("missing.pg",),
    "graph query validate": ("broken.yaml",),
    "graph query format": ("missing.gq",),
    "graph query test": ("missing.yaml",),
    "tool import openapi": ("missing.yaml",),
    "init": ("garbage.db",),
    "config show": ("--config", "broken.yaml"),
    "config validate": ("--config", "missing.yaml"),
    "config schema": ("--nope",),
    "server verify": ("--url", "http://127.0.0.1:9", "--key", "k"),
    "config profile list": ("--nope",),
    "config profile add": ("x", "--server", "no address"),
    "config profile remove": ("nobody",),
    "config profile use": ("nobody",),
    "policy check": ("missing.cedar",),
    "policy test": ("missing.yaml",),
    "policy diff": ("missing", "garbage.db", "missing.yaml"),
    "serve": ("--config", "missing.yaml"),
    "dev": ("--config", "missing.yaml"),
    "server backup": ("copy.db", *DATABASE),
    "server worker": DATABASE,
    "runs top": DATABASE,
    # These start a server of their own, which takes seconds to fail in another process.
    "mcp doctor": ("--server", "nobody"),
    "mcp tools": ("--server", "nobody"),
    "mcp call": ("--server", "nobody", "x"),
}
REPORTS: Final = {"server check", "server doctor", "mcp doctor"}
"""What these print is what they found; it goes to stdout, whether all is well or not."""


def walk(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    if hasattr(command, "list_commands"):
        for name in command.list_commands(None):
            yield from walk(command.get_command(None, name), (*path, name))
    else:
        yield " ".join(path), command


COMMANDS: Final = dict(walk(app))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in [name for name in os.environ if name.startswith("PENSTOCK_")]:
        monkeypatch.delenv(name)
    Path("garbage.db").write_text("this is no database\n" * 50, encoding="utf-8")
    Path("broken.yaml").write_text("penstock: [v1\nname: {", encoding="utf-8")
    return tmp_path


def needed(command: Any) -> list[str]:
    """Something for every argument and option that a command cannot do without."""
    arguments = ["x" for item in command.params if item.param_type_name == "argument" and item.required]
    options = [item.opts[0] for item in command.params if item.param_type_name == "option" and item.required]
    return [*arguments, *(word for option in options for word in (option, "x"))]


def failing_words(name: str) -> list[str] | None:
    """How a command is called so that it fails; None if nobody said."""
    command = COMMANDS[name]
    if name in FAILING:
        return [*FAILING[name]]
    taken = {option for item in command.params for option in item.opts}
    where = DATABASE if "--db" in taken else NO_SERVER if "--server" in taken else None
    return None if where is None else [*needed(command), *where]


def test_every_command_can_be_made_to_fail() -> None:
    assert len(COMMANDS) > 200
    assert [name for name in COMMANDS if failing_words(name) is None] == [], "say how these fail"
    assert sorted(FAILING.keys() - COMMANDS) == []


def describe_failure(name: str) -> str | None:
    """What is wrong with how a command fails."""
    words = failing_words(name)
    assert words is not None
    done = CliRunner().invoke(app, [*name.split(), *words])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        return f"{name} {words}: raises {done.exception!r}"
    if done.exit_code == 0:
        return f"{name} {words}: exits with 0: {done.output[:200]}"
    if "Traceback" in done.output:
        return f"{name} {words}: prints a traceback"
    if not done.stderr.strip() and name not in REPORTS:
        return f"{name} {words}: says nothing on stderr: {done.stdout[:200]}"
    return None


def test_every_command_that_fails_exits_non_zero_and_says_why() -> None:
    wrong = [problem for name in COMMANDS if (problem := describe_failure(name)) is not None]
    assert not wrong, "\n".join(wrong)


def choices_in(annotation: Any) -> tuple[str, ...]:
    """The words of a choice, in an annotation that may be optional or a list; none if it takes other texts."""
    if inspect.isclass(annotation) and issubclass(annotation, Enum):
        return tuple(str(member.value) for member in annotation)
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return tuple(word for word in inner if isinstance(word, str))
    if origin is Annotated:
        return choices_in(inner[0])
    if origin in (Union, UnionType, list, tuple):
        found = [choices_in(member) for member in inner if member not in (type(None), Ellipsis)]
        return found[0] if found and all(found) else ()
    return ()


def choices() -> Iterator[tuple[str, str, str, tuple[str, ...]]]:
    """Every command, option of it and variable whose value is a choice from a list."""
    for name, command in COMMANDS.items():
        hints = get_type_hints(command.function, include_extras=True)
        for item in command.params:
            words = choices_in(hints.get(item.name))
            if words and item.param_type_name == "option":
                yield name, item.opts[0], item.name, words


def test_a_mistyped_choice_of_an_option_is_refused_with_the_nearest() -> None:
    wrong, seen = [], 0
    for name, option, _, words in choices():
        seen += 1
        mistyped = f"{words[0]}{words[0][-1:]}"
        given = [word for word in needed(COMMANDS[name]) if word != option]
        done = CliRunner().invoke(app, [*name.split(), *given, option, mistyped])
        told = " ".join(done.stderr.replace("│", " ").split())
        if done.exit_code == 0 or f"did you mean `{words[0]}`?" not in told:
            wrong.append(f"{name} {option} {mistyped}: {done.exit_code} {told[-300:]}")
    assert seen > 5, seen
    assert not wrong, "\n".join(wrong)
