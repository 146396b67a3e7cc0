"""Checks of the database, its secret, and who may read them. Nothing is created.

Above it: `command`. Below it: `app.drivers`, `app.server_secret`.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from penstock.app.audit_files import stamp_ages
from penstock.app.drivers import has_database, maintenance_of
from penstock.app.maintenance import store_fingerprint
from penstock.app.server_secret.audit_keys import NamedAuditKey
from penstock.app.server_secret.keys import ServerKeys
from penstock.app.server_secret.secret import fingerprint, read_secret
from penstock.app.server_secret.sources import KeyFile
from penstock.app.settings.audit import TimestampSettings
from penstock.app.settings.model import StorageSettings
from penstock.app.timestamps import read_authorities, require_timestamps
from penstock.base.errors import PenstockError
from penstock.cli.terminal.checks import Check
from penstock.cli.terminal.console import count_words
from penstock.cli.terminal.hints import command_hint
from penstock.definitions.durations import format_instant
from penstock.runtime.system import SystemClock

__all__ = ["audit_key_checks", "backup_checks", "permission_checks", "secret_checks", "stamp_checks", "store_checks"]

_MEBIBYTE = 1024 * 1024
_TENANTS_SHOWN = 5


def store_checks(path: Path) -> Iterator[Check]:
    """Whether there is a database, and what it holds."""
    database = maintenance_of(path)
    if not database.exists():
        yield Check(name="store", status="skip", message=f"no database at {path} yet; the first start makes it")
        return
    try:
        numbers = database.stats()
    except PenstockError as error:
        yield Check(name="store", status="fail", message=f"{error.code}: {error.message}", hint=command_hint(error))
        return
    size = numbers.size_bytes / _MEBIBYTE
    message = f"{path}: {count_words(numbers.runs, 'run')}, {size:.1f} MiB, format {numbers.format_version}"
    yield Check(name="store", status="ok", message=message)


def secret_checks(path: Path, keys: ServerKeys) -> Iterator[Check]:
    """Whether the secret is the one that sealed the database."""
    secret, known = keys.secret, None
    if has_database(path):
        try:
            known = store_fingerprint(path)
        except PenstockError:
            return  # the check of the database reports this
    if isinstance(secret, KeyFile) and not secret.path.exists():
        if known is None:
            yield Check(name="secret", status="skip", message=f"none at {secret} yet; the first start makes it")
            return
        hint = "put it back from where the database came from, or name its source in server.secret"
        message = f"the secret that sealed {path} (fingerprint {known}) is not at {secret}"
        yield Check(name="secret", status="fail", message=message, hint=hint)
        return
    try:
        found = fingerprint(read_secret(secret))
    except PenstockError as error:
        yield Check(name="secret", status="fail", message=f"{error.code}: {error.message}", hint=command_hint(error))
        return
    if known is not None and known != found:
        message = f"{secret} (fingerprint {found}) did not seal {path} (fingerprint {known})"
        yield Check(name="secret", status="fail", message=message, hint="put the secret of this database there")
        return
    yield Check(name="secret", status="ok", message=f"{secret}, fingerprint {found}")


def audit_key_checks(keys: ServerKeys) -> Iterator[Check]:
    """Whether a key for checkpoints can be read, if the settings name one."""
    if isinstance(keys.audit_key, KeyFile):
        return
    try:
        asyncio.run(NamedAuditKey(keys.audit_key, "").signing_key())
    except PenstockError as error:
        yield Check(name="audit key", status="fail", message=f"{error.code}: {error.message}", hint=command_hint(error))
    else:
        yield Check(name="audit key", status="ok", message=str(keys.audit_key))


def stamp_checks(path: Path, chosen: TimestampSettings) -> Iterator[Check]:
    """Whether checkpoints of the audit trail are stamped, if an authority is configured."""
    if chosen.url is None:
        return
    try:
        require_timestamps()
        if chosen.certificates is not None:
            read_authorities(Path(chosen.certificates))
        found = stamp_ages(path) if has_database(path) else {}
    except PenstockError as error:
        yield Check(name="stamps", status="fail", message=f"{error.code}: {error.message}", hint=command_hint(error))
        return
    behind = sorted(tenant for tenant, (signed, stamped) in found.items() if stamped < signed)
    if behind:
        message = f"the newest checkpoint of {', '.join(behind[:_TENANTS_SHOWN])} has no stamp of {chosen.url}"
        hint = "look at audit_stamps in the health of the server, and at its log"
        yield Check(name="stamps", status="warn", message=message, hint=hint)
    else:
        told = "no checkpoint yet" if not found else "the newest checkpoint of every trail is stamped"
        yield Check(name="stamps", status="ok", message=f"{chosen.url}: {told}")


def backup_checks(path: Path, chosen: StorageSettings, keys: ServerKeys) -> Iterator[Check]:
    """Whether backups are scheduled, their folder can be used, and the last one is not too old."""
    every, folder = chosen.backups.every, chosen.backup_folder
    if every is None or folder is None:
        if has_database(path):
            hint = "set `storage.backup_folder` and `storage.backups.every`, unless something else backs it up"
            yield Check(name="backups", status="warn", message="no backups are scheduled", hint=hint)
        else:
            yield Check(name="backups", status="skip", message="no backups are scheduled, and there is no database yet")
        return
    try:
        listed = asyncio.run(maintenance_of(path).backup_folder(folder).files())
        found = [file for file in listed if file.scheduled]
    except PenstockError as error:
        yield Check(name="backups", status="fail", message=f"{error.code}: {error.message}", hint=command_hint(error))
        return
    if not os.access(folder, os.W_OK | os.X_OK):
        message = f"{folder} cannot be written by this user"
        yield Check(name="backups", status="fail", message=message, hint="change the owner of the folder")
        return
    if not found:
        message = f"none in {folder} yet; a server makes one each {every}"
        yield Check(name="backups", status="skip", message=message)
        return
    told = f"{folder}: {count_words(len(found), 'scheduled backup')}, the last one of {format_instant(found[0].at)}"
    if SystemClock().now_ms() - found[0].at > 2 * every.total_seconds() * 1000:
        hint = "look at `backups` in the health of the server, and at its log; none is made while no server runs"
        yield Check(name="backups", status="warn", message=f"{told}, though one is due each {every}", hint=hint)
    else:
        kept = keys.secret.path.name if isinstance(keys.secret, KeyFile) else f"the secret from {keys.secret}"
        yield Check(name="backups", status="ok", message=f"{told}; keep {kept} elsewhere, too")


def permission_checks(path: Path, keys: ServerKeys) -> Iterator[Check]:
    """Whether other users than the owner can read or write the files."""
    if os.name != "posix":
        yield Check(name="access", status="skip", message="permissions are not looked at on this system")
        return
    files = [*maintenance_of(path).files(), *([keys.secret.path] if isinstance(keys.secret, KeyFile) else [])]
    there = [file for file in files if file.exists()]
    open_to_others = [file for file in there if file.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO)]
    for file in open_to_others:
        message = f"{file} can be read by others (mode {stat.S_IMODE(file.stat().st_mode):o})"
        yield Check(name="access", status="warn", message=message, hint=f"chmod 600 {file}")
    folder = path.parent
    if folder.is_dir() and not os.access(folder, os.W_OK | os.X_OK):
        yield Check(
            name="access", status="fail", message=f"{folder} cannot be written by this user", hint="change its owner"
        )
    elif there and not open_to_others:
        yield Check(name="access", status="ok", message="database and secret are their owner's alone")
