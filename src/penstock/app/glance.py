"""What a file says about itself at a glance, for commands that must not take time.

Above it: the command line. Below it: the SQLite adapters, which only `app` may name.
"""

from __future__ import annotations

from pathlib import Path

from penstock.runtime.stores.sqlite.maintenance.glance import StoreGlance, glance_at

__all__ = ["StoreGlance", "glance_at_store"]


def glance_at_store(path: Path, *, failed_since: int, now: int) -> StoreGlance:
    """Look at a file without opening it as a store; times are milliseconds since 1970."""
    return glance_at(path, failed_since=failed_since, now=now)
