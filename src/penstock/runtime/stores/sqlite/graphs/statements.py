"""Compiled statements that were used before, and how a read is bound to a view.

A query object is compiled once for each schema, each depth of branches and each choice of text indexes. Entries are
found by the identity of the query, which is kept with them: comparing whole queries would cost more than compiling
them.

Above it: `reading`, `mutating`. Below it: `penstock.graph.sql`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from penstock.base import limits
from penstock.graph.sql.dialects import SQLITE
from penstock.graph.sql.emitting import NotCompilableError
from penstock.graph.sql.layout import NO_TEXT_INDEXES, Layout, TextIndexes
from penstock.graph.sql.mutations import compile_target
from penstock.graph.sql.reads import compile_read
from penstock.graph.sql.statement import Statement
from penstock.graph.typing.model import CheckedRead, DeleteEdges, DeleteNodes, UpdateNodes
from penstock.runtime.ports.graphs import QueryNotSupported

__all__ = ["Statements"]

_Step = UpdateNodes | DeleteNodes | DeleteEdges
_Key = tuple[str, int, int, int, TextIndexes]


class Statements:
    """The statements of one store. Reader threads share it; a lost entry is only compiled again."""

    def __init__(self) -> None:
        self._kept: OrderedDict[_Key, tuple[object, Statement | QueryNotSupported]] = OrderedDict()

    def read(
        self,
        read: CheckedRead,
        layout: Layout,
        version: int,
        depth: int,
        text_indexes: TextIndexes = NO_TEXT_INDEXES,
    ) -> Statement | QueryNotSupported:
        """The statement of a read, which may use some text indexes."""

        def compile_it() -> Statement:
            return compile_read(SQLITE, layout, read, depth=depth, text_indexes=text_indexes)

        return self._find(read, layout, (version, depth, text_indexes), compile_it)

    def target(self, step: _Step, layout: Layout, version: int, depth: int) -> Statement | QueryNotSupported:
        """The statement that finds what a step of a mutation is about."""
        given = (version, depth, NO_TEXT_INDEXES)
        return self._find(step, layout, given, lambda: compile_target(SQLITE, layout, step, depth=depth))

    def _find(
        self,
        query: object,
        layout: Layout,
        given: tuple[int, int, TextIndexes],
        compile_it: Callable[[], Statement],
    ) -> Statement | QueryNotSupported:
        version, depth, text_indexes = given
        key = (layout.prefix, version, depth, id(query), text_indexes)
        known = self._kept.get(key)
        if known is not None and known[0] is query:
            return known[1]
        found = _compiled(compile_it)
        self._kept[key] = (query, found)
        while len(self._kept) > limits.GRAPH_STATEMENTS_KEPT_MAX:
            self._kept.popitem(last=False)
        return found


def _compiled(compile_it: Callable[[], Statement]) -> Statement | QueryNotSupported:
    try:
        return compile_it()
    except NotCompilableError as error:
        return QueryNotSupported(error.code, error.message)
    except KeyError as error:
        message = f"the query names {error.args[0]}, which the schema of this commit does not have"
        return QueryNotSupported("GRAPH_QUERY_OUTDATED", message)
