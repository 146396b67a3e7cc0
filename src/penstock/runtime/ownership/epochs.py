"""Who owns a run after a decision, and in which epoch.

Above it: `host.rows`, for every decision that is stored. A takeover of an owner that is gone is the store's `claim`.
"""

from __future__ import annotations

from penstock.runtime.ports.runs import RunRow

__all__ = ["next_owner"]


def next_owner(was: RunRow, *, has_work: bool, candidate: str | None) -> tuple[str | None, int]:
    """The owner of a run and its epoch: whoever begins to own it begins a new one, and be it the same as before.

    Whoever has a run with work may be busy with it: it keeps the run, and finds the change.
    """
    if not has_work:
        return None, was.epoch
    if was.has_work and was.owner is not None:
        return was.owner, was.epoch
    return candidate, was.epoch if candidate is None else was.epoch + 1
