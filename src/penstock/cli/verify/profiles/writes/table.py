"""The table of profile `writes`, which the modules beside this one fill."""

from __future__ import annotations

from penstock.cli.verify.checks import Profile

__all__ = ["WRITES"]

WRITES = Profile("writes", "What changes something waits for a person, and happens at most once.")
