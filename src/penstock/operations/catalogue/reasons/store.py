"""Codes of the store and what belongs to it: files, damage, backups, the audit trail.

Above it: `reasons`. Below it: `base.errors`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from penstock.base.errors import Conflict, CorruptHistory, LimitExceeded, NotFound, Reason, Rejected, Unavailable

__all__ = ["AUDIT", "BACKUPS", "DAMAGE", "STORE"]

STORE: Mapping[str, Reason] = {
    "STORE_BUSY": Reason(
        Unavailable,
        "Another process has locked the store for too long.",
        "Try again; stop other programs that write to the file.",
    ),
    "STORE_FULL": Reason(
        Unavailable,
        "The disk is full; nothing was lost.",
        "Free space on the disk, or shrink the store with `penstock server vacuum`.",
    ),
    "STORE_READ_ONLY": Reason(
        Unavailable, "The store cannot be written.", "Give this process write access to the file and its folder."
    ),
    "STORE_LOG_MISSING": Reason(
        Unavailable,
        "The write-ahead log of the store is missing, and with it the commits that were only there.",
        "Bring the `-wal` file back, or restore a backup with `penstock server restore`.",
    ),
    "STORE_LOG_CUT": Reason(
        Unavailable,
        "The write-ahead log was truncated or changed, and acknowledged commits are lost.",
        "Restore a backup with `penstock server restore`.",
    ),
    "STORE_MOVED": Reason(
        Unavailable,
        "The store's file was moved or replaced while it was in use.",
        "Stop the process, put the file back, and start the process again.",
    ),
    "STORE_CLOSED": Reason(
        Unavailable, "The store is closed because the process is stopping.", "Start the process again."
    ),
    "STORE_UNSUITABLE": Reason(
        Unavailable,
        "The file system, or the SQLite of this Python, cannot hold a store.",
        "Put the file on a local disk, and use a Python with SQLite 3.34 or later and FTS5.",
    ),
    "STORE_FOREIGN": Reason(
        Rejected, "The file is a database of another program.", "Choose another file for `storage.path`."
    ),
    "STORE_TOO_NEW": Reason(
        Rejected,
        "A newer release of Penstock wrote the store.",
        "Use that release, or restore a backup of the older format.",
    ),
    "STORE_TOO_OLD": Reason(
        Rejected,
        "An older release of Penstock wrote the store.",
        "Open the store once with this release, which upgrades it.",
    ),
    "STORE_EMPTY": Reason(Rejected, "The file does not contain a store.", "Name a file that Penstock has written."),
    "STORE_PATH_INVALID": Reason(
        Rejected, "The path of the store does not name a file.", "Set `storage.path` to a file on a disk."
    ),
    "DATABASE_UNSUPPORTED": Reason(
        Rejected,
        "This release has no driver for the database that the address names.",
        "Set `storage.path`, `PENSTOCK_DB` or `--db` to the path of a file.",
    ),
    "STORE_NOT_FOUND": Reason(NotFound, "The file does not exist.", "Check the path, or the setting `storage.path`."),
    "STORE_EXISTS": Reason(
        Conflict, "A store exists at this path.", "Choose another file, or replace it with `--force`."
    ),
    "STORE_IN_USE": Reason(
        Conflict, "Another process has the store open.", "Stop the processes that use the file, and try again."
    ),
    "STORE_UNAVAILABLE": Reason(
        Unavailable, "The server has not opened its store yet.", "Wait until the server has started."
    ),
    "FOLDER_NOT_FOUND": Reason(NotFound, "The folder does not exist.", "Create the folder, or choose another one."),
}

_RESTORE: Final = "Restore a backup with `penstock server restore`; `penstock server check` lists all of the damage."

DAMAGE: Mapping[str, Reason] = {
    "STORE_CORRUPT": Reason(CorruptHistory, "The store is damaged.", _RESTORE),
    "PAYLOAD_CHANGED": Reason(CorruptHistory, "A large value in the store does not match its hash.", _RESTORE),
    "PAYLOAD_MISSING": Reason(CorruptHistory, "A large value is missing from the store.", _RESTORE),
    "PAGE_CHANGED": Reason(CorruptHistory, "A page of a run's history was changed in the file.", _RESTORE),
    "ROW_CHANGED": Reason(CorruptHistory, "A row of the store was changed in the file.", _RESTORE),
    "SHAPE_CHANGED": Reason(CorruptHistory, "A value that many steps share does not match its hash.", _RESTORE),
    "SHAPE_MISSING": Reason(CorruptHistory, "A value that many steps share is missing from the store.", _RESTORE),
    "INDEX_DIFFERS": Reason(CorruptHistory, "An index of the store does not match its table.", _RESTORE),
    "STORE_INCONSISTENT": Reason(CorruptHistory, "The store has rows that belong to nothing.", _RESTORE),
    "AUDIT_CHAIN_BROKEN": Reason(
        CorruptHistory,
        "An audit record does not follow from the one before it.",
        "Find the record with `audit.verify`, and compare the store with a backup.",
    ),
}

BACKUPS: Mapping[str, Reason] = {
    "BACKUP_RUNNING": Reason(
        Conflict, "Another backup is in progress.", "Wait for it; `backup.list` shows it when it is verified."
    ),
    "BACKUP_EXISTS": Reason(
        Conflict, "A backup with this name exists.", "Choose another file, or make the backup again a moment later."
    ),
    "BACKUP_FOLDER_FULL": Reason(
        Conflict,
        "The backup folder has as many backups as it may have.",
        "Move older backups elsewhere, or delete them.",
    ),
    "BACKUP_FOLDER_UNAVAILABLE": Reason(
        Unavailable,
        "The backup folder does not exist, or cannot be used.",
        "Create the folder that `storage.backup_folder` names, and let the server write to it.",
    ),
    "BACKUP_NO_ROOM": Reason(
        Unavailable,
        "The disk has no room for a backup.",
        "Free space, or set `storage.backup_folder` to a folder on another disk.",
    ),
    "BACKUP_ONTO_ITSELF": Reason(
        Rejected, "The backup and the store are the same file.", "Choose another file for the backup."
    ),
}

AUDIT: Mapping[str, Reason] = {
    "AUDIT_CHECKPOINT_INVALID": Reason(
        Rejected,
        "The text is not a signed checkpoint.",
        "Send a checkpoint exactly as `audit.checkpoint` returned it.",
    ),
    "AUDIT_CHECKPOINT_NOT_FOUND": Reason(
        NotFound,
        "The audit trail has no such checkpoint, or none that covers the record.",
        "List the checkpoints with `audit.checkpoints`, or sign one with `audit.checkpoint`.",
    ),
    "AUDIT_EXPORT_INVALID": Reason(
        Rejected,
        "A line of the file is not a line of an audit export.",
        "Export the trail again with `penstock audit export`.",
    ),
    "AUDIT_HOLDS_LIMIT": Reason(
        LimitExceeded,
        "The tenant has as many legal holds as it may have.",
        "Release a hold with `audit.release`.",
    ),
    "AUDIT_HOLD_NOT_FOUND": Reason(NotFound, "The legal hold does not exist.", "List the holds with `audit.holds`."),
    "AUDIT_KEY_EXPOSED": Reason(
        Rejected,
        "Other users can read the file with the key that signs checkpoints.",
        "Run `chmod 600` on the file.",
    ),
    "AUDIT_KEY_UNAVAILABLE": Reason(
        Unavailable,
        "The key that signs checkpoints does not exist, cannot be read, or cannot be changed by the server.",
        "Restore the key from a backup, or correct its source in `server.audit_key`.",
    ),
    "AUDIT_PUBLIC_KEY_INVALID": Reason(
        Rejected,
        "The file has no public key that verifies checkpoints.",
        "Save the public key that `audit.key` returns.",
    ),
    "AUDIT_RECORD_NOT_FOUND": Reason(
        NotFound,
        "The audit trail has no record with this number, or it was removed by retention.",
        "List the records with `audit.list`.",
    ),
    "AUDIT_TRAIL_BROKEN": Reason(
        Conflict,
        "The audit trail was altered, so it is neither signed nor proven.",
        "Find the damage with `audit.verify`.",
    ),
    "AUDIT_TRAIL_EMPTY": Reason(
        Rejected, "The audit trail has no records yet.", "Sign it after the first call; `audit.list` shows the records."
    ),
    "AUDIT_UNAVAILABLE": Reason(
        Unavailable,
        "The audit record cannot be written, so the call was not made.",
        "Check the disk and the store with `penstock server doctor`, and send the call again.",
    ),
}
