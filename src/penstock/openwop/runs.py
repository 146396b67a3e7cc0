"""The routes of the OpenWOP wire, version 1: starting, reading, following, answering and cancelling runs.

Every request becomes calls of operations through the gate, and their answers are translated. Decision 0010 says which
parts of the wire are served; the others are refused with the wire's own error envelope.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import NamedTuple

from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from penstock.asgi import send_body
from penstock.base.encoding import encode_bytes
from penstock.base.errors import Conflict, Denied, NotFound, PenstockError, Rejected
from penstock.base.json import JsonObject, JsonValue
from penstock.openwop.errors import published, send_envelope, wire_rejected
from penstock.openwop.exchange import Exchange
from penstock.openwop.pack.importing import IMPORT_PATH, import_workflow
from penstock.openwop.streams import open_events, poll_events
from penstock.openwop.views import run_arguments, snapshot_of, standing_of, status_of, workflow_of
from penstock.operations.catalogue.capability import EventStream
from penstock.operations.gate.pipeline import Gate
from penstock.rest.endpoints import ConcurrencyLimit
from penstock.rest.responses import method_not_allowed, send_options, send_response
from penstock.rest.sse import STREAM_HEADERS, close_stream, send_events

__all__ = ["openwop_routes"]

_BULK_MAX = 100
_RUNS = "/v1/runs"
_VERSION = "1.0"


class _Answer(NamedTuple):
    body: JsonObject
    status: int = 200


Action = Callable[[Exchange], Awaitable[_Answer | EventStream]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wire:
    """An ASGI endpoint for one address of the wire."""

    gate: Gate
    busy: ConcurrencyLimit
    max_body_bytes: int
    version: str
    actions: dict[str, Action]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        allowed = ", ".join(sorted({*self.actions, "OPTIONS", *(["HEAD"] if "GET" in self.actions else [])}))
        if scope["method"] == "OPTIONS":
            await send_options(send, allowed)
            return
        held = False
        try:
            self.busy.enter()
            held = True
            action = self.actions.get("GET" if scope["method"] == "HEAD" else scope["method"])
            if action is None:
                raise method_not_allowed(scope["method"], allowed)
            exchange = Exchange.of(
                self.gate, (scope, receive, send), max_body_bytes=self.max_body_bytes, version=self.version
            )
            _refuse_other_versions(exchange)
            answer = await action(exchange)
            if isinstance(answer, EventStream):
                self.busy.leave()
                held = False
                await _send_stream(exchange, answer)
            else:
                headers = [(b"content-type", b"application/json"), *exchange.answer_headers]
                await send_response(send, answer.status, encode_bytes(answer.body), headers)
        except PenstockError as error:
            await send_envelope(send, scope, error)
        finally:
            if held:
                self.busy.leave()


def _refuse_other_versions(exchange: Exchange) -> None:
    """Refuse a client that requires another version of the wire."""
    wanted = exchange.headers.get("openwop-version", _VERSION).strip()
    if wanted.partition(".")[0] != _VERSION.partition(".")[0]:
        message = f"this server supports version {_VERSION} of OpenWOP, not {wanted[:20]!r}"
        raise Rejected("WIRE_VERSION_UNSUPPORTED", message, "", {"supported": [_VERSION], "requested": wanted[:20]})
    exchange.answer_headers.append((b"openwop-version", _VERSION.encode()))


async def _send_stream(exchange: Exchange, stream: EventStream) -> None:
    if exchange.scope["method"] == "HEAD":
        await close_stream(stream)
        await send_body(exchange.send, 200, list(STREAM_HEADERS))
        return
    exchange.scope["state"]["stream"] = True
    telemetry = exchange.gate.services.telemetry
    await send_events(stream, exchange.receive, exchange.send, telemetry, kind="openwop")


async def _create(exchange: Exchange) -> _Answer:
    # A mistyped value means the same: a caller who relies on it must not get a second run.
    if exchange.headers.get("x-dedup", ""):
        raise wire_rejected("X-Dedup is not supported here; send an Idempotency-Key")
    if "x-force-engine-version" in exchange.headers:
        raise Denied("ENGINE_VERSION_FORCED", "this server does not let callers choose the engine version")
    body = await exchange.body()
    arguments = run_arguments(body)
    if body.get("tenantId") is not None and body["tenantId"] != await exchange.tenant():
        raise Denied("TENANT_DIFFERS", "the key belongs to another tenant")
    try:
        handle = await exchange.call("workflow.execute", arguments, once=True, may_wait=True)
    except NotFound as error:
        # On this wire an unknown workflow is a mistake in the request, not a missing resource.
        raise Rejected(error.code, error.message, error.hint, {"fields": ["workflowId"]}) from None
    place = f"{_RUNS}/{handle['execution_id']}"
    exchange.answer_headers.append((b"location", place.encode()))
    answer: JsonObject = {"runId": handle["execution_id"], "status": status_of(handle["status"])}
    answer.update({"eventsUrl": f"{place}/events", "statusUrl": place})
    return _Answer(answer, 201)


async def _read(exchange: Exchange) -> _Answer:
    view = await exchange.call("execution.status", {"execution_id": exchange.named("run_id")})
    return _Answer(snapshot_of(view, exchange.version))


async def _cancel_run(exchange: Exchange, run_id: str, reason: JsonValue, *, once: bool) -> JsonObject:
    arguments: JsonObject = {"execution_id": run_id}
    if reason is not None:
        arguments["reason"] = reason
    try:
        handle = await exchange.call("execution.cancel", arguments, once=once)
    except Conflict as error:
        # A run that is already cancelled counts as success; one that ended otherwise stays unchanged.
        handle = await exchange.call("execution.status", {"execution_id": run_id})
        status = status_of(handle["status"])
        if status not in ("cancelling", "cancelled"):
            raise Conflict(error.code, error.message, error.hint, {"runStatus": status}) from None
    # Cancelling may be over at once, or take as long as the compensation takes.
    status = status_of(handle["status"])
    return {"runId": handle["execution_id"], "status": "cancelled" if status == "cancelled" else "cancelling"}


async def _cancel(exchange: Exchange) -> _Answer:
    body = await exchange.body()
    return _Answer(await _cancel_run(exchange, exchange.named("run_id"), body.get("reason"), once=True))


async def _cancel_many(exchange: Exchange) -> _Answer:
    body = await exchange.body()
    run_ids = body.get("runIds")
    if not isinstance(run_ids, list) or not 1 <= len(run_ids) <= _BULK_MAX:
        raise wire_rejected(f"runIds must be 1 to {_BULK_MAX} ids", {"maxRunIds": _BULK_MAX})
    if not all(isinstance(run_id, str) for run_id in run_ids):
        raise wire_rejected("every run id must be a text", {"fields": ["runIds"]})
    # Check the key first, so that an invalid one is reported once, not for every run.
    await exchange.tenant()
    results: list[JsonValue] = []
    for run_id in run_ids:
        try:
            results.append({**await _cancel_run(exchange, str(run_id), body.get("reason"), once=False), "ok": True})
        except PenstockError as error:
            message: JsonObject = {"code": published(error).error, "message": error.message}
            results.append({"runId": run_id, "ok": False, "error": message})
    return _Answer({"results": results})


async def _pause(exchange: Exchange) -> _Answer:
    body = await exchange.body()
    if body.get("drainPolicy") is not None:
        raise wire_rejected("drainPolicy cannot be chosen here", {"fields": ["drainPolicy"]})
    arguments: JsonObject = {"execution_id": exchange.named("run_id")}
    if body.get("reason") is not None:
        arguments["reason"] = body["reason"]
    handle = await _change_run(exchange, "execution.pause", arguments)
    return _Answer({"runId": handle["execution_id"], "status": "paused"}, 202)


async def _resume(exchange: Exchange) -> _Answer:
    await exchange.body()
    handle = await _change_run(exchange, "execution.resume", {"execution_id": exchange.named("run_id")})
    return _Answer({"runId": handle["execution_id"], "status": "running"}, 202)


async def _change_run(exchange: Exchange, operation: str, arguments: JsonObject) -> JsonObject:
    try:
        handle: JsonObject = await exchange.call(operation, arguments, once=True)
    except Conflict as error:
        view = await exchange.call("execution.status", {"execution_id": arguments["execution_id"]})
        raise Conflict(error.code, error.message, error.hint, {"runStatus": status_of(view["status"])}) from None
    return handle


async def _resolve(exchange: Exchange) -> _Answer:
    body = await exchange.body()
    if set(body) != {"resumeValue"}:
        raise wire_rejected("the body has resumeValue, and nothing else", {"fields": ["resumeValue"]})
    run_id, node_id = exchange.named("run_id"), exchange.named("node_id")
    arguments: JsonObject = {"execution_id": run_id, "node_id": node_id, "answer": body["resumeValue"]}
    handle = await exchange.call("execution.answer", arguments, once=True)
    status = status_of(handle["status"])
    if status == "waiting-input":
        # The next question may be for approvers.
        status = standing_of(await exchange.call("execution.status", {"execution_id": run_id}))
    return _Answer({"runId": handle["execution_id"], "nodeId": node_id, "status": status})


async def _workflow(exchange: Exchange) -> _Answer:
    view = await exchange.call("workflow.get", {"workflow_id": exchange.named("workflow_id")})
    return _Answer(workflow_of(view))


async def _poll(exchange: Exchange) -> _Answer:
    return _Answer(await poll_events(exchange))


async def _not_served(exchange: Exchange) -> _Answer:
    raise NotFound("ROUTE_NOT_FOUND", f"{exchange.scope['path'][:200]} is not served here")


def openwop_routes(
    gate: Gate,
    busy: ConcurrencyLimit,
    *,
    max_body_bytes: int,
    version: str,
    mount: ASGIApp | None = None,
    seam: bool = False,
) -> list[BaseRoute]:
    """Build the routes of the wire. `mount` serves MCP as its profile requires; `seam` adds importing workflows."""

    def route(path: str, **actions: Action) -> BaseRoute:
        wire = _Wire(gate=gate, busy=busy, max_body_bytes=max_body_bytes, version=version, actions=actions)
        return Route(path, wire)

    async def put_in(exchange: Exchange) -> _Answer:
        imported = await import_workflow(exchange, mounted=mount is not None)
        return _Answer(imported, 202 if "draftId" in imported else 201)

    return [
        *([Route("/v1/mcp", mount)] if mount is not None else []),
        *([route(IMPORT_PATH, POST=put_in)] if seam else []),
        route(_RUNS, POST=_create),
        route(f"{_RUNS}:bulk-cancel", POST=_cancel_many),
        route(f"{_RUNS}/{{run_id}}:pause", POST=_pause),
        route(f"{_RUNS}/{{run_id}}:resume", POST=_resume),
        route(f"{_RUNS}/{{run_id}}/events/poll", GET=_poll),
        route(f"{_RUNS}/{{run_id}}/events", GET=open_events),
        route(f"{_RUNS}/{{run_id}}/cancel", POST=_cancel),
        route(f"{_RUNS}/{{run_id}}/interrupts/{{node_id}}", POST=_resolve),
        route(f"{_RUNS}/{{run_id}}", GET=_read),
        route("/v1/workflows/{workflow_id}", GET=_workflow),
        route(
            "/v1/{rest:path}", GET=_not_served, POST=_not_served, PUT=_not_served, PATCH=_not_served, DELETE=_not_served
        ),
    ]
