"""The import contracts hold for the project, and each is broken by what it is meant to catch."""

import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "penstock"
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
    contracts = re.findall(r"^(.+) (?:KEPT|BROKEN)(?: \(1 ignored import\))?$", output, flags=re.MULTILINE)
    heading = re.compile(rf"^({'|'.join(map(re.escape, contracts))})\n-+$", re.MULTILINE)
    _, *parts = heading.split(output.partition("Broken contracts")[2])
    return dict(zip(parts[::2], parts[1::2], strict=True))


_MEET_AT_PORTS = "Stores, executors and the host meet at ports only"

# What is added to the project, and the one contract that complains of it. Each has a name of its own.
VIOLATIONS = {
    "engine/violation_clock.py": ("import time\n", "Core is pure"),
    "engine/violation_random.py": ("import uuid\n", "Core is pure"),
    "definitions/violation_file.py": ("from pathlib import Path\n", "Core is pure"),
    "definitions/violation_async.py": ("from asyncio import sleep\n", "Core is pure"),
    "base/violation_threads.py": ("from threading import RLock\n", "Core is pure"),
    # `console` imports nothing yet, so that an import of it from below closes no cycle.
    "definitions/violation_upwards.py": ("import penstock.console\n", "Layers"),
    "governance/violation_sideways.py": ("import penstock.engine\n", "Layers"),
    "undeclared/__init__.py": ("", "Layers"),
    "rest/violation_surface.py": ("import penstock.engine\n", "Surfaces speak only to operations"),
    "client/violation_client.py": ("import penstock.definitions\n", "The client knows nothing of the server"),
    "operations/violation_adapter.py": ("import penstock.runtime.executors\n", "Only bootstrap knows the adapters"),
    "app/violation_store_use.py": ("import penstock.runtime.stores\n", "Only the drivers know the stores"),
    "operations/keys/violation_resource.py": (
        "import penstock.operations.webhooks.views\n",
        "Resources do not import each other",
    ),
    "operations/violation_host_detail.py": (
        "import penstock.runtime.host.waiters\n",
        "Operations know hosts by their port",
    ),
    "runtime/violation_host.py": ("import penstock.runtime.host.embedded\n", "Only bootstrap knows the adapters"),
    "runtime/stores/violation_store.py": ("import penstock.runtime.host.watchdog\n", _MEET_AT_PORTS),
    "runtime/executors/violation_executor.py": ("import penstock.runtime.host.timers\n", _MEET_AT_PORTS),
    "cli/violation_cli.py": ("import penstock.runtime.host.embedded\n", "Only bootstrap knows the adapters"),
    "app/violation_openwop.py": ("import penstock.openwop.surface\n", "Only the wiring of a server knows OpenWOP"),
    "app/violation_a2a.py": ("import penstock.a2a.surface\n", "Only the wiring of a server knows A2A"),
    "definitions/nodes/violation_node.py": ("import penstock.definitions.nodes.emit\n", "Node types are independent"),
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


def test_a_store_that_knows_an_executor_breaks_both_contracts_about_adapters(tmp_path: Path) -> None:
    result = lint(
        tmp_path,
        {"runtime/stores/violation_sender.py": "import penstock.runtime.executors.http.executor\n"},
    )
    assert set(complaints(result.stdout)) == {"Only bootstrap knows the adapters", _MEET_AT_PORTS}


def test_the_project_keeps_every_contract(tmp_path: Path) -> None:
    result = lint(tmp_path, {})
    assert result.returncode == 0, result.stdout + result.stderr
    declared = (ROOT / "pyproject.toml").read_text(encoding="utf-8").count("[[tool.importlinter.contracts]]")
    assert f"{declared} kept, 0 broken" in result.stdout
    assert complaints(result.stdout) == {}
    assert re.findall(r"^(.+) KEPT \((.+)\)$", result.stdout, flags=re.MULTILINE) == [
        ("Core is pure", "1 ignored import")
    ]


PURE = ("base", "definitions", "drawing", "engine", "governance", "graph")
# Ways to the outside that need no import, or one that pure code has for other reasons.
_OUTSIDE = {"open", "print", "input", "breakpoint", "datetime.now", "datetime.utcnow", "datetime.today", "date.today"}


def looks_outside(source: str) -> list[str]:
    """Calls that read a file, a clock or a person, or write to a screen."""
    called = [ast.unparse(node.func) for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    return [name for name in called if name in _OUTSIDE or ".".join(name.split(".")[-2:]) in _OUTSIDE]


def test_pure_packages_call_nothing_that_looks_outside() -> None:
    assert looks_outside("x = datetime.datetime.now()\nopen(x)\nfile.open()") == ["datetime.datetime.now", "open"]
    found = {
        str(path.relative_to(SOURCE)): told
        for package in PURE
        for path in (SOURCE / package).rglob("*.py")
        if (told := looks_outside(path.read_text(encoding="utf-8")))
    }
    assert found == {}


def foreign_imports(source: str) -> list[str]:
    """What is imported that is neither ours nor the standard library's."""
    names = [
        name
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [item.name for item in node.names])
    ]
    roots = [name.partition(".")[0] for name in names]
    return [root for root in roots if root != "penstock" and root not in sys.stdlib_module_names]


def test_base_needs_nothing_but_the_standard_library_and_one_encoder() -> None:
    assert foreign_imports("import json, msgspec.json\nfrom httpx2 import Client") == ["msgspec", "httpx2"]
    paths = sorted((SOURCE / "base").rglob("*.py"))
    found = {path.name: told for path in paths if (told := foreign_imports(path.read_text(encoding="utf-8")))}
    # Everything above encodes values with msgspec; one module keeps its unsafe half away from all of them.
    assert found == {"encoding.py": ["msgspec"]}
