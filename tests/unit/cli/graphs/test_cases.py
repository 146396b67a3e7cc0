"""Test cases of queries: those of the example hold, and a wrong expectation is told."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from penstock.cli.main import app

EXAMPLE = Path(__file__).parents[4] / "examples" / "graphs" / "crm"


def test_the_cases_of_the_example_hold() -> None:
    found = CliRunner().invoke(app, ["graph", "query", "test", str(EXAMPLE / "tasks.tests.yaml"), "--json"], obj=0.0)
    assert found.exit_code == 0, found.stdout
    assert len(json.loads(found.stdout)["cases"]) == 4


def test_a_case_that_does_not_hold_says_what_came_instead(tmp_path: Path) -> None:
    file = tmp_path / "wrong.tests.yaml"
    file.write_text(
        f"schema: {EXAMPLE}/schema.pg\nqueries: {EXAMPLE}/queries\ncases:\n"
        "  - {name: nobody, query: tasks_of, params: {owner: ada}, rows: [{task: x}]}\n",
        encoding="utf-8",
    )
    found = CliRunner().invoke(app, ["graph", "query", "test", str(file), "--json"], obj=0.0)
    [case] = json.loads(found.stdout)["cases"]
    assert (found.exit_code, "but got []" in case["problem"]) == (1, True)
