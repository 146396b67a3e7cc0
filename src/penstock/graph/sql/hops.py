"""Hops that are no plain join: several steps, or several edge types.

Both are a common table expression over the identifiers that the pattern has found so far (`seeds`). For several steps
it is a breadth-first search: it notes with how many steps each node is reached, and the smallest number counts. For one
step it has the pairs of nodes, with the edge if there is a variable for it.

Above it: `patterns`. Below it: `emitting`.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.graph.schema.model import EdgeType
from penstock.graph.sql.emitting import EdgeSource, Emitter
from penstock.graph.sql.layout import Table
from penstock.graph.typing.patterns import Direction, Hop

__all__ = ["HopTable", "edge_between", "edge_columns", "hop_table", "is_plain"]


@dataclass(frozen=True, slots=True)
class HopTable:
    """Common table expressions, and the one with the pairs: `s` and `t`, and the edge if the hop names it."""

    expressions: tuple[str, ...]
    name: str
    edge: EdgeSource | None


def is_plain(hop: Hop) -> bool:
    """Whether a hop can be a join with one table."""
    return len(hop.edges) == 1 and hop.maximum == 1


def edge_columns(types: tuple[EdgeType, ...]) -> tuple[str, ...]:
    """The properties that all of some edge types have."""
    first, *others = types
    return tuple(each.name for each in first.properties if all(each.name in other.by_name for other in others))


def _ends(direction: Direction) -> tuple[tuple[str, str], ...]:
    match direction:
        case Direction.OUT:
            return (("src", "dst"),)
        case Direction.IN:
            return (("dst", "src"),)
        case Direction.BOTH:
            return ("src", "dst"), ("dst", "src")


def edge_between(alias: str, direction: Direction, source: str, target: str | None) -> tuple[str, str]:
    """The condition that an edge leads from a node (to another one), and the expression for its other end."""
    ways = []
    for near, far in _ends(direction):
        both = f"{alias}.{near} = {source}"
        ways.append(both if target is None else f"{both} AND {alias}.{far} = {target}")
    if len(ways) == 1:
        return ways[0], f"{alias}.{_ends(direction)[0][1]}"
    other = f"CASE WHEN {alias}.src = {source} THEN {alias}.dst ELSE {alias}.src END"
    return f"({' OR '.join(f'({way})' for way in ways)})", other


def hop_table(emitter: Emitter, hop: Hop, seeds: str) -> HopTable:
    """The pairs of nodes that a hop connects, from the identifiers in a table `seeds(s)`."""
    if hop.maximum == 1:
        return _one_step(emitter, hop, seeds)
    return _several_steps(emitter, hop, seeds)


def _one_step(emitter: Emitter, hop: Hop, seeds: str) -> HopTable:
    types = tuple(each.type for each in hop.edges)
    names = edge_columns(types) if types and hop.edge is not None else ()
    selects = []
    for each in hop.edges:
        table = emitter.layout.tables[each.type.name]
        for near, far in _ends(each.direction):
            columns = [f"{seeds}.s", f"e.{far}"]
            if hop.edge is not None:
                columns += ["e.id", "e.src", "e.dst", emitter.constant(each.type.name)]
                columns += [f"e.{table.columns[name]}" for name in names]
            selects.append(_step(emitter, seeds, "s", table, near, columns))
    name = emitter.name("pairs")
    extra = ["eid", "esrc", "edst", "etype", *(f"x{number}" for number in range(len(names)))] if hop.edge else []
    if not selects:  # a wildcard that selects nothing
        selects = [f"SELECT {', '.join(['NULL'] * (2 + len(extra)))} FROM {seeds} WHERE 1 = 0"]
    expression = f"{name}({', '.join(['s', 't', *extra])}) AS ({' UNION '.join(selects)})"
    if hop.edge is None:
        return HopTable((expression,), name, None)
    properties = {column: f"{name}.x{number}" for number, column in enumerate(names)}
    edge = EdgeSource(f"{name}.eid", f"{name}.esrc", f"{name}.edst", f"{name}.etype", properties)
    return HopTable((expression,), name, edge)


def _step(emitter: Emitter, start: str, column: str, table: Table, near: str, columns: list[str]) -> str:
    visible = emitter.visible("e", table)
    joined = f"{start} CROSS JOIN {table.name} AS e"
    return f"SELECT {', '.join(columns)} FROM {joined} WHERE e.{near} = {start}.{column} AND {visible}"


def _several_steps(emitter: Emitter, hop: Hop, seeds: str) -> HopTable:
    walk, name = emitter.name("walk"), emitter.name("pairs")
    steps = []
    for each in hop.edges:
        table = emitter.layout.tables[each.type.name]
        for near, far in _ends(each.direction):
            steps.append((table, near, far))
    walked = _walk(emitter, hop, seeds, walk, steps)
    own = " OR ".join(
        f"EXISTS (SELECT 1 FROM {table.name} AS e WHERE e.src = {seeds}.s AND e.dst = {seeds}.s"
        f" AND {emitter.visible('e', table)})"
        for table in {table.name: table for table, _, _ in steps}.values()
    )
    reached = f"SELECT s, t FROM {walk} WHERE t <> s GROUP BY s, t HAVING min(d) >= {int(hop.minimum)}"
    if hop.minimum <= 1 and own:
        reached += f" UNION ALL SELECT s, s FROM {seeds} WHERE {own}"
    return HopTable((walked, f"{name}(s, t) AS ({reached})"), name, None)


def _walk(emitter: Emitter, hop: Hop, seeds: str, walk: str, steps: list[tuple[Table, str, str]]) -> str:
    bound = f"{walk}.d < {int(hop.maximum)}"
    start = f"SELECT s, s, 0 FROM {seeds}"
    if not steps:
        return f"{walk}(s, t, d) AS ({start})"
    if emitter.dialect.name == "sqlite" or len(steps) == 1:
        selects = [
            _step(emitter, walk, "t", table, near, [f"{walk}.s", f"e.{far}", f"{walk}.d + 1"])
            + f" AND {bound} AND e.{far} <> {walk}.s"
            for table, near, far in steps
        ]
        return f"{walk}(s, t, d) AS ({start} UNION {' UNION '.join(selects)})"
    # PostgreSQL takes one recursive part only.
    ways = " UNION ALL ".join(
        f"SELECT e.{far} AS t FROM {table.name} AS e WHERE e.{near} = {walk}.t AND {emitter.visible('e', table)}"
        for table, near, far in steps
    )
    joined = f"{walk} CROSS JOIN LATERAL ({ways}) AS way"
    step = f"SELECT {walk}.s, way.t, {walk}.d + 1 FROM {joined} WHERE {bound} AND way.t <> {walk}.s"
    return f"{walk}(s, t, d) AS ({start} UNION {step})"
