"""What of a request a group of policies reads: nothing else is computed, passed on, or part of a cache's key.

Above it: `sets`, `requests`. Below it: `expressions`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from penstock.governance.policy.expressions import conditions_of, paths_of

__all__ = ["CONTEXT_PARTS", "TIME_PARTS", "Reads"]

CONTEXT_PARTS = frozenset({"input", "history", "network", "time", "surface", "by_model", "has_idempotency_key"})
TIME_PARTS = frozenset({"epoch_seconds", "hour", "weekday"})
# A path to a field of the input has at least three parts: context, input, the field.
_FIELD = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Reads:
    """What policies read of the context. `input` are the top-level fields of the arguments; None means all of them."""

    context: frozenset[str] = frozenset()
    input: frozenset[str] | None = frozenset()
    time: frozenset[str] = frozenset()
    """Parts of the time: `hour`, `weekday`, `epoch_seconds`."""

    @property
    def reads_input(self) -> bool:
        """Whether anything of the arguments is read."""
        return "input" in self.context

    @classmethod
    def of(cls, bodies: Iterable[dict[str, Any]]) -> Reads:
        """Return what these policies read together."""
        parts: set[str] = set()
        fields: set[str] = set()
        times: set[str] = set()
        whole = False
        for body in bodies:
            for condition in conditions_of(body):
                for path in paths_of(condition):
                    if path == ("context",):
                        parts |= CONTEXT_PARTS
                        times |= TIME_PARTS
                        whole = True
                    elif path[0] == "context":
                        parts.add(path[1])
                        times |= (set(path[2:3]) or TIME_PARTS) if path[1] == "time" else set()
                        if path[1] == "input" and len(path) < _FIELD:
                            whole = True
                        elif path[1] == "input":
                            fields.add(path[2])
        return cls(context=frozenset(parts), input=None if whole else frozenset(fields), time=frozenset(times))
