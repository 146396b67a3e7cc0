"""What the live view draws for runs of every kind."""

from itertools import pairwise

import pytest

from penstock.base.json import JsonObject
from penstock.cli.run.rendering import RenderContext, clock_text, duration_text, lines_of
from penstock.cli.run.view import Mark
from tests.unit.cli.views import records_of, screen, view_of, workflow_of

REFUND = """\
penstock: v1
name: refund_order
version: 1.4.0
nodes:
  - {id: order, type: tool_call, server: shop, tool: get_order, arguments: {}}
  - {id: policy, type: switch, cases: [{when: .order.total > 100, next: ask}], default: pay}
  - {id: ask, type: interrupt, message: "Refund ${ .order.total }?", timeout: 1h, next: pay}
  - {id: pay, type: step, handler: "shop:pay", retry: {max_attempts: 5, initial_interval: 4s}, next: done}
  - {id: done, type: end, output: "${ .pay }"}
"""
HEADER = "● refund_order 1.4.0  run simulated"


def refund(**case: JsonObject) -> list[str]:
    workflow = workflow_of(REFUND)
    return screen(view_of(workflow, records_of(workflow, {**case})), later_ms=2_500)


def test_a_question_is_shown_with_what_led_to_it() -> None:
    assert refund(mock={"order": {"total": 180}}) == [
        f"{HEADER}  waiting for a person  00:02",
        "  ✓ order     tool_call shop.get_order     0 ms",
        "  ✓ policy    switch → ask",
        '  ◌ ask       waiting for a person: "Refund 180?", 59m58s left      2 s',
    ]


def test_the_question_of_an_activity_is_shown_like_any_other_until_it_is_answered() -> None:
    text = "penstock: v1\nname: w\nnodes:\n  - {id: a, type: step, handler: h}\n  - {id: e, type: end}\n"
    asks: JsonObject = {"asks": {"question": "Which branch?", "answer_schema": {"type": "string"}}}
    workflow = workflow_of(text)
    case: JsonObject = {"mock": {"a": {"sequence": [asks, asks, {}]}}}
    view = view_of(workflow, records_of(workflow, case))
    [question] = view.questions()
    assert (question.interrupt_id, question.prompt, question.schema) == ("a:1:1", "Which branch?", {"type": "string"})
    assert any('waiting for a person: "Which branch?"' in line for line in screen(view))
    case["answers"] = {"a": {"sequence": ["main", 1]}}
    assert [item.interrupt_id for item in view_of(workflow, records_of(workflow, case)).questions()] == ["a:1:2"]
    case["answers"] = {"a": "main"}
    assert view_of(workflow, records_of(workflow, case)).questions() == []


def test_an_activity_under_way_is_counted_in_whole_seconds() -> None:
    assert refund() == [
        f"{HEADER}  running  00:02",
        "  · order     tool_call shop.get_order      2 s",
    ]


def test_a_finished_run_shows_answers_attempts_and_the_result() -> None:
    error: JsonObject = {"error": {"code": "TIMEOUT", "message": "no answer"}}
    lines = refund(
        mock={"order": {"total": 180}, "pay": {"sequence": [error, {"paid": 180}]}}, answers={"ask": {"ok": True}}
    )
    assert lines == [
        f"{HEADER}  completed  00:04",
        "  ✓ order     tool_call shop.get_order     0 ms",
        "  ✓ policy    switch → ask",
        '  ✓ ask       answered by simulation: {"ok": true}     0 ms',
        "  ✓ pay       step shop:pay               4.0 s  attempt 2 of 5 (TIMEOUT)",
        '  ✓ done      {"paid": 180}',
    ]


def test_a_retry_is_shown_with_when_it_comes() -> None:
    workflow = workflow_of(REFUND)
    case: JsonObject = {"mock": {"order": {"total": 1}, "pay": {"error": {"code": "TIMEOUT"}}}}
    records = records_of(workflow, case)
    first = next(index for index, record in enumerate(records) if record.name == "ActivityFailed")
    lines = screen(view_of(workflow, records[: first + 1]), later_ms=1_000)
    assert lines[0] == f"{HEADER}  waiting to try again  00:01"
    assert lines[-1] == "  ↻ pay       step shop:pay, again in 3 s      1 s  attempt 1 of 5 (TIMEOUT)"
    ended = screen(view_of(workflow, records))
    assert ended[0].startswith(f"{HEADER}  failed  ")
    assert ended[-1].endswith("attempt 5 of 5 · TIMEOUT")


BRANCHES = """\
penstock: v1
name: look_up
nodes:
  - id: both
    type: parallel
    branches:
      - name: web
        nodes: [{id: search, type: step, handler: "a:b"}, {id: rank, type: step, handler: "a:c"}]
      - name: papers
        nodes: [{id: library, type: step, handler: "a:d"}]
  - {id: done, type: end}
"""


def test_branches_are_indented_under_their_node() -> None:
    workflow = workflow_of(BRANCHES)
    lines = screen(view_of(workflow, records_of(workflow, {"mock": {"search": 1}})))
    assert lines[1:] == [
        "  · both         parallel 0 of 2      0 s",
        "      web",
        "      ✓ search   step a:b            0 ms",
        "      · rank     step a:c             0 s",
        "      papers",
        "      · library  step a:d             0 s",
    ]
    done = screen(view_of(workflow, records_of(workflow, {"mock": {"search": 1, "rank": 2, "library": 3}})))
    assert "    ✓ papers" in done


MANY = """\
penstock: v1
name: many
input: {type: object, properties: {count: {type: integer}}}
nodes:
  - id: all
    type: for_each
    items: "[range(.input.count)]"
    as: thing
    concurrency: 100
    on_item_error: collect
    nodes: [{id: weigh, type: step, handler: "a:weigh"}]
  - {id: done, type: end}
"""


def many(count: int, mock: JsonObject, lines_max: int | None = None) -> list[str]:
    workflow = workflow_of(MANY)
    records = records_of(workflow, {"mock": mock}, {"count": count})
    return screen(view_of(workflow, records), lines_max=lines_max)


def test_items_have_a_line_each_while_they_are_under_way() -> None:
    lines = many(2, {})
    assert [line.split() for line in lines[2:]] == [
        ["·", "#1", "0", "weigh:", "step", "a:weigh", "0", "s"],
        ["·", "#2", "1", "weigh:", "step", "a:weigh", "0", "s"],
    ]


def test_a_large_fan_out_is_bounded_and_counted() -> None:
    lines = many(500, {})
    assert lines[1].split()[:6] == ["·", "all", "for_each", "0", "of", "500"]
    assert len(lines) == 2 + 8 + 1
    assert lines[-1].strip() == "⋮ 92 more, 400 to come"
    assert len(many(500, {}, lines_max=6)) == 1 + 6
    assert len(many(500, {}, lines_max=2)) <= 1 + 2


def test_of_a_finished_fan_out_only_failures_keep_their_lines() -> None:
    sequence: JsonObject = {"sequence": [1, {"error": {"code": "QUOTA", "message": "too many", "retryable": False}}, 3]}
    lines = many(3, {"weigh": sequence})
    assert lines[1].split()[:8] == ["✓", "all", "for_each", "2", "of", "3,", "1", "failed"]
    assert [line.split()[:2] for line in lines[2:-1]] == [["✗", "#2"]]
    assert lines[2].endswith("QUOTA: too many")


def test_columns_do_not_move_while_a_run_goes_on() -> None:
    workflow = workflow_of(BRANCHES)
    records = records_of(workflow, {"mock": {"search": 1, "rank": 2, "library": 3}})
    columns = set()
    for end in range(1, len(records) + 1):
        columns |= {line.index("step a:") for line in screen(view_of(workflow, records[:end])) if "step a:" in line}
    assert len(columns) == 1


UNDO = """\
penstock: v1
name: undo
nodes:
  - {id: book, type: step, handler: "a:book", compensate: {handler: "a:cancel"}}
  - {id: pay, type: step, handler: "a:pay"}
  - {id: done, type: end}
"""


def test_what_is_undone_is_shown_as_such() -> None:
    workflow = workflow_of(UNDO)
    case: JsonObject = {"mock": {"book": 1, "pay": {"error": {"code": "DECLINED"}}}}
    view = view_of(workflow, records_of(workflow, case))
    assert screen(view)[0].startswith("● undo 0.0.0  run simulated  undoing")
    assert screen(view)[-1].split()[:6] == ["·", "book", "undo", "with", "step", "a:cancel"]


@pytest.mark.parametrize("prompt", ["\\e[31mred", "a\\nb", "\\u202eevil"])
def test_texts_of_a_run_cannot_write_control_characters(prompt: str) -> None:
    text = f'penstock: v1\nname: x\nnodes:\n  - {{id: ask, type: interrupt, message: "{prompt}"}}\n'
    workflow = workflow_of(text + "  - {id: done, type: end}\n")
    drawn = "".join(screen(view_of(workflow, records_of(workflow, {}))))
    assert not set(drawn) & set("\x1b\n\u202e")


def test_every_line_keeps_its_key_and_settled_lines_never_change() -> None:
    workflow = workflow_of(BRANCHES)
    records = records_of(workflow, {"mock": {"search": 1, "rank": 2, "library": 3}})
    views = [view_of(workflow, records[:end]) for end in range(1, len(records) + 1)]
    drawn = [{line.key: line for line in lines_of(view, RenderContext.for_workflow(workflow, now=9))} for view in views]
    for before, after in pairwise(drawn):
        assert set(before) <= set(after)
        assert all(after[key] == line for key, line in before.items() if line.settled)
    assert views[-1].mark is Mark.DONE


@pytest.mark.parametrize(
    ("length_ms", "told"),
    [
        (-5, "0 ms"),
        (999, "999 ms"),
        (1_000, "1.0 s"),
        (59_999, "59 s"),
        (61_000, "1m01s"),
        (3_720_000, "1h02m"),
        (90_000_000, "1d1h"),
    ],
)
def test_lengths_of_time_are_short(length_ms: int, told: str) -> None:
    assert duration_text(length_ms) == told


def test_a_clock_shows_hours_when_there_are_any() -> None:
    assert [clock_text(value) for value in (0, 62_000, 3_723_000)] == ["00:00", "01:02", "1:02:03"]


def test_a_question_to_approvers_is_drawn_as_one() -> None:
    text = """\
penstock: v1
name: w
nodes:
  - {id: ask, type: interrupt, message: "Pay?", approvers: {group: board}}
  - {id: done, type: end}
"""
    workflow = workflow_of(text)
    header, line = screen(view_of(workflow, records_of(workflow, {})))
    assert "waiting for an approval" in header
    assert 'waiting for an approval: "Pay?"' in line


def test_nobody_is_asked_what_a_node_that_timed_out_wanted_to_know() -> None:
    text = """\
penstock: v1
name: w
nodes:
  - id: both
    type: parallel
    join: all
    timeout: 1s
    on_error: {next: after}
    branches:
      - {name: x, nodes: [{id: ask, type: interrupt, message: "Go?"}]}
      - {name: y, nodes: [{id: nap, type: wait, duration: 1h}]}
  - {id: after, type: step, handler: h}
  - {id: done, type: end}
"""
    workflow = workflow_of(text)
    view = view_of(workflow, records_of(workflow, {}))
    assert view.questions() == []
    drawn = screen(view)
    assert not any("waiting" in line for line in drawn), drawn
    assert sum("-" in line.split()[:1] for line in drawn) == 4, drawn
