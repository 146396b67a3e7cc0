"""When an operation counts as usable, judged from outside: by the tool as listed, and by the request of a call.

The same judge for everybody. A tool is called with arguments that are made from its own schema: all that are required,
and one more that is not. It is usable if

- its name is one that every client takes, and no other tool has it;
- its schema is one of draft 2020-12 for an object, whose references lead somewhere;
- the call becomes a request with the method of the operation, and with its path, all parts of it filled in;
- every required parameter of the document is in the request, where the document wants it;
- if the document requires a body, there is one, of a media type of the document, with the members that it requires.
"""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from penstock.definitions.schemas.compiled import CompiledSchema, compile_schema
from penstock.runtime.upstreams.openapi.document import ApiDocument, ReferenceProblem

__all__ = ["METHODS", "Judge", "sample"]

METHODS = ("get", "put", "post", "delete", "options", "head", "patch")
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_DEPTH_MAX = 12
_OWN_HEADERS = {"accept", "authorization", "content-type"}


def sample(schema: Any, root: Any = None, depth: int = 0) -> Any:
    """Make a value that fits a schema, as far as schemas of arguments go: small, and the same every time."""
    root = schema if root is None else root
    if not isinstance(schema, dict) or depth > _DEPTH_MAX:
        return {}
    if "$ref" in schema:
        target: Any = root
        for part in schema["$ref"].removeprefix("#/").split("/"):
            target = target[part.replace("~1", "/").replace("~0", "~")]
        return sample(target, root, depth + 1)
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return next((item for item in schema["enum"] if item is not None), None)
    for word in ("oneOf", "anyOf"):
        if schema.get(word):
            chosen = next((item for item in schema[word] if item.get("type") != "null"), schema[word][0])
            return sample(_both(schema, chosen, without=word), root, depth + 1)
    if schema.get("allOf"):
        parts = [sample(item, root, depth + 1) for item in schema["allOf"]]
        merged = {key: value for part in parts if isinstance(part, dict) for key, value in part.items()}
        return merged or (parts[0] if parts else {})
    return _of_type(schema, root, depth)


def _both(schema: Any, chosen: Any, *, without: str) -> Any:
    """A schema and the branch of it that was chosen, in one: both hold."""
    merged = {**{key: value for key, value in schema.items() if key != without}, **chosen}
    if "required" in schema and "required" in chosen:
        merged["required"] = list(dict.fromkeys([*schema["required"], *chosen["required"]]))
    if "properties" in schema and "properties" in chosen:
        merged["properties"] = {**schema["properties"], **chosen["properties"]}
    return merged


def _of_type(schema: Any, root: Any, depth: int) -> Any:
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((item for item in kind if item != "null"), "null")
    match kind:
        case "string":
            formats = {"date": "2026-01-02", "date-time": "2026-01-02T03:04:05Z", "uri": "https://a.example/b"}
            text = "YWJj" if schema.get("contentEncoding") == "base64" else formats.get(schema.get("format"), "abc")
            return text.ljust(schema.get("minLength", 0), "a")[: schema.get("maxLength", len(text) + 200)]
        case "integer" | "number":
            low = schema.get("minimum", schema.get("exclusiveMinimum", 0) + 1)
            return low if "maximum" not in schema else min(low, schema["maximum"])
        case "boolean":
            return True
        case "array":
            number = max(1, schema.get("minItems", 1))
            return [sample(schema.get("items", {}), root, depth + 1)] * number
        case "null":
            return None
        case _:
            properties, required = schema.get("properties", {}), schema.get("required", [])
            optional = [name for name in properties if name not in required][:1] if depth == 0 else []
            return {name: sample(properties.get(name, {}), root, depth + 1) for name in [*required, *optional]}


class Judge:
    """Judges the tools of one document."""

    def __init__(self, document: ApiDocument, tools: list[dict[str, Any]]) -> None:
        self._document = document
        names = [tool["name"] for tool in tools]
        self._twice = {name for name in names if names.count(name) > 1}

    def listed_problem(self, tool: dict[str, Any]) -> str | None:
        """Say why a tool is not usable as it is listed; None if it is."""
        if not _NAME.fullmatch(tool["name"]):
            return "name"
        if tool["name"] in self._twice:
            return "name is taken"
        schema = tool["inputSchema"]
        if schema.get("type") != "object" or not isinstance(compile_schema(schema), CompiledSchema):
            return "schema"
        return None

    def request_problem(self, method: str, path: str, request: dict[str, Any] | None) -> str | None:
        """Say what is wrong with the request of a call; None if it is as the document wants it."""
        if request is None:
            return "no request"
        if request["method"] != method.upper():
            return "method"
        url = urlsplit(request["url"])
        pattern = "".join(
            "[^/]+" if part.startswith("{") else re.escape(part) for part in re.split(r"(\{[^{}]+\})", path)
        )
        if not re.search(f"{pattern}$", url.path.rstrip("/") or "/") and not re.search(f"{pattern}$", url.path):
            return "path"
        if "{" in unquote(url.path):
            return "path is not filled in"
        item, operation = self._of(method, path)
        return self._parameter_problem(item, operation, url.query, request) or self._body_problem(operation, request)

    def _of(self, method: str, path: str) -> tuple[Any, Any]:
        item = self._document.resolved(self._document.root["paths"][path])  # type: ignore[index,call-overload]
        return item, item[method]

    def _parameter_problem(self, item: Any, operation: Any, query: str, request: dict[str, Any]) -> str | None:
        given = {name for name, _ in parse_qsl(query, keep_blank_values=True)}
        headers = {name.lower() for name in request["headers"]}
        for written in (*item.get("parameters", ()), *operation.get("parameters", ())):
            try:
                parameter = self._document.resolved(written)
            except ReferenceProblem:
                continue
            if parameter.get("required") is not True:
                continue
            name, place = str(parameter.get("name")), parameter.get("in")
            if place == "query" and not any(part == name or part.startswith(f"{name}[") for part in given):
                return f"query {name}"
            if place == "header" and name.lower() not in headers | _OWN_HEADERS:
                return f"header {name}"
        return None

    def _body_problem(self, operation: Any, request: dict[str, Any]) -> str | None:
        body = self._document.resolved(operation.get("requestBody"))
        if body.get("required") is not True:
            return None
        content: Any = body.get("content") or {}
        sent = str(request["headers"].get("content-type", "")).partition(";")[0]
        if not request["body"]:
            return "no body"
        if sent not in {name.partition(";")[0] for name in content} and "*/*" not in content:
            return f"media type {sent}"
        media = next(media for name, media in content.items() if name.partition(";")[0] in (sent, "*/*"))
        required = self._document.resolved(media.get("schema")).get("required")
        if sent.endswith("json") and isinstance(required, list):
            value = json.loads(request["body"])
            members = self._members(media.get("schema"))
            missing = [name for name in required if name in members and not (isinstance(value, dict) and name in value)]
            return f"body without {missing[0]}" if missing else None
        return None

    def _members(self, schema: Any) -> set[str]:
        """Return the members that callers send: not those that are only read."""
        properties: Any = self._document.resolved(schema).get("properties") or {}
        return {name for name, item in properties.items() if self._document.resolved(item).get("readOnly") is not True}
