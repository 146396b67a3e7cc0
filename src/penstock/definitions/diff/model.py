"""The result of a comparison: single changes, and two verdicts over all of them.

Above it: `compare` and its parts fill it; `penstock workflow diff` and the surfaces show it. It compares nothing
itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.node_parts.changes import InFlight

__all__ = ["Change", "ChangeKind", "InFlight", "Subject", "WorkflowDiff"]


class ChangeKind(StrEnum):
    """Whether something was added, removed or changed."""

    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"


class Subject(StrEnum):
    """The part of a workflow that changed."""

    DOCUMENT = "document"
    INPUT = "input"
    OUTPUT = "output"
    STATE = "state"
    NODE = "node"
    ROUTE = "route"
    ERROR_ROUTE = "error_route"
    BRANCH = "branch"
    EXPOSE = "expose"
    GOVERNANCE = "governance"
    TRIGGER = "trigger"
    TEST = "test"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One difference. `path` points into the new document or, for something removed, into the old one."""

    kind: ChangeKind
    subject: Subject
    path: str
    message: str
    before: JsonValue = None
    after: JsonValue = None
    breaking: bool = False
    in_flight: InFlight = InFlight.SAFE
    reason: str = ""

    def to_json(self) -> JsonObject:
        """The change as a JSON object; `before` and `after` only if they have a value."""
        fields: JsonObject = {
            "kind": str(self.kind),
            "subject": str(self.subject),
            "path": self.path,
            "message": self.message,
            "breaking": self.breaking,
            "in_flight": str(self.in_flight),
            "reason": self.reason,
        }
        if self.kind is not ChangeKind.ADDED:
            fields["before"] = self.before
        if self.kind is not ChangeKind.REMOVED:
            fields["after"] = self.after
        return fields


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowDiff:
    """Everything that changed between two versions. The same meaning in another spelling is not a change."""

    changes: tuple[Change, ...]

    @classmethod
    def of(cls, changes: Iterable[Change]) -> WorkflowDiff:
        """Make a diff of these changes."""
        return cls(changes=tuple(changes))

    @property
    def same(self) -> bool:
        """Whether nothing meaningful changed."""
        return not self.changes

    @property
    def breaking_for_callers(self) -> bool:
        """Whether a caller of the workflow, or a reader of its result, may have to change."""
        return any(change.breaking for change in self.changes)

    @property
    def safe_for_runs_in_flight(self) -> bool:
        """Whether every run of the old version could continue with the new one; also False when that is unknown."""
        return all(change.in_flight is InFlight.SAFE for change in self.changes)

    def to_json(self) -> JsonObject:
        """The diff as a JSON object, with the verdicts first."""
        return {
            "same": self.same,
            "breaking_for_callers": self.breaking_for_callers,
            "safe_for_runs_in_flight": self.safe_for_runs_in_flight,
            "changes": [change.to_json() for change in self.changes],
        }
