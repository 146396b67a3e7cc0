"""The picture of a schema: every type is in it, arrows begin and end at boxes, and large schemas have none."""

from __future__ import annotations

from typing import Any

from penstock.base import limits
from penstock.console.schema_picture import schema_picture


def node(name: str, properties: int = 1) -> dict[str, Any]:
    listed = [{"name": f"p{number}", "type": "String", "key": number == 0} for number in range(properties)]
    return {"name": name, "kind": "node", "properties": listed, "source": None, "target": None}


def edge(name: str, source: str, target: str) -> dict[str, Any]:
    return {"name": name, "kind": "edge", "properties": [], "source": source, "target": target}


def test_types_stand_to_the_right_of_those_that_lead_to_them_and_do_not_overlap() -> None:
    types = [node("C"), node("A", 9), node("B"), edge("X", "A", "B"), edge("Y", "B", "C"), edge("Z", "A", "C")]
    drawn = schema_picture(types)
    assert drawn is not None
    places = {box.name: box for box in drawn.boxes}
    assert places["A"].x < places["B"].x
    assert places["B"].x == places["C"].x
    assert places["C"].y + places["C"].height <= places["B"].y
    assert places["A"].lines[-1][1] == "and 3 more"
    assert {arrow.name for arrow in drawn.arrows} == {"X", "Y", "Z"}
    assert all(box.x + box.width <= drawn.width and box.y + box.height <= drawn.height for box in drawn.boxes)


def test_circles_and_loops_end() -> None:
    types = [node("A"), node("B"), edge("X", "A", "B"), edge("Y", "B", "A"), edge("Self", "A", "A")]
    drawn = schema_picture(types)
    assert drawn is not None
    assert [arrow.name for arrow in drawn.arrows] == ["X", "Y", "Self"]


def test_a_large_schema_and_an_empty_one_have_no_picture() -> None:
    assert schema_picture([]) is None
    assert schema_picture([node(f"N{number}") for number in range(limits.CONSOLE_SCHEMA_TYPES_MAX + 1)]) is None
