"""A PostgreSQL server that the tests of a process share: it starts when the first of them needs it."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from tests.conformance.postgresql.schema import schema_statements
from tests.postgres import running_postgres

__all__ = ["postgres_address"]


@pytest.fixture(scope="session")
def postgres_address() -> Iterator[str]:
    """The address of a database with all tables. Tests leave rows there; `emptied` deletes them."""
    with running_postgres() as address:
        with psycopg.connect(address, autocommit=True) as connection:
            for statement in schema_statements():
                connection.execute(statement.encode())
        yield address
