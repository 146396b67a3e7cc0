"""The table of profile `audit`, which the modules beside this one fill."""

from __future__ import annotations

from penstock.cli.verify.checks import Profile

__all__ = ["AUDIT"]

AUDIT = Profile("audit", "Every decision has a record, and records cannot be changed unnoticed.")
