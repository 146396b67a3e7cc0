"""The functions that compiled graph queries call. What they compute is in `penstock.graph.text` and
`penstock.graph.text_index`; triggers of tables of nodes call those that fill text indexes.

Above it: `sql_functions`. Below it: `penstock.graph`, sqlite3.
"""

from __future__ import annotations

import json
import sqlite3

from penstock.graph import text, text_index

__all__ = ["register_graph_functions"]


def register_graph_functions(connection: sqlite3.Connection) -> None:
    """Register the functions on a connection."""
    connection.create_function("graph_search", 2, text.search, deterministic=True)
    connection.create_function("graph_match_text", 2, text.match_text, deterministic=True)
    connection.create_function("graph_fuzzy", 3, text.fuzzy, deterministic=True)
    connection.create_function("graph_bm25", 3, text.bm25, deterministic=True)
    connection.create_function("graph_distance", 2, text.distance, deterministic=True)
    connection.create_function("graph_has_float", 2, _has_float, deterministic=True)
    connection.create_function("graph_words", 1, text_index.indexed_words, deterministic=True)
    connection.create_function("graph_unicode", 0, lambda: text_index.UNICODE, deterministic=True)
    connection.create_function("graph_all_words", 1, text_index.all_words, deterministic=True)
    connection.create_function("graph_phrase", 1, text_index.phrase, deterministic=True)
    connection.create_function("graph_any_word", 1, text_index.any_word, deterministic=True)
    connection.create_aggregate("graph_near_terms", 3, text_index.NearTerms)  # type: ignore[arg-type]  # 3 arguments
    connection.create_aggregate("graph_bm25_statistics", 2, text.Bm25Statistics)  # type: ignore[arg-type]  # 2 arguments


def _has_float(items: str, item: float) -> bool:
    return item in json.loads(items)
