"""What the annotations of a policy ask for: an approval instead of a refusal, hidden fields, shadow mode, history.

    @id("large-refunds")
    @description("Refunds above 500 need a second pair of eyes")
    @outcome("approval") @approvers("support-leads, finance") @quorum("2")
    @escalate_after("4h") @escalate_to("directors")
    forbid (principal, action == Action::"workflow:refund_order", resource)
    when { context.input.amount.greaterThan(decimal("500.0")) };

Above it: `source`. Below it: `history`, `redaction`, `definitions.durations`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Literal

from penstock.base import limits
from penstock.definitions.durations import parse_native_duration_ms
from penstock.governance.policy.history import Counter, read_counters
from penstock.governance.policy.redaction import FieldPath, read_redactions

__all__ = ["PolicyAnnotations", "read_annotations"]

_APPROVAL = ("approvers", "quorum", "services", "escalate_after", "escalate_to")
_KNOWN = ("id", "description", "outcome", *_APPROVAL, "mode", "history", "redact")
_GROUP = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyAnnotations:
    """The annotations of one policy."""

    description: str | None = None
    approvers: tuple[str, ...] = ()
    """The groups that may approve; empty for a policy that does not ask for approval."""
    quorum: int = 1
    services: bool = False
    """Whether services may approve, too."""
    escalate_after_ms: int | None = None
    escalate_to: tuple[str, ...] = ()
    """The groups that may approve, too, once it has waited for so long."""
    mode: Literal["enforce", "shadow"] = "enforce"
    history: tuple[Counter, ...] = ()
    redact: tuple[FieldPath, ...] = ()
    """The fields of the answer that are hidden, instead of refusing the call."""

    @property
    def asks_for_approval(self) -> bool:
        """Whether people may approve what the policy forbids."""
        return bool(self.approvers)


def read_annotations(given: Mapping[str, str], effect: str) -> tuple[PolicyAnnotations | None, list[str]]:
    """Read the annotations of a policy; return them, or None, and every mistake in them."""
    problems = [_unknown(name) for name in given if name not in _KNOWN]
    approvers, quorum = _approval(given, effect, problems)
    services = _services(given.get("services", "false"), problems)
    after_ms, to = _escalation(given, problems)
    mode = given.get("mode", "enforce")
    if mode not in ("enforce", "shadow"):
        problems.append(f'@mode is {mode[:50]!r}: write "enforce" or "shadow"')
    counters, wrong = read_counters(given["history"]) if "history" in given else ((), [])
    problems += wrong
    hidden = _redactions(given, effect, problems)
    if problems:
        return None, problems
    read = PolicyAnnotations(
        description=given.get("description"),
        approvers=approvers,
        quorum=quorum,
        services=services,
        escalate_after_ms=after_ms,
        escalate_to=to,
        mode="shadow" if mode == "shadow" else "enforce",
        history=counters,
        redact=hidden,
    )
    return read, []


def _redactions(given: Mapping[str, str], effect: str, problems: list[str]) -> tuple[FieldPath, ...]:
    if "redact" not in given:
        return ()
    hidden, wrong = read_redactions(given["redact"])
    problems += wrong
    if effect != "forbid":
        problems.append("@redact belongs on a forbid: it forbids to see the fields")
    if "outcome" in given:
        problems.append("@redact and @outcome exclude each other: write two policies")
    if given.get("mode") == "shadow":
        problems.append(
            "@redact cannot be in shadow mode, because it does not decide calls; `policy.explain` shows what it hides"
        )
    return hidden


def _unknown(name: str) -> str:
    near = get_close_matches(name, _KNOWN, n=1)
    meant = f"; did you mean @{near[0]}?" if near else f"; there are {', '.join('@' + known for known in _KNOWN)}"
    return f"unknown annotation @{name[:50]}{meant}"


def _approval(given: Mapping[str, str], effect: str, problems: list[str]) -> tuple[tuple[str, ...], int]:
    outcome = given.get("outcome")
    if outcome is None:
        problems += [f'@{name} needs @outcome("approval")' for name in _APPROVAL if name in given]
        return (), 1
    if outcome != "approval":
        problems.append(f'@outcome is {outcome[:50]!r}: the only outcome is "approval"')
    if effect != "forbid":
        problems.append('@outcome("approval") belongs on a forbid: a permit needs no approval')
    approvers = _groups(given.get("approvers", ""), problems)
    if not approvers:
        problems.append('@outcome("approval") needs @approvers("group")')
    return approvers, _quorum(given.get("quorum", "1"), problems)


def _groups(text: str, problems: list[str]) -> tuple[str, ...]:
    groups = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    problems += [f"the approvers {name[:50]!r} are not a group" for name in groups if not _GROUP.fullmatch(name)]
    return groups


def _escalation(given: Mapping[str, str], problems: list[str]) -> tuple[int | None, tuple[str, ...]]:
    """Read who is asked next, and after which time; both annotations are needed, or neither."""
    after, to = given.get("escalate_after"), given.get("escalate_to")
    if after is None and to is None:
        return None, ()
    if after is None or to is None:
        problems.append("@escalate_after and @escalate_to belong together: write both")
        return None, ()
    groups, after_ms = _groups(to, problems), parse_native_duration_ms(after)
    if not groups:
        problems.append('@escalate_to is empty: write @escalate_to("group")')
    if not after_ms:
        problems.append(f'@escalate_after is {after[:50]!r}: write a duration, such as "1h"')
    return after_ms, groups


def _services(text: str, problems: list[str]) -> bool:
    if text not in ("true", "false"):
        problems.append(f'@services is {text[:50]!r}: write "true" if services may approve, too')
    return text == "true"


def _quorum(text: str, problems: list[str]) -> int:
    if text.isascii() and text.isdigit() and 1 <= int(text) <= limits.POLICY_QUORUM_MAX:
        return int(text)
    problems.append(f"@quorum is {text[:50]!r}: write a number from 1 to {limits.POLICY_QUORUM_MAX}")
    return 1
