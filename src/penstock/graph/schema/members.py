"""Checks of the members of one type: properties, annotations and constraints.

Above it: `resolve`, which lists the codes. Below it: `tree` and `model`. It knows only one type at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from penstock.base import limits
from penstock.definitions.source.findings import Finding, NameSuggestions, Position, Severity, nearest
from penstock.graph.schema.model import (
    Annotation,
    Base,
    Check,
    Constraint,
    Enum,
    Index,
    Key,
    ListOf,
    Property,
    Range,
    Scalar,
    Unique,
    ValueType,
    Vector,
)
from penstock.graph.schema.regular import compile_pattern
from penstock.graph.schema.tree import (
    ConstraintDeclaration,
    EdgeDeclaration,
    Member,
    NodeDeclaration,
    PropertyDeclaration,
)
from penstock.graph.schema.types import written_type

__all__ = ["ANNOTATIONS", "EDGE_ENDS", "RESERVED", "TypeChecks"]

ANNOTATIONS = ("key", "unique", "index", "search", "embed", "rename_from", "description", "instruction", "card")
RESERVED = frozenset({"_rowid", "_rowaddr", "_rowoffset", "_row_created_at_version", "_row_last_updated_at_version"})
EDGE_ENDS = ("src", "dst")
_EDGE_RESERVED = frozenset({"src", "dst", "from", "to"})
_NUMBERS = frozenset({Base.I32, Base.I64, Base.U32, Base.U64, Base.F32, Base.F64})
_SHORTHANDS: Mapping[str, Callable[[tuple[str, ...]], Constraint]] = {"key": Key, "unique": Unique, "index": Index}


def _comparable(value_type: ValueType) -> bool:
    return isinstance(value_type, Enum) or (isinstance(value_type, Scalar) and value_type.base is not Base.BLOB)


@dataclass(slots=True)
class TypeChecks:
    """Checks, with what they found."""

    findings: list[Finding] = field(default_factory=list)
    suggestions: NameSuggestions = field(default_factory=NameSuggestions)

    def report(self, code: str, message: str, position: Position | None, hint: str | None = None) -> None:
        """Report an error."""
        self.findings.append(Finding(code=code, message=message, position=position, hint=hint))

    # Properties

    @staticmethod
    def body_constraints(members: Iterable[Member]) -> tuple[ConstraintDeclaration, ...]:
        """Return the constraints that stand in a body."""
        return tuple(each for each in members if isinstance(each, ConstraintDeclaration))

    def properties(self, owner: str, members: Iterable[Member], *, edge: bool = False) -> tuple[Property, ...]:
        """Check the properties of a body; of two with one name, the first counts."""
        found: dict[str, Property] = {}
        for each in members:
            if not isinstance(each, PropertyDeclaration):
                continue
            twin = found.get(each.name.lower())
            if twin is not None:
                how = "declared already" if twin.name == each.name else f"only in case different from `{twin.name}`"
                message = f"`{each.name}` of `{owner}` is {how}"
                self.report("DUPLICATE_PROPERTY", message, each.position, "remove or rename one")
                continue
            found[each.name.lower()] = self._property(each, edge=edge)
        return tuple(found.values())

    def _property(self, declared: PropertyDeclaration, *, edge: bool) -> Property:
        if declared.name in RESERVED or (edge and declared.name in _EDGE_RESERVED):
            where = "an edge type" if edge else "a type"
            message = f"no property of {where} is called `{declared.name}`"
            self.report("RESERVED_NAME", message, declared.position, "choose another name")
        value_type = declared.type
        if isinstance(value_type, ListOf) and value_type.base is Base.BLOB:
            self.report("LIST_TYPE", "there are no lists of Blobs", declared.position, "make each Blob a node")
        if isinstance(value_type, Enum):
            value_type = self._enum(value_type, declared.position)
        self.annotations(declared.annotations, declared.position)
        return Property(
            name=declared.name,
            type=value_type,
            nullable=declared.nullable,
            annotations=declared.annotations,
            position=declared.position,
        )

    def _enum(self, written: Enum, position: Position | None) -> Enum:
        distinct = sorted(set(written.values))
        if len(distinct) != len(written.values):
            twice = next(value for value in distinct if written.values.count(value) > 1)
            self.report("ENUM_VALUES", f"`{twice}` is in the enum twice", position, "remove one")
        return Enum(tuple(distinct))

    def annotations(self, annotations: Iterable[Annotation], position: Position | None) -> None:
        """Check annotations; unknown ones are kept."""
        for each in annotations:
            if each.name == "rename_from" and not (isinstance(each.value, str) and each.value):
                message = "`@rename_from` needs the old name"
                self.report("RENAME_FROM", message, position, 'write `@rename_from("old_name")`')
            guess = None if each.name in ANNOTATIONS else nearest(each.name, ANNOTATIONS)
            if guess is not None:
                self.findings.append(
                    Finding(
                        code="ANNOTATION_NAME",
                        message=f"`@{each.name}` is unknown and has no effect",
                        hint=f"did you mean `@{guess}`?",
                        position=position,
                        severity=Severity.WARNING,
                    )
                )

    # Constraints

    def node_constraints(self, declaration: NodeDeclaration, properties: Sequence[Property]) -> tuple[Constraint, ...]:
        """Collect and check the constraints of a node type, and its `@embed` annotations."""
        found = self._collected(declaration.members, properties)
        by_name = {each.name: each for each in properties}
        keys = [(each, position) for each, position in found if isinstance(each, Key)]
        for _, position in keys[1:]:
            message = f"`{declaration.name}` has more than one key"
            hint = "a key of several properties is written `@key(a, b)` in the body"
            self.report("KEY_COUNT", message, position or declaration.position, hint)
        for constraint, position in found:
            self._constraint(constraint, by_name, position or declaration.position, ends=())
        self._searches(properties)
        self._embeddings(properties, by_name)
        extra = {id(each) for each, _ in keys[1:]}
        return tuple(dict.fromkeys(each for each, _ in found if id(each) not in extra))

    def edge_constraints(self, declaration: EdgeDeclaration, properties: Sequence[Property]) -> tuple[Constraint, ...]:
        """Collect and check the constraints of an edge type."""
        by_name = {each.name: each for each in properties}
        kept: list[Constraint] = []
        for constraint, position in self._collected(declaration.members, properties):
            if not isinstance(constraint, Unique | Index):
                message = f"`@{type(constraint).__name__.lower()}` is for node types"
                hint = "edge types have `@unique` and `@index`; `@unique(src, dst)` allows one edge per pair"
                self.report("CONSTRAINT_PLACE", message, position or declaration.position, hint)
                continue
            self._constraint(constraint, by_name, position or declaration.position, ends=EDGE_ENDS)
            kept.append(constraint)
        for prop in filter(_is_searched, properties):
            hint = "make it a node type, or remove `@search`: edges are searched without an index"
            self.report("CONSTRAINT_PLACE", "`@search` is for node types", prop.position, hint)
        self._embeddings(properties, by_name)
        return tuple(dict.fromkeys(kept))

    def _collected(
        self, members: Iterable[Member], properties: Iterable[Property]
    ) -> list[tuple[Constraint, Position | None]]:
        """Collect the constraints behind properties (also those of interfaces), then those of the body."""
        found: list[tuple[Constraint, Position | None]] = []
        for prop in properties:
            for each in prop.annotations:
                if each.name in _SHORTHANDS:
                    found.append((_SHORTHANDS[each.name]((prop.name,)), prop.position))
        found.extend((each.constraint, each.position) for each in self.body_constraints(members))
        return found

    def _constraint(
        self, constraint: Constraint, by_name: Mapping[str, Property], position: Position | None, ends: tuple[str, ...]
    ) -> None:
        names = constraint.properties if isinstance(constraint, Key | Unique | Index) else (constraint.property,)
        if len(set(names)) != len(names):
            self.report("DUPLICATE_PROPERTY", "the constraint names a property twice", position, "remove one")
        for name in names:
            prop = by_name.get(name)
            if prop is not None:
                self._constrained(constraint, prop, position)
            elif name not in ends:
                hint = self.suggestions.hint(name, (*by_name, *ends))
                self.report("UNKNOWN_PROPERTY", f"there is no property `{name}`", position, hint)

    def _constrained(self, constraint: Constraint, prop: Property, position: Position | None) -> None:
        shown = f"`{prop.name}` is {written_type(prop.type, nullable=prop.nullable)}"
        base = prop.type.base if isinstance(prop.type, Scalar) else None
        match constraint:
            case Key() if prop.nullable or not _comparable(prop.type):
                hint = "a key is never null, a list, a Vector or a Blob"
                self.report("KEY_TYPE", f"{shown} and cannot be part of the key", position, hint)
            case Unique() if not _comparable(prop.type):
                self.report("CONSTRAINT_TYPE", f"{shown} and cannot be unique", position, "use a single value")
            case Index() if base is Base.BLOB:
                self.report("CONSTRAINT_TYPE", f"{shown} and cannot be indexed", position, "remove `@index`")
            case Range():
                if base not in _NUMBERS:
                    self.report("CONSTRAINT_TYPE", f"{shown}; ranges are for numbers", position, "use `@check`")
                if None not in (constraint.minimum, constraint.maximum) and _empty(constraint):
                    self.report("RANGE_BOUNDS", "no number is in the range", position, "the smaller bound is first")
            case Check():
                if base is not Base.STRING:
                    self.report("CONSTRAINT_TYPE", f"{shown}; `@check` is for String", position, "use `@range`")
                self._pattern(constraint.pattern, position)
            case _:
                pass

    def _pattern(self, pattern: str, position: Position | None) -> None:
        if len(pattern) > limits.GRAPH_PATTERN_CHARACTERS_MAX:
            message = f"a regular expression has at most {limits.GRAPH_PATTERN_CHARACTERS_MAX} characters"
            self.report("CHECK_PATTERN", message, position, "use a shorter one")
            return
        compiled = compile_pattern(pattern)
        if isinstance(compiled, str):
            self.report("CHECK_PATTERN", f"the regular expression is not valid: {compiled}", position)

    def _searches(self, properties: Iterable[Property]) -> None:
        for prop in filter(_is_searched, properties):
            if prop.type != Scalar(Base.STRING):
                shown = f"`{prop.name}` is {written_type(prop.type, nullable=prop.nullable)}"
                self.report("CONSTRAINT_TYPE", f"{shown}; `@search` is for String", prop.position, "use `@index`")

    def _embeddings(self, properties: Iterable[Property], by_name: Mapping[str, Property]) -> None:
        for prop in properties:
            embed = next((each for each in prop.annotations if each.name == "embed"), None)
            if embed is None:
                continue
            if not isinstance(prop.type, Vector):
                hint = "the embedding of a text is a Vector"
                self.report("EMBED_TYPE", f"`{prop.name}` is not a Vector and has no `@embed`", prop.position, hint)
            source = by_name.get(str(embed.value))
            if source is None:
                message = f"`@embed` names `{embed.value}`, which is not a property"
                guesses = self.suggestions.hint(str(embed.value), by_name)
                self.report("UNKNOWN_PROPERTY", message, prop.position, guesses)
            elif source.type != Scalar(Base.STRING):
                message = f"`@embed` names `{source.name}`, which is {written_type(source.type)}"
                self.report("EMBED_TYPE", message, prop.position, "only a String can be embedded")


def _is_searched(prop: Property) -> bool:
    return any(each.name == "search" for each in prop.annotations)


def _empty(constraint: Range) -> bool:
    return (constraint.minimum or 0) > (constraint.maximum or 0)
