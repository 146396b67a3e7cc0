"""The result of one check of a doctor, and how it is printed.

Above it: `doctor`, `mcp.doctor`, and the modules that check. Below it: `console`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from penstock.base.json import JsonObject
from penstock.base.text import clean
from penstock.cli.terminal.console import console_for, count_words
from penstock.cli.terminal.styled_text import Text

__all__ = ["Check", "Status", "is_well", "print_check", "print_summary"]

Status: TypeAlias = Literal["ok", "warn", "fail", "skip"]
_STYLES: dict[Status, str] = {"ok": "green", "warn": "yellow", "fail": "bold red", "skip": "dim"}
_NAME_WIDTH = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One check: what was checked, its status, and a hint."""

    name: str
    status: Status
    message: str
    hint: str | None = None
    took_ms: int | None = None

    def to_json(self) -> JsonObject:
        """For programs."""
        return {
            "name": self.name,
            "status": self.status,
            "message": self.message,
            "what_to_do": self.hint,
            "took_ms": self.took_ms,
        }


def is_well(checks: Iterable[Check]) -> bool:
    """Whether nothing failed."""
    return all(check.status != "fail" for check in checks)


def print_check(check: Check) -> None:
    """Print one check."""
    console = console_for(sys.stdout)
    took = f" ({check.took_ms} ms)" if check.took_ms is not None else ""
    head = Text.assemble((f"{check.status:<5}", _STYLES[check.status]), f"{check.name:<{_NAME_WIDTH}} ")
    console.print(head.append(clean(check.message), "dim" if check.status == "skip" else "").append(took, "dim"))
    if check.hint is not None:
        console.print(Text.assemble(" " * (5 + _NAME_WIDTH + 1), ("→ ", "cyan"), clean(check.hint)))


def print_summary(checks: Iterable[Check]) -> None:
    """Print how many checks failed, and how many warned."""
    found = list(checks)
    failed = sum(check.status == "fail" for check in found)
    warned = sum(check.status == "warn" for check in found)
    message = [count_words(failed, "problem")] if failed else []
    message += [count_words(warned, "warning")] if warned else []
    style = "bold red" if failed else "yellow" if warned else "green"
    console_for(sys.stdout).print(Text(" and ".join(message) or "all is well", style=style))
