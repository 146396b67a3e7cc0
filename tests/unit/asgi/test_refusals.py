"""Refusals on pages for people."""

import pytest
from starlette.types import Scope

from penstock.asgi import AUDITED, CODE
from penstock.asgi.refusals import note_refusal, page_status, page_title
from penstock.base.errors import Conflict, Denied, LimitExceeded, NotFound, PenstockError, Rejected, Unavailable


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (NotFound("RUN_NOT_FOUND", "x"), 404),
        (Denied("SCOPE_REQUIRED", "x"), 403),
        (Denied("UNAUTHENTICATED", "x"), 403),  # a page asks with a form, and has no challenge
        (Conflict("DRAFT_DECIDED", "x"), 409),
        (LimitExceeded("RATE_LIMITED", "x"), 429),
        (Unavailable("STORE_BUSY", "x"), 503),
        (Rejected("ARGUMENT_INVALID", "x"), 422),
        (Rejected("BODY_TOO_LARGE", "x"), 413),
        (PenstockError("INTERNAL_ERROR", "x"), 500),
    ],
)
def test_a_page_has_the_status_that_the_other_wires_have(error: PenstockError, status: int) -> None:
    assert page_status(error) == status
    assert page_title(error)


def test_the_middleware_is_told_why_and_whether_it_is_on_record() -> None:
    error = Denied("SCOPE_REQUIRED", "x")
    scope: Scope = {"type": "http"}
    note_refusal(scope, error)
    assert scope["state"] == {CODE: "SCOPE_REQUIRED"}
    error.on_record = True
    note_refusal(scope, error)
    assert scope["state"][AUDITED] is True
