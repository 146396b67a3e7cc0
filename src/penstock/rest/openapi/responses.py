"""The responses of an operation in the OpenAPI document: successes, every refusal, headers and links."""

from __future__ import annotations

from http import HTTPStatus

from penstock.base.json import JsonObject, JsonValue
from penstock.operations.catalogue.capability import Capability, Route
from penstock.operations.catalogue.declaring import schema_of
from penstock.operations.catalogue.reasons import reasons_of, status_of
from penstock.operations.runs.results import ExecutionResult
from penstock.rest.openapi.components import Components, Links
from penstock.rest.problems import PROBLEM_MEDIA_TYPE

__all__ = ["COMMON_HEADERS", "responses_of"]

_SSE = "text/event-stream"
_SSE_EXAMPLE = 'id: 7\nevent: status\ndata: {"execution_id":"order-1042","sequence":7,"status":"waiting_input"}\n\n'
_SSE_EVENT: JsonObject = {
    "type": "object",
    "description": "One event. A comment (`: ping`) is a sign of life; `closed` ends a stream that is cut off.",
    "required": ["event", "data"],
    "properties": {
        "id": {"type": "string", "description": "Send the last one as Last-Event-ID to continue from there."},
        "event": {"type": "string"},
        "data": {"type": "string", "contentMediaType": "application/json", "contentSchema": {"type": "object"}},
    },
}
_NOT_MODIFIED = HTTPStatus.NOT_MODIFIED
_HELD = str(HTTPStatus.ACCEPTED.value)
_WITH_LOCATION = frozenset({HTTPStatus.CREATED, HTTPStatus.ACCEPTED})
_WITH_RETRY_AFTER = frozenset({HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.CONFLICT})


def _header(description: str, kind: str = "string") -> JsonValue:
    return {"description": description, "schema": {"type": kind}}


COMMON_HEADERS: JsonObject = {
    "ETag": _header("Which version this is; send it as If-Match or If-None-Match."),
    "IdempotencyReplayed": _header("`true` when the call was made before, and this is its answer again."),
    "Location": _header("Where the new thing is."),
    "RequestId": {
        "description": "Name this when you ask about a problem.",
        "required": True,
        "schema": {"type": "string", "minLength": 1},
    },
    "RetryAfter": _header("How many seconds to wait.", "integer"),
    "WwwAuthenticate": _header("How to show who you are."),
}


def _reference(name: str) -> JsonValue:
    return {"$ref": f"#/components/headers/{name}"}


def responses_of(capability: Capability, route: Route, components: Components, links: Links) -> JsonObject:
    """Return the response of every status."""
    found: JsonObject = {}
    for status in (route.status, *route.other_statuses):
        found[str(status)] = _success(capability, route, status, components, links)
    if capability.governance.holdable and not capability.annotations.read_only:
        found[_HELD] = _held(found.get(_HELD), components)
    if route.etag and capability.annotations.read_only:
        headers: JsonObject = {"X-Request-ID": _reference("RequestId"), "ETag": _reference("ETag")}
        found[str(_NOT_MODIFIED.value)] = {"description": "It is the version that you have.", "headers": headers}
    by_status: dict[int, list[str]] = {}
    for code in reasons_of(capability):
        by_status.setdefault(status_of(code), []).append(code)
    for status, codes in sorted(by_status.items()):
        found[str(status)] = components.response(f"Status{status}", _refusal(status, codes))
    return found


def _held(otherwise: JsonValue, components: Components) -> JsonObject:
    """Return the response to a call that waits for approval, beside what else is answered with its status."""
    waiting: JsonObject = components.hoist("held", schema_of(ExecutionResult))
    text = "The call waits for approval: `held` says why and until when, and Location where to look."
    headers: JsonObject = {"X-Request-ID": _reference("RequestId"), "Location": _reference("Location")}
    if not isinstance(otherwise, dict):
        media: JsonObject = {"application/json": {"schema": waiting}}
        return components.response("Held", {"description": text, "headers": headers, "content": media})
    content = otherwise.get("content")
    plain = content.get("application/json") if isinstance(content, dict) else None
    schema = plain.get("schema") if isinstance(plain, dict) else None
    if not isinstance(content, dict) or not isinstance(plain, dict):
        return otherwise
    either: JsonObject = {**plain, "schema": {"anyOf": [schema, waiting]}}
    described = f"{otherwise.get('description')}. {text}"
    return {**otherwise, "description": described, "content": {**content, "application/json": either}}


def _refusal(status: int, codes: list[str]) -> JsonObject:
    headers: JsonObject = {"X-Request-ID": _reference("RequestId")}
    if status in _WITH_RETRY_AFTER:
        headers["Retry-After"] = _reference("RetryAfter")
    if status == HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = _reference("WwwAuthenticate")
    return {
        "description": f"{HTTPStatus(status).phrase}: {', '.join(codes)}",
        "headers": headers,
        "content": {PROBLEM_MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
        "x-codes": list(codes),
    }


def _success(capability: Capability, route: Route, status: int, components: Components, links: Links) -> JsonObject:
    headers: JsonObject = {"X-Request-ID": _reference("RequestId")}
    if route.etag:
        headers["ETag"] = _reference("ETag")
    if status in _WITH_LOCATION:
        headers["Location"] = _reference("Location")
    if not capability.annotations.read_only:
        headers["Idempotency-Replayed"] = _reference("IdempotencyReplayed")
    described: JsonObject = {"description": HTTPStatus(status).phrase, "headers": headers}
    output = capability.output_schema
    if output is None:
        described["content"] = {_SSE: {"schema": _SSE_EVENT, "example": _SSE_EXAMPLE}}
        return described
    media: JsonObject = {"schema": _of_status(route, status, components.hoist(capability.name, output))}
    outputs = [example.output for example in capability.examples if example.output is not None]
    if outputs:
        media["example"] = outputs[0]
    described["content"] = {"application/json": media}
    if route.streams and status == HTTPStatus.OK:
        # With `Accept: text/event-stream`.
        described["content"] = {"application/json": media, _SSE: {"schema": _SSE_EVENT, "example": _SSE_EXAMPLE}}
    found = links.of(capability, route, output)
    if found:
        described["links"] = {name: components.link(name, link) for name, link in found.items()}
    return described


def _of_status(route: Route, status: int, schema: JsonObject) -> JsonObject:
    """Return the schema of one status; with several statuses, their types are listed in the same order."""
    options, statuses = schema.get("anyOf"), (route.status, *route.other_statuses)
    if not isinstance(options, list) or len(options) != len(statuses):
        return schema
    chosen = options[statuses.index(status)]
    return chosen if isinstance(chosen, dict) else schema
