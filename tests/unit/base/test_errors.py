"""The exceptions of the edges."""

import copy
import pickle

import pytest

from penstock.base.errors import (
    Conflict,
    CorruptHistory,
    Denied,
    LimitExceeded,
    NotFound,
    PenstockError,
    Rejected,
    Unavailable,
)

KINDS = (Conflict, CorruptHistory, Denied, LimitExceeded, NotFound, Rejected, Unavailable)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_a_penstock_error(kind: type[PenstockError]) -> None:
    error = kind("CODE", "what happened", "what to do", {"run": "r1"})
    assert isinstance(error, PenstockError)
    assert (error.code, error.message, error.hint, error.details) == (
        "CODE",
        "what happened",
        "what to do",
        {"run": "r1"},
    )


def test_the_text_has_the_hint_when_there_is_one() -> None:
    assert str(Rejected("CODE", "what happened", "what to do")) == "CODE: what happened (what to do)"
    assert str(Rejected("CODE", "what happened")) == "CODE: what happened"


def test_details_are_a_copy() -> None:
    details = {"a": 1}
    error = Rejected("CODE", "message", details=dict(details))
    error.details["a"] = 2
    assert details == {"a": 1}
    assert Rejected("CODE", "message").details == {}


@pytest.mark.parametrize("kind", KINDS)
def test_errors_survive_pickling_and_copying(kind: type[PenstockError]) -> None:
    error = kind("CODE", "message", "hint", {"a": [1]})
    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(twin) is kind
        assert (twin.code, twin.message, twin.hint, twin.details) == ("CODE", "message", "hint", {"a": [1]})
