"""The documents that an OpenWOP client reads first: `/.well-known/openwop` and the description of the served paths.

Only what works is claimed. A capability that is absent is not supported, as readers of that document expect.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from starlette.routing import BaseRoute

from penstock.base import limits
from penstock.base.encoding import encode_bytes
from penstock.base.json import JsonObject
from penstock.rest.pages import document_page

__all__ = ["discovery_document", "mcp_claim", "openwop_openapi", "openwop_pages"]

_NO_MCP: JsonObject = {"supported": False, "serverUrls": [], "serverMount": {"supported": False}}
_CURRENT = "2026-07-28"
_LEGACY = "2025-06-18"
_FEATURES = ("server-discover", "mrtr", "cacheable-lists", "extensions")
_JSON = "application/json"


def mcp_claim(
    *, server_urls: Sequence[str], protocol_versions: Sequence[str], sampling: bool = False, elicitation: bool = False
) -> JsonObject:
    """Build the claim about MCP: where it is served, in which revisions, and which client requests are handled.

    The revisions are those that `server/discover` names. Those with a handshake are served too, but claiming them as
    well would say two different things about one server.
    """
    if not server_urls:
        return _NO_MCP
    claim: JsonObject = {"supported": True, "serverUrls": [*server_urls]}
    if protocol_versions:
        claim |= {"protocolVersions": [*protocol_versions], "preferredVersion": protocol_versions[0]}
    if _CURRENT in protocol_versions:
        claim |= {"profiles": [f"mcp-{_CURRENT}"], "features": [*_FEATURES]}
    elif _LEGACY in protocol_versions:
        claim["profiles"] = [f"mcp-{_LEGACY}-legacy"]
    claim["serverMount"] = {
        "supported": True,
        "transports": ["stdio", "streamable-http"],
        "samplingBridge": sampling,
        "elicitationBridge": elicitation,
    }
    return claim


def discovery_document(*, version: str, max_body_bytes: int, mcp: JsonObject | None = None) -> JsonObject:
    """Build the discovery document; `mcp` is the claim of the MCP surface."""
    return {
        "protocolVersion": "1.0",
        "implementation": {"name": "penstock", "version": version, "vendor": "Penstock"},
        "eventLogSchemaVersion": 1,
        "supportedTransports": ["rest"],
        # No language model uses this wire, so there are no envelopes to list.
        "supportedEnvelopes": [],
        "schemaVersions": {},
        "limits": {
            "clarificationRounds": limits.ACTIVITY_QUESTIONS_MAX,
            "schemaRounds": 1,
            "envelopesPerTurn": 0,
            "maxRequestBodyBytes": max_body_bytes,
        },
        "configurable": {"runTimeoutMs": {"type": "number", "min": 1}},
        "mcp": mcp or _NO_MCP,
    }


def _answer(description: str, schema: JsonObject | None = None) -> JsonObject:
    found: JsonObject = {"description": description}
    if schema is not None:
        found["content"] = {_JSON: {"schema": schema}}
    return found


def _operation(
    operation_id: str, summary: str, answers: JsonObject, body: JsonObject | None = None, *, public: bool = False
) -> JsonObject:
    error = _answer("Refused.", {"$ref": "#/components/schemas/Error"})
    described: JsonObject = {
        "operationId": operation_id,
        "summary": summary,
        "responses": {**answers, "default": error},
    }
    if body is not None:
        described["requestBody"] = {"required": True, "content": {_JSON: {"schema": body}}}
    if public:
        described["security"] = []
    return described


def _object(*required: str, **members: JsonObject) -> JsonObject:
    return {"type": "object", "required": list(required), "properties": dict(members)}


_TEXT: JsonObject = {"type": "string"}
_ANY_OBJECT: JsonObject = {"type": "object"}
_RUN_CHANGED = _object("runId", "status", runId=_TEXT, status=_TEXT)
_REASON: JsonObject = {"type": "object", "properties": {"reason": _TEXT}}


def _schemas() -> JsonObject:
    return {
        "Error": {
            **_object("error", "message", error=_TEXT, message=_TEXT, details=_ANY_OBJECT),
            "additionalProperties": False,
        },
        "Event": _object(
            *("eventId", "runId", "type", "payload", "timestamp", "sequence"),
            eventId=_TEXT,
            runId=_TEXT,
            type=_TEXT,
            payload={},
            timestamp={"type": "string", "format": "date-time"},
            sequence={"type": "integer", "minimum": 0},
            nodeId=_TEXT,
        ),
        "Run": _object("runId", "workflowId", "status", runId=_TEXT, workflowId=_TEXT, status=_TEXT),
        "CreateRun": _object(
            "workflowId",
            workflowId=_TEXT,
            inputs=_ANY_OBJECT,
            tenantId=_TEXT,
            scopeId=_TEXT,
            configurable=_object(runTimeoutMs={"type": "integer", "minimum": 1}),
            tags={"type": "array", "items": _TEXT},
            metadata=_ANY_OBJECT,
        ),
    }


def _paths() -> JsonObject:
    run: JsonObject = {"$ref": "#/components/schemas/Run"}
    event: JsonObject = {"$ref": "#/components/schemas/Event"}
    created = _object("runId", "status", "eventsUrl", runId=_TEXT, status=_TEXT, eventsUrl=_TEXT, statusUrl=_TEXT)
    polled = _object("events", "isComplete", events={"type": "array", "items": event}, isComplete={"type": "boolean"})
    stream: JsonObject = {"200": {"description": "Events.", "content": {"text/event-stream": {"schema": event}}}}
    many = _object("runIds", runIds={"type": "array", "items": _TEXT, "maxItems": 100}, reason=_TEXT)
    results = _object("results", results={"type": "array", "items": _ANY_OBJECT})
    resolved = _object("runId", "nodeId", "status", runId=_TEXT, nodeId=_TEXT, status=_TEXT)
    ok = "Done."
    found: dict[str, Any] = {
        "/.well-known/openwop": {
            "get": _operation("discoverCapabilities", "What is served", {"200": _answer(ok, _ANY_OBJECT)}, public=True)
        },
        "/v1/workflows/{workflowId}": {
            "get": _operation("getWorkflow", "Read a workflow", {"200": _answer(ok, _ANY_OBJECT)})
        },
        "/v1/runs": {
            "post": _operation(
                "createRun", "Start a run", {"201": _answer(ok, created)}, {"$ref": "#/components/schemas/CreateRun"}
            )
        },
        "/v1/runs:bulk-cancel": {
            "post": _operation("bulkCancelRuns", "Cancel several runs", {"200": _answer(ok, results)}, many)
        },
        "/v1/runs/{runId}": {"get": _operation("getRun", "Read a run", {"200": _answer(ok, run)})},
        "/v1/runs/{runId}/events": {"get": _operation("streamRunEvents", "Follow a run", stream)},
        "/v1/runs/{runId}/events/poll": {
            "get": _operation("pollRunEvents", "Ask for events", {"200": _answer(ok, polled)})
        },
        "/v1/runs/{runId}/cancel": {
            "post": _operation("cancelRun", "Cancel a run", {"200": _answer(ok, _RUN_CHANGED)}, _REASON)
        },
        "/v1/runs/{runId}:pause": {
            "post": _operation("pauseRun", "Pause a run", {"202": _answer(ok, _RUN_CHANGED)}, _REASON)
        },
        "/v1/runs/{runId}:resume": {
            "post": _operation("resumeRun", "Resume a run", {"202": _answer(ok, _RUN_CHANGED)}, _REASON)
        },
        "/v1/runs/{runId}/interrupts/{nodeId}": {
            "post": _operation(
                *("resolveInterrupt", "Answer a question"),
                {"200": _answer(ok, resolved)},
                _object("resumeValue", resumeValue={}),
            )
        },
    }
    for path, operations in found.items():
        names = [part.partition("}")[0] for part in path.split("{")[1:]]
        if names:
            operations["parameters"] = [
                {"name": name, "in": "path", "required": True, "schema": _TEXT} for name in names
            ]
    return found


def openwop_openapi(*, version: str, server_url: str | None) -> JsonObject:
    """Build the OpenAPI description of the served paths."""
    return {
        "openapi": "3.1.0",
        "info": {"title": "Penstock, OpenWOP wire 1.0", "version": version},
        "servers": [{"url": (server_url or "/").rstrip("/") or "/"}],
        "security": [{"bearer": []}],
        "paths": _paths(),
        "components": {
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
            "schemas": _schemas(),
        },
    }


def openwop_pages(
    *, version: str, max_body_bytes: int, server_url: str | None, mcp: Callable[[], JsonObject] = lambda: _NO_MCP
) -> list[BaseRoute]:
    """Build the pages that need no key; `mcp` returns the claim about MCP."""
    # These documents change only with the process, so caches may keep them for a while.
    kept = ((b"cache-control", b"public, max-age=300"),)
    return [
        document_page(
            "/.well-known/openwop",
            lambda: encode_bytes(discovery_document(version=version, max_body_bytes=max_body_bytes, mcp=mcp())),
            headers=kept,
        ),
        document_page(
            "/v1/openapi.json",
            lambda: encode_bytes(openwop_openapi(version=version, server_url=server_url)),
            headers=kept,
        ),
    ]
