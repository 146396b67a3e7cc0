"""Migrating a file on demand. Opening it for writing migrates it, too; this says what that will do, and does only that.

Above it: `file`. Below it: `backups`, `schema.files`.
"""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

from penstock.runtime.ports.maintenance import Migration
from penstock.runtime.stores.sqlite.errors import explain
from penstock.runtime.stores.sqlite.maintenance.backups import format_version
from penstock.runtime.stores.sqlite.schema.files import open_for_writing
from penstock.runtime.stores.sqlite.schema.migrations import SCHEMA_VERSION

__all__ = ["migrate_file", "plan_migration"]


def plan_migration(path: str | Path) -> Migration:
    """Read the format of a file and change nothing."""
    version = format_version(path)
    return Migration(str(path), version, SCHEMA_VERSION, Path(path).stat().st_size)


def migrate_file(path: str | Path) -> Migration:
    """Bring a file to the current format, completely or not at all; nothing happens to one that has it."""
    plan = plan_migration(path)
    if plan.steps == 0:
        return plan
    began = time.perf_counter()
    try:
        open_for_writing(plan.path).close()
    except sqlite3.Error as error:
        raise explain(error, plan.path) from error
    size_bytes = Path(plan.path).stat().st_size
    return Migration(plan.path, plan.from_version, plan.to_version, size_bytes, time.perf_counter() - began)
