"""What `penstock runs top` shows, at one moment: live runs, queues, what waits for a decision, failures and counters.

Everything is asked from operations, as the caller of the command. A part that the caller may not see says so, and the
others are still shown. Lists are bounded: what does not fit is said to be more, and not counted.

Above it: `command`. Below it: the operations of the target.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

import msgspec

from penstock.base.errors import Denied
from penstock.base.json import JsonObject, JsonValue
from penstock.cli.runs.client import RunClient, present

__all__ = ["ENDED", "NEEDS_PEOPLE", "Part", "Snapshot", "take_snapshot"]

NEEDS_PEOPLE: Final = ("waiting_input", "waiting_approval", "waiting_decision")
ENDED: Final = ("completed", "failed", "cancelled")
_LIVE: Final = (
    "pending",
    "running",
    "paused",
    *NEEDS_PEOPLE,
    "waiting_activity",
    "waiting_signal",
    "waiting_timer",
    "waiting_child",
    "compensating",
    "cancelling",
)
_ROWS: Final = 200
_FEW: Final = 20
_COUNTERS: Final = {
    "runs_started": "penstock_runs_started_total",
    "runs_ended": "penstock_runs_ended_total",
    "calls": "penstock_gate_calls_total",
    "activities": "penstock_activities_total",
    "limited": "penstock_limited_total",
    "mcp_requests": "penstock_mcp_requests_total",
}


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """A list, as far as it is shown; `refused` says why it is missing."""

    items: list[JsonObject] = []
    more: bool = False
    refused: str | None = None


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """One moment."""

    at_ms: int
    runs: Part
    """Runs that have not ended, newest first."""
    queues: dict[str, int]
    """How many of them have each status; a lower bound if there are more."""
    failed: Part
    waiting: Part
    """What waits for a decision: held calls and questions, as approval.list has them."""
    counters: dict[str, float] | None
    """What the server has counted since its start; None on a file, or if it is not for the caller."""


def take_snapshot(client: RunClient, now_ms: int, text: str | None = None) -> Snapshot:
    """Ask for everything once. `text` is searched in ids, workflows and labels of runs."""
    runs = _part(client, "execution.list", {"status": list(_LIVE), "text": text, "limit": _ROWS})
    return Snapshot(
        at_ms=now_ms,
        runs=runs,
        queues=dict(Counter(str(run["status"]) for run in runs.items).most_common()),
        failed=_part(client, "execution.list", {"status": ["failed"], "text": text, "limit": _FEW}),
        waiting=_part(client, "approval.list", {"limit": _FEW}),
        counters=_counters(client),
    )


def _part(client: RunClient, operation: str, arguments: dict[str, JsonValue]) -> Part:
    try:
        page = client.call(operation, present(arguments))
    except Denied as error:
        return Part(refused=error.message)
    return Part(items=page["items"], more=page["next_cursor"] is not None)


def _counters(client: RunClient) -> dict[str, float] | None:
    try:
        told = client.call("system.metrics", {})
    except Denied:
        return None
    numbers = told.get("metrics") or {}
    found = {
        name: sum(value for sample, value in numbers.items() if sample.partition("{")[0] == metric)
        for name, metric in _COUNTERS.items()
    }
    return found if numbers else None
