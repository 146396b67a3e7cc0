"""All checks together: every mistake at once, in order, at its line and column; and never an exception."""

import copy
import json
import sys
from collections.abc import Callable
from functools import partial
from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.base.json import JsonObject, JsonValue
from penstock.base.limits import DOCUMENT_DEPTH_MAX, FINDINGS_MAX
from penstock.definitions.checks.shape.validator import ShapeChecker
from penstock.definitions.model import Format
from penstock.definitions.outline import document as outlines
from penstock.definitions.source.findings import Finding, Severity
from penstock.definitions.validate import load_workflow, validate_document, validate_source
from tests.unit.definitions.documents import (
    SHARED,
    everything_native,
    everything_published,
    minimal_native,
    minimal_published,
    mutations,
)

REFUND = dedent("""\
    penstock: v1
    name: refund_order
    version: 1.4.0
    input:
      type: object
      required: [order_id, amount]
      properties:
        order_id: {type: string}
        amount: {type: number, exclusiveMinimum: 0}
    nodes:
      - id: order
        type: tool_call
        server: shop
        tool: get_order
        arguments: {id: "${ .input.order_id }"}
      - id: policy
        type: switch
        cases:
          - {when: .order.total < .input.amount, next: refuse}
          - {when: .input.amount > 100, next: ask}
        default: pay
      - id: ask
        type: interrupt
        message: "Refund ${ .input.amount } for order ${ .input.order_id }?"
        answer: {type: object, properties: {approve: {type: boolean}, comment: {type: string}}}
        timeout: 24h
        on_timeout: refuse
        next: {when: .ask.approve, then: pay, else: refuse}
      - id: pay
        type: step
        handler: shop.payments:refund
        with: {order_id: "${ .input.order_id }", amount: "${ .input.amount }"}
        retry: {max_attempts: 5, initial_interval: 1s}
        next: done
      - {id: refuse, type: end, output: {refunded: 0, reason: "${ .ask.comment // \\"not allowed\\" }"}}
      - {id: done, type: end, output: {refunded: "${ .pay.amount }"}}
    tests:
      - name: small amounts are paid at once
        input: {order_id: A-1, amount: 20}
        mock: {order: {total: 50}, pay: {amount: 20}}
        expect: {status: completed, output: {refunded: 20}, path: [order, policy, pay, done]}
    """)

MISTAKES = (
    ("version: 1.4.0", "version: 1.4", "version", "INVALID_VALUE"),
    ("tool: get_order", "tol: get_order", "tol", "UNKNOWN_FIELD"),
    ("timeout: 24h", "timeout: soon", "timeout: soon", "INVALID_DURATION"),
    ("type: step", "type: stepp", "type: stepp", "UNKNOWN_NODE_TYPE"),
    ("default: pay", "default: pya", "default", "UNKNOWN_TARGET"),
    ("when: .order.total <", "when: .order.total < <", "when: .order", "JQ_INVALID"),
    ("when: .input.amount > 100", "when: now > 100", "when: now", "JQ_FORBIDDEN"),
    ('id: "${ .input.order_id }"', 'id: "${ .inptu.order_id }"', 'id: "${ .inptu', "UNKNOWN_REFERENCE"),
    ("next: {when: .ask.approve", "next: {when: .ask.aprove", "when: .ask", "UNKNOWN_OUTPUT_FIELD"),
    ("refunded: 0", 'key: "${secret:NOPE}"', "key:", "UNDECLARED_SECRET"),
    ("id: done, type: end", "id: ask, type: end", "id: ask, type: end", "DUPLICATE_ID"),
    ("mock: {order:", "mock: {ordr:", "ordr", "UNKNOWN_NODE_IN_TEST"),
)


def _place_of(text: str, marker: str) -> tuple[int, int]:
    before = text[: text.index(marker)]
    return before.count("\n") + 1, len(before) - before.rfind("\n")


def _triples(findings: tuple[Finding, ...]) -> set[tuple[str, int, int]]:
    return {(f.code, f.position.line, f.position.column) for f in findings if f.position is not None}


def test_a_good_document_has_no_findings_and_loads() -> None:
    assert validate_source(REFUND) == ()
    loaded = load_workflow(REFUND, file="refund.yaml")
    assert loaded.findings == ()
    assert loaded.workflow is not None
    assert (loaded.workflow.name, loaded.workflow.format) == ("refund_order", Format.NATIVE)


@pytest.mark.parametrize(("good", "bad", "marker", "code"), MISTAKES)
def test_each_mistake_is_found_at_its_line_and_column(good: str, bad: str, marker: str, code: str) -> None:
    text = REFUND.replace(good, bad, 1)
    assert (code, *_place_of(text, marker)) in _triples(validate_source(text))


def test_all_mistakes_of_a_document_are_found_at_once_in_the_order_of_the_text() -> None:
    text = REFUND
    for good, bad, _, _ in MISTAKES:
        assert good in text
        text = text.replace(good, bad, 1)
    findings = validate_source(text, file="refund.yaml")
    expected = {(code, *_place_of(text, marker)) for _, _, marker, code in MISTAKES}
    assert expected <= _triples(findings)
    assert len(expected) == len(MISTAKES) >= 10
    positions = [finding.position for finding in findings if finding.position is not None]
    assert len(positions) == len(findings)
    assert positions == sorted(positions)
    assert all(finding.file == "refund.yaml" for finding in findings)


def test_one_mistake_gives_one_finding() -> None:
    for good, bad, _, code in MISTAKES:
        if code in ("UNKNOWN_TARGET", "UNKNOWN_NODE_TYPE", "JQ_INVALID", "JQ_FORBIDDEN", "UNKNOWN_REFERENCE"):
            assert [f.code for f in validate_source(REFUND.replace(good, bad, 1))] == [code]


def test_json_and_yaml_give_the_same_findings() -> None:
    document = minimal_native({"id": "a", "type": "step", "handler": "x", "next": "b"}, {"id": "c", "type": "end"})
    from_json = validate_source(json.dumps(document, indent=2))
    assert [(f.code, f.path) for f in from_json] == [(f.code, f.path) for f in validate_document(document)]
    assert all(finding.position is not None for finding in from_json)


def test_a_text_that_cannot_be_read_gives_its_syntax_error_only() -> None:
    findings = validate_source("penstock: [v1", file="broken.yaml")
    assert len(findings) == 1
    assert findings[0].position is not None
    assert load_workflow("penstock: [v1").workflow is None


def test_what_is_no_workflow_is_said_once() -> None:
    assert [finding.code for finding in validate_document({"services": {}})] == ["NOT_A_WORKFLOW"]
    assert [finding.code for finding in validate_document([1, 2])] == ["NOT_A_WORKFLOW"]


def test_a_document_with_errors_does_not_load_but_one_with_warnings_does() -> None:
    assert load_workflow(REFUND.replace("default: pay", "default: pya")).workflow is None
    document = minimal_published()
    nodes = document["nodes"]
    assert isinstance(nodes, list)
    nodes.append({"id": "lost", "type": "step", "config": {"handler": "x"}})
    edges = document["edges"]
    assert isinstance(edges, list)
    edges.append({"source": "lost", "target": "finish"})
    loaded = load_workflow(json.dumps(document))
    assert [(f.code, f.severity) for f in loaded.findings] == [("UNREACHABLE_NODE", Severity.WARNING)]
    assert loaded.workflow is not None


def test_a_node_that_cannot_be_read_does_not_make_others_look_wrong() -> None:
    document = minimal_native({"id": "a", "type": "step", "handler": "x"}, {"type": "end"})
    assert [finding.code for finding in validate_document(document)] == ["MISSING_FIELD"]


def test_findings_are_in_document_order_without_repetition() -> None:
    findings = validate_document(everything_published())
    assert len(set(findings)) == len(findings)
    paths = [finding.path for finding in findings if finding.path.startswith("/nodes/")]
    assert [int(path.split("/")[2]) for path in paths] == sorted(int(path.split("/")[2]) for path in paths)


def test_a_flood_of_findings_is_cut() -> None:
    nodes: list[JsonValue] = [{"id": f"n{index}", "type": "end", "oops": 1} for index in range(FINDINGS_MAX + 5)]
    findings = validate_document({"penstock": "v1", "name": "x", "nodes": nodes})
    assert len(findings) == FINDINGS_MAX + 1
    assert findings[0].code == "TOO_MANY_FINDINGS"


def test_a_document_nested_without_end_is_refused() -> None:
    deep: JsonValue = {}
    for _ in range(DOCUMENT_DEPTH_MAX * 50):
        deep = [deep]
    assert [f.code for f in validate_document({"penstock": "v1", "metadata": {"x": deep}})] == ["DOCUMENT_TOO_DEEP"]


@pytest.mark.skipif(not (SHARED / "vectors").is_dir(), reason="the published fixtures are not here")
def test_published_fixtures_that_are_valid_load() -> None:
    folder = SHARED / "vectors" / "workflows" / "examples"
    paths = [path for path in folder.rglob("*.workflow.json") if "fixtures.invalid" not in path.parts]
    assert paths
    for path in paths:
        loaded = load_workflow(path.read_text(), file=path.name)
        assert loaded.findings == (), path.name
        assert loaded.workflow is not None


SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8)
ANY_JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
)
WORDS = st.sampled_from(
    [
        *("a", "b", "$exit", "${ .a.b }", "x ${ now", "${secret:A}", ".input.x", ".a | .b", "v1", "1h", "end", "step"),
        *("switch", "parallel", "race", "for_each", "loop", "set_state", "interrupt", "all", "n_of_m", "append"),
    ]
)
KEYS = st.sampled_from(
    [
        *("penstock", "name", "nodes", "edges", "document", "state_schema", "id", "type", "config", "next", "on_error"),
        *("cases", "default", "when", "then", "else", "target", "branches", "entry", "items", "while", "until", "set"),
        *("assignments", "jq", "literal", "output", "input", "state", "secrets", "properties", "required", "tests"),
        *("mock", "answers", "expect", "path", "source", "as", "with", "output_schema", "answer", "$ref", "enum", "n"),
    ]
)
LIKELY_JSON = st.recursive(
    WORDS | SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=5), max_leaves=40
)
LIKELY_DOCUMENTS = st.builds(
    lambda nodes, rest, native: {**rest, **({"penstock": "v1"} if native else {"document": {}}), "nodes": nodes},
    nodes=st.lists(
        st.builds(
            lambda name, node_type, rest: {**rest, "id": name, "type": node_type},
            name=st.sampled_from(["a", "b", "c"]),
            node_type=WORDS,
            rest=st.dictionaries(KEYS, LIKELY_JSON, max_size=4),
        ),
        max_size=4,
    ),
    rest=st.dictionaries(KEYS, LIKELY_JSON, max_size=4),
    native=st.booleans(),
)


@given(ANY_JSON | LIKELY_JSON)
def test_any_json_can_be_validated(document: JsonValue) -> None:
    assert isinstance(validate_document(document), tuple)


@given(LIKELY_DOCUMENTS)
def test_anything_like_a_document_can_be_validated_and_stays_as_it_was(document: JsonObject) -> None:
    before = copy.deepcopy(document)
    assert validate_document(document) == validate_document(document)
    assert document == before


@given(seed=st.integers(min_value=0, max_value=2**32), native=st.booleans())
def test_a_broken_copy_of_a_good_document_can_be_validated(seed: int, native: bool) -> None:
    document = everything_native() if native else everything_published()
    for mutant in mutations(document, 2, seed):
        for finding in validate_document(mutant):
            assert finding.message
            assert finding.path == "" or finding.path.startswith("/")


@given(st.text(max_size=200))
def test_any_text_can_be_validated(text: str) -> None:
    assert all(finding.code for finding in validate_source(text))


# Large documents


def many_nodes(count: int) -> JsonObject:
    inner: list[JsonValue] = [{"id": f"n{item:05}", "type": "set_state", "set": {"n": 1}} for item in range(count - 2)]
    return {
        "penstock": "v1",
        "name": "wide",
        "state": {"type": "object", "properties": {"n": {"type": "integer"}}},
        "nodes": [{"id": "hear", "type": "wait", "signal": "go"}, *inner, {"id": "done", "type": "end"}],
    }


def calls_of(work: Callable[[], object]) -> int:
    """How many times functions are called, or generators resumed: work that no machine makes more or less of."""
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(before)
    return calls


def test_the_work_of_checking_grows_with_the_nodes_and_is_small_for_each() -> None:
    few, many = many_nodes(250), many_nodes(500)
    assert validate_document(few) == validate_document(many) == ()  # everything that is made once is made now
    first, second = (calls_of(partial(validate_document, document)) for document in (few, many))
    assert second < 2.1 * first
    assert second / 500 < 500


def test_a_node_is_checked_against_the_rules_of_its_own_type_only(monkeypatch: pytest.MonkeyPatch) -> None:
    check, visits = ShapeChecker._check, 0

    def counted(*arguments: object) -> object:
        nonlocal visits
        visits += 1
        return check(*arguments)  # type: ignore[arg-type]  # passed on as they come

    monkeypatch.setattr(ShapeChecker, "_check", counted)
    assert validate_document(many_nodes(500)) == ()
    assert visits < 500 * 12


def test_the_outline_of_a_document_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read, nodes = outlines._Reader._read_node, 0

    def counted(*arguments: object, **named: object) -> None:
        nonlocal nodes
        nodes += 1
        read(*arguments, **named)  # type: ignore[arg-type]  # passed on as they come

    monkeypatch.setattr(outlines._Reader, "_read_node", counted)
    assert validate_document(many_nodes(300)) == ()
    assert nodes == 300
