"""Options that are declared once as a dataclass look and work as if the command had spelt them out."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from penstock.cli.option_groups import expand_option_groups

LoudOption = Annotated[bool, typer.Option("--loud", help="Shout.")]
HEARD: list[tuple[object, ...]] = []


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    times: Annotated[int, typer.Option("--times", min=1, help="How often.")]
    loud: LoudOption = False


@expand_option_groups
def grouped(
    name: Annotated[str, typer.Argument(help="Who.")], *, first: str = "a", manner: Manner, last: str = "z"
) -> None:
    """Greet somebody.

    More words.
    """
    HEARD.append((name, first, manner, last))


def spelt_out(
    name: Annotated[str, typer.Argument(help="Who.")],
    *,
    first: str = "a",
    times: Annotated[int, typer.Option("--times", min=1, help="How often.")],
    loud: LoudOption = False,
    last: str = "z",
) -> None:
    """Greet somebody.

    More words.
    """


def shown(command: object, *words: str) -> tuple[int, str]:
    app = typer.Typer(add_completion=False)
    app.command("greet")(command)  # type: ignore[type-var]
    result = CliRunner().invoke(app, words, prog_name="greet")
    return result.exit_code, result.output


@pytest.mark.parametrize("words", [("--help",), (), ("Ada",), ("Ada", "--times", "0"), ("Ada", "--times", "x")])
def test_help_and_refusals_are_those_of_a_command_that_spells_its_options_out(words: tuple[str, ...]) -> None:
    assert shown(grouped, *words) == shown(spelt_out, *words)


def test_the_fields_stand_where_the_group_stood() -> None:
    assert list(inspect.signature(grouped).parameters) == ["name", "first", "times", "loud", "last"]


def test_the_command_gets_the_group_as_one_value() -> None:
    HEARD.clear()
    assert shown(grouped, "Ada", "--times", "2", "--loud") == (0, "")
    assert [("Ada", "a", Manner(times=2, loud=True), "z")] == HEARD
