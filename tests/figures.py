"""Count the source: files, lines, large modules, import edges and tests.

    python -m tests.figures [--quick]

Code that the documentation generator writes (`client/generated`, `client/sync`) is left out, except in the import
graph.

Above it: `scripts/figures`. Below it: grimp, pytest.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import grimp

__all__ = ["edges", "main", "sizes", "tests_collected"]

ROOT = Path(__file__).parents[1]
PACKAGE = "penstock"
_GENERATED = ("client/generated", "client/sync")
_LARGE_LINES = 400
_NAMED = 5


def sizes(source: Path) -> dict[str, Any]:
    """Files, lines, modules with more than 400 lines, and the folders with the most modules."""
    files = [path for path in source.rglob("*.py") if not any(folder in path.as_posix() for folder in _GENERATED)]
    lines = {path.relative_to(source).as_posix(): len(path.read_bytes().splitlines()) for path in files}
    rows = Counter(path.parent.relative_to(source).as_posix() for path in files if path.name != "__init__.py")
    large = {name: count for name, count in lines.items() if count > _LARGE_LINES}
    return {
        "files": len(files),
        "lines": sum(lines.values()),
        "folders": len({path.parent for path in files}),
        "modules_over_400_lines": len(large),
        "largest": dict(Counter(lines).most_common(_NAMED)),
        "longest_row": max(rows.values()),
        "longest_rows": dict(rows.most_common(_NAMED)),
    }


def edges() -> dict[str, int]:
    """Import edges: between modules, between packages (folders), and between those below `penstock`."""
    graph = grimp.build_graph(PACKAGE, cache_dir=None)
    parents = {module.rpartition(".")[0] for module in graph.modules}

    def package(module: str) -> str:
        return module if module in parents else module.rpartition(".")[0]

    def floor(module: str) -> str:
        return ".".join(module.split(".")[:2])

    found = {
        (importer, imported)
        for importer in graph.modules
        for imported in graph.find_modules_directly_imported_by(importer)
    }
    packages = {(package(a), package(b)) for a, b in found}
    floors = {(floor(a), floor(b)) for a, b in found}
    return {
        "edges_between_modules": len(found),
        "edges_between_packages": sum(a != b for a, b in packages),
        "edges_between_top_level_packages": sum(a != b for a, b in floors),
    }


def tests_collected() -> int:
    """How many tests there are."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if (found := re.search(r"^(\d+) tests collected", done.stdout, re.MULTILINE)) is None:
        raise SystemExit(f"the tests cannot be collected:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return int(found[1])


def main(arguments: Sequence[str]) -> int:
    """Print the figures, one per line and then all of them as JSON."""
    parser = argparse.ArgumentParser(prog="scripts/figures", description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="do not collect the tests")
    given = parser.parse_args(arguments)
    figures = sizes(ROOT / "src" / PACKAGE) | edges()
    if not given.quick:
        figures["tests"] = tests_collected()
    for name, value in figures.items():
        print(f"{name.replace('_', ' '):36} {value}")
    print(json.dumps(figures))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
