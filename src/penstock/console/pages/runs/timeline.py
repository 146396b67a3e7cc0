"""The visits of a run as bars on an axis of time.

Pauses in which nothing happened for long are folded: however long they last, they take a third of the width together,
and say how long they were. So a minute of work beside three days of waiting can be seen.

Above it: `run`. Below it: nothing.
"""

from __future__ import annotations

from bisect import bisect_right
from datetime import datetime
from itertools import pairwise
from typing import Any

__all__ = ["drawn_timeline"]

_LONG_MS = 60_000
_WIDTH, _LANE_HEIGHT, _BAR_HEIGHT, _BAR_WIDTH_MIN = 900.0, 24, 14, 3.0
_NAMES_WIDTH = 220.0
_NAME_CHARACTERS = 28


def drawn_timeline(timeline: dict[str, Any], now_ms: int) -> dict[str, Any] | None:
    """Return lanes and bars with their places, for the template; what has not ended lasts until now."""
    lanes = timeline["lanes"]
    if not lanes:
        return None
    last = max(_ms(timeline["updated_at"]) or 0, now_ms)
    bars = [bar for lane in lanes for bar in lane["bars"]]
    begun = {_ms(bar["begun_at"]) or last for bar in bars}
    axis = _Axis(sorted(begun | {_ms(bar["ended_at"]) or last for bar in bars}))
    drawn = []
    for number, lane in enumerate(lanes):
        placed = []
        for bar in lane["bars"]:
            x = axis.place(_ms(bar["begun_at"]) or last)
            width = max(axis.place(_ms(bar["ended_at"]) or last) - x, _BAR_WIDTH_MIN)
            placed.append({**bar, "x": f"{_NAMES_WIDTH + x:.1f}", "width": f"{width:.1f}"})
        name = lane["node_id"]
        shown = name if len(name) <= _NAME_CHARACTERS else f"{name[: _NAME_CHARACTERS - 1]}…"
        drawn.append({"node_id": name, "name": shown, "y": number * _LANE_HEIGHT, "bars": placed})
    return {
        "lanes": drawn,
        "folds": [
            {"x": f"{_NAMES_WIDTH + x:.1f}", "width": f"{width:.1f}", "words": _length(pause)}
            for x, width, pause in axis.folds
        ],
        "width": _NAMES_WIDTH + _WIDTH,
        "names_width": _NAMES_WIDTH,
        "height": len(drawn) * _LANE_HEIGHT + 6,
        "bar_height": _BAR_HEIGHT,
        "left_out": timeline["lanes_left_out"],
    }


class _Axis:
    """Places of moments; between two of them nothing happened."""

    def __init__(self, moments: list[int]) -> None:
        self._moments = moments
        gaps = [later - earlier for earlier, later in pairwise(moments)]
        short = sum(gap for gap in gaps if gap <= _LONG_MS)
        is_long = [gap > _LONG_MS for gap in gaps]
        folds = short > 0 and any(is_long)
        each = short / 2 / sum(is_long) if folds else 0.0
        drawn = [each if folds and long else float(gap) for gap, long in zip(gaps, is_long, strict=True)]
        scale = _WIDTH / (sum(drawn) or 1.0)
        self._places = [0.0]
        self.folds: list[tuple[float, float, int]] = []
        for gap, width, long in zip(gaps, drawn, is_long, strict=True):
            if folds and long:
                self.folds.append((self._places[-1], width * scale, gap))
            self._places.append(self._places[-1] + width * scale)

    def place(self, moment: int) -> float:
        at = bisect_right(self._moments, moment) - 1
        return self._places[max(at, 0)]


def _ms(text: str | None) -> int | None:
    return None if text is None else round(datetime.fromisoformat(text).timestamp() * 1000)


def _length(milliseconds: int) -> str:
    seconds = milliseconds // 1000
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds} s"
