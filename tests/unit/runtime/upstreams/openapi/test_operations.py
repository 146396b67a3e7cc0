"""Operations of OpenAPI documents as tools."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from penstock.base import limits
from penstock.base.errors import Rejected
from penstock.runtime.upstreams.openapi.overrides import parse_overrides
from tests.unit.runtime.upstreams.openapi.documents import imported, operation


def body(schema: Any, media_type: str = "application/json", *, required: bool = True) -> Any:
    return {"requestBody": {"required": required, "content": {media_type: {"schema": schema}}}}


def parameter(name: str, location: str = "query", **more: Any) -> Any:
    return {"name": name, "in": location, "schema": {"type": "string"}, **more}


def test_members_of_a_body_are_arguments_beside_the_parameters() -> None:
    schema = {
        "type": "object",
        "required": ["item"],
        "properties": {"item": {"type": "string"}, "count": {"type": "integer"}},
    }
    made = operation({**body(schema), "parameters": [parameter("dry_run")]})
    assert set(made.input_schema["properties"]) == {"dry_run", "item", "count"}  # type: ignore[arg-type]
    assert made.input_schema["required"] == ["item"]
    assert made.input_schema["additionalProperties"] is False


def test_arguments_with_one_name_are_told_apart_by_their_place() -> None:
    schema = {"type": "object", "properties": {"id": {"type": "integer"}}}
    parameters = [parameter("id", "path", required=True), parameter("id", "query")]
    made = operation({**body(schema), "parameters": parameters}, path="/orders/{id}")
    assert set(made.input_schema["properties"]) == {"id", "id_query", "id_body"}  # type: ignore[arg-type]
    assert made.body is not None
    assert made.body.members == {"id_body": "id"}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "items": {"type": "string"}},
        {"type": "string"},
        {"oneOf": [{"type": "object", "properties": {"a": {}}}, {"type": "object", "properties": {"b": {}}}]},
        {"type": "object", "additionalProperties": {"type": "string"}},
        {"type": "object"},
    ],
)
def test_any_other_body_is_one_argument(schema: Any) -> None:
    made = operation(body(schema))
    assert list(made.input_schema["properties"]) == ["body"]  # type: ignore[arg-type]
    assert made.input_schema["required"] == ["body"]


def test_parts_of_all_of_are_put_together() -> None:
    schemas = {"Base": {"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}}}}
    schema = {
        "allOf": [{"$ref": "#/components/schemas/Base"}, {"type": "object", "properties": {"b": {"type": "integer"}}}]
    }
    made = operation(body(schema), schemas=schemas)
    assert set(made.input_schema["properties"]) == {"a", "b"}  # type: ignore[arg-type]
    assert made.input_schema["required"] == ["a"]


def test_nothing_of_a_body_that_may_be_missing_is_required() -> None:
    schema = {"type": "object", "required": ["item"], "properties": {"item": {"type": "string"}}}
    assert "required" not in operation(body(schema, required=False)).input_schema


def test_parameters_of_the_path_hold_for_its_operations_unless_they_say_otherwise() -> None:
    own = parameter("limit", description="Of the operation.")
    paths = {
        "/orders": {
            "parameters": [parameter("limit"), parameter("all")],
            "get": {"operationId": "it", "parameters": [own]},
        }
    }
    made = imported(paths).operations["it"]
    assert set(made.input_schema["properties"]) == {"limit", "all"}  # type: ignore[arg-type]
    assert made.input_schema["properties"]["limit"]["description"] == "Of the operation."  # type: ignore[index,call-overload]


def test_a_parameter_of_the_path_that_the_document_forgot_is_an_argument() -> None:
    made = operation({}, method="get", path="/orders/{order_id}")
    assert made.input_schema["required"] == ["order_id"]


def test_headers_of_the_client_itself_and_cookies_that_may_be_missing_are_no_arguments() -> None:
    names = ("Accept", "authorization", "Content-Type")
    made = operation({"parameters": [*(parameter(name, "header") for name in names), parameter("session", "cookie")]})
    assert made.input_schema["properties"] == {}


def test_names_of_arguments_are_those_that_clients_take() -> None:
    made = operation(
        {"parameters": [parameter("filter[status]"), parameter("$top"), parameter("a" * 90)]}, method="get"
    )
    assert set(made.input_schema["properties"]) == {"filter_status", "top", "a" * 64}  # type: ignore[arg-type]
    assert [item.name for item in made.parameters] == ["filter[status]", "$top", "a" * 90]


@pytest.mark.parametrize(
    ("described", "reason"),
    [
        ({"parameters": [parameter("session", "cookie", required=True)]}, "needs the cookie session"),
        ({"parameters": [parameter("id", "path", style="matrix")]}, "style matrix"),
        ({"parameters": [{"$ref": "#/components/parameters/Missing"}]}, "leads nowhere"),
        ({"parameters": [parameter("q", "querystring")]}, "whole query string"),
    ],
)
def test_what_cannot_be_called_is_refused_with_a_reason(described: Any, reason: str) -> None:
    found = imported({"/orders/{id}": {"get": {"operationId": "it", **described}, "delete": {"operationId": "other"}}})
    assert [item.key for item in found.refused] == ["GET /orders/{id}"]
    assert reason in found.refused[0].reason
    assert set(found.operations) == {"other"}


@pytest.mark.parametrize(
    ("identifier", "name"),
    [
        ("listOrders", "listOrders"),
        ("orders.list/all", "orders_list_all"),
        ("", "get_orders_id_items"),
        (None, "get_orders_id_items"),
        ("é", "get_orders_id_items"),
    ],
)
def test_a_tool_is_called_like_its_operation(identifier: str | None, name: str) -> None:
    described = {} if identifier is None else {"operationId": identifier}
    assert set(imported({"/orders/{id}/items": {"get": described}}).operations) == {name}


def test_long_and_equal_names_become_short_and_different_ones() -> None:
    long = "a_very_long_name_" * 6
    found = imported(
        {"/a": {"get": {"operationId": long}, "put": {"operationId": "same"}}, "/b": {"get": {"operationId": "same"}}}
    )
    assert len(found.operations) == 3
    assert all(len(name) <= limits.OPENAPI_TOOL_NAME_CHARACTERS_MAX for name in found.operations)
    # Which of two equal names keeps it depends on the order; what the other is called does not.
    assert "same" in found.operations


def test_texts_are_bounded_and_say_what_a_model_has_to_know() -> None:
    described = {
        "description": "Lists orders. " * 300,
        "deprecated": True,
        "parameters": [parameter("page"), parameter("per_page")],
    }
    made = operation(described, method="get")
    assert len(made.description) < limits.OPENAPI_DESCRIPTION_CHARACTERS_MAX + 200
    assert "Deprecated." in made.description
    assert "page, per_page" in made.description


def test_the_side_file_has_the_last_word() -> None:
    side = {
        "listOrders": {"name": "orders", "title": "Orders", "description": "Newest first.", "hide": ["debug"]},
        "POST /orders": {"fixed": {"source": "assistant"}},
    }
    paths = {
        "/orders": {
            "get": {"operationId": "listOrders", "parameters": [parameter("debug"), parameter("status")]},
            "post": {"operationId": "create", "parameters": [parameter("source", required=True)]},
        }
    }
    found = imported(paths, overrides=side).operations
    assert (found["orders"].title, found["orders"].description) == ("Orders", "Newest first.")
    assert list(found["orders"].input_schema["properties"]) == ["status"]  # type: ignore[arg-type]
    assert found["create"].input_schema["properties"] == {}
    assert found["create"].fixed == {"source": "assistant"}


@pytest.mark.parametrize(
    ("side", "code"),
    [
        ({"missing": {"name": "a"}}, "OPENAPI_OVERRIDE_UNKNOWN"),
        ({"one": {"name": "two"}}, "OPENAPI_NAMES"),
        ({"one": {"name": "no name"}}, "OPENAPI_NAMES"),
    ],
)
def test_a_side_file_that_does_not_fit_is_refused(side: Any, code: str) -> None:
    paths = {"/a": {"get": {"operationId": "two"}, "put": {"operationId": "one"}}}
    with pytest.raises(Rejected, match=code):
        imported(paths, overrides=side)


def test_hiding_an_argument_that_is_needed_refuses_the_operation() -> None:
    paths = {"/a/{id}": {"get": {"operationId": "one"}}}
    assert "which it needs" in imported(paths, overrides={"one": {"hide": ["id"]}}).refused[0].reason


@pytest.mark.parametrize("text", [b"operations: [1]", b"operation: {}", b"operations: {a: {nam: b}}", b"{"])
def test_the_text_of_a_side_file_is_checked(text: bytes) -> None:
    with pytest.raises(Rejected):
        parse_overrides(text, name="side.yaml")


def test_a_body_without_members_is_no_argument() -> None:
    empty = {"type": "object", "properties": {}, "additionalProperties": False}
    assert operation(body(empty)).input_schema["properties"] == {}


def test_the_request_of_an_operation_is_plain_json() -> None:
    schema = {"type": "object", "properties": {"file": {"type": "string", "format": "binary"}}}
    request = operation(body(schema, "multipart/form-data")).request()
    assert request == msgspec.json.decode(msgspec.json.encode(request))
    assert request["body"]["files"] == ["file"]  # type: ignore[index,call-overload]


def test_another_request_is_another_tool_to_accept() -> None:
    before = imported({"/orders": {"get": {"operationId": "it"}}}).operations["it"]
    after = imported({"/orders": {"delete": {"operationId": "it"}}}).operations["it"]
    assert before.input_schema == after.input_schema
    assert msgspec.json.encode(before.request()) != msgspec.json.encode(after.request())
