"""`penstock server migrate`: bring the database file to the format of this release, when you choose.

Exit codes: 0 when the file has the current format, 1 with --check when there is something to do, 2 when the file cannot
be read or migrated.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from penstock.app.drivers import maintenance_of
from penstock.base.json import JsonObject
from penstock.base.text import clean
from penstock.cli.declaration import Option
from penstock.cli.targets.settings import DatabaseOption
from penstock.cli.terminal.console import console_for, count_words
from penstock.cli.terminal.event_loop import exit_with_async
from penstock.cli.terminal.exits import JsonOption, command_text, print_json
from penstock.runtime.ports.maintenance import Migration

__all__ = ["migrate_command"]


def migrate_command(
    *,
    database: DatabaseOption = Path("penstock.db"),
    check: Annotated[bool, Option("--check", help="Change nothing; say what would be done.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Bring the database to the format of this release.

    Commands and servers of this release do this by themselves when they first write to an older database; with this
    command you choose when. Back up the database first, and stop processes of older releases: they refuse the file
    afterwards. The file is migrated completely or not at all.

    Exits with 0 when the database has the current format, 1 with --check when there is something to do, 2 when it
    cannot be read or migrated.

    With --json: ok, path, from_version, to_version, steps and migrated (whether it was now).
    """

    async def work() -> int:
        maintenance = maintenance_of(database)
        found = maintenance.plan_migration() if check else maintenance.migrate()
        is_migrated = not check and found.steps > 0
        if as_json:
            print_json(_to_json(found, is_migrated=is_migrated, is_current=not check or found.steps == 0))
        else:
            console_for(sys.stdout).print(_describe(found, is_migrated=is_migrated))
        return 1 if check and found.steps else 0

    exit_with_async(work, as_json=as_json)


def _to_json(found: Migration, *, is_migrated: bool, is_current: bool) -> JsonObject:
    return {
        "ok": is_current,
        "path": found.path,
        "from_version": found.from_version,
        "to_version": found.to_version,
        "steps": found.steps,
        "migrated": is_migrated,
    }


def _describe(found: Migration, *, is_migrated: bool) -> str:
    path = clean(found.path)
    if found.steps == 0:
        return f"{path} has the current format, {found.to_version}. There is nothing to do."
    formats = f"from format {found.from_version} to {found.to_version} ({count_words(found.steps, 'step')})"
    if is_migrated:
        return f"Migrated {path} {formats} in {found.seconds or 0:.1f} s."
    backup = command_text("server", "backup", f"{found.path}.backup", "--db", found.path)
    return (
        f"{path} would be migrated {formats}. Nothing was changed.\n"
        f"  back it up first  {backup}\n"
        f"  then              {command_text('server', 'migrate', '--db', found.path)}"
    )
