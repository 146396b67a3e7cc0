"""Hops that need more than a plain join: several steps, several edge types, or edges in both directions.

All are a common table expression over the identifiers that the pattern has found so far (`seeds`). For several steps
it is a breadth-first search: it notes with how many steps each node is reached, and the smallest number counts. For one
step it has the pairs of nodes, with the edge if there is a variable for it.

Above it: `patterns`. Below it: `emitting`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from penstock.graph.schema.model import EdgeType
from penstock.graph.sql.emitting import EdgeJoin, EdgeSource, Emitter
from penstock.graph.sql.layout import Table
from penstock.graph.typing.patterns import Direction, Hop

__all__ = ["HopTable", "edge_columns", "edge_exists", "hop_table", "is_plain", "is_single", "join_edges"]


@dataclass(frozen=True, slots=True)
class HopTable:
    """Common table expressions, and the one with the pairs: `s` and `t`, and the edge if the hop names it."""

    expressions: tuple[str, ...]
    name: str
    edge: EdgeSource | None


def is_single(hop: Hop) -> bool:
    """Whether a hop is one step over edges of one type."""
    return len(hop.edges) == 1 and hop.maximum == 1


def is_plain(hop: Hop) -> bool:
    """Whether a hop can be a join: it is one step, and its edges are found by one of their ends."""
    return is_single(hop) and hop.edges[0].direction is not Direction.BOTH


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


def join_edges(
    emitter: Emitter, table: Table, alias: str, direction: Direction, ends: tuple[str, str | None], *, whole: bool
) -> tuple[EdgeJoin, str]:
    """The edges that lead from a node (to another one) in one direction, and the expression for their other end."""
    ((near, far),) = _ends(direction)
    source, target = ends
    join = emitter.edges(alias, table, near, whole=whole)
    condition = (
        f"{alias}.{near} = {source}" if target is None else f"{alias}.{near} = {source} AND {alias}.{far} = {target}"
    )
    return replace(join, condition=f"{condition} AND {join.condition}"), f"{alias}.{far}"


def edge_exists(emitter: Emitter, table: Table, direction: Direction, ends: tuple[str, str]) -> str:
    """The condition that an edge leads from a node to another one."""
    alias = emitter.name("e")
    ways = (Direction.OUT, Direction.IN) if direction is Direction.BOTH else (direction,)
    found = []
    for way in ways:
        join, _ = join_edges(emitter, table, alias, way, ends, whole=False)
        found.append(f"EXISTS (SELECT 1 FROM {' CROSS JOIN '.join(join.sources)} WHERE {join.condition})")
    return found[0] if len(found) == 1 else f"({' OR '.join(found)})"


def _ends_of(emitter: Emitter, table: Table, near: str) -> EdgeJoin:
    return emitter.edges("e", table, near, whole=False)


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
            edges = emitter.edges("e", table, near, whole=hop.edge is not None)
            columns = [f"{seeds}.s", f"e.{far}"]
            if hop.edge is not None:
                columns += [f"{edges.row}.id", "e.src", "e.dst", emitter.constant(each.type.name)]
                columns += [f"{edges.row}.{table.columns[name]}" for name in names]
            selects.append(_step(edges, seeds, "s", near, columns))
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


def _step(edges: EdgeJoin, start: str, column: str, near: str, columns: list[str]) -> str:
    joined = " CROSS JOIN ".join((start, *edges.sources))
    return f"SELECT {', '.join(columns)} FROM {joined} WHERE e.{near} = {start}.{column} AND {edges.condition}"


def _several_steps(emitter: Emitter, hop: Hop, seeds: str) -> HopTable:
    walk, name = emitter.name("walk"), emitter.name("pairs")
    steps = []
    for each in hop.edges:
        table = emitter.layout.tables[each.type.name]
        for near, far in _ends(each.direction):
            steps.append((table, near, far))
    walked = _walk(emitter, hop, seeds, walk, steps)
    own = " OR ".join(
        edge_exists(emitter, table, Direction.OUT, (f"{seeds}.s", f"{seeds}.s"))
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
            _step(_ends_of(emitter, table, near), walk, "t", near, [f"{walk}.s", f"e.{far}", f"{walk}.d + 1"])
            + f" AND {bound} AND e.{far} <> {walk}.s"
            for table, near, far in steps
        ]
        return f"{walk}(s, t, d) AS ({start} UNION {' UNION '.join(selects)})"
    # PostgreSQL takes one recursive part only.
    ways = " UNION ALL ".join(
        f"SELECT e.{far} AS t FROM {' CROSS JOIN '.join(edges.sources)} WHERE e.{near} = {walk}.t AND {edges.condition}"
        for edges, near, far in ((_ends_of(emitter, table, near), near, far) for table, near, far in steps)
    )
    joined = f"{walk} CROSS JOIN LATERAL ({ways}) AS way"
    step = f"SELECT {walk}.s, way.t, {walk}.d + 1 FROM {joined} WHERE {bound} AND way.t <> {walk}.s"
    return f"{walk}(s, t, d) AS ({start} UNION {step})"
