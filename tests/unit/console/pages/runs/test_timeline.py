"""Bars on an axis of time: in order, within its width, and with long pauses folded."""

from __future__ import annotations

from typing import Any

from penstock.console.pages.runs.timeline import drawn_timeline

DAY_MS = 86_400_000


def at(milliseconds: int) -> str:
    seconds, rest = divmod(milliseconds, 1000)
    days, seconds = divmod(seconds, 86_400)
    return f"2026-01-{1 + days:02}T{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{rest:03}+00:00"


def bar(begun: int, ended: int | None) -> dict[str, Any]:
    return {"begun_at": at(begun), "ended_at": None if ended is None else at(ended), "status": "completed"}


def timeline(*bars: dict[str, Any], updated: int) -> dict[str, Any]:
    lanes = [{"node_id": f"node{number}", "bars": [item]} for number, item in enumerate(bars)]
    return {"lanes": lanes, "lanes_left_out": 0, "updated_at": at(updated)}


def places(drawn: dict[str, Any] | None) -> list[tuple[float, float]]:
    assert drawn is not None
    return [(float(item["x"]), float(item["width"])) for lane in drawn["lanes"] for item in lane["bars"]]


def test_a_minute_of_work_is_seen_beside_three_days_of_waiting() -> None:
    drawn = drawn_timeline(
        timeline(bar(0, 30_000), bar(30_000, 3 * DAY_MS), bar(3 * DAY_MS, 3 * DAY_MS + 30_000), updated=3 * DAY_MS), 0
    )
    (first, first_width), (second, second_width), (third, third_width) = places(drawn)
    assert first < second < third
    assert first_width == third_width > 200
    assert second_width < 400
    assert drawn is not None
    assert [fold["words"] for fold in drawn["folds"]] == ["3.0 d"]
    assert third + third_width <= drawn["width"] + 0.2


def test_what_goes_on_lasts_until_now_and_nothing_is_folded_where_nothing_is_short() -> None:
    now = 1_767_225_600_000 + DAY_MS
    drawn = drawn_timeline(timeline(bar(0, None), updated=0), now)
    assert places(drawn) == [(220.0, 900.0)]
    assert drawn is not None
    assert drawn["folds"] == []


def test_a_run_that_visited_nothing_has_no_timeline() -> None:
    assert drawn_timeline(timeline(updated=0), 0) is None
