"""Forms and addresses as browsers send them."""

import pytest
from starlette.types import Message, Receive, Scope

from penstock.asgi.forms import query_of, read_form
from penstock.base import limits
from penstock.base.errors import Rejected

pytestmark = pytest.mark.anyio


def sent(*parts: bytes, whole: bool = True) -> Receive:
    messages: list[Message] = [{"type": "http.request", "body": part, "more_body": True} for part in parts]
    messages.append({"type": "http.request", "body": b""} if whole else {"type": "http.disconnect"})

    async def receive() -> Message:
        return messages.pop(0)

    return receive


def form(kind: bytes = b"application/x-www-form-urlencoded; charset=utf-8") -> Scope:
    return {"type": "http", "headers": [(b"content-type", kind)]}


async def test_a_form_in_parts_is_read_with_its_empty_fields_and_without_white_space_around_a_text() -> None:
    fields = await read_form(form(), sent(b"a=+1+&b=", b"&a=2"))
    assert fields == {"a": [" 1 ", "2"], "b": [""]}
    assert (fields.text("a"), fields.text("b"), fields.text("c")) == ("1", "", "")


@pytest.mark.parametrize(
    ("scope", "receive", "code"),
    [
        (form(b"application/json"), sent(b"{}"), "UNSUPPORTED_MEDIA_TYPE"),
        ({"type": "http", "headers": []}, sent(b"a=1"), "UNSUPPORTED_MEDIA_TYPE"),
        (form(), sent(b"a=12345678"), "BODY_TOO_LARGE"),
        (form(), sent(b"a=1", whole=False), "MALFORMED_REQUEST"),
        (form(), sent(b"\xff=1"), "MALFORMED_REQUEST"),
        (form(), sent(b"just"), "MALFORMED_REQUEST"),
    ],
)
async def test_what_is_no_whole_form_within_the_limit_is_refused(scope: Scope, receive: Receive, code: str) -> None:
    with pytest.raises(Rejected) as refused:
        await read_form(scope, receive, 8)
    assert refused.value.code == code


async def test_an_address_may_have_names_without_values_but_not_any_number_of_them() -> None:
    assert query_of({"type": "http", "query_string": b"x&to=%2Fa"}).text("to") == "/a"
    with pytest.raises(Rejected):
        query_of({"type": "http", "query_string": b"&".join([b"a=1"] * (limits.FORM_FIELDS_MAX + 1))})
