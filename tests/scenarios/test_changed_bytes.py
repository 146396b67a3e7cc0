"""`penstock server check` finds a changed byte in every column that holds texts or bytes, and names the place.

The file is made by real calls of every operation that writes; tables and columns are read from the file itself, so that
a new one cannot be left out. `NOT_CHECKED` has the columns whose change is not found, each with the reason.
"""

from __future__ import annotations

import asyncio
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner

from penstock.app.gate import local_owner
from penstock.cli.main import app
from penstock.governance.audit.trails import FORGET_AUDIT
from penstock.operations.gate.internal_callers import internal_call, system_principal
from penstock.operations.gate.pipeline import AnsweredCall
from penstock.runtime.ports.maintenance import IntegrityProblem, IntegrityReport
from penstock.runtime.stores.sqlite.maintenance.backups import check_integrity
from penstock.runtime.stores.sqlite.maintenance.integrity import audit
from tests.fixtures.oauth_server import serving_oauth
from tests.scenarios.keyed_operations import ARRANGEMENTS, Desk, keyed_operations, open_desk
from tests.scenarios.test_repeated_everything import GROUPS
from tests.waiting import SECONDS_MAX

SCHEMA: Final = """
node Person { name: String @key town: String? notes: [String]? }
edge Knows: Person -> Person { since: I32? where: String? }
"""
DATA: Final = """{"type": "Person", "data": {"name": "Ada", "town": "London", "notes": ["a", "b"]}}
{"type": "Person", "data": {"name": "Bob", "town": "Paris"}}
{"edge": "Knows", "from": "Ada", "to": "Bob", "data": {"since": 1843, "where": "Lisbon"}}"""

NOT_CHECKED: Final[dict[str, str]] = {
    "graph_branches.load_id": "set while a load writes to the branch, and looked up in graph_loads",
    "graph_garbage": "what is left to be removed; it names tables, which are looked up",
    "graph_loads": "there only while a load runs",
    "graph_text_indexes": "how far an index of words is built; an index can be built again",
    "memory_staging": "empty between two transactions",
    "policy_uses": "counted calls, forgotten after the longest window of a policy",
    "quota_runs": "counters of the current day",
    "rate_buckets": "counters that fill again within minutes",
    "run_spending": "counters, which change with each call of a model",
    "runs.owner": "the worker that has the run now; every start of one takes over what is left",
    "topics": "how often topics changed; any other number makes caches read again",
    "usage_counts": "counters of quotas, which change with each call",
    "workers": "who is at work now",
}
"""Tables and columns whose change is not found, and why nobody needs to know."""


async def fill(desk: Desk) -> None:
    """Call every operation that writes, and make one of everything that no operation by itself makes."""
    for item in keyed_operations(desk.gate):
        if not GROUPS["built in"](item.name):
            continue
        outcome = await desk.outcome(item.name, await ARRANGEMENTS[item.name](desk), desk.name("key"))
        assert isinstance(outcome, AnsweredCall), (item.name, outcome)
    greet = {"penstock": "v1", "name": "greet", "nodes": [{"id": "done", "type": "end", "output": ".input.text"}]}
    await desk.do("workflow.create", document=greet)
    labels = {"team": "Blue"}
    await desk.do("workflow.execute", workflow_id="greet", input={"text": "x" * 100_000}, labels=labels, sync=True)
    await desk.do("graph.create", id="town", schema=SCHEMA, allow_adhoc=True)
    await desk.do("graph.load", graph_id="town", data=DATA)
    retention = system_principal("retention", "audit:delete", tenant=local_owner().tenant)
    await internal_call(desk.gate, retention, FORGET_AUDIT, {"before_seq": 20})
    await desk.do("memory.put", scope="session", session_id="s", key="order", value={"tea": "green"})


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file in which every operation left something."""
    folder = tmp_path_factory.mktemp("filled")

    async def make() -> None:
        async with serving_oauth() as oauth, open_desk(folder, oauth) as desk:
            await fill(desk)

    asyncio.run(asyncio.wait_for(make(), SECONDS_MAX))
    return folder / "penstock.db"


def columns(connection: sqlite3.Connection) -> Iterator[tuple[str, str]]:
    """Every column of every table that may hold texts or bytes. Indexes of texts are made of other tables."""
    listed = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table' ORDER BY name").fetchall()
    indexes = tuple(f"{name}_" for name, sql in listed if sql.startswith("CREATE VIRTUAL"))
    for table, sql in listed:
        if table.startswith(("sqlite_", *indexes)) or sql.startswith("CREATE VIRTUAL"):
            continue
        for _, column, kind, *_ in connection.execute(f"PRAGMA table_info({table})").fetchall():
            if kind in ("TEXT", "BLOB", ""):
                yield table, column


def changed(value: Any) -> Any:
    """A value with one changed bit, which stays text if it was text; something where nothing was."""
    if value is None:
        return b"x"
    if isinstance(value, int):
        return value ^ 1
    if isinstance(value, str):
        return value[:-1] + chr(ord(value[-1]) ^ 1)
    return value[:-1] + bytes([value[-1] ^ 1])


def names_place(problem: IntegrityProblem, table: str) -> bool:
    """Whether somebody who reads about a problem knows where to look: at a table, or at a run."""
    known = {"audit": "audit trail", "audit_heads": "audit trail", "definitions": "definition", "labels": "labels"}
    named = f"table {table}," in problem.message or known.get(table, "?") in problem.message
    return named or problem.run_id is not None or table.removesuffix("s") in problem.message


def report_on_change(connection: sqlite3.Connection, table: str, column: str) -> IntegrityReport | None:
    """What is found if one bit of a column is changed; None if the table is empty."""
    key = [name for _, name, _, _, _, place in connection.execute(f"PRAGMA table_info({table})") if place] or ["rowid"]
    first = f"length({column}) > 0 DESC"
    row = connection.execute(f"SELECT {column}, {', '.join(key)} FROM {table} ORDER BY {first} LIMIT 1").fetchone()
    if row is None:
        return None
    value, *names = row
    where = " AND ".join(f"{name} IS ?" for name in key)
    connection.execute("BEGIN")
    try:
        connection.execute(f"UPDATE {table} SET {column} = ? WHERE {where}", (changed(value), *names))
        return audit(connection)
    finally:
        connection.execute("ROLLBACK")


def test_a_changed_byte_in_any_column_is_found_and_its_place_is_named(path: Path) -> None:
    wrong: list[str] = []
    empty: set[str] = set()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        assert audit(connection).problems == ()
        for table, column in columns(connection):
            if table in NOT_CHECKED or f"{table}.{column}" in NOT_CHECKED:
                continue
            report = report_on_change(connection, table, column)
            if report is None:
                # The tables of graphs are alike, and some graphs are empty.
                empty.update(() if re.match(r"g\d+_", table) else (table,))
            elif report.ok or not any(names_place(problem, table) for problem in report.problems):
                wrong.append(f"{table}.{column}: {report.problems}")
    assert not wrong, "\n".join(wrong)
    assert not empty, "fill these tables, or say why nobody needs to know of a change"


@pytest.mark.parametrize("table", ["resources", "deliveries", "schedules", "memory_entries"])
def test_a_changed_byte_on_the_disk_is_found_by_the_command(path: Path, tmp_path: Path, table: str) -> None:
    copy, column = tmp_path / "penstock.db", {"deliveries": "event", "schedules": "spec", "memory_entries": "value"}
    name = column.get(table, "body")
    with closing(sqlite3.connect(path)) as connection:
        ((value,),) = connection.execute(f"SELECT {name} FROM {table} WHERE length({name}) > 10 LIMIT 1").fetchall()
    raw = bytearray(path.read_bytes())
    place = raw.index(value)
    raw[place + 5] ^= 0x80  # a text is no longer UTF-8 after that
    copy.write_bytes(raw)
    done = CliRunner().invoke(app, ["server", "check", "--db", str(copy)])
    assert done.exit_code == 1, done.output
    assert f"table {table}," in done.output.replace("\n", " ")
    assert "Traceback" not in done.output


def test_rows_of_an_earlier_release_are_counted_as_unchecked(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / "penstock.db"
    copy.write_bytes(path.read_bytes())
    assert check_integrity(copy).unchecked_rows == 0
    with closing(sqlite3.connect(copy)) as connection, connection:
        rows = connection.execute("UPDATE resources SET checksum = NULL").rowcount
    report = check_integrity(copy)
    assert report.ok
    assert report.unchecked_rows == rows
