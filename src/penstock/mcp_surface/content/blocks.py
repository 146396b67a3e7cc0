"""Content blocks of MCP: which values are valid blocks, and what is shown in place of others.

A workflow or another server may return a value that only looks like a block, such as an image without data. The
protocol would refuse it together with the whole result, so such a value is shown as text.

Newer revisions of the protocol have more kinds of blocks. A client refuses a whole result for one block that its
revision does not have, so for older clients these blocks are described in words.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from penstock.base.encoding import encode_bytes
from penstock.base.json import JsonObject, JsonValue

__all__ = [
    "DELTA_META",
    "ERROR_META",
    "TOOL_META",
    "UNTRUSTED_META",
    "content_blocks",
    "marked",
    "messages_at",
    "plain_text",
    "result_at",
    "untrusted_meta",
]

ERROR_META = "penstock/error"
"""The key in the metadata of a result with `isError` that holds the error for programs: code, message and details."""

UNTRUSTED_META = "penstock/untrusted"
"""Metadata key: the text comes from outside and must be read as data, not as instructions."""

DELTA_META = "penstock/delta"
"""The key in the metadata of a progress notification that holds a piece of the text that a model is writing."""
TOOL_META = "penstock/tool"
"""The same for a call of a tool that a model made: its phase (begun, done, failed), name and id."""

# The first revision that has a kind of block; kinds that are not listed have always existed.
_SINCE = {"audio": "2025-03-26", "resource_link": "2025-06-18"}


class _Annotations(msgspec.Struct, frozen=True):
    audience: list[Literal["user", "assistant"]] | None = None
    priority: Annotated[float, Meta(ge=0, le=1)] | None = None
    lastModified: str | None = None  # noqa: N815  # the wire's spelling


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
    """Return a value as text for a model: text unchanged, everything else as JSON."""
    return value if isinstance(value, str) else encode_bytes(value).decode()


def content_blocks(output: JsonValue) -> list[JsonObject]:
    """Return an output as MCP content: blocks unchanged, everything else as text."""
    items = output if isinstance(output, list) else [output]
    return [
        item if isinstance(item, dict) and _is_block(item) else {"type": "text", "text": plain_text(item)}
        for item in items
    ]


def result_at(revision: str, result: JsonObject) -> JsonObject:
    """Return a tool's result with only the blocks that a revision has."""
    content = result.get("content")
    if not isinstance(content, list) or all(_is_known(revision, block) for block in content):
        return result
    return {**result, "content": [_known(revision, block) for block in content]}


def marked(found: JsonObject, *, untrusted: bool) -> JsonObject:
    """Mark a result, a block or contents as untrusted, in addition to its other metadata."""
    if not untrusted:
        return found
    existing = found.get("_meta")
    return {**found, "_meta": {**(existing if isinstance(existing, dict) else {}), UNTRUSTED_META: True}}


def untrusted_meta(message: JsonObject) -> JsonObject:
    """Return the metadata of a notification, with the mark if its text may come from outside."""
    return {UNTRUSTED_META: True} if message.get("untrusted") is True else {}


def messages_at(revision: str, found: JsonObject) -> JsonObject:
    """Return a prompt with only the blocks that a revision has."""
    messages = found.get("messages")
    if not isinstance(messages, list):
        return found
    shown: list[JsonValue] = [
        {**message, "content": _known(revision, message.get("content"))} if isinstance(message, dict) else message
        for message in messages
    ]
    return {**found, "messages": shown}


def _is_known(revision: str, block: JsonValue) -> bool:
    return not isinstance(block, dict) or revision >= _SINCE.get(str(block.get("type")), "")


def _known(revision: str, block: JsonValue) -> JsonValue:
    """Return a block, or a text in its place if the revision does not have that kind."""
    if _is_known(revision, block) or not isinstance(block, dict):
        return block
    if block.get("type") == "resource_link":
        return {"type": "text", "text": f"{block.get('name')}: {block.get('uri')}"}
    return {"type": "text", "text": f"(a recording of type {block.get('mimeType')}, which this client cannot be sent)"}


def _is_block(item: JsonObject) -> bool:
    try:
        block = msgspec.convert(item, _Any)
    except msgspec.ValidationError:
        return False
    return not isinstance(block, _Resource) or (block.resource.text, block.resource.blob) != (None, None)
