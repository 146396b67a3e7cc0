"""`penstock server doctor`: check the whole installation, and say what to do about what is wrong.

Exit codes: 0 when nothing failed, 1 when something did.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from penstock.app.drivers import database_file
from penstock.app.server_secret.keys import ServerKeys
from penstock.app.settings.model import Settings
from penstock.app.settings.sources import InvalidSettings, load_settings
from penstock.base.errors import PenstockError
from penstock.cli.doctor.machine import clock_checks, disk_checks, loop_checks, port_checks
from penstock.cli.doctor.project import executor_checks, file_access_checks, workflow_checks
from penstock.cli.doctor.store import (
    audit_key_checks,
    backup_checks,
    permission_checks,
    secret_checks,
    stamp_checks,
    store_checks,
)
from penstock.cli.mcp.install.command import install_environment
from penstock.cli.mcp.install.entries import entry_checks
from penstock.cli.targets.settings import ChosenDatabaseOption, ConfigOption
from penstock.cli.terminal.checks import Check, is_well, print_check, print_summary
from penstock.cli.terminal.exits import JsonOption, exit_with, print_json
from penstock.cli.terminal.hints import command_hint

__all__ = ["doctor_command"]


def doctor_command(
    *, config: ConfigOption = None, database: ChosenDatabaseOption = None, as_json: JsonOption = False
) -> None:
    """Check the whole installation, and say what to do.

    Settings, store, its secret, permissions, backups, workflows, steps, secrets, models, MCP servers, event loop, port,
    the server that answers there, clock, disk, and the entries of assistants. Nothing is changed and nothing is made;
    step modules of the settings are imported. With --json: ok and checks (each with name, status, message and
    what_to_do). Exits with 1 when something failed.
    """

    def work() -> int:
        checks = []
        for check in _checks(config, database):
            checks.append(check)
            if not as_json:
                print_check(check)
        if as_json:
            print_json({"ok": is_well(checks), "checks": [check.to_json() for check in checks]})
        else:
            print_summary(checks)
        return 0 if is_well(checks) else 1

    exit_with(work, as_json=as_json)


def _checks(config: Path | None, database: Path | None) -> Iterator[Check]:
    try:
        loaded = load_settings(config, flags={"storage.path": None if database is None else str(database)})
    except InvalidSettings as error:
        for finding in error.findings:
            place = f"{finding.location}: " if finding.location else ""
            yield Check(name="settings", status="fail", message=f"{place}{finding.message}", hint=finding.hint)
        return
    read = loaded.file or "no penstock.yaml here; every setting has its default"
    yield Check(name="settings", status="ok", message=read)
    for name in loaded.ignored:
        yield Check(name="settings", status="warn", message=f"the variable {name} sets nothing", hint="check its name")
    yield from _parts(loaded.settings, loaded.file)


def _parts(settings: Settings, settings_file: str | None) -> Iterator[Check]:
    try:
        path = database_file(settings.storage.path)
    except PenstockError as error:
        yield Check(name="store", status="fail", message=f"{error.code}: {error.message}", hint=command_hint(error))
        return
    keys = ServerKeys.chosen(settings, path)
    yield from store_checks(path)
    yield from secret_checks(path, keys)
    yield from audit_key_checks(keys)
    yield from permission_checks(path, keys)
    yield from file_access_checks(settings, settings_file)
    yield from stamp_checks(path, settings.audit.checkpoints.timestamp)
    yield from backup_checks(path, settings.storage, keys)
    yield from workflow_checks(settings)
    yield from executor_checks(settings)
    yield from loop_checks()
    yield from port_checks(settings.server.host, settings.server.port)
    yield from clock_checks(path)
    yield from disk_checks(path)
    yield from entry_checks(install_environment(os.environ, Path.home(), Path.cwd(), sys.platform), None)
