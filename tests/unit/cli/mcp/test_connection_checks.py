"""What the doctor says about a catalogue."""

from __future__ import annotations

from typing import Any

from penstock.cli.mcp.connection_checks import _catalogue

OWN: dict[str, Any] = {"name": "penstock_system_info"}


def test_who_has_exposed_no_workflow_is_told_how() -> None:
    found = _catalogue([OWN], 1)
    assert found.status == "ok"
    assert "expose.tool: true" in str(found.hint)
    workflow = {"name": "refund", "_meta": {"penstock/workflow": "refund"}}
    assert _catalogue([OWN, workflow], 1).hint is None


def test_of_servers_that_are_not_ours_nothing_is_expected() -> None:
    assert _catalogue([{"name": "search"}], 1).hint is None
    assert _catalogue([], 1).status == "warn"
