"""Compiled statements that were used before, and how a read is bound to a view.

A query object is compiled once for each schema and each depth of branches. Entries are found by the identity of the
query, which is kept with them: comparing whole queries would cost more than compiling them.

Above it: `reading`, `mutating`. Below it: `penstock.graph.sql`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from penstock.base import limits
from penstock.graph.sql.dialects import SQLITE
from penstock.graph.sql.emitting import NotCompilableError
from penstock.graph.sql.layout import Layout
from penstock.graph.sql.mutations import compile_target
from penstock.graph.sql.reads import compile_read
from penstock.graph.sql.statement import Statement
from penstock.graph.typing.model import CheckedRead, DeleteEdges, DeleteNodes, UpdateNodes
from penstock.runtime.ports.graphs import QueryNotSupported

__all__ = ["Statements"]

_Step = UpdateNodes | DeleteNodes | DeleteEdges
_Key = tuple[str, int, int, int]


class Statements:
    """The statements of one store. Reader threads share it; a lost entry is only compiled again."""

    def __init__(self) -> None:
        self._kept: OrderedDict[_Key, tuple[object, Statement | QueryNotSupported]] = OrderedDict()

    def read(self, read: CheckedRead, layout: Layout, version: int, depth: int) -> Statement | QueryNotSupported:
        """The statement of a read."""
        return self._find(read, layout, version, depth, lambda: compile_read(SQLITE, layout, read, depth=depth))

    def target(self, step: _Step, layout: Layout, version: int, depth: int) -> Statement | QueryNotSupported:
        """The statement that finds what a step of a mutation is about."""
        return self._find(step, layout, version, depth, lambda: compile_target(SQLITE, layout, step, depth=depth))

    def _find(
        self, query: object, layout: Layout, version: int, depth: int, compile_it: Callable[[], Statement]
    ) -> Statement | QueryNotSupported:
        key = (layout.prefix, version, depth, id(query))
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
