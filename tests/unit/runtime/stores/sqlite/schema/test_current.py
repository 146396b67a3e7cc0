"""The statements for an empty file are about tables, so no step may leave rows."""

import sqlite3

import pytest

from penstock.runtime.stores.sqlite.schema.current import new_file_statements, statements_of
from penstock.runtime.stores.sqlite.schema.migrations import SCHEMA_VERSION


def test_statements_are_for_one_version() -> None:
    assert new_file_statements(SCHEMA_VERSION) is not None
    assert new_file_statements(SCHEMA_VERSION - 1) is None


def test_a_step_that_leaves_rows_cannot_be_written_as_tables() -> None:
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE marks (name TEXT)")
    connection.execute("CREATE VIRTUAL TABLE words USING fts5 (text)")  # has rows in tables of its own
    assert statements_of(connection, 7).endswith(
        "CREATE TABLE marks (name TEXT);\nCREATE VIRTUAL TABLE words USING fts5 (text);\n"
    )
    connection.execute("INSERT INTO marks VALUES ('first')")
    with pytest.raises(ValueError, match="a step leaves rows in marks"):
        statements_of(connection, 7)
    connection.close()
