"""Sealed states: ours, unchanged, and not for ever."""

from __future__ import annotations

import base64

from hypothesis import given
from hypothesis import strategies as st

from penstock.mcp_surface.questions.signing import RequestState, request_digest, state_signer

STATE = RequestState(
    principal="key:a", tenant="default", digest="d", execution_id="r_1", interrupt_ids=("i:1",), until_ms=1_000
)


def test_a_state_comes_back_as_it_was() -> None:
    assert state_signer(b"pepper").verify(state_signer(b"pepper").sign(STATE), now_ms=999) == STATE


def test_a_state_ends() -> None:
    assert state_signer(b"pepper").verify(state_signer(b"pepper").sign(STATE), now_ms=1_000) is None


def test_another_server_does_not_know_it() -> None:
    assert state_signer(b"salt").verify(state_signer(b"pepper").sign(STATE), now_ms=0) is None


@given(st.integers(min_value=0), st.integers(min_value=1, max_value=255))
def test_a_changed_byte_is_found(place: int, change: int) -> None:
    raw = bytearray(base64.urlsafe_b64decode(state_signer(b"pepper").sign(STATE)))
    raw[place % len(raw)] ^= change
    assert state_signer(b"pepper").verify(base64.urlsafe_b64encode(raw).decode(), now_ms=0) is None


@given(st.text(max_size=300))
def test_any_other_text_is_none_of_ours(text: str) -> None:
    assert state_signer(b"pepper").verify(text, now_ms=0) is None


def test_a_digest_does_not_depend_on_the_order_of_arguments() -> None:
    assert request_digest("t", {"a": 1, "b": 2}) == request_digest("t", {"b": 2, "a": 1})
    assert request_digest("t", {"a": 1}) != request_digest("u", {"a": 1})
