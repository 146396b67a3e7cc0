"""From declarations to a schema: names are resolved, interfaces copied, constraints collected, and rules checked.

| Code | Meaning |
| --- | --- |
| `DUPLICATE_TYPE` | two types with one name, or with names that differ only in case |
| `UNKNOWN_TYPE` | an edge or `implements` names a type that is not declared |
| `DUPLICATE_PROPERTY` | two properties with one name, or with names that differ only in case |
| `RESERVED_NAME` | a property has a name that the store or the query language uses |
| `UNKNOWN_PROPERTY` | a constraint or `@embed` names a property that the type does not have |
| `INTERFACE_CONFLICT` | a type declares a property otherwise than its interface |
| `KEY_COUNT`, `KEY_TYPE` | a node type has two keys; a key is nullable, a list, a Vector or a Blob |
| `CONSTRAINT_PLACE` | a constraint where it cannot stand: a key on an edge type, a body constraint in an interface |
| `CONSTRAINT_TYPE` | a property cannot have this constraint because of its type |
| `RANGE_BOUNDS`, `CARDINALITY`, `CHECK_PATTERN` | bounds that allow nothing; a regular expression that is not valid |
| `LIST_TYPE`, `ENUM_VALUES`, `EMBED_TYPE`, `RENAME_FROM` | a type or an annotation that is not allowed |
| `ANNOTATION_NAME` | a warning: an unknown annotation that resembles a known one |

Above it: `read`. Below it: `tree`, `model`, and the checks of one type in `members`. It parses nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from penstock.definitions.source.findings import Finding, Position
from penstock.graph.schema.members import TypeChecks
from penstock.graph.schema.model import Cardinality, EdgeType, Interface, NodeType, Property, Schema
from penstock.graph.schema.tree import (
    Declaration,
    EdgeDeclaration,
    InterfaceDeclaration,
    Name,
    NodeDeclaration,
)
from penstock.graph.schema.types import written_type

__all__ = ["ResolvedSchema", "resolve"]


@dataclass(frozen=True, slots=True)
class ResolvedSchema:
    """A schema, complete only if no finding is an error."""

    schema: Schema
    findings: tuple[Finding, ...]


def resolve(declarations: Sequence[Declaration]) -> ResolvedSchema:
    """Check declarations and make a schema of them. With errors, it has what could be resolved."""
    resolver = _Resolver()
    resolver.collect(declarations)
    interfaces = tuple(map(resolver.interface, resolver.interfaces.values()))
    shared = {each.name: each for each in interfaces}
    nodes = tuple(resolver.node(each, shared) for each in resolver.nodes.values())
    edges = tuple(map(resolver.edge, resolver.edges.values()))
    return ResolvedSchema(Schema(nodes=nodes, edges=edges, interfaces=interfaces), tuple(resolver.checks.findings))


@dataclass(slots=True)
class _Resolver:
    checks: TypeChecks = field(default_factory=TypeChecks)
    interfaces: dict[str, InterfaceDeclaration] = field(default_factory=dict)
    nodes: dict[str, NodeDeclaration] = field(default_factory=dict)
    edges: dict[str, EdgeDeclaration] = field(default_factory=dict)

    def collect(self, declarations: Iterable[Declaration]) -> None:
        """Sort declarations by kind; of two with one name, the first counts."""
        seen: dict[str, Declaration] = {}
        for each in declarations:
            other = seen.setdefault(each.name.lower(), each)
            if other is not each:
                self._report_twin(each, other)
                continue
            match each:
                case InterfaceDeclaration():
                    self.interfaces[each.name] = each
                case NodeDeclaration():
                    self.nodes[each.name] = each
                case EdgeDeclaration():
                    self.edges[each.name] = each

    def _report_twin(self, each: Declaration, other: Declaration) -> None:
        line = f" in line {other.position.line}" if other.position else ""
        message = f"`{each.name}` is declared already{line}"
        if other.name != each.name:
            message = f"`{each.name}` differs from `{other.name}`{line} only in case"
        self.checks.report("DUPLICATE_TYPE", message, each.position, "types of a schema have different names")

    def interface(self, declaration: InterfaceDeclaration) -> Interface:
        """Resolve an interface."""
        properties = self.checks.properties(declaration.name, declaration.members)
        for constraint in self.checks.body_constraints(declaration.members):
            message = "an interface has no constraints of its own"
            hint = "write `@key`, `@unique` or `@index` behind a property, or the constraint in the node types"
            self.checks.report("CONSTRAINT_PLACE", message, constraint.position, hint)
        return Interface(name=declaration.name, properties=properties, position=declaration.position)

    def node(self, declaration: NodeDeclaration, interfaces: dict[str, Interface]) -> NodeType:
        """Resolve a node type, with the properties of its interfaces first."""
        own = self.checks.properties(declaration.name, declaration.members)
        implemented = [interfaces[name.text] for name in declaration.implements if self._known(name, interfaces)]
        properties = self._merged(declaration, implemented, own)
        self.checks.annotations(declaration.annotations, declaration.position)
        return NodeType(
            name=declaration.name,
            properties=properties,
            constraints=self.checks.node_constraints(declaration, properties),
            implements=tuple(each.name for each in implemented),
            annotations=declaration.annotations,
            position=declaration.position,
        )

    def _merged(
        self, declaration: NodeDeclaration, interfaces: Iterable[Interface], own: tuple[Property, ...]
    ) -> tuple[Property, ...]:
        merged: dict[str, Property] = {}
        for interface in interfaces:
            for each in interface.properties:
                other = merged.setdefault(each.name, each)
                self._agree(each, other, f"`{interface.name}` and another interface", declaration.position)
        for each in own:
            shared = merged.get(each.name)
            if shared is not None:
                self._agree(each, shared, "its interface", each.position)
            merged[each.name] = each if shared is None else _with_annotations_of(each, shared)
        return tuple(merged.values())

    def _agree(self, each: Property, other: Property, whose: str, position: Position | None) -> None:
        if (each.type, each.nullable) != (other.type, other.nullable):
            mine = written_type(each.type, nullable=each.nullable)
            theirs = written_type(other.type, nullable=other.nullable)
            message = f"`{each.name}` is {mine} here and {theirs} in {whose}"
            self.checks.report("INTERFACE_CONFLICT", message, position, "types and `?` have to agree")

    def edge(self, declaration: EdgeDeclaration) -> EdgeType:
        """Resolve an edge type."""
        for end in (declaration.source, declaration.target):
            if end.text in self.interfaces:
                message = f"`{end.text}` is an interface; edges connect node types"
                self.checks.report("UNKNOWN_TYPE", message, end.position, "declare an edge type for each node type")
            else:
                self._known(end, self.nodes)
        properties = self.checks.properties(declaration.name, declaration.members, edge=True)
        self.checks.annotations(declaration.annotations, declaration.position)
        cardinality = declaration.cardinality or Cardinality()
        if cardinality.maximum is not None and cardinality.maximum < max(1, cardinality.minimum):
            message = f"no number of edges is between {cardinality.minimum} and {cardinality.maximum}"
            self.checks.report("CARDINALITY", message, declaration.position, "write `@card(0..1)` or `@card(1..)`")
        return EdgeType(
            name=declaration.name,
            source=declaration.source.text,
            target=declaration.target.text,
            properties=properties,
            cardinality=cardinality,
            constraints=self.checks.edge_constraints(declaration, properties),
            annotations=declaration.annotations,
            position=declaration.position,
        )

    def _known(self, name: Name, types: dict[str, Interface] | dict[str, NodeDeclaration]) -> bool:
        known = name.text in types
        if not known:
            hint = self.checks.suggestions.hint(name.text, types)
            self.checks.report("UNKNOWN_TYPE", f"`{name.text}` is not declared", name.position, hint)
        return known


def _with_annotations_of(own: Property, shared: Property) -> Property:
    """Return a property that repeats one of an interface, with the annotations of both."""
    names = {each.name for each in own.annotations}
    more = tuple(each for each in shared.annotations if each.name not in names)
    return Property(
        name=own.name,
        type=own.type,
        nullable=own.nullable,
        annotations=own.annotations + more,
        position=own.position,
    )
