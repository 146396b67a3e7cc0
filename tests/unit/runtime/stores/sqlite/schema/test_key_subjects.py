"""Keys of an older file learn who is behind them, from who made and who replaced them."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

from penstock.runtime.stores.sqlite.schema.files import open_for_writing

KEYS: dict[str, tuple[str | None, str | None]] = {
    # By id: who made it, and which it replaced.
    "root": ("os:owner", None),
    "root2": ("key:root", "root"),
    "root3": ("key:root2", "root2"),
    "alone": ("os:owner", None),
    "old": (None, None),
    "helper": ("key:root2", None),
    "deep": ("key:helper", None),
    "taken": ("key:alone", "helper"),
    "signed": ("token:company:ada", None),
    "looped": ("key:looped", "looped"),
    "lost": ("key:gone", "gone"),
}


def without_subjects(connection: sqlite3.Connection) -> None:
    """Make a file one of a format whose keys have no subjects."""
    for column in ("subject", "lineage", "first_key"):
        connection.execute(f"ALTER TABLE api_keys DROP COLUMN {column}")


def test_keys_of_an_older_file_stand_for_the_first_key_before_them_or_for_their_maker(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    open_for_writing(str(path)).close()
    connection = sqlite3.connect(path, isolation_level=None)
    without_subjects(connection)
    for number, (key_id, (maker, replaced)) in enumerate(KEYS.items()):
        connection.execute(
            "INSERT INTO api_keys (key_id, tenant, name, secret_hash, scopes, created_at, created_by, replaces)"
            " VALUES (?, 'default', ?, '', '[]', ?, ?, ?)",
            (key_id, key_id, number, maker, replaced),
        )
    for name, at, limit in (("key:root", 5, 1), ("key:root3", 9, 3), ("key:alone", 7, 7), ("tenant", 1, 1)):
        connection.execute(
            "INSERT INTO resources (kind, tenant, resource_id, body, etag, created_at, updated_at)"
            " VALUES ('quota', 'default', ?, ?, '', ?, ?)",
            (name, json.dumps({"runs_per_day": limit}), at, at),
        )
    connection.execute("PRAGMA user_version = 23")
    connection.close()
    open_for_writing(str(path)).close()
    connection = sqlite3.connect(path)
    found = {
        key_id: (subject, json.loads(lineage), first)
        for key_id, subject, lineage, first in connection.execute(
            "SELECT key_id, subject, lineage, first_key FROM api_keys"
        )
    }
    quotas = {
        name: json.loads(body)["runs_per_day"]
        for name, body in connection.execute("SELECT resource_id, body FROM resources WHERE kind = 'quota'")
    }
    connection.close()
    assert found == {
        "root": (None, ["os:owner"], None),
        "root2": ("key:root", ["os:owner"], "root"),
        "root3": ("key:root", ["os:owner"], "root"),
        "alone": (None, ["os:owner"], None),
        "old": (None, [], None),
        "helper": ("key:root", ["os:owner"], None),
        "deep": ("key:root", ["os:owner"], None),
        "taken": ("key:root", ["os:owner", "key:alone"], "helper"),
        "signed": ("token:company:ada", [], None),
        "looped": (None, [], None),
        "lost": ("key:gone", [], None),
    }
    assert quotas == {"key:root": 3, "key:alone": 7, "tenant": 1}
