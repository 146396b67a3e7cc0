"""What `bm25` compares each text with: how many texts of a column a view shows, their words, and which have a word.

Which texts have a word of a query is asked each time. A view never changes, so its totals are kept. Those of a later
commit of a branch that inherits nothing are the earlier ones and what was changed since, as far back as no version was
collected as garbage.

Above it: `store`. Below it: `versions`, `catalogue`, sqlite3.
"""

from __future__ import annotations

import sqlite3
from collections import OrderedDict

from penstock.base import limits
from penstock.graph.sql.dialects import SQLITE
from penstock.graph.sql.emitting import visible
from penstock.graph.sql.layout import text_index
from penstock.graph.sql.statement import Corpus
from penstock.graph.text import written_statistics
from penstock.graph.text_index import any_word, countable_words
from penstock.runtime.stores.sqlite.graphs.catalogue import Chain
from penstock.runtime.stores.sqlite.graphs.versions import chain_parameters

__all__ = ["Corpora"]

_Totals = tuple[int, int]
_Key = tuple[str, str, tuple[int, ...]]


class Corpora:
    """The totals of one store. Reader threads share it; a lost entry is only counted again."""

    def __init__(self) -> None:
        self._kept: OrderedDict[_Key, tuple[Chain, _Totals]] = OrderedDict()

    def statistics(self, connection: sqlite3.Connection, corpus: Corpus, chain: Chain, query: str | None) -> str | None:
        """The statistics of a view, as JSON. The connection is in the transaction of the read."""
        if query is None:
            return None
        words = countable_words(query)
        if words is None:
            return _computed(connection, corpus, chain, query)
        return written_statistics(*self._totals(connection, corpus, chain), _holding(connection, corpus, chain, words))

    def _totals(self, connection: sqlite3.Connection, corpus: Corpus, chain: Chain) -> _Totals:
        key = (corpus.table.name, corpus.column, tuple(branch for branch, _ in chain))
        known = self._kept.get(key)
        if known is not None and known[0] == chain:
            found = known[1]
        elif known is not None and len(chain) == 1 and _has_all_since(connection, known[0], chain):
            found = _changed(connection, corpus, known, chain)
        else:
            found = _counted(connection, corpus, chain)
        if known is None or known[0][0][1] <= chain[0][1]:
            self._kept[key] = (chain, found)
        while len(self._kept) > limits.GRAPH_CORPORA_KEPT_MAX:
            self._kept.popitem(last=False)
        return found


def _computed(connection: sqlite3.Connection, corpus: Corpus, chain: Chain, query: str) -> str:
    """Statistics from the texts themselves, as without an index."""
    shown = visible(SQLITE, "n", corpus.table, len(chain))
    statement = f"SELECT graph_bm25_statistics(n.{corpus.column}, :query) FROM {corpus.table.name} AS n WHERE {shown}"
    (found,) = connection.execute(statement, {"query": query, **chain_parameters(chain)}).fetchone()
    return str(found)


def _holding(connection: sqlite3.Connection, corpus: Corpus, chain: Chain, words: list[str]) -> dict[str, int]:
    """How many texts have each word."""
    index = text_index(corpus.table.name, corpus.column).words
    statement = (
        f"SELECT count(*) FROM {corpus.table.name} AS n NOT INDEXED WHERE n.rid IN"
        f" (SELECT rowid FROM {index} WHERE {index} MATCH :word) AND {visible(SQLITE, 'n', corpus.table, len(chain))}"
    )
    given = chain_parameters(chain)
    counted = ((word, connection.execute(statement, {**given, "word": any_word(word)}).fetchone()[0]) for word in words)
    return {word: count for word, count in counted if count}


def _select(corpus: Corpus, scan: str, condition: str) -> str:
    lengths = text_index(corpus.table.name, corpus.column).lengths
    return (
        f"SELECT count(*), coalesce(sum(l.words), 0) FROM {corpus.table.name} AS n{scan} CROSS JOIN {lengths} AS l"
        f" WHERE l.rid = n.rid AND {condition}"
    )


def _counted(connection: sqlite3.Connection, corpus: Corpus, chain: Chain) -> _Totals:
    statement = _select(corpus, " NOT INDEXED", visible(SQLITE, "n", corpus.table, len(chain)))
    documents, words = connection.execute(statement, chain_parameters(chain)).fetchone()
    return documents, words


def _has_all_since(connection: sqlite3.Connection, known: Chain, chain: Chain) -> bool:
    """Whether every version that ended between two commits of a branch is still there."""
    ((branch, before),), ((_, after),) = known, chain
    statement = "SELECT oldest_seq FROM graph_branches WHERE branch = ?"
    (oldest,) = connection.execute(statement, (branch,)).fetchone()
    return bool(oldest <= before < after)


def _changed(connection: sqlite3.Connection, corpus: Corpus, known: tuple[Chain, _Totals], chain: Chain) -> _Totals:
    (((branch, before),), (documents, words)), ((_, after),) = known, chain
    given = {"branch": branch, "before": before, "after": after}
    begun = "n.br = :branch AND n.c_from > :before AND n.c_from <= :after AND n.c_to > :after AND n.dead = 0"
    ended = "n.br = :branch AND n.c_to > :before AND n.c_to <= :after AND n.c_from <= :before AND n.dead = 0"
    name = corpus.table.name
    more, more_words = connection.execute(_select(corpus, f" INDEXED BY {name}_begun", begun), given).fetchone()
    fewer, fewer_words = connection.execute(_select(corpus, "", ended), given).fetchone()
    return documents + more - fewer, words + more_words - fewer_words
