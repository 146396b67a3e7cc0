"""The input of an operation in the OpenAPI document: parameters and bodies, with examples."""

from __future__ import annotations

import re
from typing import Any

from penstock.base import limits
from penstock.base.json import JsonObject, JsonValue
from penstock.operations.catalogue.capability import Capability, Route
from penstock.operations.gate.context import INTENT_NAMES
from penstock.rest.arguments import INTENT_HEADERS

__all__ = ["PATH_NAME", "parameters_of", "request_body_of"]

PATH_NAME = re.compile(r"\{(\w+)\}")
_WITH_BODY = ("POST", "PUT", "PATCH")
_YAML_EXAMPLE = """\
penstock: v1
name: greet
nodes:
  - {id: done, type: end, output: "hello"}
"""


def _properties(schema: JsonObject) -> dict[str, Any]:
    found = schema.get("properties")
    return found if isinstance(found, dict) else {}


def _required(schema: JsonObject) -> set[str]:
    found = schema.get("required")
    return {name for name in found if isinstance(name, str)} if isinstance(found, list) else set()


def _without_null(schema: Any) -> Any:
    """Remove null from a schema: a parameter in a path, a query or a header is absent instead."""
    options = [part for part in schema.get("anyOf", ()) if part.get("type") != "null"]
    if not options:
        return {name: value for name, value in schema.items() if name != "default" or value is not None}
    kept = {name: value for name, value in schema.items() if name not in ("anyOf", "default")}
    return {**options[0], **kept} if len(options) == 1 else {**kept, "anyOf": options}


def _parameter(name: str, place: str, schema: Any, *, required: bool, example: JsonValue = None) -> JsonObject:
    plain = _without_null(schema)
    described: JsonObject = {"name": name, "in": place, "required": required}
    if isinstance(plain, dict) and "description" in plain:
        described["description"] = plain["description"]
        plain = {key: value for key, value in plain.items() if key != "description"}
    described["schema"] = plain
    if isinstance(plain, dict) and plain.get("type") == "array":
        described.update({"style": "form", "explode": False})
    if example is not None:
        described["example"] = example
    return described


def parameters_of(capability: Capability, route: Route, schema: JsonObject) -> list[JsonValue]:
    """Return the parameters in the path, the query and the headers; `schema` is the operation's input."""
    properties, required = _properties(schema), _required(schema)
    example = capability.examples[0].arguments if capability.examples else {}
    found: list[JsonValue] = [
        _parameter(name, "path", properties.get(name, {"type": "string"}), required=True, example=example.get(name))
        for name in PATH_NAME.findall(route.path)
    ]
    found.extend(
        _parameter(name, "query", properties[name], required=name in required, example=example.get(name))
        for name in route.query
    )
    found.extend(
        _parameter(header, "header", properties[name], required=name in required)
        for header, name in route.headers.items()
    )
    found.extend(_general(capability, route, properties))
    return found


def _general(capability: Capability, route: Route, properties: dict[str, Any]) -> list[JsonValue]:
    """Return the headers that are not specific to the operation."""
    found: list[JsonValue] = []
    if not capability.annotations.read_only:
        text = "Makes the call happen once: repeated with the same key, it gives the first answer again."
        key = {
            "type": "string",
            "minLength": 1,
            "maxLength": limits.IDEMPOTENCY_KEY_CHARACTERS_MAX,
            "pattern": "^[!-~]+$",
            "description": text,
        }
        found.append(_parameter("Idempotency-Key", "header", key, required=False))
        if capability.governance.holdable:
            for name, header in INTENT_HEADERS.items():
                said: JsonObject = {"type": "string", "description": INTENT_NAMES[name]}
                said["maxLength"] = limits.JUSTIFICATION_CHARACTERS_MAX
                if name == "draft":
                    said["enum"] = ["true", "false"]
                found.append(_parameter(header, "header", said, required=False))
    if "wait_seconds" in properties:
        text = "`wait=N` waits up to N seconds for the end; other preferences are ignored."
        prefer = {"type": "string", "description": text, "examples": ["wait=10"]}
        found.append(_parameter("Prefer", "header", prefer, required=False))
    if route.etag and capability.annotations.read_only:
        text = "The ETag of the version that you have: 304 if it is still that one."
        found.append(_parameter("If-None-Match", "header", {"type": "string", "description": text}, required=False))
    return found


def request_body_of(capability: Capability, route: Route, schema: JsonObject) -> JsonObject | None:
    """Return the request body; None for an operation without one."""
    if route.method not in _WITH_BODY:
        return None
    elsewhere = {*PATH_NAME.findall(route.path), *route.query, *route.headers.values()}
    properties = {name: value for name, value in _properties(schema).items() if name not in elsewhere}
    if route.whole_body is not None:
        whole: Any = properties[route.whole_body]
        return {"required": True, "content": {"application/json": {"schema": whole}}}
    if not properties:
        return None
    for other, name in route.other_names.items():
        properties[other] = {**properties[name], "description": f"The same as `{name}`; give one of them."}
        properties[other].pop("default", None)
    required = sorted(_required(schema) - elsewhere)
    members: JsonObject = {"type": "object", "properties": properties}
    if "additionalProperties" in schema:
        members["additionalProperties"] = schema["additionalProperties"]
    if required:
        members["required"] = list(required)
    media: JsonObject = {"schema": members}
    bodies = [
        {name: value for name, value in example.arguments.items() if name not in elsewhere}
        for example in capability.examples
    ]
    examples: JsonObject = {f"example_{number}": {"value": body} for number, body in enumerate(bodies, 1) if body}
    if examples:
        media["examples"] = examples
    content: JsonObject = {"application/json": media}
    if {"source", "document"} <= properties.keys():
        text: JsonObject = {"description": "The workflow document as it stands in a file."}
        content["application/yaml"] = {"schema": text, "example": _YAML_EXAMPLE}
    return {"required": bool(required), "content": content}
