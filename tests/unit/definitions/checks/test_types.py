"""Types before anything runs: values that can never fit, fields that do not exist, tests that can never pass."""

import pytest
import yaml

from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.checks.types import type_findings
from penstock.definitions.outline.document import outline_of
from penstock.definitions.outline.jq_leaves import collect_leaves
from penstock.definitions.schemas.types import ANY_TYPE, SchemaView, describe_types
from penstock.definitions.source.findings import Finding, Severity

INPUT: JsonObject = {
    "type": "object",
    "additionalProperties": False,
    "required": ["order_id", "amount"],
    "properties": {
        "order_id": {"type": "string"},
        "amount": {"type": "number"},
        "count": {"type": "integer"},
        "lines": {"type": "array", "items": {"type": "object"}},
        "customer": {"type": "object", "properties": {"email": {"type": "string"}}},
        "either": {"type": ["string", "number"]},
    },
}
STATE: JsonObject = {
    "type": "object",
    "properties": {
        "total": {"type": "number"},
        "name": {"type": "string", "enum": ["a", "b"]},
        "log": {"type": "array", "reducer": "append"},
        "about": {"type": "object", "required": ["x"], "properties": {"x": {"type": "string"}}, "reducer": "merge"},
    },
}


def _native(nodes: str, **fields: JsonValue) -> JsonObject:
    return {"penstock": "v1", "name": "example", "input": INPUT, "nodes": yaml.safe_load(nodes), **fields}


def _check(document: JsonObject) -> list[Finding]:
    outline = outline_of(document)
    return list(type_findings(document, outline, collect_leaves(document, outline)))


def _pairs(document: JsonObject) -> list[tuple[str, str]]:
    return [(finding.code, finding.path) for finding in _check(document)]


def _one(document: JsonObject) -> Finding:
    findings = _check(document)
    assert len(findings) == 1, findings
    return findings[0]


def _end(result: str, **fields: JsonValue) -> JsonObject:
    return _native(f"- {{id: done, type: end, output: {result}}}", **fields)


def test_a_field_that_a_closed_input_does_not_have_is_an_error_with_a_suggestion() -> None:
    found = _one(_end("{x: '${ .input.oder_id }'}"))
    assert (found.code, found.path, found.severity) == ("UNKNOWN_INPUT_FIELD", "/nodes/0/output/x", Severity.ERROR)
    assert found.hint == "did you mean `order_id`?"


def test_fields_are_looked_up_inside_longer_expressions_too() -> None:
    document = _native("""
    - {id: a, type: switch, cases: [{when: .input.amuont > 100 and .input.count == 1, next: done}], default: done}
    - {id: done, type: end, output: {text: "for ${ .input.oder_id } at ${ .input.amount }"}}
    """)
    assert _pairs(document) == [
        ("UNKNOWN_INPUT_FIELD", "/nodes/0/cases/0/when"),
        ("UNKNOWN_INPUT_FIELD", "/nodes/1/output/text"),
    ]


def test_an_open_input_gets_a_warning_only_when_a_declared_name_is_near() -> None:
    is_open: JsonObject = {"type": "object", "properties": {"order_id": {"type": "string"}}}
    found = _one(_end("{x: '${ .input.oder_id }', y: '${ .input.whatever }'}", input=is_open))
    assert (found.code, found.path, found.severity) == ("UNKNOWN_INPUT_FIELD", "/nodes/0/output/x", Severity.WARNING)


def test_a_text_has_no_fields() -> None:
    found = _one(_end("{x: '${ .input.order_id.number }'}"))
    assert found.code == "TYPE_IMPOSSIBLE"
    assert found.message == "`.input.order_id` is a text and has no field `number`"


def test_fields_of_answers_and_outputs_are_known() -> None:
    document = _native("""
    - {id: ask, type: interrupt, message: x, answer: {type: object, properties: {approve: {type: boolean}}},
       next: {when: .ask.aprove, then: done}}
    - {id: work, type: step, handler: x,
       output_schema: {type: object, additionalProperties: false, properties: {reference: {type: string}}}}
    - {id: done, type: end, output: {x: "${ .work.refrence }", y: "${ .work.nothing }"}}
    """)
    findings = _check(document)
    assert [(finding.code, finding.path, finding.severity) for finding in findings] == [
        ("UNKNOWN_OUTPUT_FIELD", "/nodes/0/next/when", Severity.WARNING),
        ("UNKNOWN_OUTPUT_FIELD", "/nodes/2/output/x", Severity.ERROR),
        ("UNKNOWN_OUTPUT_FIELD", "/nodes/2/output/y", Severity.ERROR),
    ]


def test_several_approvers_give_one_answer_and_its_fields_are_known() -> None:
    document = _native("""
    - {id: ask, type: interrupt, message: x, approvers: {count: 2}, decline: {approve: false},
       answer: {type: object, additionalProperties: false, properties: {approve: {type: boolean}}}}
    - {id: done, type: end, output: {x: "${ .ask.approve }", y: "${ .ask.answers }"}}
    """)
    assert _pairs(document) == [("UNKNOWN_OUTPUT_FIELD", "/nodes/1/output/y")]


def test_a_fallback_makes_an_output_unknown() -> None:
    document = _native("""
    - {id: work, type: step, handler: x, on_error: {fallback: {other: 1}},
       output_schema: {type: object, additionalProperties: false, properties: {reference: {type: string}}}}
    - {id: done, type: end, output: {x: "${ .work.other }"}}
    """)
    assert _pairs(document) == []


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("total", "many"),
        ("total", "${ .input.order_id }"),
        ("total", {"jq": ".input.order_id"}),
        ("total", "about ${ .input.amount }"),
        ("total", {"literal": []}),
        ("total", {"a": 1}),
        ("name", "${ .input.amount }"),
        ("name", "c"),
        ("about", "text"),
    ],
)
def test_a_value_that_the_state_can_never_hold_is_found(key: str, value: JsonValue) -> None:
    document: JsonObject = {
        "penstock": "v1",
        "input": INPUT,
        "state": STATE,
        "nodes": [{"id": "a", "type": "set_state", "set": {key: value}}],
    }
    found = _one(document)
    assert found.code == "TYPE_IMPOSSIBLE"
    assert found.path.startswith(f"/nodes/0/set/{key}")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("total", 1),
        ("total", 1.5),
        ("total", "${ .input.amount }"),
        ("total", "${ .input.count }"),
        ("total", "${ .input.either }"),
        ("total", "${ .input.amount | tostring }"),
        ("total", "${ .state.unknown }"),
        ("name", "a"),
        ("log", "a line"),
        ("log", ["a line"]),
        ("about", {"y": 1}),
        ("other", {"anything": True}),
    ],
)
def test_a_value_that_the_state_may_hold_is_accepted(key: str, value: JsonValue) -> None:
    document: JsonObject = {
        "penstock": "v1",
        "input": INPUT,
        "state": STATE,
        "nodes": [{"id": "a", "type": "set_state", "set": {key: value}}],
    }
    assert _pairs(document) == []


def test_a_state_key_that_is_not_declared_is_suggested_or_refused() -> None:
    near = _one(_native("- {id: a, type: set_state, set: {totl: 1}}", state=STATE))
    assert (near.code, near.path, near.severity) == ("UNKNOWN_STATE_FIELD", "/nodes/0/set/totl", Severity.WARNING)
    closed: JsonObject = {**STATE, "additionalProperties": False}
    refused = _one(_native("- {id: a, type: set_state, set: {other: 1}}", state=closed))
    assert (refused.code, refused.severity) == ("UNKNOWN_STATE_FIELD", Severity.ERROR)


def test_published_assignments_are_held_to_the_state_schema() -> None:
    document: JsonObject = {
        "document": {},
        "state_schema": STATE,
        "nodes": [
            {
                "id": "a",
                "type": "set_state",
                "config": {"assignments": {"total": {"literal": "x"}, "name": {"jq": ".total"}, "log": {"literal": 1}}},
            },
            {"id": "b", "type": "end", "config": {"output_mapping": ".nmae", "output_schema": {"type": "object"}}},
        ],
        "edges": [],
    }
    assert _pairs(document) == [
        ("TYPE_IMPOSSIBLE", "/nodes/0/config/assignments/total/literal"),
        ("TYPE_IMPOSSIBLE", "/nodes/0/config/assignments/name/jq"),
        ("UNKNOWN_STATE_FIELD", "/nodes/1/config/output_mapping"),
    ]


def test_outputs_are_held_to_the_output_schema_member_by_member() -> None:
    output: JsonObject = {
        "type": "object",
        "additionalProperties": False,
        "required": ["refunded", "lines"],
        "properties": {
            "refunded": {"type": "number"},
            "note": {"$ref": "#/$defs/note"},
            "lines": {"type": "array", "items": {"type": "integer"}},
        },
        "$defs": {"note": {"type": "string", "maxLength": 3}},
    }
    document = _end("{refunded: '${ .input.order_id }', note: long, extra: 1, lines: [1, x]}", output=output)
    assert _pairs(document) == [
        ("TYPE_IMPOSSIBLE", "/nodes/0/output/refunded"),
        ("TYPE_IMPOSSIBLE", "/nodes/0/output/note"),
        ("TYPE_IMPOSSIBLE", "/nodes/0/output/extra"),
        ("TYPE_IMPOSSIBLE", "/nodes/0/output/lines/1"),
    ]
    missing = _one(_end("{refunded: 1}", output=output))
    assert (missing.code, missing.path) == ("TYPE_IMPOSSIBLE", "/nodes/0/output")
    assert _pairs(_end("'${ .input.customer }'", output=output)) == []
    assert _pairs(_end("'${ .input.amount }'", output=output)) == [("TYPE_IMPOSSIBLE", "/nodes/0/output")]


def test_items_must_be_able_to_be_a_list_and_a_run_a_text() -> None:
    document = _native("""
    - {id: a, type: for_each, items: .input.amount, nodes: [{id: x, type: step, handler: x}]}
    - {id: b, type: for_each, items: "text ${ .input.amount }", nodes: [{id: y, type: step, handler: x}]}
    - {id: c, type: for_each, items: .input.lines, nodes: [{id: z, type: step, handler: x}]}
    - {id: d, type: emit, run: "${ .input.amount }", signal: s}
    - {id: e, type: emit, run: "${ .input.order_id }", signal: s}
    """)
    assert _pairs(document) == [
        ("TYPE_IMPOSSIBLE", "/nodes/0/items"),
        ("TYPE_IMPOSSIBLE", "/nodes/1/items"),
        ("TYPE_IMPOSSIBLE", "/nodes/3/run"),
    ]


def test_a_for_each_gives_a_list() -> None:
    document = _native(
        """
    - {id: each, type: for_each, items: .input.lines, nodes: [{id: x, type: step, handler: x}]}
    - {id: again, type: for_each, items: .each, nodes: [{id: y, type: step, handler: x}]}
    - {id: note, type: set_state, set: {total: "${ .each }"}}
    - {id: done, type: end, output: {x: "${ .each.reference }"}}
    """,
        state=STATE,
    )
    assert _pairs(document) == [("TYPE_IMPOSSIBLE", "/nodes/2/set/total"), ("TYPE_IMPOSSIBLE", "/nodes/3/output/x")]


def test_the_name_of_an_item_hides_a_node() -> None:
    document = _native("""
    - {id: order, type: step, handler: x, output_schema: {type: object, additionalProperties: false}}
    - {id: each, type: for_each, items: .input.lines, as: order,
       nodes: [{id: x, type: step, handler: x, with: "${ .order.id }"}]}
    """)
    assert _pairs(document) == []


@pytest.mark.parametrize(
    ("schema", "types"),
    [
        ({}, ANY_TYPE),
        (True, ANY_TYPE),
        ({"type": "number"}, {"integer", "fraction"}),
        ({"type": ["string", "null"]}, {"string", "null"}),
        ({"type": "nonsense"}, ANY_TYPE),
        ({"enum": ["a", 1, 1.0, 1.5]}, {"string", "integer", "fraction"}),
        ({"const": None}, {"null"}),
        ({"$ref": "#/$defs/text"}, {"string"}),
        ({"$ref": "#/$defs/missing"}, ANY_TYPE),
        ({"$ref": "https://example.com/schema"}, ANY_TYPE),
        ({"$ref": "#/$defs/round"}, ANY_TYPE),
        ({"anyOf": [{"type": "string"}, {"type": "array"}]}, {"string", "array"}),
        ({"oneOf": [{"type": "string"}, {}]}, ANY_TYPE),
        ({"allOf": [{"type": ["string", "array"]}, {"type": ["array", "object"]}]}, {"array"}),
        ({"if": {"type": "string"}, "then": {"type": "array"}, "not": {"type": "string"}}, ANY_TYPE),
    ],
)
def test_types_of_a_schema_are_never_too_few(schema: JsonValue, types: set[str]) -> None:
    root: JsonObject = {"$defs": {"text": {"type": "string"}, "round": {"$ref": "#/$defs/round"}}}
    assert SchemaView(schema, root).types() == types


def test_a_schema_that_branches_without_end_is_given_up_on() -> None:
    choices: list[JsonValue] = [{"$ref": "#"}] * 20
    root: JsonObject = {"anyOf": choices}
    assert SchemaView(root, root).types() == ANY_TYPE


def test_types_read_as_words() -> None:
    assert describe_types(frozenset({"integer", "fraction", "null"})) == "null or a number"
    assert describe_types(frozenset({"integer", "string"})) == "a whole number or a text"


TEST_NODES = """
- {id: work, type: step, handler: x, output_schema: {type: object, required: [reference]}}
- {id: ask, type: interrupt, message: x, answer: {type: object, properties: {approve: {type: boolean}}}}
- {id: done, type: end}
"""


def _case(**fields: JsonValue) -> JsonObject:
    case: JsonObject = {"name": "x", "input": {"order_id": "A", "amount": 1}, "expect": {"status": "completed"}}
    return _native(TEST_NODES, tests=[{**case, **fields}], output={"type": "object"})


def test_a_good_case_has_no_findings() -> None:
    document = _case(
        mock={"work": {"sequence": [{"error": {"code": "X"}}, {"reference": 1}]}},
        answers={"ask": {"approve": True}},
        signals=[{"name": "s", "after": "work"}, {"name": "s", "after": "5m"}],
        expect={"status": "completed", "path": ["work", "ask", "done"], "output": {}},
    )
    assert _pairs(document) == []


def test_nodes_that_a_case_names_must_exist() -> None:
    document = _case(
        mock={"wrok": 1},
        answers={"aks": {}, "work": {}},
        signals=[{"name": "s", "after": "wrok"}],
        expect={"path": ["work", "don"]},
    )
    findings = _check(document)
    assert {finding.code for finding in findings} == {"UNKNOWN_NODE_IN_TEST"}
    assert [finding.path for finding in findings] == [
        "/tests/0/mock/wrok",
        "/tests/0/answers/aks",
        "/tests/0/expect/path/1",
        "/tests/0/signals/0/after",
        "/tests/0/answers/work",
    ]
    assert findings[0].hint == "did you mean `work`?"


def test_the_input_of_a_case_fits_the_input_schema() -> None:
    assert _pairs(_case(input={"order_id": 1, "amount": 1})) == [("TEST_INPUT_INVALID", "/tests/0/input/order_id")]
    assert _pairs(_case(input={"order_id": 1}, expect={"status": "failed"})) == []


def test_expected_outputs_mocks_and_answers_fit_their_schemas() -> None:
    document = _case(mock={"work": {}, "done": 1}, answers={"ask": {"approve": "yes"}}, expect={"output": "text"})
    assert [(finding.code, finding.path, finding.severity) for finding in _check(document)] == [
        ("TEST_OUTPUT_INVALID", "/tests/0/expect/output", Severity.ERROR),
        ("TEST_MOCK_INVALID", "/tests/0/mock/work", Severity.WARNING),
        ("HAS_NO_EFFECT", "/tests/0/mock/done", Severity.WARNING),
        ("TEST_ANSWER_INVALID", "/tests/0/answers/ask/approve", Severity.ERROR),
    ]


def _again(value: str, **fields: JsonValue) -> JsonObject:
    document = _native(
        f"- {{id: nap, type: wait, duration: 1s}}\n- {{id: again, type: continue_as_new, input: {value}}}"
    )
    return {**document, **fields}


def test_the_input_of_the_next_run_is_held_to_the_input_schema() -> None:
    assert _pairs(_again("{order_id: a, amount: 1}")) == []
    assert _pairs(_again("{order_id: 5, amount: 1}")) == [("TYPE_IMPOSSIBLE", "/nodes/1/input/order_id")]
    assert _pairs(_again("{order_id: a}")) == [("TYPE_IMPOSSIBLE", "/nodes/1/input")]
    assert _pairs(_again("{order_id: a, amount: 1, other: 2}")) == [("TYPE_IMPOSSIBLE", "/nodes/1/input/other")]
    assert _pairs(_again("'${ .input.amount }'")) == [("TYPE_IMPOSSIBLE", "/nodes/1/input")]
    assert _pairs(_again("{order_id: 5, amount: 1}, version: newest")) == []


def test_defaults_stand_in_for_what_the_input_of_the_next_run_lacks() -> None:
    schema: JsonObject = {
        "type": "object",
        "required": ["n", "inner"],
        "properties": {
            "n": {"type": "integer", "default": 1},
            "inner": {"type": "object", "required": ["m"], "properties": {"m": {"default": 2}}},
        },
    }
    assert _pairs(_again("{inner: {}}", input=schema)) == []
    assert _pairs(_again("{}", input=schema)) == [("TYPE_IMPOSSIBLE", "/nodes/1/input")]
    assert _pairs(_again("{literal: {inner: {}}}", input=schema)) == []
