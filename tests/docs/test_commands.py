"""Commands in pages can be typed: the command line has them, with these options, and nothing is missing."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from penstock.cli.main import app

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").glob("*.md")]
INLINE = re.compile(r"`(penstock [^`]+)`")
SUBSTITUTED = re.compile(r"\$\([^)]*\)")
FENCED = re.compile(r"^```(?:sh|bash|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def written_pages() -> Iterator[tuple[str, str]]:
    """The pages that people write, by name."""
    for path in sorted(PAGES):
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith(("docs/reference/", "docs/decisions/")):
            yield name, path.read_text(encoding="utf-8")


def written_commands() -> Iterator[tuple[str, str]]:
    """Every command of a fenced block, with the page that has it."""
    for name, text in written_pages():
        for block in FENCED.findall(text):
            for line in block.replace("\\\n", " ").splitlines():
                command = line.removeprefix("$ ").strip()
                if command.startswith("penstock "):
                    yield name, command


def mentioned_commands() -> Iterator[tuple[str, str]]:
    """Every command in a sentence, with the page that has it."""
    for name, text in written_pages():
        for mention in INLINE.findall(FENCED.sub("", text)):
            yield name, " ".join(mention.split())


def words_of(command: str) -> list[str]:
    """The words of a command, without a comment and what follows a pipe."""
    lexer = shlex.shlex(SUBSTITUTED.sub("X", command), posix=True, punctuation_chars="|&;<>")
    lexer.whitespace_split = True
    lexer.commenters = "#"
    words = []
    for word in lexer:
        if set(word) <= set("|&;<>"):
            break
        words.append(word)
    if words[-1] == "2":  # of `2>`
        words.pop()
    return words


def parse(command: Any, name: str, words: list[str], parent: Any = None) -> None:
    """Parse a command as the command line would, and run nothing."""
    context = command.make_context(name, list(words), parent)
    if isinstance(command, click.Group) and (context._protected_args or not command.invoke_without_command):
        found, inner, remaining = command.resolve_command(context, [*context._protected_args, *context.args])
        parse(inner, str(found), remaining, context)


def follow(command: Any, words: list[str]) -> list[str]:
    """Words of a mention that the command line does not have."""
    options = {name for each in command.params for name in (*each.opts, *each.secondary_opts)}
    for number, word in enumerate(words):
        if word.startswith("-"):
            if word not in options | {"--help"}:
                return [word]
        elif isinstance(command, click.Group):
            inner = command.get_command(command.make_context("penstock", [], resilient_parsing=True), word)
            return [word] if inner is None else follow(inner, words[number + 1 :])
    return []


@pytest.mark.parametrize(("page", "command"), sorted(set(mentioned_commands())))
def test_a_command_in_a_sentence_exists(page: str, command: str) -> None:
    words = re.split(r" -- | \||&&|…", command)[0].replace("[", " ").split()[1:]
    assert follow(app, words) == []


@pytest.mark.parametrize(("page", "command"), sorted(set(written_commands())))
def test_a_command_in_a_page_can_be_typed(
    page: str, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    parse(app, "penstock", words_of(command)[1:])


def test_words_end_where_the_shell_takes_over() -> None:
    assert words_of("penstock runs list --db a.db 2>/dev/null | head  # all") == [
        "penstock",
        "runs",
        "list",
        "--db",
        "a.db",
    ]
    assert words_of('penstock mcp call x --json \'{"a": "b | c"}\'') == [
        "penstock",
        "mcp",
        "call",
        "x",
        "--json",
        '{"a": "b | c"}',
    ]
    assert words_of("penstock runs list   # all") == ["penstock", "runs", "list"]


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("nothing", "There is no command"),
        ("runs list --nothing", "No such option"),
        ("key create Ada --scopes draft:read", "Missing option '--name'"),
    ],
)
def test_a_command_that_cannot_be_typed_is_found(command: str, problem: str) -> None:
    with pytest.raises(click.ClickException) as raised:
        parse(app, "penstock", shlex.split(command))
    assert problem in raised.value.format_message()
