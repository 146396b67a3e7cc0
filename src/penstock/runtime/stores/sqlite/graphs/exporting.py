"""Everything in a view, as records, in pieces of bounded size.

Above it: `store`. Below it: `catalogue`, `differences`, `reading`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from penstock.base import limits
from penstock.base.errors import NotFound
from penstock.graph.records import GraphRecord
from penstock.graph.schema.model import EntityType
from penstock.graph.sql.dialects import SQLITE
from penstock.graph.sql.emitting import visible
from penstock.runtime.ports.graphs import View
from penstock.runtime.stores.sqlite.graphs.catalogue import Catalogue
from penstock.runtime.stores.sqlite.graphs.differences import record_of
from penstock.runtime.stores.sqlite.graphs.reading import is_gone, snapshot
from penstock.runtime.stores.sqlite.graphs.versions import chain_parameters, row_columns

__all__ = ["read_records"]


def read_records(
    connection: sqlite3.Connection, catalogue: Catalogue, view: View, entity: EntityType, after_id: str
) -> tuple[Sequence[GraphRecord], str | None]:
    """Some records of a type after an identifier, and the identifier to go on from; None if these are the last."""
    most = limits.GRAPH_EXPORT_PIECE_MAX
    with snapshot(connection):
        if is_gone(connection, view):
            message = f"the commit {view.commit_id} was collected as garbage"
            raise NotFound("COMMIT_NOT_FOUND", message, "export the head of a branch")
        stored = catalogue.schema(connection, view.graph, view.schema_version)
        table = stored.layout.tables[entity.name]
        columns = ", ".join(f"n.{each}" for each in row_columns(table))
        statement = (
            f"SELECT {columns} FROM {table.name} AS n WHERE n.id > :after_id"
            f" AND {visible(SQLITE, 'n', table, len(view.chain))} ORDER BY n.id LIMIT :most"
        )
        given = {**chain_parameters(view.chain), "after_id": after_id, "most": most}
        rows = connection.execute(statement, given).fetchall()
    records = tuple(record_of(entity, table, row) for row in rows)
    return records, rows[-1][0] if len(rows) == most else None
