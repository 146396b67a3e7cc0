"""Text indexes in statements.

An index has the words of all versions, so it only finds candidates: whether the view shows a row, and whether its text
matches, is asked as without an index. What it finds is a list of row numbers. In a row that is found otherwise, a plus
sign before the number keeps SQLite from going through that list for each of them.

Above it: `conditions`. Below it: `emitting`.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.graph.query.tree import TextMatchKind
from penstock.graph.sql.emitting import Emitter, NodeSource
from penstock.graph.sql.layout import TextIndex

__all__ = ["compile_bm25", "text_candidates"]


def text_candidates(
    emitter: Emitter, source: NodeSource, name: str, kind: TextMatchKind, given: Sequence[str]
) -> str | None:
    """The condition that an index finds a row; None without an index. `given` are the arguments of the search."""
    index = emitter.text_index(source.table, name)
    if index is None:
        return None
    sign = "" if source.alias in emitter.found_by_text else "+"
    return f"{sign}{source.alias}.rid IN ({_found(index, _question(index, kind, given))})"


def _question(index: TextIndex, kind: TextMatchKind, given: Sequence[str]) -> str:
    match kind:
        case TextMatchKind.SEARCH:
            return f"graph_all_words({given[0]})"
        case TextMatchKind.MATCH_TEXT:
            return f"graph_phrase({given[0]})"
        case TextMatchKind.FUZZY:
            return f"(SELECT graph_near_terms(term, {given[0]}, {given[1]}) FROM {index.terms})"


def _found(index: TextIndex, question: str) -> str:
    return f"SELECT rowid FROM {index.words} WHERE {index.words} MATCH {question}"


def compile_bm25(emitter: Emitter, source: NodeSource, name: str, query: str) -> str:
    """The score of a text. Its statistics are those of all texts that the view shows.

    With an index, only texts that have a word of the query are looked at, and the statistics are bound.
    """
    index = emitter.text_index(source.table, name)
    column = source.table.columns[name]
    if index is None:
        alias = emitter.name("corpus")
        counted = f"SELECT graph_bm25_statistics({alias}.{column}, {query})"
        corpus = f"FROM {source.table.name} AS {alias} WHERE {emitter.visible(alias, source.table)}"
        return f"graph_bm25({source.alias}.{column}, {query}, ({counted} {corpus}))"
    found = _found(index, f"graph_any_word({query})")
    score = f"graph_bm25({source.alias}.{column}, {query}, {emitter.statistics(source.table, column, query)})"
    return f"(CASE WHEN +{source.alias}.rid IN ({found}) THEN {score} END)"
