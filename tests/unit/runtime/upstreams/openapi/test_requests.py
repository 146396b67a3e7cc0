"""Calls of operations as requests."""

from __future__ import annotations

import base64
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.base.addresses import stays_in_place
from penstock.runtime.upstreams.openapi.requests import ApiRequest, RequestProblem, build_request
from tests.unit.runtime.upstreams.openapi.documents import operation

BASE = "https://shop.example/v1"


def request(described: Any, arguments: Any, *, method: str = "get", path: str = "/orders", **more: Any) -> ApiRequest:
    return build_request(operation(described, method=method, path=path, **more), BASE, arguments, boundary="b0und")


def query(schema: Any, value: Any, **more: Any) -> str:
    described = {"parameters": [{"name": "q", "in": "query", "schema": schema, **more}]}
    return request(described, {"q": value}).url.removeprefix(f"{BASE}/orders")


@pytest.mark.parametrize(
    ("more", "value", "written"),
    [
        ({}, "a b&c", "?q=a%20b%26c"),
        ({}, True, "?q=true"),
        ({}, 1.5, "?q=1.5"),
        ({}, None, ""),
        ({}, [1, 2], "?q=1&q=2"),
        ({}, [], ""),
        ({"explode": False}, [1, "a,b"], "?q=1,a%2Cb"),
        ({"style": "pipeDelimited", "explode": False}, ["a", "b"], "?q=a|b"),
        ({"style": "spaceDelimited", "explode": False}, ["a", "b"], "?q=a%20b"),
        ({}, {"from": 1, "to": 2}, "?from=1&to=2"),
        ({"explode": False}, {"from": 1, "to": 2}, "?q=from,1,to,2"),
        ({"style": "deepObject"}, {"a": {"b": [1]}}, "?q%5Ba%5D%5Bb%5D%5B0%5D=1"),
        ({"allowReserved": True}, "a/b", "?q=a/b"),
    ],
)
def test_parameters_are_written_in_their_style(more: Any, value: Any, written: str) -> None:
    assert query({}, value, **more) == written


def test_a_parameter_with_a_media_type_is_written_as_json() -> None:
    described = {
        "parameters": [{"name": "q", "in": "query", "content": {"application/json": {"schema": {"type": "object"}}}}]
    }
    assert dict(parse_qsl(urlsplit(request(described, {"q": {"a": 1}}).url).query)) == {"q": '{"a":1}'}


@given(st.text(min_size=1).filter(stays_in_place))
def test_a_value_never_leaves_its_place_in_the_path(value: str) -> None:
    made = request({}, {"id": value}, path="/orders/{id}/items")
    path = made.url.removeprefix(f"{BASE}/orders/").removesuffix("/items")
    assert not set(path) & set("/?#")
    try:
        value.encode()
    except UnicodeEncodeError:
        return
    assert unquote(path) == value


def test_a_name_with_a_slash_is_one_part_of_the_address() -> None:
    assert request({}, {"id": "group/project"}, path="/projects/{id}").url == f"{BASE}/projects/group%2Fproject"


@pytest.mark.parametrize(
    "value",
    [
        "",
        ".",
        "..",
        [],
        "../../keys",
        "%2e%2e",
        "%2e%2e%2fkeys",
        "%252e%252e",
        "\uff0e\uff0e",
        "\u2025",
        "%c0%ae%c0%ae",
    ],
)
def test_what_would_change_the_address_is_refused(value: Any) -> None:
    with pytest.raises(RequestProblem, match="part of the address"):
        request({}, {"id": value}, path="/orders/{id}")


def test_a_missing_part_of_the_address_is_refused() -> None:
    with pytest.raises(RequestProblem, match="`id` is missing"):
        request({}, {}, path="/orders/{id}")


def test_headers_carry_what_headers_can_carry() -> None:
    described = {"parameters": [{"name": "X-Ids", "in": "header", "schema": {"type": "array"}}]}
    assert request(described, {"X-Ids": [1, 2]}).headers == {"X-Ids": "1,2"}
    with pytest.raises(RequestProblem, match="header cannot carry"):
        request(described, {"X-Ids": ["a\r\nb: c"]})


def posted(schema: Any, arguments: Any, media_type: str, **media: Any) -> ApiRequest:
    described = {"requestBody": {"required": True, "content": {media_type: {"schema": schema, **media}}}}
    return request(described, arguments, method="post")


OBJECT = {"type": "object", "properties": {"a": {}, "b": {}}}


def test_a_body_of_json_has_the_members_that_were_given() -> None:
    made = posted(OBJECT, {"a": {"x": [1]}, "b": None}, "application/json")
    assert msgspec.json.decode(made.content or b"") == {"a": {"x": [1]}, "b": None}
    assert made.headers["content-type"] == "application/json"
    assert posted(OBJECT, {}, "application/json").content == b"{}"


@pytest.mark.parametrize(("required", "content"), [(True, b"{}"), (False, None)])
def test_a_body_that_is_required_is_sent_without_members_too(required: bool, content: bytes | None) -> None:
    schema = {"type": "object", "properties": {"note": {"type": "string"}}}
    body = {"required": required, "content": {"application/json": {"schema": schema}}}
    assert request({"requestBody": body}, {}, method="post").content == content


def test_a_body_that_is_one_argument_is_sent_as_it_is() -> None:
    made = posted({"type": "array"}, {"body": [1, 2]}, "application/vnd.shop+json")
    assert (made.content, made.headers["content-type"]) == (b"[1,2]", "application/vnd.shop+json")


def test_a_form_is_written_by_its_encodings() -> None:
    deep = {"encoding": {"a": {"style": "deepObject", "explode": True}}}
    made = posted(OBJECT, {"a": {"x": [{"y": 1}]}, "b": [1, 2]}, "application/x-www-form-urlencoded", **deep)
    assert parse_qsl((made.content or b"").decode()) == [("a[x][0][y]", "1"), ("b", "1"), ("b", "2")]
    plain = posted(OBJECT, {"a": {"x": 1}, "b": "é"}, "application/x-www-form-urlencoded")
    assert parse_qsl((plain.content or b"").decode()) == [("a", '{"x":1}'), ("b", "é")]


def test_files_of_a_form_are_decoded() -> None:
    schema = {
        "type": "object",
        "properties": {"file": {"type": "string", "format": "binary"}, "note": {"type": "string"}},
    }
    content = base64.b64encode(b"\x00\xff").decode()
    made = posted(schema, {"file": content, "note": "hello"}, "multipart/form-data")
    assert made.headers["content-type"] == "multipart/form-data; boundary=b0und"
    assert b'name="file"; filename="file"\r\nContent-Type: application/octet-stream\r\n\r\n\x00\xff\r\n' in (
        made.content or b""
    )
    assert b'name="note"\r\n\r\nhello\r\n--b0und--\r\n' in (made.content or b"")
    with pytest.raises(RequestProblem, match="not base64"):
        posted(schema, {"file": "no base64!"}, "multipart/form-data")


def test_text_and_bytes_are_sent_as_such() -> None:
    assert posted({"type": "string"}, {"body": "héllo"}, "text/plain").content == "héllo".encode()
    sent = posted(
        {"type": "string", "format": "binary"}, {"body": base64.b64encode(b"\x01").decode()}, "application/pdf"
    )
    assert (sent.content, sent.headers["content-type"]) == (b"\x01", "application/pdf")


def test_json_is_chosen_before_forms() -> None:
    content = {"multipart/form-data": {"schema": OBJECT}, "application/json": {"schema": OBJECT}}
    made = request({"requestBody": {"content": content}}, {"a": 1}, method="post")
    assert made.headers["content-type"] == "application/json"
