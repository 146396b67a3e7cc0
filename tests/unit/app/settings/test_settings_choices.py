"""A setting that takes one of several words refuses any other, and names the nearest: in a file and as a variable."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from penstock.app.settings.declarations import every_setting
from penstock.app.settings.model import settings_outline
from penstock.app.settings.schema import settings_schema
from penstock.app.settings.sources import InvalidSettings, load_settings
from penstock.app.settings.types import Choice
from penstock.base.json import object_or_empty
from tests.unit.operations.test_operations_choices import listed_choices

SCHEMA = settings_schema()
PLACES = {
    ".".join(path): words
    for path, words in listed_choices(SCHEMA, object_or_empty(SCHEMA.get("$defs")), (), 8)
    if len(words) > 1
}
VARIABLES = {
    setting.variable: setting.type.words
    for setting in every_setting(settings_outline())
    if isinstance(setting.type, Choice)
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def mistype(word: str) -> str:
    return f"{word}{word[-1:]}"


def told(environment: dict[str, str]) -> str:
    """What is said about settings that are refused."""
    with pytest.raises(InvalidSettings) as refused:
        load_settings(environment=environment)
    return "\n".join(f"{finding.message} ({finding.hint})" for finding in refused.value.findings)


def test_there_are_choices_at_the_top_and_further_down() -> None:
    assert len(VARIABLES) > 10
    assert len(PLACES) > len(VARIABLES)


@pytest.mark.parametrize("place", PLACES)
def test_a_mistyped_choice_in_a_file_is_refused_with_the_nearest(place: str) -> None:
    word = PLACES[place][0]
    value: Any = mistype(word)
    for part in reversed(place.split(".")):
        value = [value] if part == "0" else {part: value}
    Path("penstock.yaml").write_text(json.dumps(value), encoding="utf-8")
    said = told({})
    assert f"'{mistype(word)}'" in said, said
    assert f"did you mean `{word}`?" in said, said


@pytest.mark.parametrize("variable", VARIABLES)
def test_a_mistyped_choice_in_a_variable_is_refused_with_the_nearest(variable: str) -> None:
    word = VARIABLES[variable][0]
    said = told({variable: mistype(word)})
    assert f"did you mean `{word}`?" in said, said
