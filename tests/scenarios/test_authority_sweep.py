"""The sweep of every operation, surface and kind of key finds no way around the table, and would find one."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from penstock.operations.builtin import builtin_operations
from tests.scenarios.authority_sweep import SURFACES, Key, Sweep, expected, run_sweep, table


def test_the_table_has_every_operation_and_no_other() -> None:
    assert set(table().needs) == {operation.name for operation in builtin_operations()}


def test_the_table_says_the_same_as_the_catalogue() -> None:
    declared = {operation.name: frozenset(operation.governance.scopes) for operation in builtin_operations()}
    assert {name: needs for name, needs in table().needs.items() if declared.get(name) != needs} == {}


def test_nobody_gets_in_by_any_surface_with_less_than_the_table_asks_for(tmp_path: Path) -> None:
    sweep = asyncio.run(run_sweep(tmp_path, thorough=False))
    assert (sweep.bypasses, sweep.wrongly_refused, sweep.leaks, sweep.errors) == ([], [], [], [])
    assert sweep.changed == []
    assert set(sweep.calls) == set(SURFACES)
    assert sweep.operations == len(table().needs)
    # Each operation with each of some forty scopes, alone and missing, and a dozen other keys.
    assert sum(sweep.calls.values()) > 80 * sweep.operations


@pytest.mark.parametrize(
    ("granted", "decision"),
    [
        ({"schedule:write", "workflow:run"}, "admitted"),
        ({"schedule:*", "workflow:*"}, "admitted"),
        ({"*"}, "admitted"),
        ({"schedule:write"}, "refused"),
        ({"schedule:*"}, "refused"),
        ({"schedule", "workflow:run"}, "refused"),
        ({"workflow:write", "workflow:run"}, "refused"),
        (set(), "refused"),
    ],
)
def test_the_table_wants_every_scope_of_an_operation(granted: set[str], decision: str) -> None:
    key = Key(name="k", secret="s", scopes=frozenset(granted))
    assert expected("schedule.create", "rest", key) == decision
    assert expected("key.list", "mcp", Key(name="k", secret="s", scopes=frozenset({"*"}))) == "refused"
    assert expected("system.info", "rest", Key(name="k", secret="s", scopes=frozenset(), valid=False)) == (
        "unauthenticated"
    )


def test_a_call_that_is_let_in_past_the_table_is_a_bypass() -> None:
    reader = Key(name="reader", secret="s", scopes=frozenset({"workflow:read"}))
    revoked = Key(name="revoked", secret="s", scopes=frozenset(), valid=False)
    sweep = Sweep()
    sweep.judge("workflow.list", "rest", reader, "admitted")
    sweep.judge("workflow.create", "rest", reader, "refused")
    sweep.judge("workflow.list", "rest", revoked, "unauthenticated")
    assert sweep.ok
    sweep.judge("workflow.create", "rest", reader, "admitted")
    sweep.judge("workflow.list", "sdk", revoked, "admitted")
    sweep.judge("workflow.list", "rest", reader, "refused")
    assert (len(sweep.bypasses), len(sweep.wrongly_refused), sweep.ok) == (2, 1, False)
