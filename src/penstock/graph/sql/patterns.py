"""Patterns as joins.

The compiler chooses the order: first what a key or an index finds, then hops from what is bound, then what a text
index finds, then scans. A plain hop is a join with the table of its edges; a hop between two bound nodes is an
`EXISTS`. Before a hop of another kind, what is bound so far becomes a common table expression (a stage), from which the
search starts. A node whose properties nobody reads is not joined at all: an edge has its identifier, and edges have no
missing ends.

Above it: `reads`, `mutations`. Below it: `hops`, `conditions`, `access`, `emitting`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from penstock.graph.schema.model import EdgeType, Unique
from penstock.graph.sql.access import Access, find_access, identifier_values, is_found_by_text
from penstock.graph.sql.conditions import compile_condition, compile_value
from penstock.graph.sql.emitting import EdgeSource, Emitter, NodeSource, Scope
from penstock.graph.sql.hops import edge_exists, hop_table, is_plain, is_single, join_edges
from penstock.graph.sql.walking import free_variables
from penstock.graph.typing.patterns import (
    Direction,
    FieldValue,
    Hop,
    HopEdge,
    NodeVariable,
    Pattern,
)

__all__ = ["Joined", "compile_block", "compile_pattern"]


@dataclass(frozen=True, slots=True)
class Joined:
    """A pattern as the parts of a SELECT."""

    expressions: tuple[str, ...]
    sources: tuple[str, ...]
    conditions: tuple[str, ...]
    scope: Scope
    identity: tuple[str, ...]
    """What tells one match from another."""
    repeats: bool
    """Whether a match may come more than once, so that `DISTINCT` is needed."""

    def select(self, columns: str) -> str:
        """A SELECT of some columns over the matches."""
        parts = [f"WITH RECURSIVE {', '.join(self.expressions)} "] if self.expressions else []
        parts.append(f"SELECT {columns}")
        if self.sources:
            parts.append(f" FROM {' CROSS JOIN '.join(self.sources)}")
        if self.conditions:
            parts.append(f" WHERE {' AND '.join(self.conditions)}")
        return "".join(parts)


def compile_pattern(emitter: Emitter, pattern: Pattern, outer: Scope | None = None) -> Joined:
    """A pattern as joins; `outer` has the variables around a block."""
    return _Compiler(emitter, pattern, outer).run()


def compile_block(emitter: Emitter, pattern: Pattern, scope: Scope, want: str, argument: FieldValue | None) -> str:
    """A block: whether it matches (`exists`), how often (`count`), or the `sum` of a field over its matches."""
    joined = compile_pattern(emitter, pattern, scope)
    if want == "exists":
        return f"EXISTS ({joined.select('1')})"
    columns = [f"{each} AS i{number}" for number, each in enumerate(joined.identity)] or ["1 AS i0"]
    if argument is not None:
        columns.append(f"{compile_value(emitter, argument, joined.scope, compile_block)} AS x")
    matches = joined.select(("DISTINCT " if joined.repeats else "") + ", ".join(columns))
    alias = emitter.name("m")
    if argument is None:
        return f"(SELECT count(*) FROM ({matches}) AS {alias})"
    total = f"sum({emitter.dialect.as_float(f'{alias}.x')})"
    return f"(SELECT coalesce({total}, 0.0) FROM ({matches}) AS {alias})"


class _Compiler:
    def __init__(self, emitter: Emitter, pattern: Pattern, outer: Scope | None) -> None:
        self._emitter = emitter
        self._scope = Scope(outer)
        self._nodes = {each.name: each for each in pattern.nodes}
        self._hops = list(pattern.hops)
        self._pending = list(pattern.conditions)
        self._pattern = pattern
        self._expressions: list[str] = []
        self._sources: list[str] = []
        self._conditions: list[str] = []
        self._repeats = False

    def run(self) -> Joined:
        while True:
            self._close_hops()
            if not self._advance():
                break
        self._apply_conditions()
        # A condition that is left out would let rows through.
        assert not self._pending, f"conditions were not written: {self._pending}"
        return Joined(
            tuple(self._expressions),
            tuple(self._sources),
            tuple(self._conditions),
            self._scope,
            tuple(self._identity()),
            self._repeats,
        )

    def _identity(self) -> list[str]:
        found = [self._scope.node(each.name).id for each in self._pattern.nodes]
        for variable in self._pattern.edges:
            edge = self._scope.edge(variable.name)
            found += [edge.id] if len(variable.types) == 1 else [edge.type, edge.id]
        return found

    # --- the order of joins ----------------------------------------------------------------------

    def _advance(self) -> bool:
        """Bind another node; false if all are bound."""
        unbound = [each for each in self._pattern.nodes if self._scope.find(each.name) is None]
        accesses = {each.name: find_access(each, self._pattern.conditions, self._scope) for each in unbound}
        single = next((each for each in unbound if accesses[each.name] is Access.SINGLE), None)
        if single is not None:
            self._join_node(single, Access.SINGLE)
            return True
        hop = self._next_hop()
        if hop is not None:
            self._follow(hop)
            return True
        if not unbound:
            return False
        indexed = next((each for each in unbound if accesses[each.name] is Access.INDEX), None)
        if indexed is not None:
            self._join_node(indexed, Access.INDEX)
            return True
        searched = [each for each in unbound if self._is_found_by_text(each)]
        access = Access.TEXT if searched else Access.SCAN
        self._join_node(max(searched or unbound, key=self._filters), access)
        return True

    def _is_found_by_text(self, node: NodeVariable) -> bool:
        table = self._emitter.layout.tables[node.type.name]

        def indexed(name: str) -> bool:
            return self._emitter.text_index(table, name) is not None

        return any(is_found_by_text(node, each, indexed) for each in self._pattern.conditions)

    def _filters(self, node: NodeVariable) -> int:
        """How many conditions are about a node alone: more of them leave fewer rows."""
        return sum(free_variables(each) == {node.name} for each in self._pattern.conditions)

    def _next_hop(self) -> Hop | None:
        """A hop with one bound end; a plain one if there is one."""
        ready = [hop for hop in self._hops if self._is_bound(hop.source) or self._is_bound(hop.target)]
        return next((hop for hop in ready if is_plain(hop)), None) or next(iter(ready), None)

    def _is_bound(self, name: str) -> bool:
        return self._scope.find(name) is not None

    def _close_hops(self) -> None:
        """Turn hops between bound nodes into conditions."""
        for hop in [each for each in self._hops if self._is_bound(each.source) and self._is_bound(each.target)]:
            self._hops.remove(hop)
            if is_single(hop) and hop.edge is None:
                self._conditions.append(self._exists(hop))
            elif is_plain(hop):
                self._join_edge(hop, self._scope.node(hop.target).id)
            else:
                self._search(hop)

    # --- joins -----------------------------------------------------------------------------------

    def _join_node(self, node: NodeVariable, access: Access) -> None:
        emitter = self._emitter
        table = emitter.layout.tables[node.type.name]
        alias = emitter.name("n")
        if access in (Access.SCAN, Access.TEXT):
            emitter.scans += access is Access.SCAN
            self._sources.append(emitter.dialect.scan(table.name, alias))
            if access is Access.TEXT:
                emitter.found_by_text.add(alias)
        else:
            self._sources.append(f"{table.name} AS {alias}")
        self._conditions.append(emitter.visible(alias, table))
        self._scope.own[node.name] = NodeSource(f"{alias}.id", table, node.type.name, alias)
        # A key of one text is the identifier, which has an index.
        for value in identifier_values(node, self._pattern.conditions, self._scope):
            sql = compile_value(emitter, value, self._scope, compile_block)
            self._conditions.append(f"{alias}.id = {sql}")

    def _bind_node(self, name: str, identifier: str) -> None:
        """Bind a node that an edge leads to."""
        node = self._nodes[name]
        table = self._emitter.layout.tables[node.type.name]
        if name not in self._emitter.needed:
            self._scope.own[name] = NodeSource(identifier, table, node.type.name, None)
            return
        alias = self._emitter.name("n")
        self._sources.append(f"{table.name} AS {alias}")
        self._conditions += [f"{alias}.id = {identifier}", self._emitter.visible(alias, table)]
        self._scope.own[name] = NodeSource(f"{alias}.id", table, node.type.name, alias)

    def _follow(self, hop: Hop) -> None:
        """Bind the other end of a hop."""
        self._hops.remove(hop)
        onwards = hop if self._is_bound(hop.source) else _reversed(hop)
        if is_plain(onwards):
            self._bind_node(onwards.target, self._join_edge(onwards, None))
        else:
            self._search(onwards)

    def _join_edge(self, hop: Hop, target: str | None) -> str:
        """Join the table of a plain hop; return the other end."""
        (edge,) = hop.edges
        emitter = self._emitter
        table = emitter.layout.tables[edge.type.name]
        alias = emitter.name("e")
        ends = self._scope.node(hop.source).id, target
        join, other = join_edges(emitter, table, alias, edge.direction, ends, whole=hop.edge is not None)
        self._sources += join.sources
        self._conditions.append(join.condition)
        if hop.edge is not None:
            columns = {name: f"{join.row}.{column}" for name, column in table.columns.items()}
            type_ = emitter.constant(edge.type.name)
            self._scope.own[hop.edge] = EdgeSource(f"{join.row}.id", f"{alias}.src", f"{alias}.dst", type_, columns)
        elif not _is_simple(edge.type):
            self._repeats = True
        return other

    def _exists(self, hop: Hop) -> str:
        (edge,) = hop.edges
        table = self._emitter.layout.tables[edge.type.name]
        source, target = self._scope.node(hop.source).id, self._scope.node(hop.target).id
        return edge_exists(self._emitter, table, edge.direction, (source, target))

    # --- stages ----------------------------------------------------------------------------------

    def _search(self, hop: Hop) -> None:
        """Follow a hop of several steps or several edge types from a stage."""
        emitter = self._emitter
        source = self._stage(hop.source)
        seeds = emitter.name("seeds")
        found_in = f" FROM {self._sources[0]}" if self._sources else ""
        first = f"SELECT DISTINCT {source}{found_in}" if found_in else f"SELECT {source}"
        table = hop_table(emitter, hop, seeds)
        self._expressions += [f"{seeds}(s) AS ({first})", *table.expressions]
        is_closing = self._is_bound(hop.target)
        self._sources.append(table.name)
        self._conditions.append(f"{table.name}.s = {source}")
        if is_closing:
            self._conditions.append(f"{table.name}.t = {self._scope.node(hop.target).id}")
        else:
            self._bind_node(hop.target, f"{table.name}.t")
        if hop.edge is not None and table.edge is not None:
            self._scope.own[hop.edge] = table.edge

    def _stage(self, source: str) -> str:
        """Make a common table expression of what is bound here; return the identifier of a node in it."""
        if not self._sources:
            return self._scope.node(source).id  # everything that is bound comes from the blocks around
        self._apply_conditions()
        stage = self._emitter.name("stage")
        columns: list[str] = []
        values: list[str] = []
        own: dict[str, NodeSource | EdgeSource] = {}
        rejoined: list[tuple[str, str, str]] = []

        def keep(value: str) -> str:
            columns.append(f"c{len(columns)}")
            values.append(value)
            return f"{stage}.{columns[-1]}"

        for name, bound in self._scope.own.items():
            if isinstance(bound, EdgeSource):
                kept = {column: keep(value) for column, value in bound.columns.items()}
                own[name] = EdgeSource(keep(bound.id), keep(bound.src), keep(bound.dst), keep(bound.type), kept)
                continue
            identifier, alias = keep(bound.id), None
            if bound.alias is not None and name in self._emitter.needed:
                alias = self._emitter.name("n")
                rejoined.append((f"{bound.table.name} AS {alias}", f"{alias}.rid", keep(f"{bound.alias}.rid")))
            own[name] = NodeSource(identifier, bound.table, bound.type_name, alias)
        body = Joined((), tuple(self._sources), tuple(self._conditions), self._scope, (), False).select(
            ("DISTINCT " if self._repeats else "") + ", ".join(values)
        )
        self._expressions.append(f"{stage}({', '.join(columns)}) AS MATERIALIZED ({body})")
        self._sources = [stage, *(table for table, _, _ in rejoined)]
        self._conditions = [f"{rid} = {value}" for _, rid, value in rejoined]
        self._scope.own.update(own)
        self._repeats = False
        return self._scope.node(source).id

    def _apply_conditions(self) -> None:
        """Write the conditions whose variables are all bound."""
        ready = [each for each in self._pending if all(map(self._is_bound, free_variables(each)))]
        written = set(map(id, ready))
        self._pending = [each for each in self._pending if id(each) not in written]
        self._conditions += [compile_condition(self._emitter, each, self._scope, compile_block) for each in ready]


def _reversed(hop: Hop) -> Hop:
    """A hop from its other end. The shortest distance is the same."""
    turned = {Direction.OUT: Direction.IN, Direction.IN: Direction.OUT, Direction.BOTH: Direction.BOTH}
    edges = tuple(HopEdge(each.type, turned[each.direction]) for each in hop.edges)
    return replace(hop, source=hop.target, target=hop.source, edges=edges)


def _is_simple(edge: EdgeType) -> bool:
    """Whether two nodes have at most one edge of the type."""
    return any(isinstance(each, Unique) and set(each.properties) <= {"src", "dst"} for each in edge.constraints)
