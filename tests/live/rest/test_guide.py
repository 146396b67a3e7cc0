"""The commands of the REST guide work, one after the other, as they stand there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.live.rest.servers import serving
from tests.waiting import SECONDS_MAX

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "rest.md"
BLOCKS = re.findall(r"^```sh\n(.*?)^```$", GUIDE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


@pytest.mark.skipif(shutil.which("curl") is None, reason="the guide uses curl")
def test_the_commands_of_the_guide_work(tmp_path: Path) -> None:
    starts, *commands = BLOCKS
    assert starts == "penstock serve --db penstock.db\n"
    with serving(tmp_path) as server:
        marked = "\n".join(f"printf '\\n=== %s\\n' {number}\n{block}" for number, block in enumerate(commands))
        ended = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", marked],
            env={**os.environ, "API": f"{server.url}/api/v0", "PENSTOCK_KEY": server.key},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
            check=False,
        )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    told = ended.stdout
    for expected in (
        '"principal":"key:',
        '"id":"double"',
        '"output":{"doubled":42}',
        '"code":"INPUT_INVALID"',
        "\n304\n",
        '"code":"PRECONDITION_FAILED"',
        '"output":{"doubled":16}',
        "event: complete",
        '"status":"ok"',
        "penstock_gate_calls_total{",
    ):
        assert expected in told, expected
    handles = re.findall(r'"execution_id":"(r_[0-9a-f]{32})"', told)
    assert len(handles) >= 2
    assert len(set(handles)) == 1, "the same key is the same execution"
