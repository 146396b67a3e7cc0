"""Names of tools on the wire: within the bounds of providers, one for each, and back."""

import re

from hypothesis import given
from hypothesis import strategies as st

from penstock.runtime.executors.llm.tool_names import ANSWER_TOOL, ToolNames

WIRE = re.compile(r"[A-Za-z0-9_-]{1,64}")


def test_a_name_is_the_part_after_its_prefix() -> None:
    names = ToolNames.of(["workflow:refund_order", "upstream:shop.find", "execution.status"])
    assert list(names.wire.values()) == ["refund_order", "shop_find", "execution_status"]
    assert names.canonical("shop_find") == "upstream:shop.find"


def test_a_name_that_no_tool_has_is_kept() -> None:
    assert ToolNames.of(["workflow:a"]).canonical("drop_tables") == "drop_tables"


def test_tools_of_the_same_name_and_one_called_like_the_answer_get_a_digest() -> None:
    names = ToolNames.of(["workflow:find", "query:Find", f"workflow:{ANSWER_TOOL}"]).wire
    assert len({name.casefold() for name in names.values()}) == 3
    assert ANSWER_TOOL not in names.values()
    assert all(WIRE.fullmatch(name) for name in names.values())


@given(st.lists(st.text(max_size=90), max_size=12, unique=True))
def test_every_list_of_names_can_be_sent_and_read_back(listed: list[str]) -> None:
    names = ToolNames.of(listed)
    assert all(WIRE.fullmatch(wire) for wire in names.wire.values())
    assert [names.canonical(names.wire[name]) for name in listed] == listed
    assert names.wire == ToolNames.of(listed).wire
