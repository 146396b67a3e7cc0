"""Checks the shape of a workflow document: every mistake at once, each at its place, with a hint where one helps.

Each node is checked against the rules of its own type, inside bodies too. Embedded JSON Schemas, durations and reducers
are checked as well. Above it: `validate`, which adds positions and the checks of the graph and of expressions. Below
it: the schemas of `editor_schema` and the walker of `validator`.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from itertools import islice

from penstock.base.json import JsonObject, JsonValue, exceeds_depth
from penstock.base.limits import DOCUMENT_DEPTH_MAX, FINDINGS_MAX
from penstock.definitions.checks.profile import interrupts_in_branches
from penstock.definitions.checks.shape.keywords import INVALID_VALUE, Defect, Place, quoted
from penstock.definitions.checks.shape.validator import Piece, ShapeChecker
from penstock.definitions.durations import parse_instant_ms, parse_native_duration_ms
from penstock.definitions.editor_schema import native_schema, published_schema, schema_shapes
from penstock.definitions.nodes import NODE_KINDS
from penstock.definitions.outline.document import is_native
from penstock.definitions.schemas.compiled import SchemaProblem, Violation, compile_schema
from penstock.definitions.schemas.references import references_in
from penstock.definitions.shapes.document import DOCUMENT
from penstock.definitions.shapes.fields import CHECKPOINT_STRATEGIES, FRAGMENTS, REDUCERS
from penstock.definitions.shapes.published import PUBLISHED_DOCUMENT
from penstock.definitions.source.findings import Finding, nearest, suggestion

__all__ = ["published_diagnostics", "schema_findings", "schema_places"]

_NODE_PATH = re.compile(r"/nodes/[0-9]+")
_NOT_ALLOWED = "must be equal to one of the allowed values"
# Each of these shows that the author had the published format in mind.
_PUBLISHED_MARKS = ("document", "state_schema")


def schema_findings(document: JsonValue) -> tuple[Finding, ...]:
    """Return everything that is wrong with a document's shape; nothing if the other checks can run."""
    return tuple(
        Finding(code=defect.code, message=defect.message, path=defect.path, hint=defect.hint, keyword=defect.keyword)
        for defect in _first_of_each(_document_defects(document))
    )


def published_diagnostics(document: JsonValue) -> tuple[Violation, ...]:
    """Return everything that is wrong with a published document in AJV's wording, for drivers that expect it."""
    defects = _first_of_each(_published_defects(document))
    # The published schema offers a choice of node types, so a bad node also fails the choice as a whole.
    bad_nodes = dict.fromkeys(
        match.group()
        for defect in defects
        if defect.keyword != "profile" and (match := _NODE_PATH.match(defect.standard_path))
    )
    return (
        *(_violation(defect) for defect in defects),
        *(Violation(path, "oneOf", "must match exactly one schema in oneOf") for path in bad_nodes),
    )


def _violation(defect: Defect) -> Violation:
    if defect.code == "UNKNOWN_NODE_TYPE" and defect.keyword == "enum":
        return Violation(defect.standard_path, "const", "must be equal to constant")
    return Violation(defect.standard_path, defect.keyword, defect.standard_message)


def _first_of_each(defects: Iterable[Defect]) -> tuple[Defect, ...]:
    return tuple(islice(dict.fromkeys(islice(defects, 2 * FINDINGS_MAX)), FINDINGS_MAX))


def _document_defects(document: JsonValue) -> Iterator[Defect]:
    if not isinstance(document, dict):
        yield _not_a_workflow("a workflow document is an object with named members", keyword="type")
    elif is_native(document):
        yield from _native_defects(document)
    elif _is_published(document):
        yield from _published_defects(document)
    else:
        yield _not_a_workflow("this is not a workflow document", _format_hint(document))


def _is_published(document: JsonObject) -> bool:
    marked = any(name in document for name in _PUBLISHED_MARKS)
    return marked or ("nodes" in document and "edges" in document and "name" not in document)


def _format_hint(document: JsonObject) -> str:
    misspelt = nearest("penstock", document)
    if misspelt is not None:
        return f"{quoted(misspelt)} should probably be `penstock`"
    return "write `penstock: v1` at the top"


def _not_a_workflow(message: str, hint: str = "write `penstock: v1` at the top", *, keyword: str = "if") -> Defect:
    return Defect(
        code="NOT_A_WORKFLOW",
        path="",
        keyword=keyword,
        message=message,
        hint=hint,
        standard_path="",
        standard_message="must be object" if keyword == "type" else 'must match "else" schema',
    )


def _too_deep() -> Defect:
    return Defect(
        code="DOCUMENT_TOO_DEEP",
        path="",
        keyword="profile",
        message=f"the document nests deeper than {DOCUMENT_DEPTH_MAX} levels",
        hint="move inner parts to a workflow of their own",
        standard_path="",
        standard_message=f"must NOT nest deeper than {DOCUMENT_DEPTH_MAX} levels",
    )


def _native_defects(document: JsonObject) -> Iterator[Defect]:
    if exceeds_depth(document, DOCUMENT_DEPTH_MAX):
        yield _too_deep()
        return
    yield from _native_checker().defects(document)


def _published_defects(document: JsonValue) -> Iterator[Defect]:
    if exceeds_depth(document, DOCUMENT_DEPTH_MAX):
        yield _too_deep()
        return
    yield from _published_checker().defects(document)
    if isinstance(document, dict):
        yield from _profile_defects(document)


def _profile_defects(document: JsonObject) -> Iterator[Defect]:
    for fork, branch, node in interrupts_in_branches(document):
        where = f"the branch `{branch}` of `{fork.id}`"
        message = f"INTERRUPT_IN_PARALLEL_BRANCH: the interrupt `{node.id}` is on {where}"
        yield Defect(
            code="INTERRUPT_IN_PARALLEL_BRANCH",
            path=node.path,
            keyword="profile",
            message=message,
            hint="ask after the join, or write the document in the native format (`penstock: v1`)",
            standard_path=node.path,
            standard_message=message,
        )


def _check_duration(value: JsonValue, place: Place) -> Iterator[Defect]:
    whole = int(value) if isinstance(value, float) else value
    if isinstance(whole, str | int) and parse_native_duration_ms(whole) is None:
        yield _extra(
            "INVALID_DURATION",
            place,
            f"{place.label} is not a duration, or is too long: {quoted(value)}",
            'must match format "duration"',
            str(FRAGMENTS["duration"]["description"]),
        )


def _check_moment(value: JsonValue, place: Place) -> Iterator[Defect]:
    if isinstance(value, str) and "${" not in value and parse_instant_ms(value) is None:
        hint = "write it like 2030-01-31T09:00:00Z, or give it with ${ jq }"
        message = f"{place.label} is not a timestamp: {quoted(value)}"
        yield _extra(INVALID_VALUE, place, message, 'must match format "date-time"', hint)


def _check_strategy(value: JsonValue, place: Place) -> Iterator[Defect]:
    if isinstance(value, str) and value not in CHECKPOINT_STRATEGIES:
        message = f"{quoted(value)} is not a checkpoint strategy"
        hint = suggestion(value, CHECKPOINT_STRATEGIES) or f"known are {', '.join(CHECKPOINT_STRATEGIES)}"
        yield _extra("UNKNOWN_CHECKPOINT_STRATEGY", place, message, _NOT_ALLOWED, hint, keyword="enum")


def schema_places(document: JsonObject) -> list[tuple[str, JsonObject]]:
    """Return every JSON Schema of a document with its place (JSON pointer), as far as the document can be read."""
    if exceeds_depth(document, DOCUMENT_DEPTH_MAX):
        return []
    found: list[tuple[str, JsonObject]] = []

    def note(value: JsonValue, place: Place) -> Iterator[Defect]:
        if isinstance(value, dict):
            found.append((place.path, value))
        return iter(())

    checker = _native_checker() if is_native(document) else _published_checker()
    noting = {name: Piece(extra_check=note) for name in checker.pieces if name.removeprefix("published_") in _SCHEMAS}
    for _ in replace(checker, pieces={**checker.pieces, **noting}).defects(document):
        pass  # what is wrong with it is reported elsewhere
    return found


def _check_json_schema(value: JsonValue, place: Place) -> Iterator[Defect]:
    named = list(references_in(value))
    if named:
        for reference in named:
            yield _extra(
                "SCHEMA_NOT_RESOLVED",
                Place(path=place.path + reference.path),
                f"the schema {quoted(reference.text)} of a registry is not available here",
                'must match format "json-schema"',
                "store or check the workflow on the server that has it, or put the schema into the folder `schemas`",
            )
        return
    problem = compile_schema(value) if isinstance(value, dict) else SchemaProblem("it is not an object", "")
    if isinstance(problem, SchemaProblem):
        is_costly = problem.code == "SCHEMA_TOO_COSTLY"
        message = f"{place.label} {'' if is_costly else 'is not a valid JSON Schema: '}{problem.message}"
        inner = Place(path=place.path + problem.path)
        yield _extra(problem.code, inner, message, 'must match format "json-schema"', problem.hint)


def _check_state_schema(value: JsonValue, place: Place) -> Iterator[Defect]:
    yield from _check_json_schema(value, place)
    properties = value.get("properties") if isinstance(value, dict) else None
    for name, described in properties.items() if isinstance(properties, dict) else ():
        reducer = described.get("reducer", "overwrite") if isinstance(described, dict) else "overwrite"
        if not isinstance(reducer, str) or reducer not in REDUCERS:
            inner = place.member("properties").member(name).member("reducer")
            hint = suggestion(reducer, REDUCERS) if isinstance(reducer, str) else None
            message = f"{quoted(reducer)} is not a reducer"
            known = f"known are {', '.join(REDUCERS)}"
            yield _extra("UNKNOWN_REDUCER", inner, message, _NOT_ALLOWED, hint or known, keyword="enum")


def _extra(
    code: str, place: Place, message: str, standard_message: str, hint: str | None = None, *, keyword: str = "format"
) -> Defect:
    return Defect(
        code=code,
        path=place.path,
        keyword=keyword,
        message=message,
        hint=hint,
        standard_path=place.path,
        standard_message=standard_message,
    )


_NATIVE_TYPE_HINT = "this node type exists in the native format, which begins with `penstock: v1`"
_PUBLISHED_TYPE_HINTS = {kind.name: _NATIVE_TYPE_HINT for kind in NODE_KINDS.values() if kind.published is None}
# Names that other tools use for a node type, with what to write here.
_NATIVE_TYPE_HINTS = {word: f"write `{kind.name}`" for kind in NODE_KINDS.values() for word in kind.other_words}
_NODE_TYPE = Piece(code="UNKNOWN_NODE_TYPE", noun="node type")
_SCHEMAS = frozenset({"answer_schema", "any_schema", "json_schema", "state_schema"})
_PIECES: Mapping[str, Piece] = {
    "duration": Piece(code="INVALID_DURATION", extra_check=_check_duration),
    "interval": Piece(code="INVALID_DURATION", extra_check=_check_duration),
    "moment": Piece(extra_check=_check_moment),
    "reducer": Piece(code="UNKNOWN_REDUCER", noun="reducer"),
    "checkpoint_strategy": Piece(
        code="UNKNOWN_CHECKPOINT_STRATEGY", noun="checkpoint strategy", extra_check=_check_strategy
    ),
    "json_schema": Piece(code="INVALID_SCHEMA", extra_check=_check_json_schema),
    "answer_schema": Piece(code="INVALID_SCHEMA", extra_check=_check_json_schema),
    "any_schema": Piece(code="INVALID_SCHEMA", extra_check=_check_json_schema),
    "state_schema": Piece(code="INVALID_SCHEMA", extra_check=_check_state_schema),
}


@cache
def _native_checker() -> ShapeChecker:
    return ShapeChecker(
        schema=native_schema(),
        name=DOCUMENT.name,
        shapes=schema_shapes(),
        pieces={
            **_PIECES,
            "node": Piece(has_config=True),
            "node_type": replace(_NODE_TYPE, word_hints=_NATIVE_TYPE_HINTS),
        },
    )


@cache
def _published_checker() -> ShapeChecker:
    pieces = {**_PIECES, "node_type": replace(_NODE_TYPE, word_hints=_PUBLISHED_TYPE_HINTS)}
    return ShapeChecker(
        schema=published_schema(),
        name=PUBLISHED_DOCUMENT.name,
        shapes=schema_shapes(),
        pieces={f"published_{name}": piece for name, piece in pieces.items()},
    )
