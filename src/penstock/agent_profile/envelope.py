"""Answers of the agent profile: `{"ok": …, "code": …, "data": …}`, for successes and for refusals.

Above it: the planes. Below it: `codes`, `rest.responses`.
"""

from __future__ import annotations

from typing import Any

from starlette.types import Scope, Send

from penstock.agent_profile.codes import SUCCESS, published
from penstock.asgi import CODE, Headers, request_id_of
from penstock.base.encoding import encode_bytes
from penstock.base.errors import PenstockError
from penstock.base.json import JsonObject, JsonValue
from penstock.operations.catalogue.reasons import hint_of
from penstock.rest.problems import problem_headers
from penstock.rest.responses import CLIENT_LEFT, send_response

__all__ = ["send_data", "send_refusal"]

_JSON = (b"content-type", b"application/json")
# After these the rest of the request is not read, so the connection cannot carry another one.
_HANGS_UP = frozenset({"BODY_TOO_LARGE", "REQUEST_TIMEOUT"})
# Members of our details that have a header, or are for other surfaces.
_NOT_SHOWN = ("allow", "retry_after_seconds", "errors")


async def send_data(send: Send, data: Any, headers: Headers | None = None) -> None:
    """Send a success."""
    body = encode_bytes({"ok": True, "code": SUCCESS, "data": data})
    await send_response(send, 200, body, [_JSON, *(headers or [])])


async def send_refusal(send: Send, scope: Scope, error: PenstockError) -> None:
    """Send a refusal, unless the client has already disconnected."""
    scope.setdefault("state", {})[CODE] = error.code
    if error.code == CLIENT_LEFT:
        return
    found = published(error)
    details: JsonObject = {name: value for name, value in error.details.items() if name not in _NOT_SHOWN}
    if found.reason is not None:
        details.setdefault("reason", found.reason)
    listed = error.details.get("errors")
    if isinstance(listed, list):
        details["issues"] = [_issue(item) for item in listed]
    hint = hint_of(error)
    if hint:
        details["hint"] = hint
    body: JsonObject = {"ok": False, "code": found.code, "message": error.message or found.code}
    body["details"] = {**details, "reason_code": error.code, "request_id": request_id_of(scope)}
    headers = [_JSON, *problem_headers(error)]
    if error.code in _HANGS_UP:
        headers.append((b"connection", b"close"))
    await send_response(send, found.status, encode_bytes(body), headers)


def _issue(item: JsonValue) -> JsonObject:
    """Return one violation as the profile lists it."""
    found = item if isinstance(item, dict) else {}
    path: list[JsonValue] = [part for part in str(found.get("pointer") or "").split("/") if part]
    return {"code": found.get("keyword") or "invalid", "path": path, "message": found.get("message") or ""}
