"""What a policy may know of earlier calls: how many there were within a window, or what they add up to.

    @history("refunds: count of workflow:refund_order by principal within 24h")
    @history("refunded: sum of amount of workflow:refund_order by principal within 24h")

give the policies of the set `context.history.refunds`, a whole number, and `context.history.refunded`, a decimal. Calls
that were made count, and the call that is being decided if it is of that action: a rule reads
`context.history.refunds > 3`. `by` says whose calls are counted: those of the same `principal`, of the whole `tenant`,
those about the same `resource`, or those of the same `run`: of a run, its children and what is done to them. Nothing is
counted unless a policy asks for it.

Above it: `annotations`; the gate counts. Below it: `definitions.durations`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from penstock.base import limits
from penstock.definitions.durations import parse_native_duration_ms

__all__ = ["Counter", "Subject", "read_counters"]

Subject: TypeAlias = Literal["principal", "tenant", "resource", "run"]

_SUBJECTS: dict[str, Subject] = {name: name for name in get_args(Subject)}
_COUNTER = re.compile(
    r"(?P<name>[a-z][a-z0-9_]*)\s*:\s*"
    r"(?:count|sum\s+of\s+(?P<field>[^\s;.]+(?:\.[^\s;.]+)*))\s+of\s+(?P<action>[^\s;]+)"
    rf"\s+by\s+(?P<subject>{'|'.join(_SUBJECTS)})"
    r"\s+within\s+(?P<window>[0-9][A-Za-z0-9. ]*)"
)
_FORM = (
    "`name: count of ACTION by principal within 24h` or `name: sum of FIELD of ACTION by principal within 24h`; "
    "also by tenant, by resource, or by run"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counter:
    """A count of the calls of one action that were made within a window, or the sum of one of their arguments."""

    name: str
    action: str
    subject: Subject
    window_ms: int
    field: tuple[str, ...] = ()
    """The argument that is added up, as the names that lead to it; empty for a count."""

    @property
    def is_sum(self) -> bool:
        """Whether amounts are added up."""
        return bool(self.field)


def read_counters(text: str) -> tuple[tuple[Counter, ...], list[str]]:
    """Read the counters of an annotation; return them and every mistake."""
    found: list[Counter] = []
    problems: list[str] = []
    for part in filter(None, (piece.strip() for piece in text.split(";"))):
        match = _COUNTER.fullmatch(part)
        window = parse_native_duration_ms(match["window"].strip()) if match else None
        if match is None or window is None:
            problems.append(f"@history: {part[:80]!r} cannot be read: write {_FORM}")
        elif not 0 < window <= limits.POLICY_HISTORY_WINDOW_MS_MAX:
            longest = limits.POLICY_HISTORY_WINDOW_MS_MAX // 86_400_000
            problems.append(f"@history: the window of {match['name']} is not between 1ms and {longest}d")
        else:
            counter = Counter(
                name=match["name"],
                action=match["action"],
                subject=_SUBJECTS[match["subject"]],
                window_ms=window,
                field=tuple((match["field"] or "").split(".")) if match["field"] else (),
            )
            found.append(counter)
    if not found and not problems:
        problems.append(f"@history is empty: write {_FORM}")
    return tuple(found), problems
