"""Two versions of a workflow are compared by what they mean: for callers, and for runs in flight."""

import copy
from typing import cast

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.diff.compare import Change, ChangeKind, InFlight, Subject, diff_documents
from tests.unit.definitions.documents import (
    at,
    changed,
    everything_native,
    everything_published,
    minimal_native,
    minimal_published,
    mutations,
)

REFUND = """
penstock: v1
name: refund_order
version: 1.4.0
input:
  type: object
  required: [order_id]
  properties: {order_id: {type: string}, amount: {type: number, minimum: 0}}
output: {type: object, required: [refunded], properties: {refunded: {type: number}}}
state: {type: object, properties: {log: {type: array, reducer: append}}}
nodes:
  - {id: order, type: tool_call, server: shop, tool: get_order, arguments: {id: "${ .input.order_id }"}}
  - id: policy
    type: switch
    cases:
      - {when: .order.total < .input.amount, next: refuse}
      - {when: .input.amount > 100, next: ask}
    default: pay
  - id: ask
    type: interrupt
    message: Refund?
    answer: {type: object, required: [approve], properties: {approve: {type: boolean}}}
    timeout: 24h
    on_timeout: refuse
    next: {when: .ask.approve, then: pay, else: refuse}
  - {id: pay, type: step, handler: "shop:refund", retry: {max_attempts: 5}, next: done}
  - {id: refuse, type: end, output: {refunded: 0}}
  - {id: done, type: end, output: {refunded: "${ .pay.amount }"}}
expose: {tool: {name: refund_order}}
governance: {risk: high, scopes: [orders.refund]}
triggers: [{webhook: {path: /refunds}}, {id: nightly, schedule: {cron: "0 2 * * *"}}]
tests: [{name: it pays, expect: {status: completed}}]
"""


def refund() -> JsonObject:
    return cast(JsonObject, yaml.safe_load(REFUND))


def one_change(before: JsonObject, after: JsonObject) -> Change:
    diff = diff_documents(before, after)
    assert len(diff.changes) == 1, [change.message for change in diff.changes]
    return diff.changes[0]


def after_putting(path: str, value: JsonValue) -> Change:
    """The one change that follows from putting a value into the refund workflow."""
    return one_change(refund(), changed(refund(), path, value))


# Nothing changed


@pytest.mark.parametrize("document", [refund(), everything_native(), everything_published()], ids=["a", "b", "c"])
def test_a_document_does_not_differ_from_itself(document: JsonObject) -> None:
    diff = diff_documents(document, copy.deepcopy(document))
    assert diff.same
    assert not diff.breaking_for_callers
    assert diff.safe_for_runs_in_flight


@pytest.mark.parametrize("document", [everything_native(), everything_published()], ids=["native", "published"])
def test_a_broken_document_does_not_differ_from_itself_either(document: JsonObject) -> None:
    mutants = list(mutations(document, count=150, seed=11))
    assert all(diff_documents(mutant, copy.deepcopy(mutant)).same for mutant in mutants)


@pytest.mark.parametrize("document", [everything_native(), everything_published()], ids=["native", "published"])
def test_any_two_documents_can_be_compared(document: JsonObject) -> None:
    for mutant in mutations(document, count=150, seed=12):
        there, back = diff_documents(document, mutant), diff_documents(mutant, document)
        assert all(change.message and change.path[:1] in ("", "/") for change in (*there.changes, *back.changes))


JSON: st.SearchStrategy[JsonValue] = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["id", "type", "nodes", "input", "next", "on_error", "x"]), inner, max_size=4),
    ),
    max_leaves=12,
)
DOCUMENTS = st.dictionaries(
    st.sampled_from(["penstock", "name", "nodes", "edges", "input", "expose", "governance", "triggers", "tests"]), JSON
)


@given(DOCUMENTS, DOCUMENTS)
def test_anything_at_all_can_be_compared(before: JsonObject, after: JsonObject) -> None:
    diff_documents(before, after).to_json()
    assert diff_documents(before, copy.deepcopy(before)).same


def test_the_same_in_other_words_is_no_change() -> None:
    before = minimal_native(
        {"id": "a", "type": "step", "handler": "h", "timeout": "1m", "with": {"x": "${ .input.x }", "y": 1}},
        {"id": "b", "type": "set_state", "set": {"k": "${ .a }", "l": [1]}, "next": "c"},
        {"id": "c", "type": "interrupt", "message": "?", "on_error": {"code": "X", "next": "d"}},
        {"id": "d", "type": "end", "output": {"jq": ".a"}},
    )
    after = minimal_native(
        {
            "id": "a",
            "type": "step",
            "config": {"handler": "h", "timeout": 60000, "with": {"y": 1.0, "x": {"jq": ".input.x"}}},
        },
        {"id": "b", "type": "set_state", "assignments": {"k": {"jq": ".a"}, "l": {"literal": [1]}}},
        {
            "id": "c",
            "type": "interrupt",
            "prompt": "?",
            "answer": {"type": "object"},
            "on_error": [{"codes": ["X"], "next": "d"}],
        },
        {"id": "d", "type": "end", "output_mapping": ".a"},
        version="0.0.0",
    )
    assert diff_documents(before, after).changes == ()


def test_a_published_document_and_its_native_equivalent_differ_in_format_only() -> None:
    published = minimal_published(
        {
            "id": "fork",
            "type": "parallel",
            "config": {"join": "all", "branches": [{"name": "a", "entry": "left"}, {"name": "b", "entry": "right"}]},
        },
        {"id": "left", "type": "tool_call", "config": {"server": "s", "tool": "t"}},
        {"id": "right", "type": "wait", "config": {"kind": "duration", "duration_ms": 5}},
        {"id": "note", "type": "set_state", "config": {"assignments": {"k": {"jq": ".x"}}}, "timeout": "30s"},
        edges=[
            {"source": source, "target": target}
            for source, target in [
                ("__start__", "begin"),
                ("begin", "fork"),
                ("fork", "note"),
                ("left", "note"),
                ("right", "note"),
                ("note", "finish"),
            ]
        ],
    )
    native = minimal_native(
        {"id": "begin", "type": "start"},
        {
            "id": "fork",
            "type": "parallel",
            "branches": [
                {"name": "a", "nodes": [{"id": "left", "type": "tool_call", "server": "s", "tool": "t"}]},
                {"name": "b", "nodes": [{"id": "right", "type": "wait", "duration": "5ms"}]},
            ],
        },
        {"id": "note", "type": "set_state", "set": {"k": "${ .x }"}, "timeout": 30000},
        {"id": "finish", "type": "end"},
        version="1",
        state={"type": "object"},
    )
    change = one_change(published, native)
    assert (change.subject, change.in_flight) == (Subject.DOCUMENT, InFlight.UNSAFE)
    assert change.message == "The document is now in the native format (before: published)."


# Callers


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("/name", "refunds", "The workflow is now called `refunds` (before: `refund_order`)."),
        ("/input/required", ["order_id", "amount"], "`amount` of the input is now required."),
        ("/input/properties/order_id", {"type": "integer"}, "`order_id` of the input is now integer (before: string)."),
        ("/input/properties/amount/minimum", 5, "`amount` of the input must now be at least 5 (before: at least 0)."),
        ("/input/additionalProperties", False, "Members of the input that are not listed are now refused."),
        ("/output/required", [], "`refunded` of the output is no longer required."),
        (
            "/output/properties/refunded/type",
            ["number", "null"],
            "`refunded` of the output is now null or number (before: number).",
        ),
        ("/output/properties", {}, "`refunded` of the output was removed."),
        ("/expose/tool", {"name": "refund"}, "The name of the tool is now `refund` (before: `refund_order`)."),
        ("/expose", {}, "The workflow is no longer listed as a tool."),
        ("/governance/scopes", ["orders.refund", "x"], "Callers now need the scope `x`."),
        ("/governance/confirm", True, "`confirm` of the governance is now `true` (before: nothing)."),
        ("/governance/risk", "critical", "`risk` of the governance is now `critical` (before: `high`)."),
        ("/governance/draft", "always", "`draft` of the governance is now `always` (before: nothing)."),
        ("/triggers/0/webhook/path", "/other", "The webhook `webhook 1` changed."),
    ],
)
def test_what_callers_rely_on_cannot_change_quietly(path: str, value: JsonValue, message: str) -> None:
    change = after_putting(path, value)
    assert change.message == message
    assert change.breaking
    assert change.reason


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("/version", "1.5.0"),
        ("/title", "Refund an order"),
        ("/input/required", []),
        ("/input/properties/note", {"type": "string"}),
        ("/input/properties/amount/minimum", -1),
        ("/output/properties/note", {"type": "string"}),
        ("/output/properties/refunded/minimum", 0),
        ("/expose/tool/description", "Refunds."),
        ("/expose/resource", True),
        ("/expose/sampling", True),
        ("/expose/elicitation", True),
        ("/expose/a2a", True),
        ("/governance/risk", "low"),
        ("/governance/scopes", []),
        ("/governance/rate", None),
        ("/triggers/1/schedule/cron", "0 3 * * *"),
        ("/tests/0/expect/status", "failed"),
        ("/labels", {"team": "orders"}),
        ("/nodes/3/handler", "shop:refund_twice"),
    ],
)
def test_what_callers_do_not_notice_is_not_breaking(path: str, value: JsonValue) -> None:
    diff = diff_documents(refund(), changed(refund(), path, value))
    assert not diff.breaking_for_callers
    assert diff.safe_for_runs_in_flight


def test_a_lower_rate_is_breaking_and_a_higher_one_is_not() -> None:
    slow = changed(refund(), "/governance/rate", {"limit": 10, "per": "1h"})
    fast = changed(refund(), "/governance/rate", {"limit": 1, "per": "1m"})
    assert one_change(fast, slow).breaking
    assert not one_change(slow, fast).breaking
    assert one_change(refund(), fast).breaking


def test_the_input_of_a_published_workflow_is_its_state() -> None:
    before = minimal_published()
    change = one_change(before, changed(before, "/state_schema/required", ["topic"]))
    assert (change.subject, change.breaking) == (Subject.STATE, True)
    native = minimal_native(state={"type": "object"})
    assert not one_change(native, changed(native, "/state/required", ["topic"])).breaking


def test_a_signal_that_nobody_waits_for_any_more_breaks_its_senders() -> None:
    before = minimal_native({"id": "w", "type": "wait", "signal": "paid"}, {"id": "done", "type": "end"})
    renamed = one_change(before, changed(before, "/nodes/0/signal", "settled"))
    assert (renamed.breaking, renamed.in_flight) == (True, InFlight.UNSAFE)
    assert "`paid`" in renamed.reason


# Runs in flight


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("/nodes/1/cases/1/when", ".x", "`policy` now leads to `ask` when `.x` (before: when `.input.amount > 100`)."),
        ("/nodes/1/cases/1/next", "done", "When `.input.amount > 100`, `policy` now leads to `done` (before: `ask`)."),
        ("/nodes/1/default", "ask", "When no condition of `policy` holds, a run now goes to `ask` (before: `pay`)."),
        ("/nodes/2/on_timeout", "pay", "When `ask` times out, a run now goes to `pay` (before: `refuse`)."),
        ("/nodes/2/next/when", ".no", "`ask` now leads to `pay` when `.no` (before: when `.ask.approve`)."),
        ("/nodes/3/next", "refuse", "After `pay` a run now goes to `refuse` (before: `done`)."),
        ("/nodes/2/answer/required", [], "`answer` of `ask` changed."),
        ("/nodes/3/type", "http", "The node `pay` is now of the type `http` (before: `step`)."),
        (
            "/state/properties/log/reducer",
            "merge",
            "The reducer of `log` of the state is now `merge` (before: `append`).",
        ),
    ],
)
def test_what_a_replay_would_notice_is_unsafe(path: str, value: JsonValue, message: str) -> None:
    change = after_putting(path, value)
    assert change.message == message
    assert change.in_flight is InFlight.UNSAFE
    assert not change.breaking
    assert change.reason


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("/nodes/0/arguments", {"id": 7}),
        ("/nodes/0/timeout", "10s"),
        ("/nodes/2/message", "Refund it?"),
        ("/nodes/2/timeout", "48h"),
        ("/nodes/2/title", "Ask"),
        ("/nodes/3/retry/max_attempts", 7),
        ("/nodes/3/retry/initial_interval", "1s"),
        ("/nodes/4/output", {"refunded": 1}),
        ("/timeout", "3d"),
    ],
)
def test_what_only_later_work_sees_is_safe(path: str, value: JsonValue) -> None:
    assert after_putting(path, value).in_flight is InFlight.SAFE


def test_fewer_tries_than_a_run_may_have_made_are_not_known_to_be_safe() -> None:
    assert after_putting("/nodes/3/retry/max_attempts", 2).in_flight is InFlight.UNKNOWN
    assert after_putting("/nodes/3/retry/non_retryable_errors", ["X"]).in_flight is InFlight.UNKNOWN


def test_a_removed_node_is_unsafe_unless_no_run_can_have_reached_it() -> None:
    before = minimal_native(
        {"id": "a", "type": "step", "next": "done"}, {"id": "b", "type": "step"}, {"id": "done", "type": "end"}
    )
    without = minimal_native({"id": "a", "type": "step", "next": "done"}, {"id": "done", "type": "end"})
    change = one_change(before, without)
    assert (change.kind, change.subject, change.in_flight) == (ChangeKind.REMOVED, Subject.NODE, InFlight.SAFE)
    diff = diff_documents(without, minimal_native({"id": "done", "type": "end"}))
    [removed] = [change for change in diff.changes if change.subject is Subject.NODE]
    assert removed.in_flight is InFlight.UNSAFE
    assert removed.path == "/nodes/0"


def test_an_added_node_is_safe_when_nothing_old_leads_to_it() -> None:
    before = minimal_native({"id": "a", "type": "step", "next": "done"}, {"id": "done", "type": "end"})
    aside = copy.deepcopy(before)
    cast(list[JsonValue], aside["nodes"]).insert(1, {"id": "b", "type": "step"})
    assert one_change(before, aside).in_flight is InFlight.SAFE
    between = changed(aside, "/nodes/0/next", "b")
    route, node = diff_documents(before, between).changes
    assert route.message == "After `a` a run now goes to `b` (before: `done`)."
    assert (node.subject, node.in_flight) == (Subject.NODE, InFlight.UNSAFE)


def test_the_order_of_cases_matters_and_is_said_once() -> None:
    cases = at(refund(), "/nodes/1/cases")
    assert isinstance(cases, list)
    change = after_putting("/nodes/1/cases", cases[::-1])
    assert change.message == "The cases of `policy` are tried in another order."
    assert change.in_flight is InFlight.UNSAFE


def test_every_case_that_came_or_went_is_named() -> None:
    cases: list[JsonValue] = [{"when": ".order.total < .input.amount", "next": "done"}, {"when": ".vip", "next": "pay"}]
    diff = diff_documents(refund(), changed(refund(), "/nodes/1/cases", [*cases, {"when": ".x", "next": "pay"}]))
    assert [change.message for change in diff.changes] == [
        "When `.order.total < .input.amount`, `policy` now leads to `done` (before: `refuse`).",
        "`policy` now leads to `pay` when `.vip`.",
        "`policy` now leads to `pay` when `.x`.",
        "`policy` no longer leads to `ask` when `.input.amount > 100`.",
    ]


@pytest.mark.parametrize(
    ("node", "name", "value"),
    [
        ("both", "n", 2),
        ("both", "concurrency", 1),
        ("each", "items", ".input.others"),
        ("each", "concurrency", 1),
        ("each", "result", "${ .ship.id }"),
        ("until_done", "until", ".check.over"),
        ("until_done", "max_iterations", 3),
        ("note", "set", {"log": "nothing"}),
        ("child", "workflow", "another_one"),
        ("late", "code", "MUCH_TOO_LATE"),
        ("ping", "signal", "pong"),
    ],
)
def test_what_decides_which_work_there_is_is_unsafe(node: str, name: str, value: JsonValue) -> None:
    # Of the example only what is reachable counts, so the nodes run one after the other here.
    document = everything_native()
    body = next(nodes for nodes in bodies(document) if any(member["id"] == node for member in nodes))
    index = next(index for index, member in enumerate(body) if member["id"] == node)
    before = minimal_native(cast(JsonValue, body[index]), {"id": "done", "type": "end"})
    assert one_change(before, changed(before, f"/nodes/0/{name}", value)).in_flight is InFlight.UNSAFE


def bodies(document: JsonObject) -> list[list[JsonObject]]:
    found: list[list[JsonObject]] = []
    pending: list[JsonValue] = [document]
    while pending:
        value = pending.pop()
        if isinstance(value, list):
            pending.extend(value)
        elif isinstance(value, dict):
            pending.extend(value.values())
            if isinstance(value.get("nodes"), list):
                found.append(cast(list[JsonObject], value["nodes"]))
    return found


def test_more_rounds_are_safe_for_a_loop_that_is_under_way() -> None:
    loop: JsonObject = {
        "id": "l",
        "type": "loop",
        "until": ".x",
        "max_iterations": 3,
        "nodes": [{"id": "s", "type": "step"}],
    }
    before = minimal_native(loop)
    assert one_change(before, changed(before, "/nodes/0/max_iterations", 9)).in_flight is InFlight.SAFE


def test_branches_that_come_go_or_move_are_unsafe() -> None:
    def fork(*names: str) -> JsonObject:
        branches: list[JsonValue] = [{"name": name, "nodes": [{"id": f"in_{name}", "type": "step"}]} for name in names]
        return minimal_native({"id": "f", "type": "parallel", "branches": branches})

    def messages(before: JsonObject, after: JsonObject) -> list[str]:
        changes = [change for change in diff_documents(before, after).changes if change.subject is Subject.BRANCH]
        assert all(change.in_flight is InFlight.UNSAFE for change in changes)
        return [change.message for change in changes]

    assert messages(fork("a"), fork("a", "b")) == ["The branch `b` of `f` is new."]
    assert messages(fork("a", "b"), fork("a")) == ["The branch `b` of `f` was removed."]
    assert messages(fork("a", "b"), fork("b", "a")) == ["The branches of `f` are in another order."]


def test_a_node_that_moved_into_a_body_is_unsafe() -> None:
    step: JsonObject = {"id": "s", "type": "step", "handler": "h"}
    loop: JsonObject = {"id": "l", "type": "loop", "until": ".x", "max_iterations": 2, "nodes": [step]}
    diff = diff_documents(minimal_native(step), minimal_native(loop))
    assert "The node `s` moved to `l` (before: in the top level)." in [change.message for change in diff.changes]
    assert not diff.safe_for_runs_in_flight


def test_an_appended_error_route_is_only_perhaps_unsafe() -> None:
    routed = changed(refund(), "/nodes/3/on_error", [{"code": "DECLINED", "next": "refuse"}])
    appended = one_change(refund(), routed)
    assert (appended.subject, appended.in_flight) == (Subject.ERROR_ROUTE, InFlight.UNKNOWN)
    assert appended.message == "Errors of `pay` with the code `DECLINED` now lead to `refuse`."
    removed = one_change(routed, refund())
    assert removed.in_flight is InFlight.UNSAFE
    assert removed.message == "Errors of `pay` with the code `DECLINED` no longer lead to `refuse`."
    other = one_change(routed, changed(routed, "/nodes/3/on_error", {"fallback": {"amount": 0}}))
    assert other.message == "The error routes of `pay` changed."


def test_error_routes_of_the_workflow_are_compared_too() -> None:
    change = one_change(refund(), changed(refund(), "/on_error", {"next": "refuse"}))
    assert (change.subject, change.path) == (Subject.ERROR_ROUTE, "/on_error")
    assert change.message == "Errors of the workflow of any kind now lead to `refuse`."


def test_a_narrower_result_of_a_node_may_not_fit_what_is_recorded() -> None:
    with_schema = changed(refund(), "/nodes/3/output_schema", {"type": "object"})
    assert one_change(refund(), with_schema).in_flight is InFlight.UNKNOWN
    assert one_change(with_schema, refund()).in_flight is InFlight.SAFE


def test_a_diff_is_told_as_json_with_its_verdicts_first() -> None:
    diff = diff_documents(refund(), changed(refund(), "/nodes/3/next", "refuse"))
    told = diff.to_json()
    assert list(told) == ["same", "breaking_for_callers", "safe_for_runs_in_flight", "changes"]
    assert (told["same"], told["breaking_for_callers"], told["safe_for_runs_in_flight"]) == (False, False, False)
    [change] = cast(list[JsonObject], told["changes"])
    assert (change["before"], change["after"], change["in_flight"]) == ("done", "refuse", "unsafe")


def test_what_was_added_has_no_before_and_what_was_removed_no_after() -> None:
    plain, titled = minimal_native(), minimal_native(title="Small")
    assert "before" not in one_change(plain, titled).to_json()
    assert "after" not in one_change(titled, plain).to_json()


def test_sentences_hold_no_control_characters() -> None:
    before = minimal_native({"id": "a\x1b[31m", "type": "step"})
    after = minimal_native({"id": "b\u202e", "type": "st\x07ep"})
    assert all(change.message.isprintable() for change in diff_documents(before, after).changes)


def test_the_definition_of_the_next_run_is_the_same_unless_a_document_says_otherwise() -> None:
    nap: JsonObject = {"id": "nap", "type": "wait", "duration": "1s"}

    def continuing(**fields: JsonValue) -> JsonObject:
        again: JsonObject = {"id": "again", "type": "continue_as_new", "input": {}, **fields}
        return {"penstock": "v1", "name": "endless", "nodes": [nap, again]}

    assert diff_documents(continuing(), continuing(version="pinned")).changes == ()
    [change] = diff_documents(continuing(), continuing(version="newest")).changes
    assert change.in_flight is not InFlight.UNSAFE  # only what begins later sees it
