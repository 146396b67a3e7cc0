"""Bodies of requests: which media type is sent, and whether the members of the body are arguments by themselves.

Above it: `operations`. Below it: `document`, `schemas`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import msgspec

from penstock.base.json import JsonObject, JsonValue, list_or_empty, object_or_empty
from penstock.runtime.upstreams.openapi.document import ApiDocument
from penstock.runtime.upstreams.openapi.schemas import SchemaTranslator

__all__ = ["BodyKind", "BodyPlan", "MemberEncoding", "ReadBody", "read_body"]

BodyKind: TypeAlias = Literal["json", "form", "multipart", "text", "binary"]
# In the order in which they are chosen.
_KINDS: Final = ("json", "form", "multipart", "text", "binary")
# Words that say more of an object than which members it has; such a body is one argument.
_COMPOSED: Final = frozenset(
    {"anyOf", "dependentSchemas", "else", "if", "not", "oneOf", "patternProperties", "propertyNames", "then"}
)
_FILE_TEXT: Final = "The content of a file, as base64."


class MemberEncoding(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a member of a form is written, where the document says so."""

    style: str = "form"
    explode: bool = True
    content_type: str | None = None


class BodyPlan(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How arguments become the body of a request."""

    kind: BodyKind
    media_type: str
    argument: str | None = None
    """The argument that is the body; None if its members are arguments by themselves."""
    members: dict[str, str] = {}
    """Members of the body by their arguments."""
    encodings: dict[str, MemberEncoding] = {}
    files: tuple[str, ...] = ()
    """Members that are files, which arguments hold as base64."""
    required: bool = False
    """Whether there has to be a body, also if none of its members is given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadBody:
    """A body as the document describes it."""

    plan: BodyPlan
    schema: JsonObject
    required: bool
    members: dict[str, JsonObject] | None = None
    required_members: frozenset[str] = frozenset()


def read_body(document: ApiDocument, schemas: SchemaTranslator, described: JsonValue) -> ReadBody | None:
    """Return the body of an operation; None if it has none. Raises `ReferenceProblem`."""
    body = document.resolved(described)
    offered = [
        (kind, name, media) for name, media in object_or_empty(body.get("content")).items() if (kind := _kind(name))
    ]
    if not offered:
        return None
    kind, media_type, media = min(offered, key=lambda item: _KINDS.index(item[0]))
    described_media = object_or_empty(media)
    schema = schemas.translated(described_media.get("schema"), "input")
    required = body.get("required") is True
    plan = BodyPlan(kind=kind, media_type=media_type, encodings=_encodings(described_media))
    if kind in ("text", "binary"):
        text: JsonObject = {"type": "string"} if kind == "text" else _file(schema)
        return ReadBody(plan=plan, schema=text, required=required)
    if schema.get("additionalProperties") is False and not schema.get("properties") and "$ref" not in schema:
        return None  # an object without members, as some documents write for operations that take none
    flat = _flat(schema, object_or_empty(schema.get("$defs")))
    if flat is None:
        return ReadBody(plan=plan, schema=schema, required=required)
    files = tuple(name for name, member in flat.members.items() if kind != "json" and _is_file(member))
    members = {name: _file(member) if name in files else member for name, member in flat.members.items()}
    return ReadBody(
        plan=msgspec.structs.replace(plan, files=files, required=required),
        schema=schema,
        required=required,
        members=members,
        required_members=flat.required,
    )


def _kind(media_type: str) -> BodyKind | None:
    plain = media_type.partition(";")[0].strip().lower()
    if plain == "application/json" or plain.endswith("+json") or plain == "*/*":
        return "json"
    match plain:
        case "application/x-www-form-urlencoded":
            return "form"
        case "multipart/form-data":
            return "multipart"
        case "text/plain" | "text/markdown" | "text/html" | "text/csv" | "application/xml" | "text/xml":
            return "text"
        case _:
            return "text" if plain.startswith("text/") else "binary"


def _encodings(media: JsonObject) -> dict[str, MemberEncoding]:
    found: dict[str, MemberEncoding] = {}
    for name, given in object_or_empty(media.get("encoding")).items():
        encoding = object_or_empty(given)
        style, explode, content_type = encoding.get("style"), encoding.get("explode"), encoding.get("contentType")
        found[name] = MemberEncoding(
            style=style if isinstance(style, str) else "form",
            explode=explode if isinstance(explode, bool) else True,
            content_type=content_type if isinstance(content_type, str) else None,
        )
    return found


def _is_file(schema: JsonObject) -> bool:
    is_binary = schema.get("format") in ("binary", "base64") or schema.get("contentMediaType") is not None
    return is_binary and schema.get("type") in ("string", None)


def _file(schema: JsonObject) -> JsonObject:
    said = schema.get("description")
    text = f"{said} {_FILE_TEXT}" if isinstance(said, str) else _FILE_TEXT
    return {"type": "string", "contentEncoding": "base64", "description": text}


@dataclass(frozen=True, slots=True)
class _Flat:
    members: dict[str, JsonObject]
    required: frozenset[str]


def _flat(schema: JsonObject, definitions: JsonObject, depth: int = 0) -> _Flat | None:
    """Return the members of an object that is nothing but its members; None for any other schema."""
    reference = schema.get("$ref")
    if isinstance(reference, str) and depth < len(definitions) + 1:
        target = object_or_empty(definitions.get(reference.removeprefix("#/$defs/")))
        return _flat(
            {**target, **{k: v for k, v in schema.items() if k not in ("$ref", "$defs")}}, definitions, depth + 1
        )
    kind = schema.get("type")
    if isinstance(reference, str) or kind not in ("object", None) or _COMPOSED & schema.keys():
        return None
    if isinstance(schema.get("additionalProperties"), dict) and schema["additionalProperties"]:
        return None
    members = {name: object_or_empty(member) for name, member in object_or_empty(schema.get("properties")).items()}
    required = {name for name in list_or_empty(schema.get("required")) if isinstance(name, str)}
    for part in list_or_empty(schema.get("allOf")):
        flat = _flat(object_or_empty(part), definitions, depth + 1)
        if flat is None or any(members.get(name, member) != member for name, member in flat.members.items()):
            return None
        members.update(flat.members)
        required |= flat.required
    return _Flat(members, frozenset(required & members.keys())) if members else None
