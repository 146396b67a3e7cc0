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


def broken_contracts(output: str) -> list[str]:
    return re.findall(r"^(.+) BROKEN$", output, flags=re.MULTILINE)


def test_the_project_keeps_every_contract(tmp_path: Path) -> None:
    result = lint(tmp_path, {})
    assert result.returncode == 0, result.stdout + result.stderr
    assert "6 kept, 0 broken" in result.stdout


@pytest.mark.parametrize(
    ("contract", "additions"),
    [
        ("Core is pure", {"engine/violation.py": "import time\n"}),
        ("Core is pure", {"definitions/violation.py": "from asyncio import sleep\n"}),
        # `console` imports nothing yet, so that an import of it from below closes no cycle.
        ("Layers", {"definitions/violation.py": "import penstock.console\n"}),
        ("Layers", {"governance/violation.py": "import penstock.engine\n"}),
        ("Surfaces speak only to operations", {"api/violation.py": "import penstock.engine\n"}),
        ("The client knows nothing of the server", {"client/violation.py": "import penstock.definitions\n"}),
        ("Only bootstrap knows the adapters", {"operations/violation.py": "import penstock.runtime.stores\n"}),
        ("Only bootstrap knows the adapters", {"runtime/violation.py": "import penstock.runtime.embedded_host\n"}),
        ("Only bootstrap knows the adapters", {"cli/violation.py": "import penstock.runtime.embedded_host\n"}),
        (
            "No cycles anywhere",
            {
                "definitions/violation_a.py": "import penstock.definitions.violation_b\n",
                "definitions/violation_b.py": "import penstock.definitions.violation_a\n",
            },
        ),
    ],
    ids=[
        "engine_clock",
        "definitions_async",
        "upwards",
        "sideways",
        "surface_engine",
        "client",
        "adapter",
        "host",
        "cli_host",
        "cycle",
    ],
)
def test_a_violation_breaks_the_contract_meant_for_it(contract: str, additions: dict[str, str], tmp_path: Path) -> None:
    result = lint(tmp_path, additions)
    assert result.returncode == 1, result.stdout + result.stderr
    assert broken_contracts(result.stdout) == [contract]


def test_a_package_that_no_layer_declares_is_refused(tmp_path: Path) -> None:
    result = lint(tmp_path, {"utils/__init__.py": ""})
    assert broken_contracts(result.stdout) == ["Layers"]
    assert "- penstock.utils\n" in result.stdout
