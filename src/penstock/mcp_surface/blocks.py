"""Content of MCP: which values are blocks of it, and what becomes of those that are none.

What a workflow or another server gives is not taken at its word: a value that says it is an image and has no picture in
it would be refused by the protocol, and the whole result with it. Such a value is shown as text.

Above it: `results`, `exposed_reads`, `upstream_results`. Below it: nothing but data; nothing here knows the SDK.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from penstock.base.json import JsonObject, JsonValue

__all__ = ["content_blocks", "plain_text"]


class _Annotations(msgspec.Struct, frozen=True):
    audience: list[Literal["user", "assistant"]] | None = None
    priority: Annotated[float, Meta(ge=0, le=1)] | None = None
    lastModified: str | None = None  # noqa: N815  # in the words of the wire


class _Block(msgspec.Struct, frozen=True, kw_only=True):
    annotations: _Annotations | None = None
    meta: dict[str, Any] | None = msgspec.field(name="_meta", default=None)


class _Text(_Block, frozen=True, tag_field="type", tag="text"):
    text: str


class _Image(_Block, frozen=True, tag_field="type", tag="image"):
    data: str
    mimeType: str  # noqa: N815


class _Audio(_Image, frozen=True, tag_field="type", tag="audio"):
    pass


class _Icon(msgspec.Struct, frozen=True):
    src: str
    mimeType: str | None = None  # noqa: N815
    sizes: list[str] | None = None
    theme: Literal["light", "dark"] | None = None


class _Link(_Block, frozen=True, tag_field="type", tag="resource_link"):
    uri: str
    name: str
    title: str | None = None
    description: str | None = None
    mimeType: str | None = None  # noqa: N815
    size: int | None = None
    icons: list[_Icon] | None = None


class _Part(msgspec.Struct, frozen=True):
    uri: str
    text: str | None = None
    blob: str | None = None
    mimeType: str | None = None  # noqa: N815
    meta: dict[str, Any] | None = msgspec.field(name="_meta", default=None)


class _Resource(_Block, frozen=True, tag_field="type", tag="resource"):
    resource: _Part


_Any = _Text | _Image | _Audio | _Link | _Resource


def plain_text(value: JsonValue) -> str:
    """A value for a model: text as it is, everything else as JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def content_blocks(output: JsonValue) -> list[JsonObject]:
    """An output as content of MCP: blocks as they are, everything else as text."""
    items = output if isinstance(output, list) else [output]
    return [
        item if isinstance(item, dict) and _is_block(item) else {"type": "text", "text": plain_text(item)}
        for item in items
    ]


def _is_block(item: JsonObject) -> bool:
    try:
        block = msgspec.convert(item, _Any)
    except msgspec.ValidationError:
        return False
    return not isinstance(block, _Resource) or (block.resource.text, block.resource.blob) != (None, None)
