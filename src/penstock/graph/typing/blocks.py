"""Blocks of clauses: variables get their types, traversals their edge types and directions, conditions their meaning.

A block is read in three steps. First the types that bindings declare are collected, so that a binding may stand
behind a traversal that needs it. Then traversals are resolved, again and again as long as one of them tells the type
of a further variable. Conditions come last, when all variables are known.

Above it: `reads`. Below it: `traversals`, `conditions`, `context`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from penstock.definitions.source.findings import Position
from penstock.graph.query.tree import Binding, Clause, Field, NotBlock, Traversal
from penstock.graph.schema.model import NodeType
from penstock.graph.typing.comparisons import Comparisons
from penstock.graph.typing.conditions import Conditions
from penstock.graph.typing.context import ANONYMOUS, QueryContext, Scope
from penstock.graph.typing.operands import Operands
from penstock.graph.typing.patterns import (
    EdgeVariable,
    EntityKind,
    FieldValue,
    Hop,
    MetaValue,
    NodeVariable,
    Pattern,
    TypedCondition,
)
from penstock.graph.typing.traversals import Resolution, resolve_traversal

__all__ = ["Block", "read_block"]

_RESERVED_PREFIX = "__"


@dataclass(frozen=True, slots=True)
class Block:
    """A pattern and the scope of its variables. `complete` is False if something in it could not be resolved."""

    pattern: Pattern
    scope: Scope
    complete: bool


def read_block(context: QueryContext, clauses: Sequence[Clause], parent: Scope | None = None) -> Block:
    """Check a block and everything in it."""
    reader = _Reader(context, Scope(parent))
    errors = len(context.findings)
    reader.variables(clauses)
    hops = reader.hops(clauses)
    conditions = reader.conditions(clauses)
    scope = reader.scope
    pattern = Pattern(
        nodes=tuple(scope.nodes.values()),
        edges=tuple(scope.edges.values()),
        hops=hops,
        conditions=conditions,
        outer=tuple(scope.outer),
    )
    return Block(pattern, scope, len(context.findings) == errors)


@dataclass(slots=True)
class _Step:
    """A traversal with the names of its ends, in which anonymous nodes have names of their own."""

    traversal: Traversal
    source: str
    target: str
    resolution: Resolution | None = None


@dataclass(slots=True)
class _Reader:
    context: QueryContext
    scope: Scope
    types: dict[str, NodeType] = field(default_factory=dict)
    """The types of the variables of this block, as far as they are known."""
    steps: list[_Step] = field(default_factory=list)

    # Variables

    def variables(self, clauses: Sequence[Clause]) -> None:
        """Find the type of every variable, and declare them in order of appearance."""
        for clause in clauses:
            if isinstance(clause, Binding):
                self._declare(clause)
            elif isinstance(clause, Traversal):
                ends = (self._end(clause, clause.source), self._end(clause, clause.target))
                self.steps.append(_Step(clause, *ends))
        pending = list(self.steps)
        while pending:
            rest = [step for step in pending if not self._try(step)]
            if len(rest) == len(pending):
                break
            pending = rest
        self._appear(clauses)
        for step in pending:
            self._unanchored(step)

    def _allowed(self, name: str, position: Position | None) -> bool:
        if name.startswith(_RESERVED_PREFIX):
            self.context.report("T49", f"`${name}` is reserved", position, "names do not begin with `__`")
            return False
        if name in self.context.parameters:
            message = f"`${name}` is a parameter and cannot stand for a node or an edge"
            self.context.report("T50", message, position, "rename one of them")
            return False
        return True

    def _declare(self, binding: Binding) -> None:
        name, position = binding.variable, binding.position
        node_type = self.context.node_type(binding.type_name, position)
        if name == ANONYMOUS:
            self.context.report("T6", "`$_` cannot be bound", position, "give the node a name: `$x`")
            return
        if not self._allowed(name, position) or node_type is None:
            self.scope.broken.add(name)
            return
        known = self.types.get(name) or self._outer_type(name)
        if known is None:
            self.types[name] = node_type
        elif known != node_type:
            message = f"`${name}` is a `{known.name}` already"
            self.context.report("T50", message, position, "use another variable")

    def _outer_type(self, name: str) -> NodeType | None:
        found = self.scope.parent.find(name) if self.scope.parent is not None else None
        return found.type if isinstance(found, NodeVariable) else None

    def _end(self, traversal: Traversal, name: str) -> str:
        if name == ANONYMOUS:
            return self.context.new_anonymous()
        if name not in self.scope.broken and not self._allowed(name, traversal.position):
            self.scope.broken.add(name)
        return name

    def _known(self, name: str) -> NodeType | None:
        return self.types.get(name) or self._outer_type(name)

    def _try(self, step: _Step) -> bool:
        """Resolve a traversal if enough is known; say whether it is done with."""
        if step.source in self.scope.broken or step.target in self.scope.broken:
            self.scope.broken.update({step.source, step.target} - set(self.types))
            return True
        source, target = self._known(step.source), self._known(step.target)
        if source is None and target is None:
            return False
        if not step.traversal.edges and (source is None or target is None):
            return False
        # A variable on both sides has one type only.
        if step.source == step.target:
            source = target = source or target
        step.resolution = resolve_traversal(self.context, step.traversal, source, target)
        if step.resolution is None:
            self.scope.broken.update({step.source, step.target} - set(self.types))
            return True
        for name, node_type in ((step.source, step.resolution.source), (step.target, step.resolution.target)):
            if self._known(name) is None:
                self.types[name] = node_type
        return True

    def _unanchored(self, step: _Step) -> None:
        traversal = step.traversal
        if {step.source, step.target} & self.scope.broken:
            return
        if not traversal.edges and (self._known(step.source) or self._known(step.target)):
            message = "`*` needs the types of both nodes"
            hint = f"bind both: `${traversal.source}: Type` and `${traversal.target}: Type`"
        else:
            message = f"neither `${traversal.source}` nor `${traversal.target}` is bound"
            hint = f"bind one of them: `${traversal.source}: Type`"
        self.context.report("T6", message, traversal.position, hint)
        self.scope.broken.update((step.source, step.target))

    def _appear(self, clauses: Sequence[Clause]) -> None:
        """Declare the variables of this block in the order in which they appear."""
        steps = iter(self.steps)
        for clause in clauses:
            if isinstance(clause, Binding):
                self._add_node(clause.variable, clause.position, anonymous=False)
            elif isinstance(clause, Traversal):
                step = next(steps)
                self._add_node(step.source, clause.position, anonymous=clause.source == ANONYMOUS)
                self._add_node(step.target, clause.position, anonymous=clause.target == ANONYMOUS)

    def _add_node(self, name: str, position: Position | None, *, anonymous: bool) -> None:
        node_type = self.types.get(name)
        if node_type is not None and name not in self.scope.nodes:
            self.scope.nodes[name] = NodeVariable(name, node_type, anonymous, position=position)

    # Hops

    def hops(self, clauses: Sequence[Clause]) -> tuple[Hop, ...]:
        """Make hops of the traversals that could be resolved, and declare the variables of edges."""
        found: list[Hop] = []
        for step in self.steps:
            traversal = step.traversal
            if step.resolution is None:
                if traversal.edge_variable is not None:
                    self.scope.broken.add(traversal.edge_variable)
                continue
            for name in (step.source, step.target):
                self.scope.find(name)
            self._declare_edge(step)
            found.append(
                Hop(
                    source=step.source,
                    target=step.target,
                    edges=step.resolution.edges,
                    edge=traversal.edge_variable,
                    minimum=step.resolution.minimum,
                    maximum=step.resolution.maximum,
                    position=traversal.position,
                )
            )
        return tuple(found)

    def _declare_edge(self, step: _Step) -> None:
        name, position = step.traversal.edge_variable, step.traversal.position
        if name is None or step.resolution is None:
            return
        if name == ANONYMOUS or self.scope.find(name) is not None:
            what = "has no name" if name == ANONYMOUS else "is bound already"
            self.context.report("T23", f"`${name}` {what}", position, "give the edge a name of its own")
            return
        if not self._allowed(name, position):
            return
        types = tuple(each.type for each in step.resolution.edges)
        self.scope.edges[name] = EdgeVariable(name, types, position=position)

    # Conditions

    def conditions(self, clauses: Sequence[Clause]) -> tuple[TypedCondition, ...]:
        """Resolve the braces of bindings, and the conditions, in order."""
        found: list[TypedCondition | None] = []
        conditions = Conditions(Operands(self.context, self.scope), self._inner)
        for clause in clauses:
            match clause:
                case Binding():
                    found.extend(self._braces(clause))
                case Traversal():
                    pass
                case NotBlock():
                    found.append(conditions.not_block(clause.clauses, clause.position))
                case _:
                    found.append(conditions.condition(clause))
        return tuple(each for each in found if each is not None)

    def _braces(self, binding: Binding) -> list[TypedCondition | None]:
        if binding.variable in self.scope.broken or self.scope.find(binding.variable) is None:
            return []
        operands = Operands(self.context, self.scope)
        found: list[TypedCondition | None] = []
        seen: set[str] = set()
        for name, value in binding.values:
            if name in seen:
                self.context.report("T13", f"`{name}` is here twice", value.position, "remove one")
            seen.add(name)
            subject = operands.field(Field(binding.variable, name, position=value.position or binding.position))
            operand = operands.operand(value)
            if subject is not None and operand is not None:
                position = value.position or binding.position
                found.append(Comparisons(self.context, in_braces=True).equal_or_member(subject, operand, position))
        return found

    def _inner(
        self, clauses: tuple[Clause, ...], argument: Field | None, position: Position | None, code: str
    ) -> tuple[Pattern, FieldValue | None] | None:
        """Read a block inside a condition."""
        block = read_block(self.context, clauses, self.scope)
        field_value: FieldValue | MetaValue | None = None
        if argument is not None:
            field_value = Operands(self.context, block.scope).field(argument)
        if not block.complete or (argument is not None and field_value is None):
            return None
        if not block.scope.outer:
            hint = "use a variable of the block around it: `not { $x edge $_ }`"
            self.context.report(code, "the block refers to no variable outside it", position, hint)
            return None
        if isinstance(field_value, MetaValue):
            self.context.report("T40", f"`{field_value.field}` is not a number", position, "choose a number")
            return None
        if field_value is not None and field_value.kind is EntityKind.NODE:
            self.context.reads.update(field_value.owners)
        # The argument may be the first to refer to a variable outside.
        return replace(block.pattern, outer=tuple(block.scope.outer)), field_value
