"""`penstock server backup|restore|check|vacuum`: look after the file that holds the runs.

Exit codes: 0 when it was done and all is well, 1 when `check` found something wrong, 2 when it could not be done.
"""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, NoReturn

from penstock.app.drivers import has_database, maintenance_of
from penstock.app.maintenance import restore_on_record
from penstock.base import limits
from penstock.base.text import clean
from penstock.cli.declaration import Argument, Exit, Option
from penstock.cli.operations.commands import call_operation
from penstock.cli.targets.selection import IdempotencyOption, ProfileOption, ServerOption, TargetFileOption
from penstock.cli.targets.settings import DatabaseOption, command_settings
from penstock.cli.terminal.console import console_for, count_words
from penstock.cli.terminal.event_loop import exit_with_async
from penstock.cli.terminal.exits import JsonOption, command_text, print_json, report_problem
from penstock.cli.terminal.styled_text import Text
from penstock.cli.terminal.values import UsageError
from penstock.client.operations import find_operation
from penstock.runtime.ports.maintenance import IntegrityReport, StoreStats

__all__ = ["backup_command", "check_command", "restore_command", "vacuum_command"]

_KIBIBYTE = 1024


def backup_command(  # noqa: PLR0913  # every option is one the user can give
    copy_file: Annotated[
        Path | None,
        Argument(metavar="FILE", help="Where the copy goes; without it, the folder of the settings."),
    ] = None,
    *,
    overwrite: Annotated[bool, Option("--overwrite", help="Replace an existing FILE.")] = False,
    idempotency_key: IdempotencyOption = None,
    target_server: ServerOption = None,
    target_profile: ProfileOption = None,
    target_file: TargetFileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Back up the database, to a file or where the settings say.

    The database may be in use. The copy is one moment of it, is checked, and appears under its name only when it is
    complete. With FILE, this command copies a database of this machine. Without FILE, the server (or this command, with
    --db) makes the backup in the folder that `storage.backup_folder` names; `penstock server list-backups` lists those.

    With --json and FILE: ok, path, size_bytes, runs and format_version. Without FILE: the answer of backup.create.
    """
    if copy_file is None:
        if overwrite:
            _refuse("--overwrite goes with a FILE", as_json=as_json)
        where = {"target_server": target_server, "target_profile": target_profile, "target_file": target_file}
        call_operation(
            find_operation("backup.create"), {**where, "idempotency_key": idempotency_key, "as_json": as_json}
        )
        return
    if target_server or target_profile or idempotency_key:
        _refuse("a server makes backups in its own folder (storage.backup_folder): leave FILE out", as_json=as_json)
    goal = copy_file

    async def work() -> int:
        source = target_file or command_settings(as_json=as_json).settings.storage.path
        done = maintenance_of(source).backup(goal, overwrite=overwrite)
        if as_json:
            print_json({"ok": True, **asdict(done)})
        else:
            text = f"{clean(done.path)}: {count_words(done.runs, 'run')}, {_size(done.size_bytes)}, checked"
            console_for(sys.stdout).print(Text.assemble(("backed up", "green"), f" to {text}"))
        return 0

    exit_with_async(work, as_json=as_json)


def _refuse(message: str, *, as_json: bool) -> NoReturn:
    report_problem(UsageError(message), as_json=as_json)
    raise Exit(2)


def restore_command(
    source: Annotated[Path, Argument(metavar="FILE", help="The backup.", show_default=False)],
    *,
    database: DatabaseOption = Path("penstock.db"),
    force: Annotated[
        bool, Option("--force", help="Replace a database that is there already; it is kept beside the new one.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Replace the database with a backup.

    The backup is checked first. A database that a process has open is not replaced: stop its workers first. The audit
    trails of the new database record the restore: who did it, and how far the old trails had come.

    With --json: ok, path, kept_as (where the old database is now), runs, format_version and not_on_record (why its
    audit trails do not say so yet; null if they do).
    """

    async def work() -> int:
        settings = command_settings(flags={"storage.path": database}, as_json=as_json).settings
        done, pending = await restore_on_record(source, database, force=force, settings=settings)
        if as_json:
            print_json({"ok": True, **asdict(done), "not_on_record": pending})
            return 0
        console = console_for(sys.stdout)
        text = f" {clean(done.path)}: {count_words(done.runs, 'run')}"
        console.print(Text.assemble(("restored", "green"), text))
        if done.kept_as is not None:
            console.print(f"the database that was there is now {clean(done.kept_as)}")
        if pending is not None:
            console.print(f"not on record before somebody opens it with its secret: {clean(pending)}")
        console.print(f"start a worker with {command_text('server', 'worker', '--db', done.path)}")
        return 0

    exit_with_async(work, as_json=as_json)


def check_command(
    *,
    database: DatabaseOption = Path("penstock.db"),
    accept_log_loss: Annotated[
        bool,
        Option(
            "--accept-missing-log", help="Accept that the log of the database is gone, with what was only in the log."
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Check the database file, every history, and the checksum of every row.

    The database may be in use. Exits with 0 when all is well, 1 when something is wrong, 2 when it cannot be read.

    With --json: ok, complete, runs, records, definitions, unchecked_pages and unchecked_rows (of earlier releases,
    without a checksum), problems (each with code, message and run_id) and file (sizes and numbers; null when it is too
    damaged to tell).
    """

    async def work() -> int:
        maintenance = maintenance_of(database)
        if accept_log_loss:
            maintenance.accept_missing_log()
        report = maintenance.check()
        numbers = maintenance.stats() if report.ok else None
        if as_json:
            print_json({**report.to_json(), "file": None if numbers is None else asdict(numbers)})
        else:
            _print_report(report, numbers)
        return 0 if report.ok else 1

    exit_with_async(work, as_json=as_json)


def vacuum_command(*, database: DatabaseOption = Path("penstock.db"), as_json: JsonOption = False) -> None:
    """Rewrite the database without its free space.

    From then on the file shrinks by itself when runs are deleted; a database that this release created does that from
    the start. No process may have it open, and the disk needs room for a second copy. The command first estimates how
    long it takes.

    With --json: ok, path, bytes_before, bytes_after and seconds.
    """

    async def work() -> int:
        if not as_json and has_database(database):
            size = database.stat().st_size
            seconds = max(1, round(size / limits.STORE_VACUUM_BYTES_PER_SECOND))
            about = count_words(seconds, "second")
            console_for(sys.stderr).print(f"rewriting {_size(size)} takes about {about}")
        done = maintenance_of(database).vacuum()
        if as_json:
            print_json({"ok": True, **asdict(done)})
        else:
            text = f" {clean(done.path)}: {_size(done.bytes_before)} before, {_size(done.bytes_after)} now"
            console_for(sys.stdout).print(Text.assemble(("written anew", "green"), f"{text}, {done.seconds:.1f} s"))
        return 0

    exit_with_async(work, as_json=as_json)


def _print_report(report: IntegrityReport, numbers: StoreStats | None) -> None:
    console = console_for(sys.stdout)
    for problem in report.problems:
        where = "" if problem.run_id is None else f" run {clean(problem.run_id)}:"
        console.print(Text.assemble((problem.code, "bold red"), f"{where} {clean(problem.message)}"))
    seen = ", ".join(
        (
            count_words(report.runs, "run"),
            count_words(report.records, "record"),
            count_words(report.definitions, "definition"),
        )
    )
    if report.ok:
        console.print(Text.assemble(("sound", "green"), f": {seen}"))
    else:
        found = count_words(len(report.problems), "problem")
        more = "" if report.complete else " (there may be more)"
        console.print(Text.assemble((found, "bold red"), f"{more} in {seen}"))
    if numbers is not None:
        free = f", {_size(numbers.free_bytes)} of it free" if numbers.free_bytes else ""
        console.print(f"{_size(numbers.size_bytes)}{free}; format {numbers.format_version}")
        for status, count in numbers.runs_by_status.items():
            console.print(f"  {count:>9,} {clean(status)}")


def _size(count: int) -> str:
    size, unit = float(count), "bytes"
    for larger in ("KiB", "MiB", "GiB"):
        if size < _KIBIBYTE:
            break
        size, unit = size / _KIBIBYTE, larger
    return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
