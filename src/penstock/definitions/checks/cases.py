"""Checks of a document's own tests: the nodes they name, and values that the document's schemas refuse.

Above it: `types`. It does not run the tests; it reports which of them can never pass.
"""

from __future__ import annotations

from collections.abc import Iterator

from penstock.base.json import JsonObject, JsonValue, json_pointer, list_or_empty, object_or_empty
from penstock.definitions.checks.declared import Declarations
from penstock.definitions.durations import parse_native_duration_ms
from penstock.definitions.node_parts.kind import Pace
from penstock.definitions.nodes import kind_named
from penstock.definitions.outline.document import OutlineNode, asks_somebody
from penstock.definitions.schemas.compiled import SchemaProblem, apply_defaults, compile_schema, violations
from penstock.definitions.source.findings import Finding, NameSuggestions, Severity

__all__ = ["case_findings"]

# The prefix with which tests and histories name the compensation of a node.
_UNDO_PREFIX = "compensate:"


def case_findings(document: JsonObject, declarations: Declarations, suggestions: NameSuggestions) -> Iterator[Finding]:
    """Yield everything that is wrong with the tests of a document."""
    tests = document.get("tests")
    for index, test in enumerate(tests if isinstance(tests, list) else []):
        if isinstance(test, dict):
            path = f"/tests/{index}"
            yield from _names(test, path, declarations, suggestions)
            yield from _input(test, path, document)
            yield from _output(test, path, document)
            yield from _mocks(test, path, declarations)
            yield from _answers(test, path, declarations)


def _names(test: JsonObject, path: str, declarations: Declarations, suggestions: NameSuggestions) -> Iterator[Finding]:
    named = [
        (name, f"{path}/{field}{json_pointer((name,))}")
        for field in ("mock", "answers")
        for name in object_or_empty(test.get(field))
    ]
    visited = list_or_empty(object_or_empty(test.get("expect")).get("path"))
    named += [(name, f"{path}/expect/path/{index}") for index, name in enumerate(visited) if isinstance(name, str)]
    timed_out = enumerate(list_or_empty(test.get("time_outs")))
    named += [(name, f"{path}/time_outs/{index}") for index, name in timed_out if isinstance(name, str)]
    for index, signal in enumerate(list_or_empty(test.get("signals"))):
        after = object_or_empty(signal).get("after")
        if isinstance(after, str) and parse_native_duration_ms(after) is None:
            named.append((after, f"{path}/signals/{index}/after"))
    for name, place in named:
        if name in declarations.nodes or _is_undo(name, declarations):
            continue
        yield Finding(
            code="UNKNOWN_NODE_IN_TEST",
            message=f"unknown node `{name}`",
            path=place,
            hint=suggestions.hint(name, declarations.nodes, otherwise="the nodes are"),
        )


def _is_undo(name: str, declarations: Declarations) -> bool:
    node = declarations.nodes.get(name.removeprefix(_UNDO_PREFIX))
    return name.startswith(_UNDO_PREFIX) and node is not None and "compensate" in node.fields


def _expects_failure(test: JsonObject) -> bool:
    expect = object_or_empty(test.get("expect"))
    return expect.get("status", "completed") != "completed" or "error" in expect


def _input(test: JsonObject, path: str, document: JsonObject) -> Iterator[Finding]:
    schema = document.get("input")
    # A test may show that an invalid input is refused.
    if not isinstance(schema, dict) or _expects_failure(test):
        return
    given = "input" in test
    value = apply_defaults(schema, test.get("input", {}))
    yield from _misfits(
        schema,
        value,
        path=f"{path}/input" if given else path,
        code="TEST_INPUT_INVALID",
        what="the test's input" if given else "the empty input (the test has none)",
    )


def _output(test: JsonObject, path: str, document: JsonObject) -> Iterator[Finding]:
    schema, expect = document.get("output"), object_or_empty(test.get("expect"))
    if isinstance(schema, dict) and "output" in expect and not _expects_failure(test):
        yield from _misfits(
            schema,
            expect["output"],
            path=f"{path}/expect/output",
            code="TEST_OUTPUT_INVALID",
            what="the expected output",
        )


def _mocks(test: JsonObject, path: str, declarations: Declarations) -> Iterator[Finding]:
    for name, mock in object_or_empty(test.get("mock")).items():
        node = declarations.nodes.get(name)
        if node is None:
            continue
        place = f"{path}/mock{json_pointer((name,))}"
        if _never_mocked(node):
            yield Finding(
                code="HAS_NO_EFFECT",
                message=f"`{name}` is a {node.type} node, which cannot be mocked",
                path=place,
                hint="mock only activities; other nodes run as they are",
                severity=Severity.WARNING,
            )
        schema = node.fields.get("output_schema")
        if not isinstance(schema, dict):
            continue
        for output, inner in _outputs(mock, place):
            # Only a warning: a test may show what happens when an activity returns an invalid output.
            yield from _misfits(
                schema,
                output,
                path=inner,
                code="TEST_MOCK_INVALID",
                what=f"the mocked output of `{name}`",
                severity=Severity.WARNING,
            )


def _never_mocked(node: OutlineNode) -> bool:
    """Whether a node does nothing outside the engine, so that it cannot be mocked."""
    kind = kind_named(node.type)
    return kind is not None and kind.pace is Pace.AT_ONCE and kind.bodies is None


def _outputs(mock: JsonValue, path: str) -> Iterator[tuple[JsonValue, str]]:
    """The outputs of a mock: one, one per attempt, or none when it fails or asks a question."""
    tries = _in_sequence(mock, path)
    return ((value, place) for value, place in tries if not _is_failure(value) and not _is_question(value))


def _in_sequence(value: JsonValue, path: str) -> Iterator[tuple[JsonValue, str]]:
    """The values of a sequence in order, or the value itself."""
    if isinstance(value, dict) and set(value) == {"sequence"} and isinstance(listed := value["sequence"], list):
        yield from ((item, f"{path}/sequence/{index}") for index, item in enumerate(listed))
    else:
        yield value, path


def _is_failure(mock: JsonValue) -> bool:
    return isinstance(mock, dict) and set(mock) == {"error"} and isinstance(mock["error"], dict)


def _is_question(mock: JsonValue) -> bool:
    return isinstance(mock, dict) and set(mock) == {"asks"} and isinstance(mock["asks"], dict)


def _asks(test: JsonObject, name: str) -> bool:
    """Whether a test makes an activity ask a person."""
    mock = object_or_empty(test.get("mock")).get(name)
    return any(_is_question(value) for value, _ in _in_sequence(mock, ""))


def _answers(test: JsonObject, path: str, declarations: Declarations) -> Iterator[Finding]:
    status = object_or_empty(test.get("expect")).get("status")
    for name, answer in object_or_empty(test.get("answers")).items():
        node = declarations.nodes.get(name)
        if node is None:
            continue
        place = f"{path}/answers{json_pointer((name,))}"
        kind = kind_named(node.type)
        if not asks_somebody(node) and _asks(test, name):
            continue
        if kind is None or not asks_somebody(node):
            yield Finding(
                code="UNKNOWN_NODE_IN_TEST",
                message=f"`{name}` is a {node.type} node, which does not ask questions",
                path=place,
                hint="answers are for interrupt nodes, and for activities whose `mock` has `asks`",
            )
            continue
        schema = kind.output(node.fields)
        # A refused answer leaves the run waiting, which a test may want to show.
        if not isinstance(schema, dict) or status in ("waiting_input", "waiting_approval"):
            continue
        for given, inner in _in_sequence(answer, place):
            yield from _misfits(schema, given, path=inner, code="TEST_ANSWER_INVALID", what=f"the answer to `{name}`")


def _misfits(
    schema: JsonObject, value: JsonValue, *, path: str, code: str, what: str, severity: Severity = Severity.ERROR
) -> Iterator[Finding]:
    compiled = compile_schema(schema)
    if isinstance(compiled, SchemaProblem):
        return
    for violation in violations(compiled, value):
        yield Finding(
            code=code,
            message=f"{what} does not fit its schema: {violation.message}",
            path=path + violation.instance_path,
            severity=severity,
        )
