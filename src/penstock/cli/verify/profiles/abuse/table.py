"""The table of profile `abuse`, which the modules beside this one fill."""

from __future__ import annotations

from penstock.cli.verify.checks import Profile

__all__ = ["ABUSE"]

ABUSE = Profile("abuse", "Nothing that anybody sends breaks the server, or takes it from others.")
