"""References from one JSON Schema to another by name: `$ref: "schema:order@1"`.

    embed({"properties": {"order": {"$ref": "schema:order@1"}}}, found)

A reference is replaced by the schema that it names, as it is at that moment. What is stored afterwards is one schema
that needs nothing else, and that no later change alters. Where it came from stays in `$comment`, with a hash.

A schema that is nothing but a reference becomes the schema that it names. Otherwise that schema goes into `$defs`, and
its own references are moved with it.

Above it: the check of documents, the registries, the project folder. Below it: canonical JSON. It looks nothing up.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from penstock.base.json import JsonObject, JsonValue, json_pointer
from penstock.definitions.canonical import canonical_json

__all__ = [
    "NamedSchema",
    "SchemaReference",
    "content_hash",
    "embed",
    "parse_reference",
    "references_in",
    "why_not_embedded",
]

_REFERENCE: Final = re.compile(r"schema:([A-Za-z0-9][A-Za-z0-9_.-]{0,127})(?:@([1-9][0-9]{0,8}))?")
_PREFIX: Final = "schema:"
# Keywords whose values are names with schemas, or data that only looks like a schema.
_MAPS: Final = frozenset({"$defs", "definitions", "dependentSchemas", "patternProperties", "properties"})
_DATA: Final = frozenset({"const", "default", "enum", "examples"})
# What may stand beside a reference that is a whole schema, and describes it in place of what it describes itself with.
_ANNOTATIONS: Final = frozenset({"description", "examples", "title"})
# With these, a schema means something else inside another one.
_ANCHORING: Final = ("$anchor", "$dynamicAnchor", "$dynamicRef", "$id", "$recursiveRef")
_DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaReference:
    """A reference, and where it is; `name` is `None` if it cannot be read."""

    text: str
    path: str
    name: str | None
    version: int | None = None
    """None: the newest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedSchema:
    """A version of a schema with a name."""

    name: str
    version: int
    schema: JsonObject

    @property
    def address(self) -> str:
        """The reference that means exactly this version."""
        return f"{_PREFIX}{self.name}@{self.version}"

    @property
    def pin(self) -> str:
        """Where an embedded copy came from: the version and the hash of its content."""
        return f"{self.address} sha256:{content_hash(self.schema)}"


def content_hash(schema: JsonObject) -> str:
    """Return the hex SHA-256 of the canonical JSON of a schema."""
    return hashlib.sha256(canonical_json(schema)).hexdigest()


def parse_reference(text: str, path: str = "") -> SchemaReference | None:
    """Return the reference that the value of a `$ref` is; None if it refers to something else."""
    if not text.startswith(_PREFIX):
        return None
    found = _REFERENCE.fullmatch(text)
    if found is None:
        return SchemaReference(text=text, path=path, name=None)
    version = int(found[2]) if found[2] else None
    return SchemaReference(text=text, path=path, name=found[1], version=version)


def references_in(schema: JsonValue, path: str = "") -> Iterator[SchemaReference]:
    """Yield the references to named schemas in a schema that is at a path of a document."""
    for place, inner in _subschemas(schema, ()):
        text = inner.get("$ref")
        found = parse_reference(text, path + json_pointer((*place, "$ref"))) if isinstance(text, str) else None
        if found is not None:
            yield found


def why_not_embedded(schema: JsonObject) -> str | None:
    """Return why a schema cannot become part of another one; None if it can."""
    for place, inner in _subschemas(schema, ()):
        for keyword in _ANCHORING:
            if keyword in inner:
                return f"it has `{keyword}` at {json_pointer(place) or '/'}"
        reference = inner.get("$ref")
        if isinstance(reference, str) and not (reference == "#" or reference.startswith(("#/", _PREFIX))):
            return f"it refers to `{reference}`"
    draft = schema.get("$schema", _DRAFT)
    return None if draft == _DRAFT else f"it is of another draft, `{draft}`"


def embed(schema: JsonObject, found: Mapping[str, NamedSchema]) -> JsonObject:
    """Return a schema without references to named ones. `found` has what each reference text means."""
    reference = schema.get("$ref")
    whole = found.get(reference) if isinstance(reference, str) else None
    if whole is not None and set(schema) - {"$ref"} <= _ANNOTATIONS:
        beside = {name: value for name, value in schema.items() if name != "$ref"}
        return {**_pinned(whole), **beside}
    used: dict[str, NamedSchema] = {}

    def lead(text: str) -> str:
        named = found.get(text)
        if named is None:
            return text
        used[named.address] = named
        return f"#/$defs/{named.address}"

    rewritten = _rewritten(schema, lead)
    definitions: JsonObject = {address: _moved(named) for address, named in used.items()}
    own = rewritten.get("$defs")
    return {**rewritten, "$defs": {**(own if isinstance(own, dict) else {}), **definitions}} if used else rewritten


def _pinned(named: NamedSchema) -> JsonObject:
    said = named.schema.get("$comment")
    comment = f"{named.pin}; {said}" if isinstance(said, str) and said else named.pin
    return {"$comment": comment, **{name: value for name, value in named.schema.items() if name != "$comment"}}


def _moved(named: NamedSchema) -> JsonObject:
    """A schema as a definition inside another one: what it refers to in itself moves with it."""

    def lead(text: str) -> str:
        return f"#/$defs/{named.address}{text[1:]}" if text.startswith("#") else text

    content = _rewritten(_pinned(named), lead)
    return {name: value for name, value in content.items() if name != "$schema"}


def _rewritten(schema: JsonObject, lead: Callable[[str], str]) -> JsonObject:
    """A copy of a schema in which every `$ref` leads where `lead` says."""
    copy: JsonObject = {}
    for name, value in schema.items():
        if name == "$ref" and isinstance(value, str):
            copy[name] = lead(value)
        elif name in _MAPS and isinstance(value, dict):
            copy[name] = {key: _rewritten_value(inner, lead) for key, inner in value.items()}
        elif name in _DATA:
            copy[name] = value
        else:
            copy[name] = _rewritten_value(value, lead)
    return copy


def _rewritten_value(value: JsonValue, lead: Callable[[str], str]) -> JsonValue:
    if isinstance(value, dict):
        return _rewritten(value, lead)
    if isinstance(value, list):
        return [_rewritten_value(item, lead) for item in value]
    return value


def _subschemas(value: JsonValue, place: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], JsonObject]]:
    """Yield every schema in a schema with its place, itself first."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _subschemas(item, (*place, index))
    elif isinstance(value, dict):
        yield place, value
        for name, member in value.items():
            if name in _MAPS and isinstance(member, dict):
                for key, inner in member.items():
                    yield from _subschemas(inner, (*place, name, key))
            elif name not in _DATA:
                yield from _subschemas(member, (*place, name))
