"""Checks of types before anything runs: values that can never fit where they go, and fields that do not exist.

Above it: `validate`. Beside it: `cases` (the tests of a document). Below it: `declared` knows the types behind a path,
`outline.jq_places` and `outline.jq_leaves` find the expressions. Only what is certain is an error: an expression that
is more than a plain path can give anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from penstock.base.json import JsonObject, JsonValue, json_pointer
from penstock.definitions.checks.cases import case_findings
from penstock.definitions.checks.declared import (
    Declarations,
    NoMember,
    NotAContainer,
    PathMeaning,
    declarations_of,
    path_text,
)
from penstock.definitions.checks.shape.keywords import quoted
from penstock.definitions.jq.reads import Reads, reads_of
from penstock.definitions.jq.syntax import parse_program
from penstock.definitions.jq.text import simple_path
from penstock.definitions.node_parts.jq_places import JqForm, JqPlace, Purpose
from penstock.definitions.outline.document import Outline, OutlineNode
from penstock.definitions.outline.jq_leaves import (
    Collected,
    JsonLeaf,
    Leaf,
    Mistake,
    Query,
    SecretText,
    Text,
    leaf_of,
)
from penstock.definitions.schemas.compiled import CompiledSchema, compile_schema, violations
from penstock.definitions.schemas.types import (
    ANY_TYPE,
    Member,
    Presence,
    SchemaView,
    TypeSet,
    describe_types,
    value_types,
)
from penstock.definitions.source.findings import Finding, NameSuggestions, Severity

__all__ = ["type_findings"]

_ARRAY: TypeSet = frozenset({"array"})
_STRING: TypeSet = frozenset({"string"})


def type_findings(
    document: JsonObject, outline: Outline, collected: Collected, suggestions: NameSuggestions | None = None
) -> tuple[Finding, ...]:
    """Return everything in a document that cannot fit, whatever data a run has."""
    declarations = declarations_of(document, outline)
    checker = _TypeChecker(declarations, suggestions or NameSuggestions())
    findings: list[Finding] = []
    for place, leaves in collected.places:
        if place.body is not None:
            findings.extend(finding for leaf in leaves for finding in checker.check_paths(leaf))
            findings.extend(checker.check_place(place))
    if outline.native:
        findings.extend(case_findings(document, declarations, checker.suggestions))
    return tuple(findings)


@dataclass(frozen=True, slots=True)
class _Target:
    """Where a value goes: its name, the values it accepts, and whether defaults fill in missing members."""

    label: str
    view: SchemaView
    has_defaults: bool = False

    def part(self, label: str, view: SchemaView) -> _Target:
        """The target for a member or an item of the value."""
        return replace(self, label=label, view=view)

    def may_lack(self, name: str) -> bool:
        """Whether a required member may be missing because it has a default."""
        member = self.view.member(name).view if self.has_defaults else None
        return member is not None and isinstance(member.schema, dict) and "default" in member.schema


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The types of value that a place accepts."""

    label: str
    types: TypeSet


@dataclass(frozen=True, slots=True)
class _TypeChecker:
    declarations: Declarations
    suggestions: NameSuggestions
    parts: dict[tuple[int, int], tuple[SchemaView, CompiledSchema | None]] = field(default_factory=dict)
    """Parts of schemas that values were compared with, by their identity."""

    # Paths that lead nowhere

    def check_paths(self, leaf: Leaf) -> Iterator[Finding]:
        programs = leaf.programs if isinstance(leaf, Text) else (leaf.program,) if isinstance(leaf, Query) else ()
        for program in programs:
            is_plain = simple_path(program) is not None
            for steps in _paths_read(program):
                meaning = self.declarations.meaning(steps)
                if isinstance(meaning, NoMember):
                    yield from self._no_member(meaning, leaf.path)
                elif isinstance(meaning, NotAContainer) and is_plain:
                    yield _no_container(meaning, leaf.path)

    def _no_member(self, meaning: NoMember, path: str) -> Iterator[Finding]:
        guess = self.suggestions.nearest(meaning.name, meaning.declared)
        if not meaning.certain and guess is None:
            return
        parent = path_text(meaning.parent) or "the state"
        native = self.declarations.outline.native
        source = meaning.parent[0] if meaning.parent and native else "state"
        code = {"input": "UNKNOWN_INPUT_FIELD", "state": "UNKNOWN_STATE_FIELD"}.get(str(source), "UNKNOWN_OUTPUT_FIELD")
        yield Finding(
            code=code,
            message=f"`{parent}` has no field `{meaning.name}`"
            if meaning.certain
            else f"`{parent}` declares no field `{meaning.name}`",
            path=path,
            hint=f"did you mean `{guess}`?" if guess else self.suggestions.hint(meaning.name, meaning.declared),
            severity=Severity.ERROR if meaning.certain else Severity.WARNING,
        )

    # Values that cannot go where they are put

    def check_place(self, place: JqPlace) -> Iterator[Finding]:
        node = place.node
        if node is None:
            return
        match place.purpose:
            case Purpose.STATE:
                yield from self._check_assignment(place, place.assigns or "")
            case Purpose.RESULT:
                yield from self._check_output(place, node)
            case Purpose.NEXT_INPUT:
                yield from self._check_next_input(place)
            case Purpose.ARRAY:
                yield from self._check_kind(place, _ARRAY)
            case Purpose.STRING:
                yield from self._check_kind(place, _STRING)
            case None:
                return

    def _check_assignment(self, place: JqPlace, key: str) -> Iterator[Finding]:
        state = self.declarations.state_schema()
        if state is None:
            return
        member = state.member(key)
        if member.view is None:
            yield from self._undeclared_key(key, place.path, member)
            return
        target = _Target(f"the state's `{key}`", member.view)
        reducer = member.view.schema.get("reducer") if isinstance(member.view.schema, dict) else None
        if reducer == "merge":
            # The value is only a part of what the state will hold.
            yield from _fit_types(self._value_types(place.value, place.path), place.path, "this", target)
        elif reducer != "append":  # an item that is appended to a list need not be a list
            yield from self._fit(place.value, place.path, target)

    def _undeclared_key(self, key: str, path: str, member: Member) -> Iterator[Finding]:
        guess = self.suggestions.nearest(key, member.names)
        certain = member.presence is Presence.FORBIDDEN
        if certain or guess is not None:
            yield Finding(
                code="UNKNOWN_STATE_FIELD",
                message=f"the state declares no `{key}`",
                path=path,
                hint=f"did you mean `{guess}`?" if guess else "declare it in the state's schema",
                severity=Severity.ERROR if certain else Severity.WARNING,
            )

    def _check_output(self, place: JqPlace, node: OutlineNode) -> Iterator[Finding]:
        schemas = [node.fields.get("output_schema")]
        if self.declarations.outline.native:
            schemas.append(self.declarations.document.get("output"))
        for schema in schemas:
            if isinstance(schema, dict):
                target = _Target("the output", SchemaView(schema, schema))
                if place.form is JqForm.JQ:
                    yield from self._fit_query(str(place.value), place.path, target)
                else:
                    yield from self._fit(place.value, place.path, target)

    def _check_next_input(self, place: JqPlace) -> Iterator[Finding]:
        schema = self.declarations.document.get("input")
        if isinstance(schema, dict):
            yield from self._fit(
                place.value, place.path, _Target("the input", SchemaView(schema, schema), has_defaults=True)
            )

    def _check_kind(self, place: JqPlace, wanted: TypeSet) -> Iterator[Finding]:
        is_jq = place.form is JqForm.JQ
        types = self._program_types(str(place.value)) if is_jq else self._value_types(place.value, place.path)
        if types and not types & wanted:
            yield _impossible(
                place.path, quoted(place.value) if is_jq else "this", types, _Wanted(f"`{place.name}`", wanted)
            )

    def _fit(self, value: JsonValue, path: str, target: _Target) -> Iterator[Finding]:
        leaf = leaf_of(value, path)
        match leaf:
            case Query(program=program):
                yield from self._fit_query(program, leaf.path, target)
            case JsonLeaf(value=literal):
                yield from self._fit_literal(literal, leaf.path, target)
            case Text() | SecretText():
                yield from _fit_types(_STRING, leaf.path, "this", target)
            case Mistake():
                return
            case None:
                yield from self._fit_container(value, path, target)

    def _fit_literal(self, value: JsonValue, path: str, target: _Target) -> Iterator[Finding]:
        misfits = list(_fit_types(value_types(value), path, quoted(value), target))
        yield from misfits
        compiled = None if misfits or target.has_defaults else self._compiled(target.view)
        if compiled is not None:
            for violation in violations(compiled, value)[:1]:
                yield Finding(
                    code="TYPE_IMPOSSIBLE",
                    message=f"this value does not fit {target.label}: {violation.message}",
                    path=path + violation.instance_path,
                )

    def _compiled(self, view: SchemaView) -> CompiledSchema | None:
        """A part of a schema, compiled once: a state of many fields is written by many nodes."""
        key = id(view.schema), id(view.root)
        if key not in self.parts:
            self.parts[key] = view, _compile_part(view)
        return self.parts[key][1]

    def _fit_query(self, program: str, path: str, target: _Target) -> Iterator[Finding]:
        yield from _fit_types(self._program_types(program), path, quoted(program), target)

    def _fit_container(self, value: JsonValue, path: str, target: _Target) -> Iterator[Finding]:
        misfits = list(_fit_types(value_types(value), path, "this", target))
        yield from misfits
        if misfits:
            return
        if isinstance(value, list):
            for index, item in enumerate(value):
                inner = target.view.item(index)
                if inner is not None:
                    yield from self._fit(item, f"{path}/{index}", target.part(f"{target.label}[{index}]", inner))
        elif isinstance(value, dict):
            yield from self._fit_members(value, path, target)

    def _fit_members(self, value: JsonObject, path: str, target: _Target) -> Iterator[Finding]:
        for name, member_value in value.items():
            member = target.view.member(name)
            place = path + json_pointer((name,))
            if member.view is not None:
                yield from self._fit(member_value, place, target.part(f"`{name}` of {target.label}", member.view))
            elif member.presence is Presence.FORBIDDEN:
                yield Finding(
                    code="TYPE_IMPOSSIBLE",
                    message=f"the schema of {target.label} does not allow `{name}`",
                    path=place,
                    hint=self.suggestions.hint(name, member.names, otherwise="it allows"),
                )
        for name in target.view.required():
            if name not in value and not target.may_lack(name):
                yield Finding(
                    code="TYPE_IMPOSSIBLE",
                    message=f"the schema of {target.label} requires `{name}`, which is missing here",
                    path=path,
                    hint=f"add `{name}`, or make it optional",
                )

    def _program_types(self, program: str) -> TypeSet:
        steps = simple_path(program)
        meaning = self.declarations.meaning(steps) if steps else None
        return meaning.types if isinstance(meaning, PathMeaning) else ANY_TYPE

    def _value_types(self, value: JsonValue, path: str) -> TypeSet:
        match leaf_of(value, path):
            case Query(program=program):
                return self._program_types(program)
            case Text() | SecretText():
                return _STRING
            case JsonLeaf(value=literal):
                return value_types(literal)
            case Mistake():
                return ANY_TYPE
            case None:
                return value_types(value)


def _paths_read(program: str) -> Iterator[tuple[str, ...]]:
    """Every path of the root that a program reads, as far as it can be followed."""
    tree = parse_program(program)
    reads = None if tree is None else reads_of(tree)
    pending: list[tuple[tuple[str, ...], Reads]] = [] if reads is None else [((), reads)]
    while pending:
        steps, read = pending.pop(0)
        if steps and (read.whole or not read.members):
            yield steps
        pending.extend(((*steps, name), inner) for name, inner in read.members.items())


def _no_container(meaning: NotAContainer, path: str) -> Finding:
    return Finding(
        code="TYPE_IMPOSSIBLE",
        message=f"`{path_text(meaning.parent)}` is {describe_types(meaning.types)} and has no field `{meaning.name}`",
        path=path,
    )


def _fit_types(types: TypeSet, path: str, what: str, target: _Target) -> Iterator[Finding]:
    wanted = target.view.types()
    if types and wanted and not types & wanted:
        yield _impossible(path, what, types, _Wanted(target.label, wanted))


def _impossible(path: str, what: str, types: TypeSet, wanted: _Wanted) -> Finding:
    # It does not help the reader that the value may also be missing; it helps that its type is wrong.
    given = types - {"null"} or types
    return Finding(
        code="TYPE_IMPOSSIBLE",
        message=f"{what} is {describe_types(given)}, but {wanted.label} must be {describe_types(wanted.types)}",
        path=path,
        hint="convert it with jq (`tostring`, `tonumber`, `[.]`), or change the schema",
    )


def _compile_part(view: SchemaView) -> CompiledSchema | None:
    """Compile a part of a schema alone, with the definitions it may refer to; None if it refers to anything else."""
    if not isinstance(view.schema, dict) or not _refers_only_to_definitions(view.schema):
        return None
    root = view.root if isinstance(view.root, dict) else {}
    definitions: JsonObject = {name: root[name] for name in ("$schema", "$defs", "definitions") if name in root}
    if not _refers_only_to_definitions(definitions):
        return None
    compiled = compile_schema({**view.schema, **definitions})
    return compiled if isinstance(compiled, CompiledSchema) else None


def _refers_only_to_definitions(schema: JsonValue) -> bool:
    if isinstance(schema, list):
        return all(_refers_only_to_definitions(item) for item in schema)
    if not isinstance(schema, dict):
        return True
    reference = schema.get("$ref", "#/$defs/")
    local = isinstance(reference, str) and reference.startswith(("#/$defs/", "#/definitions/"))
    anchored = not {"$id", "$anchor", "$dynamicRef", "$dynamicAnchor", "$recursiveRef"} & schema.keys()
    return local and anchored and all(_refers_only_to_definitions(member) for member in schema.values())
