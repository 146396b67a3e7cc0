"""The text of an OpenAPI document as data: version, references, limits.

OpenAPI 3.0, 3.1 and 3.2 are read, as JSON or YAML. References lead to places inside the document only: nothing is ever
fetched because a document says so.

Above it: `schemas`, `operations`. Below it: PyYAML.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
import yaml

from penstock.base import limits
from penstock.base.errors import Rejected
from penstock.base.json import JsonObject, JsonValue

__all__ = ["ApiDocument", "ReferenceProblem", "parse_text", "read_document"]

_VERSIONS = ("3.0", "3.1", "3.2")
# A chain of references that is longer leads in a circle.
_REFERENCES_MAX = 32


class ReferenceProblem(Exception):
    """A reference that leads nowhere, out of the document, or in a circle."""


class _JsonLoader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # libyaml may be missing
    """Reads YAML with the scalars of JSON: `no` and `2026-01-01` are texts, as in YAML 1.2."""


_JsonLoader.yaml_implicit_resolvers = {}
for _tag, _pattern, _first in (
    ("bool", r"true|false|True|False|TRUE|FALSE", "tfTF"),
    ("null", r"~|null|Null|NULL|", ("~", "n", "N", "")),
    ("int", r"[-+]?[0-9]+", "-+0123456789"),
    ("float", r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", "-+.0123456789"),
):
    _JsonLoader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(rf"^(?:{_pattern})$"), list(_first))


def _json_int(loader: Any, node: Any) -> int:
    # PyYAML would read 010 as eight.
    return int(loader.construct_scalar(node))


_JsonLoader.add_constructor("tag:yaml.org,2002:int", _json_int)


@dataclass(frozen=True, slots=True)
class ApiDocument:
    """An OpenAPI document."""

    root: JsonObject
    version: str

    @property
    def has_nullable(self) -> bool:
        """Whether schemas are written as in 3.0, where null and exclusive bounds have words of their own."""
        return self.version.startswith("3.0")

    @property
    def title(self) -> str:
        """What the API is called."""
        info = self.root.get("info")
        title = info.get("title") if isinstance(info, dict) else None
        return title if isinstance(title, str) and title else "an API"

    def server_url(self) -> str | None:
        """Return the first address that the document names; None if it is relative or has variables without default."""
        servers = self.root.get("servers")
        first = servers[0] if isinstance(servers, list) and servers else None
        url = first.get("url") if isinstance(first, dict) else None
        if not isinstance(url, str) or not isinstance(first, dict):
            return None
        variables = first.get("variables")
        for name, variable in variables.items() if isinstance(variables, dict) else ():
            default = variable.get("default") if isinstance(variable, dict) else None
            url = url.replace(f"{{{name}}}", str(default)) if default is not None else url
        return url.rstrip("/") if re.match(r"https?://[^{}\s]+$", url) else None

    def found(self, reference: str) -> JsonValue:
        """Return what a reference leads to. Raises `ReferenceProblem`."""
        if not reference.startswith("#/"):
            raise ReferenceProblem(f"the reference {reference[:200]} leads out of the document")
        place: JsonValue = self.root
        for part in reference[2:].split("/"):
            name = _unquoted(part)
            if isinstance(place, dict) and name in place:
                place = place[name]
            elif isinstance(place, list) and name.isdecimal() and int(name) < len(place):
                place = place[int(name)]
            else:
                raise ReferenceProblem(f"the reference {reference[:200]} leads nowhere")
        return place

    def resolved(self, value: JsonValue) -> JsonObject:
        """Return an object, or what its reference leads to. Raises `ReferenceProblem`; anything else is empty."""
        for _ in range(_REFERENCES_MAX):
            if not isinstance(value, dict):
                return {}
            reference = value.get("$ref")
            if not isinstance(reference, str):
                return value
            value = self.found(reference)
        raise ReferenceProblem("a chain of references leads in a circle")


def read_document(text: bytes, *, name: str = "the document") -> ApiDocument:
    """Read a document. Raises `Rejected` with what is wrong and what to do."""
    if len(text) > limits.OPENAPI_BYTES_MAX:
        message = f"{name} has {len(text)} bytes; at most {limits.OPENAPI_BYTES_MAX} are read"
        raise Rejected("OPENAPI_TOO_LARGE", message, "import a part of the API")
    root = parse_text(text, name)
    if not isinstance(root, dict):
        raise Rejected("OPENAPI_INVALID", f"{name} is not an object", "give an OpenAPI document")
    for number, _ in enumerate(_values(root), start=1):
        if number > limits.OPENAPI_VALUES_MAX:
            message = f"{name} has more than {limits.OPENAPI_VALUES_MAX} values"
            raise Rejected("OPENAPI_TOO_LARGE", message, "import a part of the API")
    version = root.get("openapi")
    if root.get("swagger") is not None:
        hint = "convert it to OpenAPI 3, for instance with the npm package swagger2openapi"
        raise Rejected("OPENAPI_VERSION", f"{name} is written in Swagger {root['swagger']}, not OpenAPI 3", hint)
    if not isinstance(version, str) or not version.startswith(_VERSIONS):
        said = f"says openapi: {version!r}" if version is not None else "says nothing of its version"
        raise Rejected("OPENAPI_VERSION", f"{name} {said}", f"OpenAPI {', '.join(_VERSIONS)} can be read")
    if not isinstance(root.get("paths"), dict):
        raise Rejected("OPENAPI_INVALID", f"{name} has no `paths`", "a document without paths describes no operations")
    return ApiDocument(root=root, version=version)


def parse_text(text: bytes, name: str) -> Any:
    """Return the data of a text of JSON or YAML. Raises `Rejected`."""
    try:
        if text.lstrip()[:1] == b"{":
            return msgspec.json.decode(text)
        return yaml.load(text, Loader=_JsonLoader)
    except (msgspec.DecodeError, UnicodeDecodeError, yaml.YAMLError, RecursionError, ValueError) as error:
        said = " ".join(str(error).split())[:300] or type(error).__name__
        raise Rejected("OPENAPI_INVALID", f"{name} cannot be read: {said}", "give it as JSON or YAML") from None


def _values(root: JsonValue) -> Iterator[None]:
    """Yield once for each value. Aliases of YAML count as often as they are written."""
    waiting: list[JsonValue] = [root]
    while waiting:
        value = waiting.pop()
        yield None
        if isinstance(value, dict):
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)


def _unquoted(part: str) -> str:
    if "%" in part:
        part = re.sub(r"%([0-9A-Fa-f]{2})", lambda found: chr(int(found[1], 16)), part)
    return part.replace("~1", "/").replace("~0", "~")
