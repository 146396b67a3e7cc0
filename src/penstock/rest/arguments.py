"""Turn an HTTP request into the arguments of an operation: path, query, headers and body become one object.

Texts of the path and the query are converted to the types of the operation's schema. A text that cannot be converted is
passed on as it is, so that the gate's validation words the error. Unknown query names are refused here, because the
gate could not say that they were in the query.
"""

from __future__ import annotations

import gc
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import msgspec

from penstock.asgi.headroom import require_memory
from penstock.base import limits
from penstock.base.errors import Rejected
from penstock.base.json import JsonObject, JsonValue
from penstock.operations.catalogue.capability import Capability, Route
from penstock.operations.gate.context import INTENT_NAMES

__all__ = ["INTENT_HEADERS", "ArgumentReader", "media_type_of"]

INTENT_HEADERS = {name: f"Penstock-{'-'.join(map(str.title, name.split('_')))}" for name in INTENT_NAMES}
"""The headers with which a caller says more about a change than its arguments do."""

_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,18})")
_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,18})(\.[0-9]{1,18})?([eE][+-]?[0-9]{1,3})?")
_PREFER_WAIT = re.compile(r"(?:^|[,;\s])wait\s*=\s*\"?([0-9]{1,6})\"?(?:$|[,;\s])")
_BOOLEANS: dict[str, bool] = {"true": True, "false": False}
_JSON_TYPES = frozenset({"application/json", ""})
_YAML_TYPES = frozenset({"application/yaml", "application/x-yaml", "text/yaml"})
_PATH_NAME = re.compile(r"\{(\w+)\}")


def media_type_of(content_type: str) -> str:
    """Return the media type of a Content-Type header, without parameters."""
    return content_type.partition(";")[0].strip().lower()


def _types(schema: Any) -> frozenset[str]:
    """Return the JSON types that a property may have."""
    if not isinstance(schema, dict):
        return frozenset()
    found: set[str] = set()
    for part in (schema, *(schema.get("anyOf") or ())):
        named = part.get("type")
        found.update(named if isinstance(named, list) else [named] if isinstance(named, str) else [])
    return frozenset(found)


def _converted(text: str, types: frozenset[str]) -> JsonValue:
    if "string" in types:
        return text
    if "integer" in types and _INTEGER.fullmatch(text):
        return int(text)
    if "number" in types and _NUMBER.fullmatch(text):
        return float(text)
    if "boolean" in types and text in _BOOLEANS:
        return _BOOLEANS[text]
    return text


@dataclass(frozen=True, slots=True)
class ArgumentReader:
    """Reads the arguments of one operation; built once per operation."""

    name: str
    route: Route
    types: Mapping[str, frozenset[str]]
    in_query: frozenset[str]
    in_path: frozenset[str]
    takes_source: bool
    takes_wait: bool

    @classmethod
    def of(cls, capability: Capability, route: Route) -> ArgumentReader:
        """Build the reader of a capability at a route."""
        properties = capability.input_schema.get("properties")
        known: Mapping[str, Any] = properties if isinstance(properties, dict) else {}
        return cls(
            name=capability.name,
            route=route,
            types={name: _types(schema) for name, schema in known.items()},
            in_query=frozenset(route.query),
            in_path=frozenset(_PATH_NAME.findall(route.path)),
            takes_source={"source", "document"} <= known.keys() and "source" not in route.query,
            takes_wait="wait_seconds" in known,
        )

    @property
    def has_body(self) -> bool:
        """Whether the HTTP method carries a body."""
        return self.route.method in ("POST", "PUT", "PATCH")

    def read(
        self,
        path: Mapping[str, str],
        query: Iterable[tuple[str, str]],
        headers: Mapping[str, str],
        body: bytes,
    ) -> JsonObject:
        """Return the arguments of a request."""
        arguments = self._body(headers, body) if self.has_body else {}
        for name in self.in_path & arguments.keys():
            raise _misplaced(name, "the path")
        for name in self.in_query & arguments.keys():
            raise _misplaced(name, "the query")
        for name, text in path.items():
            arguments[name] = _converted(text, self.types.get(name, frozenset()))
        self._query(query, arguments)
        for header, name in self.route.headers.items():
            value = headers.get(header.lower())
            if value is not None:
                arguments[name] = _converted(value, self.types.get(name, frozenset()))
        if self.takes_wait and "wait_seconds" not in arguments:
            wait = _PREFER_WAIT.search(headers.get("prefer", ""))
            if wait is not None:
                arguments["wait_seconds"] = int(wait[1])
        return arguments

    def _query(self, query: Iterable[tuple[str, str]], arguments: JsonObject) -> None:
        seen: set[str] = set()
        for name, text in query:
            if name not in self.in_query:
                near = get_close_matches(name[:64], self.in_query, n=1)
                hint = (
                    f"did you mean {near[0]}?" if near else f"known are: {', '.join(sorted(self.in_query)) or 'none'}"
                )
                raise Rejected("UNKNOWN_PARAMETER", f"{self.name} has no query parameter {name[:64]!r}", hint)
            types = self.types.get(name, frozenset())
            if "array" in types:
                values = arguments.setdefault(name, [])
                if isinstance(values, list):
                    values.extend(part for part in text.split(",") if part)
                continue
            if name in seen:
                raise Rejected("REPEATED_PARAMETER", f"the query parameter {name} is given twice", "send it once")
            seen.add(name)
            arguments[name] = _converted(text, types)

    def _body(self, headers: Mapping[str, str], body: bytes) -> JsonObject:
        media_type = media_type_of(headers.get("content-type", ""))
        if not body:
            return {}
        if self.takes_source and media_type in _YAML_TYPES:
            return {"source": _text(body)}
        if media_type not in _JSON_TYPES and not media_type.endswith("+json"):
            message = f"{media_type[:80]!r} is not a media type that {self.name} accepts"
            raise Rejected("UNSUPPORTED_MEDIA_TYPE", message, "send application/json")
        try:
            value = _decoded(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise Rejected(
                "MALFORMED_JSON", f"the body cannot be read: {_reason(error)}", "send JSON in UTF-8"
            ) from None
        if self.route.whole_body is not None:
            return {self.route.whole_body: value}
        if not isinstance(value, dict):
            raise Rejected("MALFORMED_REQUEST", "the body must be a JSON object", "send an object with the arguments")
        for other, name in self.route.other_names.items():
            if other in value and name in value:
                message = f"`{other}` and `{name}` mean the same in {self.name}"
                raise Rejected("INVALID_ARGUMENTS", message, "send only one of them")
            if other in value:
                value[name] = value.pop(other)
        return value


def _decoded(body: bytes) -> Any:
    """Decode a body with garbage collection off: JSON has no cycles, and looking for some takes four times as long."""
    if len(body) > limits.MEMORY_LOOK_BODY_BYTES:
        require_memory(len(body))
    if len(body) <= limits.PAYLOAD_INLINE_BYTES_MAX or not gc.isenabled():
        return msgspec.json.decode(body)
    gc.disable()
    try:
        return msgspec.json.decode(body)
    finally:
        gc.enable()


def _reason(error: Exception) -> str:
    return "it is nested too deeply" if isinstance(error, RecursionError) else str(error)[:200]


def _text(body: bytes) -> str:
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError:
        raise Rejected("MALFORMED_REQUEST", "the body is not UTF-8", "send the document in UTF-8") from None


def _misplaced(name: str, place: str) -> Rejected:
    return Rejected("MALFORMED_REQUEST", f"{name} is in the body, but belongs in the {place}", "remove it there")
