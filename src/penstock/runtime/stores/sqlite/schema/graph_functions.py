"""The functions that compiled graph queries call. What they compute is in `penstock.graph.text`.

Above it: `sql_functions`. Below it: `penstock.graph.text`, sqlite3.
"""

from __future__ import annotations

import json
import sqlite3

from penstock.graph import text

__all__ = ["register_graph_functions"]


def register_graph_functions(connection: sqlite3.Connection) -> None:
    """Register the functions on a connection."""
    connection.create_function("graph_search", 2, text.search, deterministic=True)
    connection.create_function("graph_match_text", 2, text.match_text, deterministic=True)
    connection.create_function("graph_fuzzy", 3, text.fuzzy, deterministic=True)
    connection.create_function("graph_bm25", 3, text.bm25, deterministic=True)
    connection.create_function("graph_distance", 2, text.distance, deterministic=True)
    connection.create_function("graph_has_float", 2, _has_float, deterministic=True)
    connection.create_aggregate("graph_bm25_statistics", 2, text.Bm25Statistics)  # type: ignore[arg-type]  # 2 arguments


def _has_float(items: str, item: float) -> bool:
    return item in json.loads(items)
