"""A check: what a server must do, why that matters, and a function that tries it.

    PROFILE = Profile("writes", "What changes something waits for a person.")

    @PROFILE.check("A call is a draft unless it says otherwise.", "An agent that acts by default cannot be stopped.")
    async def draft_by_default(kit: Kit) -> None: ...

A check that returns has passed. One that raises `CheckFailed` has found a server that does something else; one that
raises `NotApplicable` could not be tried there, which is never a pass.

Above it: the profiles, the runner. Below it: nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

__all__ = ["Check", "CheckFailed", "CheckResult", "NotApplicable", "Profile", "Status", "expect", "shown"]

Status: TypeAlias = Literal["passed", "failed", "not_applicable"]
Run: TypeAlias = Callable[[Any], Awaitable[None]]

# What was seen is for people to read; an answer of many kilobytes is not.
_SHOWN_CHARACTERS_MAX = 400


class CheckFailed(Exception):
    """The server does something else than the check expects."""

    def __init__(self, expected: str, seen: object) -> None:
        self.expected = expected
        self.seen = shown(seen)
        super().__init__(f"expected {expected}; saw {self.seen}")


class NotApplicable(Exception):
    """The check cannot be tried on this server, for a reason."""


def shown(value: object) -> str:
    """Return a value as text of a bounded length."""
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS_MAX else f"{text[: _SHOWN_CHARACTERS_MAX - 1]}…"


def expect(holds: object, expected: str, seen: object) -> None:
    """Fail the check unless something holds."""
    if not holds:
        raise CheckFailed(expected, seen)


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One check."""

    id: str
    profile: str
    requirement: str
    """What the server must do, in one sentence."""
    why: str
    """What goes wrong with a server that does not."""
    run: Run


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """The outcome of a check."""

    check: Check
    status: Status
    expected: str | None = None
    seen: str | None = None
    reason: str | None = None
    """Why the check is not applicable."""
    seconds: float = 0.0


@dataclass(slots=True)
class Profile:
    """A named set of checks."""

    name: str
    about: str
    checks: list[Check] = field(default_factory=list)

    def check(self, requirement: str, why: str, *, name: str | None = None) -> Callable[[Run], Run]:
        """Add a function to the table; its id is the profile and its name."""

        def add(run: Run) -> Run:
            self.add(name or getattr(run, "__name__", "").replace("_", "-"), requirement, why, run)
            return run

        return add

    def add(self, name: str, requirement: str, why: str, run: Run) -> None:
        """Add a check; raise ValueError if the profile has one of that name."""
        check_id = f"{self.name}.{name}"
        if any(known.id == check_id for known in self.checks):
            raise ValueError(f"{check_id} is in the table already")
        self.checks.append(Check(id=check_id, profile=self.name, requirement=requirement, why=why, run=run))
