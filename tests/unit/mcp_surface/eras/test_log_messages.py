"""Levels of the standard library in the words of the protocol."""

from __future__ import annotations

import pytest

from penstock.mcp_surface.eras.log_messages import severity


@pytest.mark.parametrize(
    ("level", "name"),
    [
        (0, "debug"),
        (10, "debug"),
        (19, "debug"),
        (20, "info"),
        (25, "notice"),
        (30, "warning"),
        (40, "error"),
        (50, "critical"),
        (99, "critical"),
    ],
)
def test_every_level_has_a_name(level: int, name: str) -> None:
    assert severity(level) == name
