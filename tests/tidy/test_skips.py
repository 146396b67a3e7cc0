"""Only what a platform may lack is skipped: a run in which anything else was has failed, and says so."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.skips import unexpected
from tests.tidy.trees import nodes_of
from tests.waiting import SECONDS_MAX

ROOT = Path(__file__).parents[2]
RUN = (
    "import sys, pytest; from tests.skips import Skips; "
    "sys.exit(pytest.main([sys.argv[1], '-p', 'no:cacheprovider', '--rootdir', sys.argv[2]], plugins=[Skips()]))"
)


def reasons_in(source: str) -> list[str]:
    """The reasons that stand in a source as plain texts."""
    found = []
    for node in nodes_of(source):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("skip", "skipif"):
            given = [*node.args, *(item.value for item in node.keywords)]
            found += [part.value for part in given if isinstance(part, ast.Constant)]
    return [reason for reason in found if isinstance(reason, str)]


def test_every_reason_that_a_test_gives_is_a_known_one() -> None:
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py")]
    reasons = Counter(reason for source in sources if "skip" in source for reason in reasons_in(source))
    assert len(reasons) > 5
    assert unexpected(reasons) == []


@pytest.mark.parametrize(("reason", "code"), [("the guide uses curl", 0), ("no time today", 1)])
def test_a_run_that_skips_for_another_reason_has_failed(tmp_path: Path, reason: str, code: int) -> None:
    test = tmp_path / "test_one.py"
    test.write_text(f"import pytest\n\ndef test_one():\n    pytest.skip({reason!r})\n\ndef test_two(): ...\n")
    command = [sys.executable, "-c", RUN, str(test), str(tmp_path)]
    # Without this project's settings pytest would import every installed plugin, Schemathesis among them.
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=SECONDS_MAX
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert "1 skipped" in done.stdout
    assert ("NOT ALLOWED" in done.stdout) == bool(code)
