"""Every mistake in a document's shape is found at once, where it is, with a code, a keyword and a hint."""

import json

import jsonschema_rs
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.base.json import JsonObject, JsonValue
from penstock.base.limits import DOCUMENT_DEPTH_MAX, FINDINGS_MAX
from penstock.definitions.checks.shape.document import published_diagnostics, schema_findings
from penstock.definitions.editor_schema import native_schema, published_schema
from penstock.definitions.nodes import NODE_KINDS
from penstock.definitions.schemas.compiled import Violation
from penstock.definitions.source.findings import Finding
from tests.unit.definitions.documents import (
    SHARED,
    at,
    changed,
    everything_native,
    everything_published,
    minimal_native,
    minimal_published,
    mutations,
)

EXAMPLES = SHARED / "vectors/workflows/examples"
NATIVE = jsonschema_rs.Draft202012Validator(native_schema())
PUBLISHED = jsonschema_rs.Draft202012Validator(published_schema())
# Checks that go beyond what a schema can state have these keywords.
BEYOND = {"format", "profile"}

STEP: JsonObject = {"id": "a", "type": "step", "handler": "m:f"}


def the_finding(document: JsonValue) -> Finding:
    (finding,) = schema_findings(document)
    return finding


def brief(document: JsonValue) -> list[tuple[str, str, str | None]]:
    return [(finding.code, finding.path, finding.keyword) for finding in schema_findings(document)]


def test_documents_with_every_node_type_have_no_findings() -> None:
    assert schema_findings(everything_native()) == ()
    assert schema_findings(everything_published()) == ()
    assert published_diagnostics(everything_published()) == ()


# The format of a document


@pytest.mark.parametrize("document", [None, True, 3, "text", [], [minimal_native()]])
def test_a_document_that_is_not_an_object_is_no_workflow(document: JsonValue) -> None:
    assert brief(document) == [("NOT_A_WORKFLOW", "", "type")]


def test_a_document_of_neither_format_is_told_how_to_begin() -> None:
    finding = the_finding({"name": "small", "nodes": []})
    assert (finding.code, finding.path) == ("NOT_A_WORKFLOW", "")
    assert finding.hint == "write `penstock: v1` at the top"


def test_a_misspelt_marker_is_recognised() -> None:
    finding = the_finding({"penstok": "v1", "name": "small", "nodes": []})
    assert finding.code == "NOT_A_WORKFLOW"
    assert finding.hint == "`penstok` should probably be `penstock`"


def test_another_version_of_the_format_is_refused() -> None:
    finding = the_finding(minimal_native(penstock="v2"))
    assert (finding.code, finding.path, finding.keyword) == ("INVALID_VALUE", "/penstock", "const")
    assert finding.message == "`penstock` must be `v1`, not `v2`"


def test_a_document_that_nests_too_deep_is_refused_and_not_walked() -> None:
    value: JsonValue = "deep"
    for _ in range(5_000):
        value = [value]
    assert the_finding(minimal_native(metadata={"x": value})).code == "DOCUMENT_TOO_DEEP"
    assert [violation.keyword for violation in published_diagnostics(value)] == ["profile"]


def test_bodies_as_deep_as_a_document_may_be_are_walked() -> None:
    node: JsonValue = {"id": "a", "type": "step"}
    for number in range(DOCUMENT_DEPTH_MAX // 2 - 2):
        node = {"id": f"each{number}", "type": "for_each", "items": ".x", "nodes": [node]}
    finding = the_finding(minimal_native(node))
    assert finding.code == "MISSING_FIELD"
    assert finding.path.count("/nodes/0") == DOCUMENT_DEPTH_MAX // 2 - 1


# Native documents


def test_every_mistake_is_found_at_once() -> None:
    document = minimal_native(
        {"id": "run", "type": "stepp"},
        {"id": "a", "type": "tool_call", "sever": "shop", "tool": ""},
        {"id": "b", "type": "for_each", "items": ".x", "nodes": [{"id": "c", "type": "wait", "duration": "soon"}]},
        titel="Small",
    )
    assert brief(document) == [
        ("RESERVED_ID", "/nodes/0/id", "not"),
        ("UNKNOWN_NODE_TYPE", "/nodes/0/type", "enum"),
        ("UNKNOWN_FIELD", "/nodes/1/sever", "additionalProperties"),
        ("INVALID_VALUE", "/nodes/1/tool", "minLength"),
        ("MISSING_FIELD", "/nodes/1", "required"),
        ("INVALID_DURATION", "/nodes/2/nodes/0/duration", "pattern"),
        ("UNKNOWN_FIELD", "/titel", "additionalProperties"),
    ]


@pytest.mark.parametrize(
    ("node_type", "hint"),
    [
        ("stepp", "did you mean `step`?"),
        ("foreach", "did you mean `for_each`?"),
        ("approval", "write `interrupt`"),
        ("sleep", "write `wait`"),
        ("if", "write `switch`"),
    ],
)
def test_an_unknown_node_type_is_named_with_a_suggestion(node_type: str, hint: str) -> None:
    finding = the_finding(minimal_native({"id": "a", "type": node_type}))
    assert (finding.code, finding.path) == ("UNKNOWN_NODE_TYPE", "/nodes/0/type")
    assert finding.message == f"unknown node type `{node_type}`"
    assert finding.hint == hint


def test_an_unknown_node_type_without_a_near_one_gets_the_list() -> None:
    finding = the_finding(minimal_native({"id": "a", "type": "zzzzzz"}))
    assert finding.hint is not None
    assert all(kind.name in finding.hint for kind in NODE_KINDS.values())


@pytest.mark.parametrize(
    ("node", "field", "hint"),
    [
        (STEP, "retyr", "did you mean `retry`?"),
        (STEP, "arguments", "write `with`"),
        (STEP, "url", "a request has `type: http`"),
        ({"id": "a", "type": "tool_call", "server": "s", "tool": "t"}, "with", "write `arguments`"),
        ({"id": "a", "type": "end"}, "next", "an end node has no successor"),
        (
            {"id": "a", "type": "switch", "cases": [{"when": "true", "next": "a"}]},
            "next",
            "a switch names its successors in `cases` and `default`",
        ),
        ({"id": "a", "type": "emit", "run": "r", "signal": "s"}, "qqqq", "known here: "),
    ],
)
def test_an_unknown_field_is_named_with_a_suggestion(node: JsonObject, field: str, hint: str) -> None:
    finding = the_finding(minimal_native({**node, field: "x"}))
    assert (finding.code, finding.path) == ("UNKNOWN_FIELD", f"/nodes/0/{field}")
    assert finding.message == f"unknown field `{field}`"
    assert finding.hint is not None
    assert finding.hint.startswith(hint)


def test_an_unknown_field_with_a_slash_has_an_escaped_path() -> None:
    assert the_finding(minimal_native({**STEP, "a/b~c": 1})).path == "/nodes/0/a~1b~0c"


def test_a_model_call_passes_on_members_it_does_not_know() -> None:
    assert not schema_findings(minimal_native({"id": "a", "type": "llm_call", "model": "m", "prompt": "p", "seed": 7}))


@pytest.mark.parametrize(
    ("node", "missing"),
    [
        ({"type": "step", "handler": "h"}, "`id` is missing"),
        ({"id": "a"}, "`type` is missing"),
        ({"id": "a", "type": "step"}, "one of `handler`, `code_ref` is missing"),
        ({"id": "a", "type": "tool_call", "server": "s"}, "`tool` is missing"),
        ({"id": "a", "type": "http"}, "`url` is missing"),
        ({"id": "a", "type": "llm_call", "prompt": "p"}, "`model` is missing"),
        ({"id": "a", "type": "llm_call", "model": "m"}, "one of `prompt`, `user_prompt`, `conversation` is missing"),
        ({"id": "a", "type": "agent_delegate"}, "`agent_id` is missing"),
        ({"id": "a", "type": "switch"}, "`cases` is missing"),
        ({"id": "a", "type": "interrupt"}, "one of `message`, `prompt`, `prompt_ref` is missing"),
        ({"id": "a", "type": "interrupt", "message": "m", "on_timeout": "b"}, "`on_timeout` needs `timeout` beside it"),
        ({"id": "a", "type": "parallel"}, "`branches` is missing"),
        (
            {"id": "a", "type": "parallel", "join": "n_of_m", "branches": [{"name": "b", "entry": "c"}]},
            "`n` is missing",
        ),
        ({"id": "a", "type": "wait"}, "one of `duration`, `duration_ms`, `until`, `signal` is missing"),
        ({"id": "a", "type": "wait", "kind": "signal", "duration": "1s"}, "`signal` is missing"),
        ({"id": "a", "type": "wait", "duration": "1s", "timeout": "1s"}, "`timeout` needs `signal` beside it"),
        ({"id": "a", "type": "set_state"}, "one of `set`, `assignments` is missing"),
        ({"id": "a", "type": "subworkflow"}, "one of `workflow`, `workflow_ref` is missing"),
        ({"id": "a", "type": "for_each", "nodes": [STEP]}, "`items` is missing"),
        ({"id": "a", "type": "loop", "nodes": [STEP], "while": ".x"}, "`max_iterations` is missing"),
        ({"id": "a", "type": "loop", "nodes": [STEP], "max_iterations": 3}, "one of `while`, `until` is missing"),
        ({"id": "a", "type": "emit", "run": "r"}, "`signal` is missing"),
        ({"id": "a", "type": "fail"}, "`code` is missing"),
    ],
)
def test_a_missing_field_is_named(node: JsonObject, missing: str) -> None:
    finding = the_finding(minimal_native(node))
    assert (finding.code, finding.path, finding.message) == ("MISSING_FIELD", "/nodes/0", missing)


def test_a_missing_field_is_explained() -> None:
    finding = the_finding(minimal_native({"id": "a", "type": "tool_call", "server": "s"}))
    said = "The tool's name. A client has `roots/list`; `penstock` its capabilities, `tools/call`, `tools/list`."
    assert finding.hint == f"`tool`: {said}"


@pytest.mark.parametrize(
    ("node", "together"),
    [
        ({"id": "a", "type": "step", "handler": "h", "code_ref": "c"}, "`handler` and `code_ref`"),
        ({"id": "a", "type": "end", "output": 1, "output_mapping": "."}, "`output` and `output_mapping`"),
        ({"id": "a", "type": "wait", "duration": "1s", "signal": "s"}, "`duration` and `signal`"),
        (
            {"id": "a", "type": "loop", "nodes": [STEP], "while": ".x", "until": ".y", "max_iterations": 3},
            "`while` and `until`",
        ),
        (
            {"id": "a", "type": "interrupt", "message": "m", "answer": {}, "resume_schema": {}},
            "`answer` and `resume_schema`",
        ),
        (
            {"id": "a", "type": "set_state", "set": {"x": 1}, "assignments": {"x": {"jq": "."}}},
            "`set` and `assignments`",
        ),
    ],
)
def test_fields_that_exclude_each_other_are_named(node: JsonObject, together: str) -> None:
    finding = the_finding(minimal_native(node))
    assert (finding.code, finding.path) == ("INVALID_VALUE", "/nodes/0")
    assert finding.message == f"{together} cannot be used together"


def test_an_error_route_needs_exactly_one_way_to_go_on() -> None:
    both = the_finding(minimal_native({**STEP, "on_error": [{"next": "a", "fallback": 1}]}))
    assert both.path == "/nodes/0/on_error/0"
    none = the_finding(minimal_native({**STEP, "on_error": {"code": "X"}}))
    assert (none.code, none.path) == ("MISSING_FIELD", "/nodes/0/on_error")
    assert none.message == "one of `next`, `fallback` is missing"


@pytest.mark.parametrize(
    ("path", "value", "keyword", "message"),
    [
        ("/version", 1.4, "type", "`version` must be a text, not `1.4`"),
        ("/name", "Refund Order", "pattern", "`name` does not have the right form: `Refund Order`"),
        ("/name", "small\n", "pattern", "`name` does not have the right form: `small`"),
        ("/nodes", [], "minItems", "`nodes` needs at least 1 item"),
        ("/nodes", {}, "type", "`nodes` must be a list, not an object"),
        ("/nodes/0", "done", "type", "`nodes[0]` must be an object, not a text"),
        ("/nodes/0/id", None, "type", "`id` must be a text, not empty"),
        ("/labels", {"team": 3}, "type", "`team` must be a text, not `3`"),
        ("/secrets", ["lower"], "pattern", "`secrets[0]` does not have the right form: `lower`"),
        ("/governance", {"risk": "huge"}, "enum", "`risk` must be one of low, medium, high, critical, not `huge`"),
        ("/governance", {"rate": {"limit": 0, "per": "1h"}}, "minimum", "`limit` must be at least 1, not 0"),
        ("/expose", {"tool": False}, "anyOf", "`tool` must be `true` or an object, not `false`"),
        ("/nodes/0/next", 3, "additionalProperties", "unknown field `next`"),
        ("/on_error", "retry", "anyOf", "`on_error` must be an object or a list, not a text"),
        ("/tests", [{"name": "t", "expect": {"status": "ok"}}], "enum", None),
        ("/triggers", [{"webhook": {"path": "/a", "secret": "plain"}}], "pattern", None),
    ],
)
def test_a_wrong_value_is_described(path: str, value: JsonValue, keyword: str, message: str | None) -> None:
    finding = the_finding(changed(minimal_native(), path, value))
    assert finding.keyword == keyword
    assert message in (None, finding.message)


def test_a_number_where_a_text_is_needed_is_to_be_quoted() -> None:
    assert the_finding(minimal_native(version=1.4)).hint == 'write it in quotes: "1.4"'


def test_a_misspelt_word_is_corrected() -> None:
    finding = the_finding(minimal_native({"id": "a", "type": "http", "url": "u", "method": "get"}))
    assert (finding.path, finding.hint) == ("/nodes/0/method", "did you mean `GET`?")


def test_a_conditional_successor_is_checked_inside() -> None:
    finding = the_finding(minimal_native({**STEP, "next": {"if": ".x", "when": ".x", "then": "a"}}))
    assert (finding.code, finding.path, finding.hint) == ("UNKNOWN_FIELD", "/nodes/0/next/if", "write `when`")
    assert the_finding(minimal_native({**STEP, "next": {"when": ".x"}})).path == "/nodes/0/next"


@pytest.mark.parametrize(
    "name", ["input", "run", "state", "item", "index", "loop", "error", "secret", "secrets", "env"]
)
def test_reserved_names_are_refused_as_ids(name: str) -> None:
    finding = the_finding(minimal_native({**STEP, "id": name}))
    assert (finding.code, finding.path) == ("RESERVED_ID", "/nodes/0/id")


def test_an_item_may_have_its_usual_name_but_no_other_reserved_one() -> None:
    node: JsonObject = {"id": "a", "type": "for_each", "items": ".x", "nodes": [{**STEP, "id": "b"}]}
    assert not schema_findings(minimal_native({**node, "as": "item"}))
    assert brief(minimal_native({**node, "as": "state"})) == [("RESERVED_ID", "/nodes/0/as", "not")]


@pytest.mark.parametrize("duration", ["soon", "5 minutes", "30m1h", "99999999d", "", True, -1, 1.5, None, "1.5ms"])
def test_what_is_no_duration_is_refused(duration: JsonValue) -> None:
    finding = the_finding(minimal_native({**STEP, "timeout": duration}))
    assert (finding.code, finding.path) == ("INVALID_DURATION", "/nodes/0/timeout")


@pytest.mark.parametrize("duration", ["500ms", "1h30m", "PT5M", 0, 1500, 1500.0, "250"])
def test_every_form_of_duration_is_accepted(duration: JsonValue) -> None:
    assert not schema_findings(minimal_native({**STEP, "timeout": duration}))


@pytest.mark.parametrize("until", ["2030-01-31", "2030-01-31T09:00:00Z", "${ .input.at }", {"jq": ".input.at"}])
def test_a_moment_is_a_timestamp_or_a_template(until: JsonValue) -> None:
    assert not schema_findings(minimal_native({"id": "a", "type": "wait", "until": until}))


def test_what_is_no_moment_is_refused() -> None:
    finding = the_finding(minimal_native({"id": "a", "type": "wait", "until": "tomorrow"}))
    assert (finding.code, finding.path) == ("INVALID_VALUE", "/nodes/0/until")


BAD_SCHEMA: JsonObject = {"type": "objekt"}


@pytest.mark.parametrize(
    ("document", "path"),
    [
        (minimal_native(input=BAD_SCHEMA), "/input"),
        (minimal_native(output=BAD_SCHEMA), "/output"),
        (minimal_native(state=BAD_SCHEMA), "/state"),
        (minimal_native({**STEP, "output_schema": BAD_SCHEMA}), "/nodes/0/output_schema"),
        (minimal_native({"id": "a", "type": "start", "input_schema": BAD_SCHEMA}), "/nodes/0/input_schema"),
        (minimal_native({"id": "a", "type": "end", "output_schema": BAD_SCHEMA}), "/nodes/0/output_schema"),
        (minimal_native({"id": "a", "type": "interrupt", "message": "m", "answer": BAD_SCHEMA}), "/nodes/0/answer"),
        (minimal_published(state_schema=BAD_SCHEMA), "/state_schema"),
        (
            minimal_published({"id": "a", "type": "llm_call", "config": {"output_schema": BAD_SCHEMA}}),
            "/nodes/1/config/output_schema",
        ),
        (
            minimal_published({"id": "a", "type": "llm_call", "config": {"output_schema": "text"}}),
            "/nodes/1/config/output_schema",
        ),
        (
            minimal_published({"id": "a", "type": "interrupt", "config": {"prompt": "p", "resume_schema": BAD_SCHEMA}}),
            "/nodes/1/config/resume_schema",
        ),
        (
            changed(minimal_published(), "/nodes/0/config", {"input_schema": BAD_SCHEMA}),
            "/nodes/0/config/input_schema",
        ),
        (
            changed(minimal_published(), "/nodes/1/config", {"output_schema": BAD_SCHEMA}),
            "/nodes/1/config/output_schema",
        ),
    ],
)
def test_an_embedded_schema_must_be_one(document: JsonObject, path: str) -> None:
    finding = the_finding(document)
    assert finding.code == "INVALID_SCHEMA"
    assert finding.path.startswith(path)


def test_a_pattern_that_does_not_compile_makes_a_schema_invalid() -> None:
    finding = the_finding(minimal_native(input={"properties": {"a": {"pattern": "("}}}))
    assert finding.code == "INVALID_SCHEMA"
    assert finding.path.startswith("/input")


@pytest.mark.parametrize("reducer", ["custom", "appendd", "", 3, None])
def test_unknown_reducers_are_refused_in_both_formats(reducer: JsonValue) -> None:
    state: JsonObject = {"type": "object", "properties": {"log": {"reducer": reducer}, "n": {"reducer": "merge"}}}
    for document, path in (
        (minimal_native(state=state), "/state/properties/log/reducer"),
        (minimal_published(state_schema=state), "/state_schema/properties/log/reducer"),
    ):
        finding = the_finding(document)
        assert (finding.code, finding.path) == ("UNKNOWN_REDUCER", path)
        assert finding.hint is None or "append" in finding.hint


@pytest.mark.parametrize("field", ["strategy", "policy"])
def test_unknown_checkpoint_strategies_are_refused_in_both_formats(field: str) -> None:
    for document in (minimal_native(), minimal_published()):
        finding = the_finding({**document, "checkpointing": {field: "every_node"}})
        assert (finding.code, finding.path) == ("UNKNOWN_CHECKPOINT_STRATEGY", f"/checkpointing/{field}")
        for known in ("after_each_node", "every_n_nodes", "interval", "disabled", "off", "none"):
            assert not schema_findings({**document, "checkpointing": {field: known, "storage": "any"}})


# Fields inside `config`


def test_fields_inside_config_are_read_as_fields() -> None:
    node: JsonObject = {"id": "a", "type": "tool_call", "config": {"server": "s", "tool": "t"}, "timeout": "5s"}
    assert not schema_findings(minimal_native(node))


def test_mistakes_inside_config_are_reported_there() -> None:
    node: JsonObject = {"id": "a", "type": "tool_call", "config": {"sever": "s", "tool": 3}}
    assert brief(minimal_native(node)) == [
        ("UNKNOWN_FIELD", "/nodes/0/config/sever", "additionalProperties"),
        ("INVALID_VALUE", "/nodes/0/config/tool", "type"),
        ("MISSING_FIELD", "/nodes/0", "required"),
    ]


def test_a_field_is_not_given_twice() -> None:
    finding = the_finding(minimal_native({**STEP, "config": {"handler": "m:g"}}))
    assert (finding.code, finding.path) == ("INVALID_VALUE", "/nodes/0/config/handler")


@pytest.mark.parametrize("name", ["id", "type", "config"])
def test_what_names_a_node_does_not_stand_inside_config(name: str) -> None:
    finding = the_finding(minimal_native({**STEP, "config": {name: "x"}}))
    assert (finding.code, finding.path) == ("UNKNOWN_FIELD", f"/nodes/0/config/{name}")


def test_a_config_that_is_no_object_is_the_only_mistake() -> None:
    assert brief(minimal_native({"id": "a", "type": "step", "config": 3})) == [
        ("INVALID_VALUE", "/nodes/0/config", "type")
    ]


# Compensation


@pytest.mark.parametrize(
    "compensate",
    [
        {"handler": "m:undo"},
        {"type": "step", "handler": "m:undo", "retry": {"max_attempts": 3}},
        {"server": "s", "tool": "t", "arguments": {}},
        {"url": "https://example.com", "method": "DELETE"},
        {"type": "agent_delegate", "agent_id": "x"},
        {"type": "llm_call", "model": "m", "prompt": "p"},
    ],
)
def test_a_compensation_is_an_activity_without_an_id(compensate: JsonObject) -> None:
    assert not schema_findings(minimal_native({**STEP, "compensate": compensate}))


@pytest.mark.parametrize(
    ("compensate", "expected"),
    [
        ({}, ("MISSING_FIELD", "/nodes/0/compensate", "oneOf")),
        ({"type": "wait", "duration": "1s"}, ("INVALID_VALUE", "/nodes/0/compensate/type", "enum")),
        ({"handler": "h", "id": "x"}, ("UNKNOWN_FIELD", "/nodes/0/compensate/id", "additionalProperties")),
        ({"tool": "t"}, ("MISSING_FIELD", "/nodes/0/compensate", "required")),
        ("undo", ("INVALID_VALUE", "/nodes/0/compensate", "type")),
    ],
)
def test_a_compensation_is_held_to_the_rules_of_its_type(compensate: JsonValue, expected: tuple[str, str, str]) -> None:
    assert brief(minimal_native({**STEP, "compensate": compensate})) == [expected]


# Published documents


def test_a_published_document_is_recognised_by_its_header() -> None:
    assert brief({"document": {}}) == [
        ("MISSING_FIELD", "", "required"),
        ("MISSING_FIELD", "", "required"),
        ("MISSING_FIELD", "", "required"),
        ("MISSING_FIELD", "/document", "required"),
        ("MISSING_FIELD", "/document", "required"),
        ("MISSING_FIELD", "/document", "required"),
    ]


def test_extensions_at_the_top_are_refused_in_the_words_of_ajv() -> None:
    document = minimal_published(extensions={})
    assert brief(document) == [("UNKNOWN_FIELD", "/extensions", "additionalProperties")]
    assert published_diagnostics(document) == (
        Violation("", "additionalProperties", "must NOT have additional properties"),
    )


def test_a_bad_node_also_fails_the_choice_of_node_types() -> None:
    config: JsonObject = {"agent_id": "x", "protocol": "smtp", "input_mapping": {}}
    document = minimal_published({"id": "a", "type": "agent_delegate", "config": config})
    assert published_diagnostics(document) == (
        Violation("/nodes/1/config/protocol", "enum", "must be equal to one of the allowed values"),
        Violation("/nodes/1", "oneOf", "must match exactly one schema in oneOf"),
    )


def test_an_unknown_node_type_is_a_constant_that_differs() -> None:
    document = minimal_published({"id": "a", "type": "for_each", "config": {}})
    finding = the_finding(document)
    assert (finding.code, finding.path) == ("UNKNOWN_NODE_TYPE", "/nodes/1/type")
    assert finding.hint is not None
    assert "native format" in finding.hint
    assert published_diagnostics(document) == (
        Violation("/nodes/1/type", "const", "must be equal to constant"),
        Violation("/nodes/1", "oneOf", "must match exactly one schema in oneOf"),
    )


@pytest.mark.parametrize(
    ("document", "first"),
    [
        (7, Violation("", "type", "must be object")),
        ({}, Violation("", "required", "must have required property 'document'")),
        (minimal_published(nodes=[]), Violation("/nodes", "minItems", "must NOT have fewer than 1 items")),
        (
            minimal_published(state_schema={}),
            Violation("/state_schema", "minProperties", "must NOT have fewer than 1 properties"),
        ),
        (minimal_published(checkpointing={"n": 0}), Violation("/checkpointing/n", "minimum", "must be >= 1")),
        (
            changed(minimal_published(), "/document/name", ""),
            Violation("/document/name", "minLength", "must NOT have fewer than 1 characters"),
        ),
        (
            minimal_published({"id": "a", "type": "step", "config": {}}),
            Violation("/nodes/1/config", "anyOf", "must match a schema in anyOf"),
        ),
    ],
)
def test_diagnostics_use_the_words_of_ajv(document: JsonValue, first: Violation) -> None:
    assert published_diagnostics(document)[0] == first


def test_a_field_beside_config_is_sent_inside() -> None:
    finding = the_finding(minimal_published({"id": "a", "type": "step", "config": {"handler": "h"}, "code_ref": "x"}))
    assert finding.hint == "the published format puts this inside `config`"


def test_a_signed_document_is_accepted() -> None:
    assert not schema_findings(changed(minimal_published(), "/document/signature", {"alg": "EdDSA", "value": "a.b.c"}))


# Interrupts on parallel branches


def fork(*branches: str, join: str | None = "finish", **nodes: JsonObject) -> JsonObject:
    entries: list[JsonValue] = [{"name": f"to {entry}", "entry": entry} for entry in branches]
    edges: list[JsonValue] = [{"source": "__start__", "target": "begin"}, {"source": "begin", "target": "fork"}]
    if join is not None:
        edges.append({"source": "fork", "target": join})
    members: list[JsonValue] = [{"id": "fork", "type": "parallel", "config": {"join": "all", "branches": entries}}]
    for name, node in nodes.items():
        target = node.pop("to", None)
        members.append({"id": name, **node})
        if target is not None:
            edges.append({"source": name, "target": target})
    return minimal_published(*members, edges=edges)


def asking(to: str | None = "finish") -> JsonObject:
    return {"type": "interrupt", "config": {"prompt": "p", "resume_schema": {"type": "object"}}, "to": to}


def working(to: str | None = "finish") -> JsonObject:
    return {"type": "step", "config": {"handler": "h"}, "to": to}


def choosing(*targets: str) -> JsonObject:
    cases: list[JsonValue] = [{"when": ".x", "target": target} for target in targets[1:]]
    return {"type": "switch", "config": {"cases": cases, "default": targets[0]}}


@pytest.mark.parametrize(
    "document",
    [
        fork("ask", ask=asking()),
        fork("work", work=working("ask"), ask=asking()),
        fork("pick", pick=choosing("finish", "ask"), ask=asking()),
        fork("pick", pick=choosing("ask", "finish"), ask=asking()),
        fork("work", work=working("back"), back=choosing("work", "ask"), ask=asking("work")),
        fork("ask", join=None, ask=asking(None)),
        fork("work", "ask", work=working(), ask=asking()),
        fork("ask", "ask", ask=asking()),
    ],
)
def test_an_interrupt_on_a_branch_is_refused(document: JsonObject) -> None:
    finding = the_finding(document)
    assert (finding.code, finding.keyword) == ("INTERRUPT_IN_PARALLEL_BRANCH", "profile")
    assert "INTERRUPT_IN_PARALLEL_BRANCH" in finding.message
    (violation,) = published_diagnostics(document)
    assert (violation.instance_path, violation.keyword) == (finding.path, "profile")
    assert "INTERRUPT_IN_PARALLEL_BRANCH" in violation.message


@pytest.mark.parametrize(
    "document",
    [
        fork("work", join="ask", work=working("ask"), ask=asking()),
        fork("pick", join="ask", pick=choosing("ask", "work"), work=working("ask"), ask=asking()),
        fork("pick", pick=choosing("pick", "nowhere")),
        fork("nowhere"),
        fork("fork"),
        fork("work", join=None, work=working("work")),
        fork("begin", join="ask", ask=asking()),
    ],
)
def test_an_interrupt_elsewhere_is_fine_and_no_graph_is_too_strange(document: JsonObject) -> None:
    assert not schema_findings(document)


def test_native_branches_may_ask() -> None:
    ask: JsonObject = {"id": "ask", "type": "interrupt", "message": "m"}
    node: JsonObject = {"id": "both", "type": "parallel", "branches": [{"name": "a", "nodes": [ask]}]}
    assert not schema_findings(minimal_native(node))


# The checks and the schemas agree


def is_beyond_schema(finding: Finding) -> bool:
    words = {"UNKNOWN_REDUCER", "UNKNOWN_CHECKPOINT_STRATEGY"}
    return finding.keyword in BEYOND or (finding.code in words and finding.keyword == "enum")


def test_the_checks_accept_what_the_published_schema_accepts() -> None:
    verdicts = set()
    for mutant in mutations(everything_published(), 400, seed=1):
        valid = PUBLISHED.is_valid(mutant)
        verdicts.add(valid)
        findings = [finding for finding in schema_findings(mutant) if not is_beyond_schema(finding)]
        assert bool(findings) is not valid, json.dumps(mutant)
        assert bool(published_diagnostics(mutant)) == bool(schema_findings(mutant))
    assert verdicts == {True, False}


def test_the_checks_accept_what_the_native_schema_accepts() -> None:
    verdicts = set()
    for mutant in mutations(everything_native(), 250, seed=2):
        valid = NATIVE.is_valid(mutant)
        verdicts.add(valid)
        findings = [finding for finding in schema_findings(mutant) if finding.keyword not in BEYOND]
        if '"config"' in json.dumps(mutant):
            assert valid or findings, json.dumps(mutant)
        else:
            assert bool(findings) is not valid, json.dumps(mutant)
    assert verdicts == {True, False}


def test_findings_point_at_places_that_exist_or_are_unknown_fields() -> None:
    for mutant in mutations(everything_native(), 150, seed=3):
        for finding in schema_findings(mutant):
            # Looking the place up fails if there is none.
            at(mutant, finding.path)


def test_there_is_an_end_to_findings() -> None:
    document = minimal_native(**{f"unknown_{number}": number for number in range(2 * FINDINGS_MAX)})
    assert len(schema_findings(document)) == FINDINGS_MAX


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
WORDS = st.sampled_from(
    [
        *(
            "penstock",
            "name",
            "nodes",
            "id",
            "type",
            "config",
            "edges",
            "document",
            "state_schema",
            "branches",
            "entry",
        ),
        *("source", "target", "cases", "next", "on_error", "compensate", "state", "properties", "reducer", "join"),
        *(kind.name for kind in NODE_KINDS.values()),
    ]
)
ANY_JSON: st.SearchStrategy[JsonValue] = st.recursive(
    SCALARS | WORDS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS | st.text(max_size=4), inner, max_size=5),
    max_leaves=30,
)


@given(ANY_JSON)
def test_any_json_is_checked_without_an_exception(document: JsonValue) -> None:
    for finding in schema_findings(document):
        assert finding.code
        assert finding.message
        assert finding.keyword
        assert finding.position is None
    published_diagnostics(document)


NODES = st.dictionaries(WORDS, ANY_JSON, max_size=4).flatmap(
    lambda extra: st.builds(
        lambda node_type: {"id": "a", "type": node_type, **extra},
        st.sampled_from([kind.name for kind in NODE_KINDS.values()]),
    )
)


@given(st.lists(NODES, min_size=1, max_size=3))
def test_nodes_with_any_fields_are_checked_without_an_exception(nodes: list[JsonValue]) -> None:
    native, published = minimal_native(*nodes), minimal_published(*nodes)
    schema_findings(native)
    assert bool(published_diagnostics(published)) == bool(schema_findings(published))


NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,20}", fullmatch=True).filter(lambda name: name != "input")
VALID_STEPS = st.fixed_dictionaries(
    {"type": st.just("step"), "handler": st.text(min_size=1)},
    optional={
        "with": ANY_JSON,
        "title": st.text(),
        "metadata": st.dictionaries(st.text(), ANY_JSON, max_size=2),
        "timeout": st.integers(0, 10_000).map(lambda amount: f"{amount}s") | st.integers(0, 10_000),
        "next": st.text(min_size=1),
        "retry": st.fixed_dictionaries({"max_attempts": st.integers(1, 9)}, optional={"jitter": st.booleans()}),
        "on_error": st.lists(st.fixed_dictionaries({"fallback": ANY_JSON}), max_size=2),
        "effects": st.sampled_from(["at_least_once", "at_most_once"]),
    },
)


@settings(max_examples=60)
@given(st.lists(VALID_STEPS, min_size=1, max_size=4), st.booleans())
def test_documents_made_valid_are_accepted(steps: list[JsonObject], inside: bool) -> None:
    named: list[JsonValue] = [{"id": f"node_{number}", **step} for number, step in enumerate(steps)]
    body: list[JsonValue] = [{"id": "all", "type": "for_each", "items": ".input", "nodes": named}] if inside else named
    document = minimal_native(*body)
    assert not schema_findings(document)
    assert NATIVE.is_valid(document)


@pytest.mark.skipif(not EXAMPLES.exists(), reason="the published fixtures are not on this machine")
def test_the_published_fixtures_are_judged_as_published() -> None:
    for path in sorted(EXAMPLES.rglob("*.workflow.json")):
        document = json.loads(path.read_text())
        assert bool(published_diagnostics(document)) is ("fixtures.invalid" in path.parts), path.name


@pytest.mark.skipif(not (SHARED / "design/PRODUCT.md").exists(), reason="the design is not on this machine")
def test_the_document_of_the_design_has_no_findings() -> None:
    text = (SHARED / "design/PRODUCT.md").read_text().split("```yaml\n")[1].split("```")[0]
    assert schema_findings(yaml.safe_load(text)) == ()
