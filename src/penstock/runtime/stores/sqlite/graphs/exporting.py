"""Everything in a view, as records, page by page.

Above it: `store`. Below it: `catalogue`, `differences`, `reading`.
"""

from __future__ import annotations

import sqlite3

from penstock.base.errors import Rejected
from penstock.graph.records import GraphRecord
from penstock.graph.schema.model import EntityType
from penstock.graph.sql.dialects import SQLITE
from penstock.graph.sql.emitting import visible
from penstock.runtime.ports.graphs import CommitNotFound, ExportPage, View
from penstock.runtime.stores.sqlite.graphs.catalogue import Catalogue
from penstock.runtime.stores.sqlite.graphs.differences import record_of
from penstock.runtime.stores.sqlite.graphs.reading import is_gone, snapshot
from penstock.runtime.stores.sqlite.graphs.versions import chain_parameters, in_order, row_columns
from penstock.runtime.tables.listings import id_cursor, id_position

__all__ = ["read_export"]


def read_export(
    connection: sqlite3.Connection, catalogue: Catalogue, view: View, limit: int, cursor: str | None
) -> ExportPage | CommitNotFound:
    """So many records after a place, which is a type and an identifier of it."""
    entities: tuple[EntityType, ...] = (*view.schema.nodes, *view.schema.edges)
    first_name, _, first_id = (id_position(cursor) or "").partition(":")
    names = [entity.name for entity in entities]
    if cursor is not None and first_name not in names:
        message = "the cursor is none of this commit's schema"
        raise Rejected("INVALID_LIST_CURSOR", message, "pass the commit of the page before as `snapshot`")
    records: list[GraphRecord] = []
    place = ""
    with snapshot(connection):
        if is_gone(connection, view):
            return CommitNotFound(view.commit_id, collected=True)
        stored = catalogue.schema(connection, view.graph, view.schema_version)
        for entity in entities[names.index(first_name) if first_name else 0 :]:
            table = stored.layout.tables[entity.name]
            columns = ", ".join(f"n.{each}" for each in row_columns(table))
            statement = (
                f"SELECT {columns} FROM {table.name} AS n {in_order(table)} WHERE n.id > :after_id"
                f" AND {visible(SQLITE, 'n', table, len(view.chain))} ORDER BY n.id LIMIT :most"
            )
            after_id = first_id if entity.name == first_name else ""
            given = {**chain_parameters(view.chain), "after_id": after_id, "most": limit - len(records) + 1}
            for row in connection.execute(statement, given).fetchall():
                if len(records) == limit:
                    return ExportPage(tuple(records), id_cursor(place))
                records.append(record_of(entity, table, row))
                place = f"{entity.name}:{row[0]}"
    return ExportPage(tuple(records), None)
