"""What the checks of one query share: the schema, the parameters, the scopes of variables, and the findings.

Above it: the other modules of the package. Below it: `model`, `patterns`. It checks only names.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from penstock.definitions.source.findings import Finding, NameSuggestions, Position, Severity
from penstock.graph.query.tree import Parameter
from penstock.graph.schema.model import EdgeType, Enum, NodeType, Schema
from penstock.graph.typing.patterns import EdgeVariable, NodeVariable, ParameterValue

__all__ = ["ANONYMOUS", "QueryContext", "Scope"]

ANONYMOUS = "_"


@dataclass(slots=True)
class Scope:
    """The variables of a block, and those of the blocks around it."""

    parent: Scope | None = None
    nodes: dict[str, NodeVariable] = field(default_factory=dict)
    edges: dict[str, EdgeVariable] = field(default_factory=dict)
    outer: dict[str, None] = field(default_factory=dict)
    """Variables of the blocks around it that it refers to, in order."""
    broken: set[str] = field(default_factory=set)
    """Variables whose type could not be found, for a reason that has been reported."""

    def find(self, name: str) -> NodeVariable | EdgeVariable | None:
        """Find a variable here or outside, and remember that it is used."""
        here = self.nodes.get(name) or self.edges.get(name)
        if here is not None or self.parent is None:
            return here
        found = self.parent.find(name)
        if found is not None:
            self.outer.setdefault(name)
        return found

    def is_broken(self, name: str) -> bool:
        """Whether it has been reported already what is wrong with a variable."""
        return name in self.broken or (self.parent is not None and self.parent.is_broken(name))

    def names(self) -> tuple[str, ...]:
        """All names that can be used here."""
        outer = () if self.parent is None else self.parent.names()
        return (*self.nodes, *self.edges, *outer)


@dataclass(slots=True)
class QueryContext:
    """The state of the checks of one query."""

    schema: Schema
    parameters: Mapping[str, Parameter]
    findings: list[Finding] = field(default_factory=list)
    suggestions: NameSuggestions = field(default_factory=NameSuggestions)
    reads: set[str] = field(default_factory=set)
    writes: set[str] = field(default_factory=set)
    enum_uses: dict[str, set[tuple[str, ...] | None]] = field(default_factory=dict)
    """For each parameter that is used, the values of the enums that it is used with; None for anything else."""
    _anonymous: int = 0

    def report(self, code: str, message: str, position: Position | None, hint: str | None = None) -> None:
        """Report an error."""
        self.findings.append(Finding(code=code, message=message, position=position, hint=hint))

    def warn(self, code: str, message: str, position: Position | None, hint: str | None = None) -> None:
        """Report something that works but is probably not meant."""
        finding = Finding(code=code, message=message, position=position, hint=hint, severity=Severity.WARNING)
        self.findings.append(finding)

    def new_anonymous(self) -> str:
        """Return the name of one more anonymous node."""
        self._anonymous += 1
        return f"_#{self._anonymous}"

    # Names of the schema

    def node_type(self, name: str, position: Position | None) -> NodeType | None:
        """Find a node type."""
        found = self.schema.node_types.get(name)
        if found is not None:
            self.reads.add(name)
            return found
        hint = self.suggestions.hint(name, self.schema.node_types)
        if name in self.schema.edge_types:
            hint = f"it is an edge type: `$a {self.schema.edge_types[name].query_name} $b`"
        self.report("T1", f"there is no node type `{name}`", position, hint)
        return None

    def edge_type(self, name: str, position: Position | None) -> EdgeType | None:
        """Find an edge type by its name in a query."""
        found = self.schema.edge_in_query(name)
        if found is None:
            hint = self.suggestions.hint(name, [each.query_name for each in self.schema.edges])
            self.report("T4", f"there is no edge type `{name}`", position, hint)
            return None
        self.read_edge(found)
        return found

    def read_edge(self, edge: EdgeType) -> None:
        """Remember that edges of a type, and their ends, are looked at."""
        self.reads.update((edge.name, edge.source, edge.target))

    def unknown_property(self, name: str, owner: str, known: Collection[str], position: Position | None) -> None:
        """Report a property that a type does not have."""
        self.report("T2", f"`{owner}` has no property `{name}`", position, self.suggestions.hint(name, known))

    # Parameters

    def parameter(self, name: str) -> ParameterValue | None:
        """Find a parameter."""
        found = self.parameters.get(name)
        return None if found is None else ParameterValue(found.name, found.type, found.nullable)

    def used(self, name: str, with_types: Iterable[object]) -> None:
        """Remember with what a parameter is used: the types of the other sides."""
        uses = self.enum_uses.setdefault(name, set())
        for each in with_types:
            uses.add(each.values if isinstance(each, Enum) else None)

    def unbound(self, name: str, scope: Scope, position: Position | None) -> None:
        """Report a variable that is neither bound nor a parameter."""
        if scope.is_broken(name):
            return
        if name == ANONYMOUS:
            self.report("T6", "`$_` has no name and cannot be used", position, "give the node a name: `$x`")
            return
        known = [f"${each}" for each in (*scope.names(), *self.parameters) if "#" not in each]
        hint = self.suggestions.hint(f"${name}", known) or f"bind it: `${name}: Type`"
        self.report("T6", f"`${name}` is neither bound nor a parameter", position, hint)

    def no_parameter(self, name: str, position: Position | None) -> None:
        """Report a variable of a mutation that is not a parameter."""
        hint = self.suggestions.hint(f"${name}", [f"${each}" for each in self.parameters])
        self.report(
            "T14", f"`${name}` is not a parameter of the query", position, hint or f"declare it: `(${name}: Type)`"
        )
