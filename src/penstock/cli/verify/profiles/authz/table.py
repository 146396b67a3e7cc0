"""The table of profile `authz`, which the modules beside this one fill."""

from __future__ import annotations

from penstock.cli.verify.checks import Profile

__all__ = ["AUTHZ"]

AUTHZ = Profile("authz", "Nobody sees or does more than they were granted.")
