"""Trace ids in `traceparent`."""

from __future__ import annotations

import pytest

from penstock.base.traces import trace_id_of

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SPAN = "00f067aa0ba902b7"


@pytest.mark.parametrize("sent", [f"00-{TRACE}-{SPAN}-01", f"01-{TRACE}-{SPAN}-00-more"])
def test_a_trace_id_is_found_in_this_version_and_in_later_ones(sent: str) -> None:
    assert trace_id_of(sent) == TRACE


@pytest.mark.parametrize(
    "sent",
    [
        None,
        "",
        TRACE,
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01-more",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE}-{SPAN}-01\n",
    ],
)
def test_what_is_no_trace_is_ignored(sent: str | None) -> None:
    assert trace_id_of(sent) is None
