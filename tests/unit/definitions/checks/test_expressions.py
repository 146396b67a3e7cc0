"""jq, templates and secrets: what does not compile, what is forbidden, what names something unknown."""

import pytest
import yaml

from penstock.base.json import JsonObject, JsonValue
from penstock.base.limits import DOCUMENT_EXPRESSIONS_MAX
from penstock.definitions.checks.expressions import expression_findings
from penstock.definitions.outline.document import outline_of
from penstock.definitions.outline.jq_leaves import Mistake, collect_leaves, leaf_of
from penstock.definitions.outline.reach import graph_of
from penstock.definitions.source.findings import Finding, Severity


def _native(nodes: str, **fields: JsonValue) -> JsonObject:
    return {"penstock": "v1", "name": "example", "nodes": yaml.safe_load(nodes), **fields}


def _published(nodes: str) -> JsonObject:
    return {"document": {}, "state_schema": {}, "nodes": yaml.safe_load(nodes), "edges": []}


def _check(document: JsonObject) -> list[Finding]:
    outline = outline_of(document)
    return list(expression_findings(document, graph_of(outline), collect_leaves(document, outline)))


def _pairs(document: JsonObject) -> list[tuple[str, str]]:
    return [(finding.code, finding.path) for finding in _check(document)]


def _one(document: JsonObject) -> Finding:
    findings = _check(document)
    assert len(findings) == 1, findings
    return findings[0]


def test_every_native_place_for_jq_is_compiled() -> None:
    document = _native(
        """
        - {id: a, type: step, handler: x, with: {deep: [1, "${ ( }"]}, idempotency_key: "${ ( }",
           compensate: {handler: y, with: {jq: "("}}, on_error: [{code: X, fallback: "${ ( }"}],
           next: {when: "(", then: b}}
        - {id: b, type: tool_call, server: s, tool: t, arguments: "${ ( }", on_error: {fallback: "${ ( }"}}
        - {id: c, type: llm_call, model: m, system_prompt: "${ ( }", prompt: "${ ( }", messages: ["${ ( }"]}
        - {id: d, type: http, url: "${ ( }", headers: {h: "${ ( }"}, query: {q: "${ ( }"}, body: "${ ( }"}
        - {id: e, type: agent_delegate, agent_id: g, input: {x: "${ ( }"}}
        - {id: f, type: switch, cases: [{when: "(", next: g}], default: g}
        - {id: g, type: interrupt, message: "${ ( }"}
        - {id: h, type: wait, until: "${ ( }"}
        - {id: i, type: set_state, set: {x: "${ ( }"}}
        - {id: j, type: set_state, assignments: {x: {jq: "("}}}
        - {id: k, type: subworkflow, workflow: w, input: {x: "${ ( }"}}
        - {id: l, type: for_each, items: "(", result: "${ ( }",
           nodes: [{id: m, type: step, handler: x, with: "${ ( }"}]}
        - {id: n, type: for_each, items: "${ ( }", nodes: [{id: o, type: step, handler: x}]}
        - {id: p, type: loop, while: "(", max_iterations: 2, nodes: [{id: q, type: step, handler: x}]}
        - {id: r, type: emit, run: "${ ( }", signal: s, payload: {x: "${ ( }"}}
        - {id: s, type: fail, code: X, message: "${ ( }"}
        - {id: t, type: end, output: {x: "${ ( }"}}
        - {id: u, type: end, output_mapping: "("}
        - {id: v, type: step, config: {handler: x, with: "${ ( }"}}
        """,
        on_error={"fallback": "${ ( }"},
        triggers=[{"webhook": {"path": "/x", "dedupe": "(", "filter": "("}, "input": {"x": "${ ( }"}}],
    )
    findings = _check(document)
    assert {finding.code for finding in findings} == {"JQ_INVALID"}
    assert [finding.path for finding in findings] == [
        "/nodes/0/with/deep/1",
        "/nodes/0/idempotency_key",
        "/nodes/0/compensate/with/jq",
        "/nodes/0/next/when",
        "/nodes/0/on_error/0/fallback",
        "/nodes/1/arguments",
        "/nodes/1/on_error/fallback",
        "/nodes/2/system_prompt",
        "/nodes/2/prompt",
        "/nodes/2/messages/0",
        "/nodes/3/url",
        "/nodes/3/headers/h",
        "/nodes/3/query/q",
        "/nodes/3/body",
        "/nodes/4/input/x",
        "/nodes/5/cases/0/when",
        "/nodes/6/message",
        "/nodes/7/until",
        "/nodes/8/set/x",
        "/nodes/9/assignments/x/jq",
        "/nodes/10/input/x",
        "/nodes/11/items",
        "/nodes/11/result",
        "/nodes/11/nodes/0/with",
        "/nodes/12/items",
        "/nodes/13/while",
        "/nodes/14/run",
        "/nodes/14/payload/x",
        "/nodes/15/message",
        "/nodes/16/output/x",
        "/nodes/17/output_mapping",
        "/nodes/18/config/with",
        "/on_error/fallback",
        "/triggers/0/input/x",
        "/triggers/0/webhook/dedupe",
        "/triggers/0/webhook/filter",
    ]


def test_every_published_place_for_jq_is_compiled_and_no_other() -> None:
    document = _published("""
    - {id: a, type: switch, config: {cases: [{when: "(", target: b}]}}
    - {id: b, type: set_state, config: {assignments: {x: {jq: "("}, y: {literal: "${ ( }"}}}}
    - {id: c, type: subworkflow,
       config: {workflow_ref: w, input_mapping: {x: {jq: "("}, y: "${ ( }", z: "text ${ ( }"}}}
    - {id: d, type: agent_delegate, config: {agent_id: g, protocol: a2a, input_mapping: {x: "${ ( }"}}}
    - {id: e, type: end, config: {output_mapping: "("}}
    - {id: f, type: tool_call, config: {server: s, tool: t, arguments: {x: "${ ( }"}}}
    - {id: g, type: llm_call, config: {model: m, prompt: "${ ( }"}}
    - {id: h, type: interrupt, config: {prompt: "${ ( }", resume_schema: {type: object}}}
    """)
    assert _pairs(document) == [
        ("JQ_INVALID", "/nodes/0/config/cases/0/when"),
        ("JQ_INVALID", "/nodes/1/config/assignments/x/jq"),
        ("JQ_INVALID", "/nodes/2/config/input_mapping/x/jq"),
        ("JQ_INVALID", "/nodes/2/config/input_mapping/y"),
        ("JQ_INVALID", "/nodes/3/config/input_mapping/x"),
        ("JQ_INVALID", "/nodes/4/config/output_mapping"),
    ]


def test_the_published_root_is_the_state_so_no_name_is_unknown() -> None:
    assert _pairs(_published("- {id: a, type: end, config: {output_mapping: .anything}}")) == []


@pytest.mark.parametrize("program", ["now", "input", "env.HOME", "$ENV.HOME", "debug", "input_filename"])
def test_what_makes_runs_differ_is_forbidden_and_named(program: str) -> None:
    whole = _one(_native(f"- {{id: a, type: end, output: {{x: '${{ {program} }}'}}}}"))
    inside = _one(_native(f"- {{id: a, type: end, output: {{x: 'at ${{ {program} }} sharp'}}}}"))
    bare = _one(_native(f"- {{id: a, type: end, output_mapping: '{program}'}}"))
    name = program.partition(".")[0]
    for found in (whole, inside, bare):
        assert found.code == "JQ_FORBIDDEN"
        assert f"`{name}`" in found.message


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("${ .input", "TEMPLATE_INVALID"),
        ("a ${ .input and more", "TEMPLATE_INVALID"),
        ("${secret:KEY} and ${ .input }", "TEMPLATE_INVALID"),
        ("${ secret:KEY }", "TEMPLATE_INVALID"),
        ("${ .input | }", "JQ_INVALID"),
        ("a ${ .input | } b", "JQ_INVALID"),
        ("a ${ now } b", "JQ_FORBIDDEN"),
    ],
)
def test_a_mistake_in_a_text_has_the_code_of_its_kind(text: str, code: str) -> None:
    leaf = leaf_of(text, "/x")
    assert isinstance(leaf, Mistake)
    assert leaf.code == code


def test_a_doubled_dollar_is_not_a_template() -> None:
    assert _pairs(_native("- {id: a, type: end, output: {x: '$${ not jq'}}")) == []


def test_an_unknown_name_at_the_root_comes_with_a_suggestion() -> None:
    found = _one(_native("- {id: a, type: end, output: {x: '${ .inptu.amount }'}}"))
    assert (found.code, found.path) == ("UNKNOWN_REFERENCE", "/nodes/0/output/x")
    assert found.hint == "did you mean `.input`?"


def test_a_name_of_the_input_is_found_where_it_is() -> None:
    schema: JsonObject = {"properties": {"order_id": {"type": "string"}}}
    found = _one(_native("- {id: a, type: end, output: {x: '${ .order_id }'}}", input=schema))
    assert found.hint == "did you mean `.input.order_id`?"


def test_the_names_of_the_root_and_of_nodes_are_known() -> None:
    document = _native("""
    - {id: pay, type: step, handler: x, next: {when: .pay.ok, then: done}}
    - {id: done, type: end, output: {x: "${ [.input, .run.id, .state, .error.code, .pay.reference] }"}}
    """)
    assert _pairs(document) == []


def test_the_item_and_the_loop_are_known_inside_only() -> None:
    document = _native("""
    - id: each
      type: for_each
      items: .input.orders
      as: order
      result: "${ .work }"
      nodes:
        - {id: work, type: step, handler: x, with: {a: "${ .order.id }", b: "${ .index }"}}
        - id: again
          type: loop
          until: .check.done
          max_iterations: 3
          nodes: [{id: check, type: step, handler: x, with: "${ [.loop.index, .order, .work] }"}]
    - {id: done, type: end, output: {a: "${ .order }", b: "${ .loop }", c: "${ .each }"}}
    """)
    assert _pairs(document) == [
        ("UNKNOWN_REFERENCE", "/nodes/1/output/a"),
        ("UNKNOWN_REFERENCE", "/nodes/1/output/b"),
    ]


def test_the_item_goes_by_the_name_it_was_given() -> None:
    document = _native("""
    - {id: a, type: for_each, items: .input, as: order, nodes: [{id: x, type: step, handler: x, with: "${ .item }"}]}
    - {id: b, type: for_each, items: .input, nodes: [{id: y, type: step, handler: x, with: "${ .item }"}]}
    """)
    assert _pairs(document) == [("UNKNOWN_REFERENCE", "/nodes/0/nodes/0/with")]


def test_a_loop_and_its_branches_leave_their_outputs_to_what_follows() -> None:
    document = _native("""
    - id: again
      type: loop
      until: .check.done
      max_iterations: 3
      nodes:
        - id: both
          type: parallel
          branches:
            - {name: a, nodes: [{id: check, type: step, handler: x}]}
            - {name: b, nodes: [{id: other, type: step, handler: x, with: "${ .loop.index }"}]}
    - {id: done, type: end, output: "${ [.check, .other, .both, .again] }"}
    """)
    assert _pairs(document) == []
    assert (
        _one(
            _native("""
    - {id: again, type: loop, while: .loop.index < 3, max_iterations: 3, nodes: [{id: x, type: step, handler: x}]}
    """)
        ).path
        == "/nodes/0/while"
    )


def test_a_node_inside_a_for_each_cannot_be_read_from_outside() -> None:
    document = _native("""
    - {id: each, type: for_each, items: .input, nodes: [{id: work, type: step, handler: x}]}
    - {id: done, type: end, output: "${ .work }"}
    """)
    found = _one(document)
    assert found.code == "UNKNOWN_REFERENCE"
    assert found.hint == "read the results of all items instead: `.each`"


def test_a_program_that_reads_the_whole_root_is_not_guessed_at() -> None:
    assert _pairs(_native("- {id: a, type: end, output: {x: '${ keys }', y: '${ . as {whatever: $x} | $x }'}}")) == []


def test_secrets_are_declared_and_used() -> None:
    document = _native(
        """
        - {id: a, type: step, handler: x, with: {key: "Bearer ${secret:SHOP_KYE}"}}
        - {id: b, type: end}
        """,
        secrets=["SHOP_KEY"],
    )
    undeclared, unused = _check(document)
    assert (undeclared.code, undeclared.path) == ("UNDECLARED_SECRET", "/nodes/0/with/key")
    assert undeclared.hint == "did you mean `SHOP_KEY`?"
    assert (unused.code, unused.path, unused.severity) == ("UNUSED_SECRET", "/secrets/0", Severity.WARNING)


def test_secrets_stand_in_the_fields_of_activities_only() -> None:
    document = _native(
        """
        - {id: a, type: http, url: "https://x/${secret:KEY}", headers: {h: "${secret:KEY}"}, body: {b: "${secret:KEY}"},
           compensate: {url: "https://x", headers: {h: "${secret:KEY}"}}, description: "needs ${secret:KEY}"}
        - {id: b, type: set_state, set: {x: "${secret:KEY}"}}
        - {id: c, type: interrupt, message: "${secret:KEY}"}
        - {id: d, type: step, handler: "${secret:KEY}", idempotency_key: "${secret:KEY}"}
        - {id: e, type: end, output: {x: "${secret:KEY}"}}
        """,
        secrets=["KEY"],
        triggers=[{"webhook": {"path": "/x", "secret": "${secret:KEY}"}, "input": {"x": "${secret:KEY}"}}],
    )
    assert _pairs(document) == [
        ("SECRET_NOT_ALLOWED", "/nodes/1/set/x"),
        ("SECRET_NOT_ALLOWED", "/nodes/2/message"),
        ("SECRET_NOT_ALLOWED", "/nodes/3/handler"),
        ("SECRET_NOT_ALLOWED", "/nodes/3/idempotency_key"),
        ("SECRET_NOT_ALLOWED", "/nodes/4/output/x"),
        ("SECRET_NOT_ALLOWED", "/triggers/0/input/x"),
    ]


def test_a_document_of_nothing_but_expressions_is_checked_up_to_a_limit() -> None:
    many: list[JsonValue] = ["${ .input }"] * (DOCUMENT_EXPRESSIONS_MAX + 1)
    assert _pairs({"penstock": "v1", "nodes": [{"id": "a", "type": "end", "output": many}]}) == [
        ("TOO_MANY_EXPRESSIONS", "")
    ]
