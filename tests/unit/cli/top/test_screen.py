"""What `penstock runs top` shows of a snapshot."""

from __future__ import annotations

import msgspec

from penstock.base.json import JsonObject, JsonValue
from penstock.cli.top.screen import View, rates, rendered, rows_of
from penstock.cli.top.snapshot import Part, Snapshot


def run(name: str, status: str) -> JsonObject:
    return {"execution_id": name, "workflow_id": "w", "status": status, "created_at": "2026-01-01T00:00:00.000Z"}


def waiting(name: str, *, decidable: bool = True, **more: JsonValue) -> JsonObject:
    began = "2026-01-01T00:00:00.000Z"
    kind = "call" if "draft" in more else "question"
    found: JsonObject = {"kind": kind, "id": name, "title": "w", "created_at": began, "decidable": decidable, **more}
    return found


SHOWN = Snapshot(
    at_ms=1_767_225_660_000,
    runs=Part(items=[run("r_1", "running"), run("r_2", "waiting_input")], more=True),
    queues={"running": 1, "waiting_input": 1},
    failed=Part(items=[run("r_3", "failed")]),
    waiting=Part(
        items=[
            waiting("d_1", draft={"operation": "\x1b[31mworkflow.delete"}),
            waiting("r_2", question={"prompt": "Pay 5?"}),
        ]
    ),
    counters={"calls": 10.0},
)


def text_of(view: View, shown: Snapshot, per_second: dict[str, float] | None = None) -> str:
    return "\n".join(line.plain for line in rendered(view, shown, per_second))


def test_rates_are_known_from_the_second_look_on_and_survive_a_restart() -> None:
    later = msgspec.structs.replace(SHOWN, at_ms=SHOWN.at_ms + 2_000, counters={"calls": 16.0})
    again = msgspec.structs.replace(later, at_ms=later.at_ms + 2_000, counters={"calls": 1.0})
    assert rates(None, SHOWN) is None
    assert rates(SHOWN, later) == {"calls": 3.0}
    assert rates(later, again) == {"calls": 0.0}
    assert rates(SHOWN, msgspec.structs.replace(later, counters=None)) is None
    assert "calls 3.0/s" in text_of(View(), later, rates(SHOWN, later))


def test_what_needs_somebody_comes_first_and_each_place_has_its_rows() -> None:
    def names(place: str) -> list[object]:
        return [item.get("id") or item["execution_id"] for _, item in rows_of(View(place=place), SHOWN)]

    assert names("home") == ["d_1", "r_2", "r_1", "r_3"]
    assert names("runs") == ["r_1", "r_2"]
    assert names("approvals") == ["d_1", "r_2"]


def test_texts_are_texts_bounds_are_said_and_the_selected_row_has_a_command() -> None:
    shown = text_of(View(place="approvals", where=("--server", "http://x")), SHOWN)
    assert "\x1b" not in shown
    assert "1+ running" in shown
    assert "next: penstock approval get d_1 --server http://x" in shown
    assert "1m00s" in shown
    answer = text_of(View(place="approvals", selected=99), SHOWN)
    assert "next: penstock runs answer r_2" in answer


def test_what_is_not_for_the_caller_or_lost_is_said_and_not_shown_as_nothing() -> None:
    closed = msgspec.structs.replace(SHOWN, runs=Part(refused="needs execution:read"), queues={})
    assert "runs are not for you: needs execution:read" in text_of(View(), closed)
    lost = text_of(View(problem="no connection"), SHOWN)
    assert "lost, trying again" in lost
    assert "no connection; what is below is from before" in lost


def test_a_call_that_waits_is_shown_once_and_says_what_it_is_about() -> None:
    holder = run("d_1", "waiting_approval")
    call: JsonObject = {"operation": "workflow.execute", "arguments": {"workflow_id": "refund"}}
    shown = msgspec.structs.replace(
        SHOWN,
        runs=Part(items=[holder, run("r_1", "running")]),
        queues={"waiting_approval": 1, "running": 1},
        waiting=Part(items=[waiting("d_1", draft=call)]),
    )
    text = text_of(View(), shown)
    assert "refund: workflow.execute" in text
    assert "waiting approval" not in text
    assert [name for name, _ in rows_of(View(place="runs"), shown)] == ["run"]


def test_rates_that_do_not_fit_into_the_line_are_left_out_whole() -> None:
    counted = {"runs_started": 1.0, "runs_ended": 1.0, "calls": 2.0}
    assert text_of(View(columns=40), SHOWN, counted).splitlines()[1] == "runs started 1.0/s  runs ended 1.0/s"
    lost = text_of(View(problem="no connection"), SHOWN, {"calls": 2.0})
    assert "calls 2.0" not in lost  # nothing is counted meanwhile


def test_a_narrow_window_shows_what_is_selected_how_it_stands_and_the_whole_command() -> None:
    run_id = "r_01M7P7GZR94FE1AC5JWQ06ZQW6"
    shown = msgspec.structs.replace(SHOWN, runs=Part(items=[run(run_id, "waiting_approval")]), waiting=Part())
    text = text_of(View(place="runs", columns=56, where=("--server", "http://127.0.0.1:43863")), shown)
    [row] = [line for line in text.splitlines() if line.startswith(">")]
    assert "waiting approval" in row
    assert "1m00s" in row
    assert f"penstock runs answer {run_id}--serverhttp://127.0.0.1:43863".replace(" ", "") in "".join(text.split())


def test_what_the_caller_may_decide_comes_first_and_others_are_said_to_decide_the_rest() -> None:
    theirs = waiting("r_9", decidable=False, question={"prompt": "Pay 9?"})
    shown = msgspec.structs.replace(
        SHOWN,
        runs=Part(items=[run("r_9", "waiting_approval"), run("r_2", "waiting_input"), run("r_8", "waiting_decision")]),
        waiting=Part(items=[theirs, *SHOWN.waiting.items]),
    )
    view = View(place="approvals", columns=100)
    assert [item.get("id") or item["execution_id"] for _, item in rows_of(view, shown)] == ["d_1", "r_2", "r_9", "r_8"]
    text = text_of(view, shown)
    assert "w: Pay 9?" in text
    assert "waiting for others" in text
    assert "2 for you to decide" in text
    view.selected = 2
    assert "next: penstock runs show r_9" in text_of(view, shown)
