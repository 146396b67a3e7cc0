"""The folder that the commands of one test work in."""

from pathlib import Path

import pytest

from tests.live.cli.processes import Shop


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)
