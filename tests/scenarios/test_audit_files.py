"""`penstock audit verify|export|key` on files: what a stranger finds with a public key and nothing else."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from penstock.cli.main import app

INTACT = "chain intact"


def penstock(*arguments: object, code: int = 0) -> Result:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    return result


class Shop:
    """A file with a trail, its public key, a checkpoint that was kept, and an export."""

    def __init__(self, folder: Path) -> None:
        self.db, self.key = folder / "penstock.db", folder / "key.txt"
        self.trail, self.anchor = folder / "trail.jsonl", folder / "anchor.txt"

    def change(self, *names: str) -> None:
        for name in names:
            penstock("workflow", "schema", "create", "--id", name, "--schema", "{}", "--db", self.db)

    def sign(self) -> str:
        note: str = json.loads(penstock("audit", "checkpoint", "--db", self.db, "--json").stdout)["note"]
        return note

    def verify(self, source: Path, *more: object, code: int = 0) -> str:
        return penstock("audit", "verify", "--public-key", self.key, source, *more, code=code).stdout


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    made = Shop(tmp_path_factory.mktemp("shop"))
    made.change("s1", "s2", "s3", "s4")
    made.key.write_text(penstock("audit", "key", "--db", made.db).stdout, encoding="utf-8")
    made.sign()
    made.change("s5", "s6")
    made.anchor.write_text(made.sign(), encoding="utf-8")
    penstock("audit", "export", "--db", made.db, "--out", made.trail, "--limit", 3)
    return made


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def write(path: Path, lines: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def test_a_trail_in_a_file_and_in_a_database_is_verified_with_the_public_key_alone(shop: Shop, tmp_path: Path) -> None:
    assert INTACT in shop.verify(shop.trail)
    assert "2 checkpoints signed" in shop.verify(shop.trail)
    said = shop.verify(shop.trail, "--against", shop.anchor)
    assert "anchor 20" in said
    assert "matches" in said
    copy = tmp_path / "copy.db"
    with closing(sqlite3.connect(shop.db)) as connection:
        connection.execute("VACUUM INTO ?", (str(copy),))
    assert INTACT in shop.verify(copy), "there is no secret beside it"
    report = json.loads(shop.verify(copy, "--json"))
    assert report["intact"]
    assert report["trails"][0]["checkpoints"] == 2


def edit(lines: list[dict[str, Any]]) -> None:
    next(line for line in lines if line.get("subject") == "s2")["subject"] = "s9"


def delete(lines: list[dict[str, Any]]) -> None:
    lines.remove(next(line for line in lines if line.get("subject") == "s2"))


def insert(lines: list[dict[str, Any]]) -> None:
    place = next(number for number, line in enumerate(lines) if line.get("subject") == "s2")
    lines.insert(place, dict(lines[place]))


def reorder(lines: list[dict[str, Any]]) -> None:
    place = next(number for number, line in enumerate(lines) if line.get("subject") == "s2")
    lines[place], lines[place + 1] = lines[place + 1], lines[place]


def truncate(lines: list[dict[str, Any]]) -> None:
    del lines[3:]


@pytest.mark.parametrize("tamper", [edit, delete, insert, reorder, truncate])
def test_whatever_was_done_to_an_export_is_found(
    shop: Shop, tmp_path: Path, tamper: Callable[[list[dict[str, Any]]], None]
) -> None:
    lines = lines_of(shop.trail)
    tamper(lines)
    changed = write(tmp_path / "changed.jsonl", lines)
    assert "BROKEN" in shop.verify(changed, "--against", shop.anchor, code=1)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE audit SET subject = 's9' WHERE subject = 's2'",
        "DELETE FROM audit WHERE subject = 's2'",
        "DELETE FROM audit WHERE seq > 3",
        "DELETE FROM audit; DELETE FROM resources",
    ],
)
def test_whatever_was_done_to_a_database_is_found(shop: Shop, tmp_path: Path, statement: str) -> None:
    copy = tmp_path / "copy.db"
    with closing(sqlite3.connect(shop.db)) as connection:
        connection.execute("VACUUM INTO ?", (str(copy),))
    with closing(sqlite3.connect(copy)) as connection:
        connection.executescript(statement)
    assert "BROKEN" in shop.verify(copy, "--against", shop.anchor, code=1)


def test_another_key_verifies_nothing_and_no_checkpoint_proves_nothing(shop: Shop, tmp_path: Path) -> None:
    other = Shop(tmp_path)
    other.change("s1")
    other.key.write_text(penstock("audit", "key", "--db", other.db).stdout, encoding="utf-8")
    assert "not signed by a trusted key" in other.verify(shop.trail, code=1)
    penstock("audit", "export", "--db", other.db, "--out", other.trail)
    assert "NOT SIGNED" in other.verify(other.trail, code=1)


def test_an_export_goes_on_where_it_stopped_and_follows_a_new_key(shop: Shop, tmp_path: Path) -> None:
    mine = Shop(tmp_path)
    mine.change("s1", "s2")
    mine.key.write_text(penstock("audit", "key", "--db", mine.db).stdout, encoding="utf-8")
    mine.sign()
    penstock("audit", "export", "--db", mine.db, "--out", mine.trail)
    penstock("audit", "rotate-key", "--db", mine.db)
    mine.change("s3")
    mine.sign()
    said = penstock("audit", "export", "--db", mine.db, "--out", mine.trail, "--resume", "--json").stdout
    assert json.loads(said)["records"] > 1
    assert "2 checkpoints signed" in mine.verify(mine.trail)
    mine.key.write_text(penstock("audit", "key", "--db", mine.db).stdout, encoding="utf-8")
    assert "2 checkpoints signed" in mine.verify(mine.trail)
    events = tmp_path / "events.jsonl"
    penstock("audit", "export", "--db", mine.db, "--out", events, "--format", "cloudevents")
    assert all(line["specversion"] == "1.0" for line in lines_of(events))
    assert "2 checkpoints signed" in mine.verify(events)


def test_the_owner_is_told_in_one_line(shop: Shop) -> None:
    said = penstock("audit", "verify", "--db", shop.db, "--against", shop.anchor).stdout
    assert INTACT in said
    assert "2 checkpoints signed, anchor " in said
    broken = penstock("audit", "verify", "--db", shop.db, "--seq", 10_000, code=1).stdout
    assert broken == "BROKEN: the trail of default: rolled back\n"
    assert json.loads(penstock("audit", "verify", "--db", shop.db, "--json").stdout)["intact"]


def test_what_cannot_be_verified_is_refused_with_the_reason(shop: Shop, tmp_path: Path) -> None:
    nonsense = tmp_path / "nonsense"
    nonsense.write_text("nothing\n", encoding="utf-8")
    refused = penstock("audit", "verify", "--public-key", shop.key, nonsense, "--json", code=5)
    assert json.loads(refused.stdout)["error"]["code"] == "AUDIT_EXPORT_INVALID"
    for arguments, code in (
        (("--public-key", nonsense, shop.trail), "AUDIT_PUBLIC_KEY_INVALID"),
        (("--public-key", shop.key, shop.trail, "--against", nonsense), "AUDIT_CHECKPOINT_INVALID"),
        (("--public-key", shop.key, tmp_path / "none"), "FILE_UNREADABLE"),
    ):
        refused = CliRunner().invoke(app, ["audit", "verify", *map(str, arguments), "--json"])
        assert json.loads(refused.stdout)["error"]["code"] == code
    penstock("audit", "verify", "--public-key", shop.key, code=2)
    penstock("audit", "verify", shop.trail, code=2)
    penstock("audit", "export", "--resume", "--db", shop.db, code=2)
