"""Signatures as parameters of a command line: what a command gets for what was typed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

import click
import pytest
from click.testing import CliRunner

from penstock.cli.commands.command import FunctionCommand
from penstock.cli.commands.parameters import read_signature
from penstock.cli.declaration import Argument, Context, Option


class Colour(StrEnum):
    RED = "red"
    DARK_BLUE = "dark-blue"


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    times: Annotated[int, Option("--times", min=1, max=9, help="How often.")]
    loud: Annotated[bool, Option("--loud", help="Shout.")] = False


def double(_: Context, value: int) -> int:
    return value * 2


HEARD: list[dict[str, Any]] = []


def take(  # noqa: PLR0913  # one parameter of each kind
    ctx: Context,
    name: Annotated[str, Argument(metavar="NAME", help="Who.")],
    more: Annotated[list[Path] | None, Argument(help="Files.")] = None,
    *,
    first: Annotated[str, Option(help="A text.")] = "a",
    ratio: Annotated[float | None, Option("--ratio", min=0)] = None,
    colour: Annotated[Colour, Option("--colour")] = Colour.RED,
    era: Annotated[Literal["old", "new"] | None, Option("--era")] = None,
    tag: Annotated[list[str] | None, Option(("--tag", "-t"))] = None,
    sure: Annotated[bool | None, Option("--sure/--not-sure")] = None,
    show: Annotated[bool, Option("--show/--hide")] = True,
    manner: Manner,
) -> None:
    """Greet somebody."""
    values = {name: value for name, value in locals().items() if name != "ctx"}
    HEARD.append({**values, "command": ctx.info_name})


DEFAULTS = {
    "name": "Ada",
    "more": None,
    "first": "a",
    "ratio": None,
    "colour": Colour.RED,
    "era": None,
    "tag": None,
    "sure": None,
    "show": True,
    "manner": Manner(times=2),
    "command": "take",
}


def heard(*words: str) -> dict[str, Any]:
    HEARD.clear()
    result = CliRunner().invoke(FunctionCommand("take", take), words, prog_name="take")
    assert (result.exit_code, result.output) == (0, "")
    return HEARD[0]


def refused(*words: str) -> str:
    result = CliRunner().invoke(FunctionCommand("take", take), words, prog_name="take")
    assert result.exit_code == 2
    return result.stderr


def test_what_is_not_given_has_the_default_of_the_function() -> None:
    assert heard("Ada", "--times", "2") == DEFAULTS


@pytest.mark.parametrize(
    ("words", "changed"),
    [
        (("a.txt", "b.txt"), {"more": [Path("a.txt"), Path("b.txt")]}),
        (("--first", ""), {"first": ""}),
        (("--first=x y",), {"first": "x y"}),
        (("--ratio", "0.5"), {"ratio": 0.5}),
        (("--colour", "dark-blue"), {"colour": Colour.DARK_BLUE}),
        (("--era", "old"), {"era": "old"}),
        (("--tag", "a", "-t", "b"), {"tag": ["a", "b"]}),
        (("--sure",), {"sure": True}),
        (("--not-sure",), {"sure": False}),
        (("--hide",), {"show": False}),
        (("--show",), {}),
        (("--loud",), {"manner": Manner(times=2, loud=True)}),
    ],
)
def test_what_is_given_arrives_as_the_annotation_says(words: tuple[str, ...], changed: dict[str, Any]) -> None:
    assert heard("Ada", "--times", "2", *words) == {**DEFAULTS, **changed}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "Missing argument 'NAME'"),
        (("Ada",), "Missing option '--times'"),
        (("Ada", "--times", "0"), "0 is not in the range 1<=x<=9"),
        (("Ada", "--times", "x"), "'x' is not a valid integer"),
        (("Ada", "--times", "1", "--ratio", "-1"), "-1.0 is not in the range x>=0"),
        (("Ada", "--times", "1", "--colour", "darkblue"), "did you mean `dark-blue`?"),
        (("Ada", "--times", "1", "--era", "olt"), "did you mean `old`?"),
        (("Ada", "--times", "1", "--tim", "1"), "--times"),
    ],
)
def test_a_mistake_is_refused_with_what_would_be_right(words: tuple[str, ...], told: str) -> None:
    text = refused(*words)
    assert text.startswith("error: ")
    assert told in text
    assert "hint: run `take --help` to see more" in text


def test_a_callback_sees_given_values_and_defaults_and_returns_what_the_command_gets() -> None:
    seen: list[object] = []

    def count(*, number: Annotated[int, Option("--number", callback=double)] = 3) -> None:
        seen.append(number)

    for words in ([], ["--number", "5"]):
        FunctionCommand("count", count).main(words, standalone_mode=False)
    assert seen == [6, 10]


def test_a_parameter_without_a_declaration_or_of_an_unknown_type_is_a_mistake_of_the_program() -> None:
    def bare(name: str) -> None: ...

    def odd(name: Annotated[complex, Option()]) -> None: ...

    def empty(name: Annotated[str, "a note"]) -> None: ...

    for function in (bare, odd, empty):
        with pytest.raises(TypeError):
            read_signature(function)


def test_words_of_a_choice_complete_in_a_shell() -> None:
    command = FunctionCommand("take", take)
    [option] = [item for item in command.params if item.name == "colour"]
    found = option.shell_complete(click.Context(command), "d")
    assert [item.value for item in found] == ["dark-blue"]
