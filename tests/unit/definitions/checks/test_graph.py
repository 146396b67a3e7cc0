"""The graph of a document: ids, targets, reachability, ways on, branches that join."""

import yaml
from hypothesis import given
from hypothesis import strategies as st

from penstock.base.json import JsonObject, JsonValue
from penstock.base.limits import BODY_DEPTH_MAX
from penstock.definitions.checks.edges import edge_findings
from penstock.definitions.checks.graph import graph_findings
from penstock.definitions.outline.document import Body, Outline, OutlineNode, Route, outline_of
from penstock.definitions.outline.reach import graph_of
from penstock.definitions.source.findings import Finding, Severity


def _native(nodes: str, **fields: JsonValue) -> JsonObject:
    return {"penstock": "v1", "name": "example", "nodes": yaml.safe_load(nodes), **fields}


def _published(nodes: str, edges: str) -> JsonObject:
    pairs = [line.split(" -> ") for line in edges.splitlines() if line.strip()]
    return {
        "document": {"schema": "urn:example", "name": "example", "version": "1"},
        "state_schema": {"type": "object"},
        "nodes": yaml.safe_load(nodes),
        "edges": [{"source": source.strip(), "target": target.strip()} for source, target in pairs],
    }


def _check(document: JsonObject) -> list[Finding]:
    outline = outline_of(document)
    return [*graph_findings(graph_of(outline)), *edge_findings(document, outline)]


def _codes(document: JsonObject) -> list[tuple[str, str]]:
    return [(finding.code, finding.path) for finding in _check(document)]


def _one(document: JsonObject) -> Finding:
    findings = _check(document)
    assert len(findings) == 1, findings
    return findings[0]


LINEAR = """
- {id: first, type: step, handler: a}
- {id: last, type: end}
"""
PUBLISHED_NODES = """
- {id: start, type: start}
- {id: work, type: step, config: {handler: a}}
- {id: end, type: end}
"""
PUBLISHED_EDGES = """
__start__ -> start
start -> work
work -> end
"""


def test_a_correct_document_has_no_findings() -> None:
    assert _codes(_native(LINEAR)) == []
    assert _codes(_published(PUBLISHED_NODES, PUBLISHED_EDGES)) == []


def test_a_duplicate_id_names_the_first_place() -> None:
    found = _one(
        _native("""
        - {id: first, type: step, handler: a}
        - {id: first, type: step, handler: b}
        - {id: last, type: end}
        """)
    )
    assert (found.code, found.path) == ("DUPLICATE_ID", "/nodes/1/id")
    assert "/nodes/0" in found.message


def test_ids_inside_bodies_are_unique_too() -> None:
    document = _native("""
    - {id: work, type: for_each, items: .input, nodes: [{id: work, type: step, handler: a}]}
    - {id: last, type: end}
    """)
    assert ("DUPLICATE_ID", "/nodes/0/nodes/0/id") in _codes(document)


def test_an_unknown_target_comes_with_a_suggestion_and_nothing_else() -> None:
    found = _one(
        _native("""
        - {id: ask, type: switch, cases: [{when: .input.x, next: pya}], default: last}
        - {id: pay, type: step, handler: a}
        - {id: last, type: end}
        """)
    )
    assert (found.code, found.path, found.hint) == ("UNKNOWN_TARGET", "/nodes/0/cases/0/next", "did you mean `pay`?")


def test_unknown_targets_are_found_wherever_a_target_can_stand() -> None:
    document = _native(
        """
        - {id: first, type: interrupt, message: x, timeout: 1h, on_timeout: q1, on_error: {next: q2},
           next: {when: .first.ok, then: q3, else: q4}}
        - {id: second, type: switch, cases: [{when: .input.x, target: q5}], default: q6}
        - {id: third, type: parallel, branches: [{name: a, entry: q7}], next: q8}
        - {id: last, type: end}
        """,
        on_error=[{"next": "q9"}],
    )
    unknown = {finding.path for finding in _check(document) if finding.code == "UNKNOWN_TARGET"}
    assert unknown == {
        "/nodes/0/on_timeout",
        "/nodes/0/on_error/next",
        "/nodes/0/next/then",
        "/nodes/0/next/else",
        "/nodes/1/cases/0/target",
        "/nodes/1/default",
        "/nodes/2/branches/0/entry",
        "/nodes/2/next",
        "/on_error/0/next",
    }


def test_a_few_names_are_listed_when_none_is_near() -> None:
    document = _native("""
    - {id: first, type: switch, cases: [{when: .input, next: zzz}], default: last}
    - {id: last, type: end}
    """)
    hints = [finding.hint for finding in _check(document) if finding.code == "UNKNOWN_TARGET"]
    assert hints == ["the nodes here are `first`, `last`"]


def test_a_target_in_an_outer_body_is_left_for_exit() -> None:
    document = _native("""
    - {id: each, type: for_each, items: .input, nodes: [{id: work, type: step, handler: a, next: last}]}
    - {id: last, type: end}
    """)
    found = next(finding for finding in _check(document) if finding.code == "TARGET_IN_OTHER_BODY")
    assert found.path == "/nodes/0/nodes/0/next"
    assert found.hint == "leave this body with `next: $exit` and continue from `each`"


def test_a_target_inside_a_body_is_entered_through_its_owner() -> None:
    document = _native("""
    - {id: first, type: step, handler: a, next: work}
    - {id: each, type: for_each, items: .input, nodes: [{id: work, type: step, handler: a}]}
    - {id: last, type: end}
    """)
    found = next(finding for finding in _check(document) if finding.code == "TARGET_IN_OTHER_BODY")
    assert found.hint == "a body can only be entered at its first node, through `each`"


def test_an_unreachable_node_is_an_error_in_native_and_a_warning_in_published_documents() -> None:
    native = _one(
        _native("""
        - {id: first, type: step, handler: a, next: last}
        - {id: lost, type: step, handler: a}
        - {id: last, type: end}
        """)
    )
    assert (native.code, native.path, native.severity) == ("UNREACHABLE_NODE", "/nodes/1", Severity.ERROR)
    published = _one(
        _published(PUBLISHED_NODES + "- {id: lost, type: step, config: {handler: a}}", PUBLISHED_EDGES + "lost -> end")
    )
    assert (published.code, published.severity) == ("UNREACHABLE_NODE", Severity.WARNING)


def test_what_is_inside_an_unreachable_node_is_not_reported_again() -> None:
    found = _one(
        _native("""
        - {id: first, type: step, handler: a, next: last}
        - {id: lost, type: for_each, items: .input, nodes: [{id: inner, type: step, handler: a}]}
        - {id: last, type: end}
        """)
    )
    assert found.path == "/nodes/1"


def test_targets_of_error_and_timeout_routes_are_reachable() -> None:
    document = _native(
        """
        - {id: first, type: interrupt, message: x, timeout: 1h, on_timeout: late, on_error: {next: broken}}
        - {id: last, type: end}
        - {id: late, type: fail, code: LATE}
        - {id: broken, type: fail, code: BROKEN}
        - {id: always, type: fail, code: ALWAYS}
        """,
        on_error={"next": "always"},
    )
    assert _codes(document) == []


def test_the_last_node_of_the_list_must_be_an_end() -> None:
    found = _one(_native("- {id: first, type: step, handler: a}"))
    assert (found.code, found.path) == ("DEAD_END", "/nodes/0")


def test_a_conditional_successor_without_else_can_be_a_dead_end() -> None:
    document = _native("""
    - {id: route, type: switch, cases: [{when: .input, next: maybe}], default: done}
    - {id: done, type: end}
    - {id: maybe, type: step, handler: a, next: {when: .input.x, then: done}}
    """)
    assert _codes(document) == [("DEAD_END", "/nodes/2")]


def test_exit_in_the_root_leads_nowhere() -> None:
    found = _one(
        _native("""
        - {id: first, type: switch, cases: [{when: .input.x, next: $exit}], default: last}
        - {id: last, type: end}
        """)
    )
    assert (found.code, found.path) == ("EXIT_IN_ROOT", "/nodes/0/cases/0/next")


def test_a_published_node_without_an_edge_is_a_dead_end() -> None:
    document = _published(
        PUBLISHED_NODES + "- {id: more, type: step, config: {handler: a}}",
        """
        __start__ -> start
        start -> work
        work -> more
        """,
    )
    assert _codes(document) == [("UNREACHABLE_NODE", "/nodes/2"), ("DEAD_END", "/nodes/3")]


def test_the_published_format_has_one_start_one_end_and_one_start_edge() -> None:
    document = _published("- {id: work, type: step, config: {handler: a}}", "work -> work")
    assert {code for code, _ in _codes(document)} == {"START_COUNT", "END_COUNT", "START_EDGE"}
    twice = _published(
        PUBLISHED_NODES + "- {id: start2, type: start}\n- {id: end2, type: end}",
        PUBLISHED_EDGES + "__start__ -> start2\nstart2 -> end2",
    )
    assert [pair for pair in _codes(twice) if pair[0] != "UNREACHABLE_NODE"] == [
        ("START_COUNT", "/nodes/3/type"),
        ("END_COUNT", "/nodes/4/type"),
        ("START_EDGE", "/edges/3/source"),
    ]


def test_a_published_node_has_one_outgoing_edge() -> None:
    document = _published(PUBLISHED_NODES, PUBLISHED_EDGES + "start -> end\nend -> work")
    assert _codes(document) == [("EDGE_COUNT", "/edges/3"), ("EDGE_COUNT", "/edges/4")]


def test_edges_from_and_to_unknown_nodes_are_found() -> None:
    document = _published(PUBLISHED_NODES, PUBLISHED_EDGES + "wrok -> end\nnobody -> nowhere")
    assert _codes(document) == [
        ("UNKNOWN_TARGET", "/edges/3/source"),
        ("UNKNOWN_TARGET", "/edges/4/source"),
        ("UNKNOWN_TARGET", "/edges/4/target"),
    ]
    assert _check(document)[0].hint == "did you mean `work`?"
    start = _published(PUBLISHED_NODES, PUBLISHED_EDGES.replace("__start__ -> start", "__start__ -> stort"))
    assert _codes(start) == [("UNKNOWN_TARGET", "/edges/0/target")]


def test_edges_out_of_a_switch_have_no_effect() -> None:
    document = _published(
        PUBLISHED_NODES.replace(
            "type: step, config: {handler: a}", "type: switch, config: {cases: [{when: ., target: end}]}"
        ),
        PUBLISHED_EDGES,
    )
    found = _one(document)
    assert (found.code, found.path, found.severity) == ("HAS_NO_EFFECT", "/edges/2", Severity.WARNING)


def test_native_edges_take_the_place_of_next() -> None:
    document = _native(LINEAR.replace("handler: a", "handler: a, next: last"))
    document["edges"] = [{"source": "first", "target": "last"}]
    found = _one(document)
    assert (found.code, found.path, found.severity) == ("HAS_NO_EFFECT", "/nodes/0/next", Severity.WARNING)


def test_retry_and_timeout_where_they_mean_nothing_are_warnings() -> None:
    document = _published(
        PUBLISHED_NODES.replace("type: start", "type: start, retry: {max_attempts: 2}, timeout: 5s"), PUBLISHED_EDGES
    )
    assert _codes(document) == [("HAS_NO_EFFECT", "/nodes/0/timeout"), ("HAS_NO_EFFECT", "/nodes/0/retry")]
    assert {finding.severity for finding in _check(document)} == {Severity.WARNING}


BRANCH_NODES = """
- {id: start, type: start}
- {id: fork, type: parallel, config: {join: all, branches: [{name: a, entry: left}, {name: b, entry: right}]}}
- {id: left, type: step, config: {handler: a}}
- {id: right, type: step, config: {handler: a}}
- {id: join, type: step, config: {handler: a}}
- {id: end, type: end}
"""
BRANCH_EDGES = """
__start__ -> start
start -> fork
fork -> join
left -> join
right -> join
join -> end
"""


def test_branches_that_join_are_fine() -> None:
    assert _codes(_published(BRANCH_NODES, BRANCH_EDGES)) == []


def test_a_branch_without_a_way_to_the_join_never_joins() -> None:
    found = _one(_published(BRANCH_NODES, BRANCH_EDGES.replace("right -> join", "right -> end")))
    assert (found.code, found.path) == ("BRANCH_NEVER_JOINS", "/nodes/1/config/branches/1/entry")
    assert found.hint == "lead its last node to `join`"


def test_a_branch_that_stops_never_joins() -> None:
    found = _one(_published(BRANCH_NODES, BRANCH_EDGES.replace("right -> join", "")))
    assert (found.code, found.path) == ("BRANCH_NEVER_JOINS", "/nodes/1/config/branches/1/entry")


def test_a_branch_that_leads_back_into_its_fork_never_joins() -> None:
    found = _one(_published(BRANCH_NODES, BRANCH_EDGES.replace("right -> join", "right -> fork")))
    assert found.code == "BRANCH_NEVER_JOINS"


def test_a_branch_that_may_end_the_run_is_refused() -> None:
    nodes = BRANCH_NODES.replace(
        "{id: right, type: step, config: {handler: a}}",
        "{id: right, type: switch, config: {cases: [{when: ., target: end}], default: join}}",
    )
    found = _one(_published(nodes, BRANCH_EDGES.replace("right -> join", "")))
    assert (found.code, found.path) == ("END_IN_BODY", "/nodes/1/config/branches/1/entry")


def test_an_end_inside_a_body_is_refused_with_the_way_out() -> None:
    findings = _check(
        _native("""
        - id: each
          type: for_each
          items: .input
          nodes:
            - {id: route, type: switch, cases: [{when: .item, next: stop}], default: $exit}
            - {id: stop, type: end}
        - {id: last, type: end}
        """)
    )
    assert [(finding.code, finding.path) for finding in findings] == [("END_IN_BODY", "/nodes/0/nodes/1/type")]
    assert "$exit" in (findings[0].hint or "")


def test_a_body_that_goes_round_for_ever_never_finishes() -> None:
    found = _one(
        _native("""
        - id: each
          type: for_each
          items: .input
          nodes:
            - {id: one, type: step, handler: a}
            - {id: two, type: step, handler: a, next: one}
        - {id: last, type: end}
        """)
    )
    assert (found.code, found.path) == ("BRANCH_NEVER_JOINS", "/nodes/0/nodes")


def test_a_branch_that_fails_on_purpose_is_fine() -> None:
    document = _native("""
    - id: first
      type: race
      branches:
        - {name: work, nodes: [{id: work, type: step, handler: a}]}
        - {name: late, nodes: [{id: rest, type: wait, duration: 5m}, {id: late, type: fail, code: LATE}]}
    - {id: last, type: end}
    """)
    assert _codes(document) == []


def test_native_branches_given_by_entry_may_leave_by_exit() -> None:
    document = _native("""
    - {id: fork, type: parallel, branches: [{name: a, entry: left}, {name: b, entry: right}], next: join}
    - {id: left, type: step, handler: a, next: $exit}
    - {id: right, type: step, handler: a, next: join}
    - {id: join, type: end}
    """)
    assert _codes(document) == []


def test_a_join_that_needs_more_branches_than_there_are_is_impossible() -> None:
    document = _native("""
    - {id: fork, type: parallel, join: n_of_m, n: 3, branches: [{name: a, nodes: [{id: x, type: step, handler: a}]}]}
    - {id: last, type: end}
    """)
    found = _one(document)
    assert (found.code, found.path) == ("JOIN_IMPOSSIBLE", "/nodes/0/n")


def test_branch_names_are_unique() -> None:
    document = _native("""
    - id: fork
      type: parallel
      branches:
        - {name: a, nodes: [{id: x, type: step, handler: a}]}
        - {name: a, nodes: [{id: y, type: step, handler: a}]}
    - {id: last, type: end}
    """)
    assert ("DUPLICATE_BRANCH", "/nodes/0/branches/1/name") in _codes(document)


def test_a_workflow_needs_an_end_that_can_be_reached() -> None:
    found = _one(_native("- {id: first, type: step, handler: a, next: first}"))
    assert (found.code, found.path) == ("NO_END", "/nodes")


def test_a_cycle_that_neither_waits_nor_leaves_is_an_endless_loop() -> None:
    found = _one(
        _native("""
        - {id: one, type: set_state, set: {x: 1}}
        - {id: two, type: switch, cases: [{when: .state.x, next: one}], default: one}
        """)
    )
    assert (found.code, found.path) == ("INFINITE_LOOP", "/nodes/0")


def test_a_cycle_with_a_way_out_or_a_wait_is_fine() -> None:
    document = _native("""
    - {id: one, type: set_state, set: {x: 1}}
    - {id: two, type: switch, cases: [{when: .state.x, next: one}], default: last}
    - {id: last, type: end}
    """)
    assert _codes(document) == []


def test_start_comes_first_and_once() -> None:
    late = _one(_native("- {id: a, type: step, handler: a}\n- {id: s, type: start}\n- {id: e, type: end}"))
    assert (late.code, late.path) == ("START_NOT_FIRST", "/nodes/1/type")
    twice = _one(_native("- {id: s, type: start}\n- {id: s2, type: start}\n- {id: e, type: end}"))
    assert (twice.code, twice.path) == ("START_COUNT", "/nodes/1/type")


def test_bodies_nest_to_a_named_depth() -> None:
    def nested(depth: int) -> JsonObject:
        node: JsonObject = {"id": "inner", "type": "step", "handler": "a"}
        for level in range(depth):
            node = {"id": f"each{level}", "type": "for_each", "items": ".input", "nodes": [node]}
        return {"penstock": "v1", "name": "deep", "nodes": [node, {"id": "last", "type": "end"}]}

    assert _codes(nested(BODY_DEPTH_MAX)) == []
    assert [code for code, _ in _codes(nested(BODY_DEPTH_MAX + 1))] == ["NESTING_TOO_DEEP"]


NAMES = st.sampled_from(["a", "b", "c", "d", "each/x", "", "$exit"])
TYPES = st.sampled_from(["start", "end", "step", "switch", "parallel", "race", "for_each", "loop", "fail", "nonsense"])
ROUTES = st.builds(
    Route,
    kind=st.sampled_from(["next", "then", "else", "case", "default", "error", "timeout", "edge"]),
    target=st.none() | NAMES,
    path=st.sampled_from(["/nodes/0", "/nodes/0/next", "/edges/0/target"]),
)
NODES = st.builds(
    OutlineNode,
    id=NAMES,
    type=TYPES,
    path=st.sampled_from(["/nodes/0", "/nodes/1", "/nodes/0/nodes/0"]),
    body=NAMES,
    fields=st.dictionaries(
        st.sampled_from(["branches", "n", "join", "retry", "timeout", "next"]), st.none() | st.integers() | st.text()
    ),
    fields_path=st.just("/nodes/0"),
    routes=st.lists(ROUTES, max_size=3).map(tuple),
    bodies=st.lists(NAMES, max_size=2).map(tuple),
)
BODIES = st.builds(
    Body,
    id=NAMES,
    owner=st.none() | NAMES,
    name=st.just("x"),
    entry=st.none() | NAMES,
    exit_target=st.none() | NAMES,
    path=st.just("/nodes/0/branches/0"),
    nested=st.booleans(),
)
OUTLINES = st.builds(
    Outline,
    native=st.booleans(),
    entry=st.none() | NAMES,
    nodes=st.lists(NODES, max_size=6),
    bodies=st.dictionaries(NAMES, BODIES, max_size=4),
    error_routes=st.lists(ROUTES, max_size=2).map(tuple),
    listed_order=st.booleans(),
)


@given(OUTLINES)
def test_any_outline_can_be_checked(outline: Outline) -> None:
    assert isinstance(graph_findings(graph_of(outline)), tuple)


CONTINUING = """
- {id: nap, type: wait, duration: 1s}
- {id: again, type: continue_as_new, input: {}}
"""


def test_a_run_may_continue_for_ever_without_an_end() -> None:
    assert _check(_native(CONTINUING)) == []


def test_nothing_follows_a_node_that_continues() -> None:
    found = _one(_native(CONTINUING + "\n- {id: after, type: end}"))
    assert (found.code, found.path) == ("UNREACHABLE_NODE", "/nodes/2")


def test_continuing_inside_a_body_is_refused_with_the_way_out() -> None:
    findings = _check(
        _native("""
        - id: each
          type: loop
          until: "true"
          max_iterations: 3
          nodes:
            - {id: route, type: switch, cases: [{when: .loop, next: again}], default: $exit}
            - {id: again, type: continue_as_new, input: {}}
        - {id: last, type: end}
        """)
    )
    assert [(finding.code, finding.path) for finding in findings] == [("CONTINUE_IN_BODY", "/nodes/0/nodes/1/type")]
    assert findings[0].message == "`again` would end the run and start the next one from inside `each`"
    assert findings[0].hint == "finish the body with `next: $exit`, and put the continue_as_new node after `each`"


def test_a_branch_that_may_continue_the_run_is_refused() -> None:
    found = _one(
        _native("""
        - id: fork
          type: parallel
          branches: [{name: a, entry: left}, {name: b, entry: right}]
          next: join
        - {id: left, type: step, handler: a, next: join}
        - {id: right, type: switch, cases: [{when: ., next: again}], default: join}
        - {id: again, type: continue_as_new, input: {}}
        - {id: join, type: end}
        """)
    )
    assert (found.code, found.path) == ("CONTINUE_IN_BODY", "/nodes/0/branches/1/entry")


def test_runs_that_only_continue_each_other_go_round_for_ever() -> None:
    found = _one(
        _native("""
        - {id: count, type: set_state, set: {n: 1}}
        - {id: again, type: continue_as_new, input: {}}
        """)
    )
    assert found.code == "INFINITE_LOOP"
    assert "`count`, `again` repeat forever" in found.message
    alone = _one(_native("- {id: again, type: continue_as_new, input: {}}"))
    assert alone.code == "INFINITE_LOOP"


def test_a_way_out_makes_a_chain_of_runs_finite() -> None:
    assert (
        _check(
            _native("""
            - {id: route, type: switch, cases: [{when: .input.n, next: done}], default: again}
            - {id: again, type: continue_as_new, input: {}}
            - {id: done, type: end}
            """)
        )
        == []
    )
