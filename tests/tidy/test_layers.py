"""The import contracts hold for the project, and each is broken by what it is meant to catch."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINT_IMPORTS = Path(sys.executable).parent / "lint-imports"


def lint(folder: Path, additions: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run the contracts on a copy of the project with some files added to it."""
    shutil.copy(ROOT / "pyproject.toml", folder)
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__"))
    for path, source in additions.items():
        target = folder / "src" / "penstock" / path
        target.parent.mkdir(exist_ok=True)
        target.write_text(source)
    return subprocess.run(
        [LINT_IMPORTS, "--no-cache", "--no-logo"],
        cwd=folder,
        # The copy comes first on the path, so it is found before the installed project.
        env={**os.environ, "PYTHONPATH": str(folder / "src"), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )


def complaints(output: str) -> dict[str, str]:
    """What is said about each broken contract, by its name."""
    contracts = re.findall(r"^(.+) (?:KEPT|BROKEN)$", output, flags=re.MULTILINE)
    heading = re.compile(rf"^({'|'.join(map(re.escape, contracts))})\n-+$", re.MULTILINE)
    _, *parts = heading.split(output.partition("Broken contracts")[2])
    return dict(zip(parts[::2], parts[1::2], strict=True))


# What is added to the project, and the one contract that complains of it. Each has a name of its own.
VIOLATIONS = {
    "engine/violation_clock.py": ("import time\n", "Core is pure"),
    "definitions/violation_async.py": ("from asyncio import sleep\n", "Core is pure"),
    # `console` imports nothing yet, so that an import of it from below closes no cycle.
    "definitions/violation_upwards.py": ("import penstock.console\n", "Layers"),
    "governance/violation_sideways.py": ("import penstock.engine\n", "Layers"),
    "undeclared/__init__.py": ("", "Layers"),
    "api/violation_surface.py": ("import penstock.engine\n", "Surfaces speak only to operations"),
    "client/violation_client.py": ("import penstock.definitions\n", "The client knows nothing of the server"),
    "operations/violation_adapter.py": ("import penstock.runtime.stores\n", "Only bootstrap knows the adapters"),
    "runtime/violation_host.py": ("import penstock.runtime.embedded_host\n", "Only bootstrap knows the adapters"),
    "cli/violation_cli.py": ("import penstock.runtime.embedded_host\n", "Only bootstrap knows the adapters"),
    "definitions/violation_a.py": ("import penstock.definitions.violation_b\n", "No cycles anywhere"),
    "definitions/violation_b.py": ("import penstock.definitions.violation_a\n", "No cycles anywhere"),
}


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What the contracts say of the project with all the violations in it at once."""
    additions = {path: source for path, (source, _) in VIOLATIONS.items()}
    result = lint(tmp_path_factory.mktemp("violated"), additions)
    assert result.returncode == 1, result.stdout + result.stderr
    return complaints(result.stdout)


@pytest.mark.parametrize("path", VIOLATIONS)
def test_a_violation_breaks_the_contract_meant_for_it_and_no_other(path: str, said: dict[str, str]) -> None:
    name = Path(path).parent.name if path.endswith("__init__.py") else Path(path).stem
    named = re.compile(rf"\.{name}\b")
    assert [contract for contract, text in said.items() if named.search(text)] == [VIOLATIONS[path][1]], said


def test_the_project_keeps_every_contract(tmp_path: Path) -> None:
    result = lint(tmp_path, {})
    assert result.returncode == 0, result.stdout + result.stderr
    assert "6 kept, 0 broken" in result.stdout
    assert complaints(result.stdout) == {}
