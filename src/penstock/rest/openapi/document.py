"""The OpenAPI 3.1 document, built from the catalogue, so that it describes exactly what is served.

Operation ids are the canonical names, tags are the resources. Every status that an operation can answer with is listed,
with its reason codes. `x-mcp` says how the operation appears as a tool, `x-scopes` which scopes a key needs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from penstock.base.json import JsonObject
from penstock.operations.catalogue.capability import Capability, Route
from penstock.rest.openapi.components import Components, Links
from penstock.rest.openapi.requests import parameters_of, request_body_of
from penstock.rest.openapi.responses import COMMON_HEADERS, responses_of

__all__ = ["openapi_document"]

_DESCRIPTION = """\
Durable, governed workflows.

- Send a key as `Authorization: Bearer pen_…`; `x-scopes` lists what it must be allowed to do.
- Every error is a problem document (RFC 9457) with a stable `code` to branch on and a `hint` what to do next.
- Every call that changes something takes an `Idempotency-Key`: repeated with the same key, it happens once.
- Lists are read page by page: send `next_cursor` as `cursor` until it is null.
- Every answer has an `X-Request-ID`; name it when you ask about a problem.
- HEAD is possible wherever GET is. OPTIONS answers 204 with `Allow`.
"""
_TAGS = {
    "agent": "Agents that are known to this server.",
    "audit": "What was called, by whom, and how it went: a chain that shows when a record is missing.",
    "control": "The published control plane of the workflow profile, with its parameters, results and errors.",
    "delivery": "Events that were sent to webhooks, or are to be.",
    "execution": "Runs of workflows: look at them, follow them, answer them, change their course.",
    "key": "API keys.",
    "model": "Language models that are known to this server.",
    "schedule": "What starts runs by the clock.",
    "schema": "JSON Schemas that are known to this server.",
    "system": "The server itself.",
    "task": "The nodes of a workflow, one by one.",
    "tool": "Tools that are known to this server.",
    "trigger": "Addresses at which others' events come in, to start or signal runs.",
    "webhook": "Where events are sent.",
    "workflow": "Workflow documents, and starting them.",
}


def openapi_document(
    capabilities: Iterable[Capability], *, version: str, base_path: str, server_url: str | None = None
) -> JsonObject:
    """Build the document of a catalogue."""
    served = [(item, item.route) for item in capabilities if item.route is not None]
    components, links = Components(), Links(served)
    paths: dict[str, Any] = {}
    for capability, route in served:
        described = _operation(capability, route, components, links)
        paths.setdefault(route.path, {})[route.method.lower()] = described
    tags = sorted({capability.resource for capability, _ in served})
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Penstock",
            "version": version,
            "description": _DESCRIPTION,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": (server_url or "").rstrip("/") + base_path}],
        "security": [{"bearer": []}],
        "tags": [{"name": name, "description": _TAGS.get(name, f"Operations on {name}.")} for name in tags],
        "paths": dict(sorted(paths.items())),
        "components": {
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer", "description": "An API key: `pen_…`."},
            },
            "headers": COMMON_HEADERS,
            "links": dict(sorted(components.links.items())),
            "responses": dict(sorted(components.responses.items())),
            "schemas": dict(sorted(components.schemas.items())),
        },
    }


def _operation(capability: Capability, route: Route, components: Components, links: Links) -> JsonObject:
    schema = components.hoist(capability.name, capability.input_schema)
    described: JsonObject = {
        "operationId": capability.name,
        "tags": [capability.resource],
        "summary": capability.title,
        "description": capability.description,
        "parameters": parameters_of(capability, route, schema),
        "responses": responses_of(capability, route, components, links),
        "x-mcp": _mcp(capability),
        "x-scopes": list(capability.governance.scopes),
    }
    body = request_body_of(capability, route, schema)
    if body is not None:
        described["requestBody"] = body
    return described


def _mcp(capability: Capability) -> JsonObject:
    annotations = capability.annotations
    return {
        "expose": capability.governance.bucket != "admin",
        "name": capability.name,  # the tool accepts this name, whatever prefix and spelling its listed name has
        "annotations": {
            "readOnlyHint": annotations.read_only,
            "destructiveHint": annotations.destructive,
            "idempotentHint": annotations.idempotent,
            "openWorldHint": annotations.open_world,
        },
        "risk": capability.governance.risk,
    }
