"""The page about promises has the stored figures, and its sections are those that the figures name."""

import json
from pathlib import Path
from typing import Any

import pytest

from docs.generator.markdown import anchor
from docs.generator.promises import FIGURES, PROMISES_PAGE, busy, main, read_figures, with_figures

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / PROMISES_PAGE).read_text(encoding="utf-8")


def test_the_page_matches_the_stored_figures() -> None:
    assert with_figures(PAGE, read_figures()) == PAGE, "run scripts/promises"


def test_every_script_has_been_run_and_printed_whether_it_held() -> None:
    stored = read_figures()
    assert set(stored) == {figure.name for figure in FIGURES}, "run scripts/promises --run NAME"
    assert [name for name, each in stored.items() if not isinstance(each["result"]["ok"], bool)] == []
    assert [figure.name for figure in FIGURES if stored[figure.name]["command"] != " ".join(figure.command)] == []


def test_every_promise_has_a_script_that_exists_and_a_section_that_names_it() -> None:
    sections = {
        anchor(section.partition("\n")[0]): section for section in PAGE.split("\n## ")[1:] if "scripts/" in section
    }
    promised = {figure.promise for figure in FIGURES}
    assert promised == set(sections) - {"figures-of-the-last-runs"}
    for figure in FIGURES:
        script = figure.command[0]
        assert (ROOT / script).is_file()
        assert f"`{script}" in sections[figure.promise], figure.name


def test_no_stored_file_is_left_over() -> None:
    written = {path.stem for path in (ROOT / "docs" / "figures").iterdir()}
    assert written == {figure.name for figure in FIGURES}


def test_a_missed_target_and_a_busy_machine_are_named() -> None:
    figure = next(figure for figure in FIGURES if figure.name == "gate")
    stored = read_figures()["gate"]
    page = PAGE.replace(str(stored["date"]), "")
    missed = {**stored, "load_before": 2.0, "result": {**stored["result"], "ok": False}, "machine": machine(2)}
    row = row_of(with_figures(page, {"gate": missed}), figure.name)
    assert "a target was missed" in row
    assert "on a busy machine" in row
    held = {**missed, "load_before": 0.5, "result": {**stored["result"], "ok": True}}
    row = row_of(with_figures(page, {"gate": held}), figure.name)
    assert "missed" not in row
    assert "busy" not in row


def row_of(page: str, name: str) -> str:
    [row] = [line for line in page.splitlines() if f"scripts/benchmark {name}" in line and line.startswith("| ")]
    return row


def machine(cores: int) -> dict[str, Any]:
    return {"system": "Linux x86_64", "cores": cores, "memory_gib": 4, "python": "3.11.7"}


def test_a_script_that_was_not_run_is_named() -> None:
    assert with_figures(PAGE, {}).count("| not run |") == len(FIGURES)


@pytest.mark.parametrize(("load", "cores", "expected"), [(0.9, 2, False), (1.1, 2, True), (1.1, 8, False)])
def test_a_machine_is_busy_if_more_than_half_of_it_worked_before(load: float, cores: int, expected: bool) -> None:
    assert busy({"load_before": load, "machine": machine(cores)}) is expected


def test_the_check_prints_one_json_object(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--check"]) == 0
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (told["missing"], told["ok"]) == ([], True)
