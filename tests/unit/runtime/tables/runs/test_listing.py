"""Listings come from an index, in order: no filter makes SQLite sort, and none walks runs one by one."""

import sqlite3
from collections.abc import Iterator

import pytest

from penstock.base import limits
from penstock.runtime.ports.runs import RunQuery
from penstock.runtime.stores.sqlite.run_texts import TextIndexQueue
from penstock.runtime.stores.sqlite.runs.index import SqliteRunIndex
from penstock.runtime.stores.sqlite.schema.files import open_for_writing
from penstock.runtime.stores.sqlite.schema.sql_functions import indexed_text
from penstock.runtime.stores.sqlite.transaction import SqliteTransaction
from penstock.runtime.tables.runs.listing import is_short, statement_of
from penstock.runtime.tables.runs.row_keys import first_key_of
from tests.conformance.stores import AT

MANY = 1_000


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sqlite3.Connection]:
    """A file with many runs of one kind and one of another."""
    connection = open_for_writing(str(tmp_path_factory.mktemp("listing") / "store.db"), synchronous="OFF")
    connection.execute("BEGIN")
    texts = TextIndexQueue()
    for number in range(MANY):
        rare = number == 0
        key = first_key_of(AT + number)
        values = (key, f"r_{number}", "rare" if rare else "usual", "failed" if rare else "completed", AT, AT)
        tenant = "other" if number == 1 else "default"
        row = "INSERT INTO runs VALUES (?,?,?,'1','h',?,1,?,?,'parent',NULL,NULL,0,NULL,1,?,0,?)"
        connection.execute(row, (*values, tenant, "key:rare" if rare else "key:usual"))
        team = "a" if rare else "b"
        connection.execute("INSERT INTO labels VALUES (?,?,?,?)", (team, "team", key, team))
        texts.add(key, indexed_text(tenant, str(values[1]), str(values[2]), [team]))
    texts.write(connection)
    connection.execute("COMMIT")
    yield connection
    connection.close()


def plan(connection: sqlite3.Connection, query: RunQuery) -> list[str]:
    statement, parameters = statement_of(SqliteTransaction(connection), SqliteRunIndex(), query)
    return [str(row[3]) for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", (*parameters, 10))]


@pytest.mark.parametrize(
    ("query", "index"),
    [
        (RunQuery(), "INTEGER PRIMARY KEY"),
        (RunQuery(cursor="kffff"), "INTEGER PRIMARY KEY (rowid>? AND rowid<?)"),
        (RunQuery(created_after=AT, created_before=AT + 9), "INTEGER PRIMARY KEY (rowid>? AND rowid<?)"),
        (RunQuery(statuses=("failed",)), "runs_by_status (tenant=? AND status=? AND rowid>? AND rowid<?)"),
        (RunQuery(statuses=("failed", "completed")), "runs_by_status (tenant=? AND status=? AND rowid>? AND rowid<?)"),
        (RunQuery(workflow_name="usual"), "runs_by_workflow (tenant=? AND workflow_name=? AND rowid>? AND rowid<?)"),
        (RunQuery(started_by="key:usual"), "runs_by_starter (tenant=? AND started_by=? AND rowid>? AND rowid<?)"),
        (
            RunQuery(tenant="default", started_by="key:usual", cursor="kffff"),
            "runs_by_starter (tenant=? AND started_by=? AND rowid>? AND rowid<?)",
        ),
        (
            RunQuery(tenant="default", started_by="key:rare", statuses=("completed", "failed")),
            "runs_by_starter (tenant=? AND started_by=? AND rowid>? AND rowid<?)",
        ),
        (RunQuery(tenant="default"), "runs_by_tenant (tenant=? AND rowid>? AND rowid<?)"),
        (RunQuery(tenant="default", cursor="kffff"), "runs_by_tenant (tenant=? AND rowid>? AND rowid<?)"),
        (
            RunQuery(tenant="default", statuses=("failed", "completed")),
            "runs_by_status (tenant=? AND status=? AND rowid>? AND rowid<?)",
        ),
        (
            RunQuery(tenant="default", workflow_name="usual"),
            "runs_by_workflow (tenant=? AND workflow_name=? AND rowid>? AND rowid<?)",
        ),
        (RunQuery(parent_run_id="parent"), "runs_by_parent (parent_run_id=? AND rowid>? AND rowid<?)"),
        (RunQuery(label=("team", "b")), "PRIMARY KEY (folded=? AND name=? AND run>? AND run<?)"),
        (RunQuery(text="r_"), "runs_text VIRTUAL TABLE INDEX"),
        (RunQuery(text="nobody has this"), "runs_text VIRTUAL TABLE INDEX"),
        (RunQuery(text="r_9", cursor="kffff"), "runs_text VIRTUAL TABLE INDEX"),
    ],
)
def test_every_filter_walks_its_index_in_order(connection: sqlite3.Connection, query: RunQuery, index: str) -> None:
    found = plan(connection, query)
    assert any(index in line for line in found), found
    assert not any("TEMP B-TREE" in line for line in found), found
    assert not any(line.startswith("SCAN") and "VIRTUAL TABLE" not in line for line in found), found


@pytest.mark.parametrize(
    ("query", "index"),
    [
        (RunQuery(statuses=("failed",), workflow_name="usual"), "runs_by_status"),
        (RunQuery(statuses=("completed",), workflow_name="rare"), "runs_by_workflow"),
        (RunQuery(statuses=("completed",), parent_run_id="nobody"), "runs_by_parent"),
        (RunQuery(statuses=("completed",), label=("team", "a")), "PRIMARY KEY (folded=?"),
        (RunQuery(statuses=("failed",), label=("team", "b")), "runs_by_status"),
        (RunQuery(statuses=("completed",), text="r_999"), "runs_text"),
        (RunQuery(tenant="default", text="r_999"), "runs_text"),
        (RunQuery(tenant="other", text="r_"), "runs_by_tenant"),
        (RunQuery(tenant="other", label=("team", "b")), "runs_by_tenant"),
        (RunQuery(tenant="other", statuses=("completed",), label=("team", "b")), "runs_by_status"),
        (RunQuery(workflow_name="rare", text="r_"), "runs_by_workflow"),
    ],
)
def test_of_several_filters_the_rarest_leads(connection: sqlite3.Connection, query: RunQuery, index: str) -> None:
    found = plan(connection, query)
    assert any(index in line for line in found), found


@pytest.mark.parametrize(
    ("query", "short"),
    [
        (RunQuery(limit=50), True),
        (RunQuery(limit=50, tenant="acme", cursor="c"), True),
        (RunQuery(limit=limits.LISTED_AT_ONCE + 1), False),
        (RunQuery(limit=50, text="a"), False),
        (RunQuery(limit=50, statuses=("failed",)), False),
        (RunQuery(limit=50, workflow_name="refund"), False),
        (RunQuery(limit=50, label=("team", "blue")), False),
        (RunQuery(limit=50, parent_run_id="r"), False),
        (RunQuery(limit=50, created_after=1), False),
        (RunQuery(limit=50, created_before=1), False),
    ],
)
def test_only_a_page_of_neighbours_is_read_on_the_loop(query: RunQuery, short: bool) -> None:
    assert is_short(query) is short
