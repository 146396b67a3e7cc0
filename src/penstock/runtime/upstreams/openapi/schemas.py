"""Schemas of an OpenAPI document as JSON Schemas of draft 2020-12, small enough for a model.

`nullable` and boolean exclusive bounds (3.0) become what they mean; what only documentation reads is left out. A schema
that others refine by `allOf`, with a discriminator, becomes a choice of them: the base alone would lose their members.
Each result has the definitions that it needs and no others, and those that are used once stand where they are used.

Above it: `operations`. Below it: `document`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, Literal, TypeAlias

from penstock.base import limits
from penstock.base.encoding import encode_bytes
from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.schemas.compiled import CompiledSchema, compile_schema
from penstock.runtime.upstreams.openapi.document import ApiDocument, ReferenceProblem

__all__ = ["Direction", "SchemaTranslator", "fitted", "lenient", "shortened"]

Direction: TypeAlias = Literal["input", "output"]

_TYPES: Final = frozenset({"string", "number", "integer", "boolean", "array", "object", "null"})
_PLAIN: Final = frozenset(
    {
        "const",
        "contentEncoding",
        "contentMediaType",
        "default",
        "format",
        "maxItems",
        "maxLength",
        "maxProperties",
        "maximum",
        "minItems",
        "minLength",
        "minProperties",
        "minimum",
        "multipleOf",
        "pattern",
        "uniqueItems",
    }
)
_ONE: Final = frozenset(
    {"additionalProperties", "contains", "else", "if", "items", "not", "propertyNames", "then", "unevaluatedProperties"}
)
_MANY: Final = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_NAMED: Final = frozenset({"dependentSchemas", "patternProperties"})
_COMPONENTS: Final = "#/components/schemas/"
# Schemas that nest deeper than this without a reference are cut; real ones have a dozen levels.
_DEPTH_MAX: Final = 40
_PATTERNS_KEPT: Final = 4_096
# HTML, and links of Markdown: models do not follow them, and read every character.
_TAG: Final = re.compile(r"</?[A-Za-z][^<>]{0,500}>")
_LINK: Final = re.compile(r"\[([^\[\]]{1,200})\]\([^()\s]{1,500}\)")


@dataclass(slots=True)
class SchemaTranslator:
    """Translates the schemas of one document. It remembers the definitions that it has translated."""

    document: ApiDocument
    _subtypes: dict[str, list[str]] | None = None
    _known: dict[tuple[Direction, str, bool], JsonObject] = field(default_factory=dict)
    _names: dict[tuple[str, bool], str] = field(default_factory=dict)
    _owners: dict[str, tuple[str, bool]] = field(default_factory=dict)

    def translated(self, schema: JsonValue, direction: Direction) -> JsonObject:
        """Return a schema that stands by itself, with the definitions that it needs. Raises `ReferenceProblem`."""
        root = self._schema(schema, direction, 0)
        if not isinstance(root, dict):
            return {} if root else {"not": {}}
        definitions: dict[str, JsonObject] = {}
        waiting = list(_definition_names(root))
        while waiting:
            name = waiting.pop()
            if name not in definitions:
                definitions[name] = self._definition(name, direction)
                waiting.extend(_definition_names(definitions[name]))
        root, definitions = _inlined(root, definitions)
        return {**root, "$defs": {name: definitions[name] for name in sorted(definitions)}} if definitions else root

    def _definition(self, name: str, direction: Direction) -> JsonObject:
        reference, base_only = self._owners[name]
        key = (direction, reference, base_only)
        if key not in self._known:
            self._known[key] = {}  # a definition may refer to itself
            target = self.document.found(reference)
            subtypes = [] if base_only else self._subtypes_of(reference, target)
            if subtypes:
                chosen: list[JsonValue] = [{"$ref": f"#/$defs/{self._name(item, False)}"} for item in subtypes]
                self._known[key] = {"anyOf": chosen}
            else:
                made = self._schema(target, direction, 0)
                self._known[key] = made if isinstance(made, dict) else {}
        return self._known[key]

    def _name(self, reference: str, base_only: bool) -> str:
        key = (reference, base_only)
        if key not in self._names:
            short = re.sub(r"[^A-Za-z0-9_.-]+", "_", reference.rpartition("/")[2]) or "schema"
            name, number = short + ("-base" if base_only else ""), 2
            while name in self._owners:
                name, number = f"{short}-{number}", number + 1
            self._names[key] = name
            self._owners[name] = key
        return self._names[key]

    def _schema(self, schema: JsonValue, direction: Direction, depth: int, *, in_all_of: bool = False) -> JsonValue:
        if isinstance(schema, bool):
            return schema
        if not isinstance(schema, dict) or depth > _DEPTH_MAX:
            return {}
        reference = schema.get("$ref")
        if isinstance(reference, str):
            return self._reference(schema, reference, direction, depth, in_all_of=in_all_of)
        made: JsonObject = {}
        for name, value in schema.items():
            self._keyword(made, name, value, direction, depth)
        self._types(made, schema)
        self._bounds(made, schema)
        if self.document.has_nullable and schema.get("nullable") is True:
            return _or_null(made)
        return made

    def _reference(
        self, schema: JsonObject, reference: str, direction: Direction, depth: int, *, in_all_of: bool
    ) -> JsonValue:
        self.document.found(reference)  # a reference that leads nowhere is noticed here
        # In `allOf` a subtype means its base as it is written, not the choice of all subtypes.
        base_only = in_all_of and bool(self._subtypes_of(reference, self.document.found(reference)))
        made: JsonObject = {"$ref": f"#/$defs/{self._name(reference, base_only)}"}
        beside = {name: value for name, value in schema.items() if name != "$ref"}
        if self.document.has_nullable:
            # In 3.0 nothing beside a reference counts. Descriptions and `nullable` are written there anyway.
            beside = {name: value for name, value in beside.items() if name in ("description", "nullable")}
        if beside.get("nullable") is True:
            made = {"anyOf": [made, {"type": "null"}]}
        rest = self._schema({k: v for k, v in beside.items() if k != "nullable"}, direction, depth + 1)
        return {**made, **rest} if isinstance(rest, dict) else made

    def _keyword(self, made: JsonObject, name: str, value: JsonValue, direction: Direction, depth: int) -> None:
        if name == "description" and isinstance(value, str) and value.strip():
            made[name] = shortened(value, limits.OPENAPI_PROPERTY_CHARACTERS_MAX)
        elif name in _PLAIN and value is not None and (name != "pattern" or _is_pattern(str(value))):
            made[name] = value
        elif name == "enum" and isinstance(value, list) and value:
            made[name] = _distinct(value)
        elif name == "properties" and isinstance(value, dict):
            made[name] = self._properties(value, direction, depth)
        elif name == "required" and isinstance(value, list):
            made[name] = _distinct([item for item in value if isinstance(item, str)])
        elif name in _ONE:
            made[name] = self._schema(value, direction, depth + 1)
        elif name in _MANY and isinstance(value, list) and value:
            in_all_of = name == "allOf"
            made[name] = [self._schema(item, direction, depth + 1, in_all_of=in_all_of) for item in value]
        elif name in _NAMED and isinstance(value, dict):
            made[name] = {key: self._schema(item, direction, depth + 1) for key, item in value.items()}

    def _properties(self, properties: JsonObject, direction: Direction, depth: int) -> JsonObject:
        return {
            name: self._schema(schema, direction, depth + 1)
            for name, schema in properties.items()
            if not self._is_hidden(schema, direction)
        }

    def _is_hidden(self, schema: JsonValue, direction: Direction) -> bool:
        """Whether a property is not for this direction: one that is only read is not sent."""
        try:
            target = self.document.resolved(schema)
        except ReferenceProblem:
            return False  # said where the schema is translated
        own = schema if isinstance(schema, dict) else {}
        mark = "readOnly" if direction == "input" else "writeOnly"
        return own.get(mark) is True or target.get(mark) is True

    def _types(self, made: JsonObject, schema: JsonObject) -> None:
        kind = schema.get("type")
        if kind == "file":
            made["type"] = "string"
        elif isinstance(kind, str) and kind in _TYPES:
            made["type"] = kind
        elif isinstance(kind, list):
            known: list[JsonValue] = [item for item in kind if item in _TYPES]
            if known:
                made["type"] = known[0] if len(known) == 1 else known
        properties, required = made.get("properties"), made.get("required")
        if isinstance(required, list):
            # What is hidden in this direction is not required either. Names that no property has may be in `allOf`.
            written = schema.get("properties")
            hidden = set(written if isinstance(written, dict) else ()) - set(
                properties if isinstance(properties, dict) else ()
            )
            kept = [name for name in required if name not in hidden]
            if kept:
                made["required"] = kept
            else:
                del made["required"]

    def _bounds(self, made: JsonObject, schema: JsonObject) -> None:
        for bound, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
            value = schema.get(exclusive)
            if value is True and isinstance(made.get(bound), int | float):
                made[exclusive] = made.pop(bound)
            elif isinstance(value, int | float) and not isinstance(value, bool):
                made[exclusive] = value

    def _subtypes_of(self, reference: str, target: JsonValue) -> list[str]:
        """Return the schemas that refine a base with a discriminator, if the base does not list them itself."""
        if not isinstance(target, dict) or not isinstance(target.get("discriminator"), dict):
            return []
        if "oneOf" in target or "anyOf" in target or not reference.startswith(_COMPONENTS):
            return []
        if self._subtypes is None:
            self._subtypes = _subtypes(self.document)
        return self._subtypes.get(reference, [])


@lru_cache(maxsize=_PATTERNS_KEPT)
def _is_pattern(pattern: str) -> bool:
    """Whether a pattern can be checked. Documents have patterns of other languages; the API knows what they mean."""
    return isinstance(compile_schema({"pattern": pattern}), CompiledSchema)


def _subtypes(document: ApiDocument) -> dict[str, list[str]]:
    components = document.root.get("components")
    schemas = components.get("schemas") if isinstance(components, dict) else None
    found: dict[str, list[str]] = {}
    for name, schema in schemas.items() if isinstance(schemas, dict) else ():
        parts = schema.get("allOf") if isinstance(schema, dict) else None
        for part in parts if isinstance(parts, list) else ():
            base = part.get("$ref") if isinstance(part, dict) else None
            if isinstance(base, str):
                quoted = name.replace("~", "~0").replace("/", "~1")
                found.setdefault(base, []).append(f"{_COMPONENTS}{quoted}")
    return found


def _or_null(schema: JsonObject) -> JsonObject:
    kind = schema.get("type")
    if isinstance(kind, str):
        nullable: JsonObject = {**schema, "type": [kind, "null"]}
        choices = schema.get("enum")
        return {**nullable, "enum": [*choices, None]} if isinstance(choices, list) and None not in choices else nullable
    if isinstance(kind, list) or not schema:
        return schema
    return {"anyOf": [schema, {"type": "null"}]}


def _distinct(values: list[JsonValue]) -> list[JsonValue]:
    # By their text: 1 and true are equal in Python.
    return list({encode_bytes(value): value for value in values}.values())


def _definition_names(schema: JsonValue) -> Iterator[str]:
    waiting: list[JsonValue] = [schema]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            reference = value.get("$ref")
            if isinstance(reference, str) and reference.startswith("#/$defs/"):
                yield reference.removeprefix("#/$defs/")
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)


def _inlined(root: JsonObject, definitions: dict[str, JsonObject]) -> tuple[JsonObject, dict[str, JsonObject]]:
    """Put definitions that are used once where they are used: shorter, and a model need not look them up."""
    uses = Counter(_definition_names(root))
    for schema in definitions.values():
        uses.update(_definition_names(schema))
    single = {name for name, number in uses.items() if number == 1 and name not in _reachable(name, definitions)}

    def placed(value: JsonValue) -> JsonValue:
        if isinstance(value, list):
            return [placed(item) for item in value]
        if not isinstance(value, dict):
            return value
        reference = value.get("$ref")
        name = reference.removeprefix("#/$defs/") if isinstance(reference, str) else ""
        if name in single:
            beside = {key: placed(item) for key, item in value.items() if key != "$ref"}
            target = placed(definitions[name])
            if isinstance(target, dict) and not (beside.keys() & target.keys() - {"description"}):
                return {**target, **beside}
            return {"allOf": [target], **beside}
        return {key: placed(item) for key, item in value.items()}

    made = placed(root)
    kept = {name: placed(schema) for name, schema in definitions.items() if name not in single}
    return (
        made if isinstance(made, dict) else {},
        {name: schema for name, schema in kept.items() if isinstance(schema, dict)},
    )


def _reachable(name: str, definitions: dict[str, JsonObject]) -> set[str]:
    """Return the definitions that one refers to, directly or by others."""
    found: set[str] = set()
    waiting = list(_definition_names(definitions[name]))
    while waiting:
        following = waiting.pop()
        if following not in found:
            found.add(following)
            waiting.extend(_definition_names(definitions[following]))
    return found


def shortened(text: str, characters_max: int) -> str:
    """Return a text in one paragraph without mark-up, cut at the end of a sentence or word if it is too long."""
    joined = " ".join(_LINK.sub(r"\1", _TAG.sub("", text)).split())
    if len(joined) <= characters_max:
        return joined
    cut = joined[: characters_max - 1]
    sentence = max(cut.rfind(". "), cut.rfind("? "), cut.rfind("! "))
    if sentence >= characters_max // 2:
        return cut[: sentence + 1]
    return cut.rpartition(" ")[0].rstrip(",;:") + "…"


def lenient(schema: JsonValue) -> JsonValue:
    """Return a schema of answers that refuses nothing that can still be used: no member is required or the last."""
    if isinstance(schema, list):
        return [lenient(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    dropped = {"required", "additionalProperties", "unevaluatedProperties", "enum", "pattern", "format", "const"}
    bounds = {name for name in schema if name.startswith(("min", "max", "exclusive", "multiple", "unique"))}
    kept = {name: lenient(value) for name, value in schema.items() if name not in dropped | bounds}
    kind = kept.get("type")
    if isinstance(kind, str) and kind != "null":
        kept["type"] = [kind, "null"]
    return kept


def fitted(schema: JsonObject, bytes_max: int) -> tuple[JsonObject, bool]:
    """Return a schema of at most this size, and whether anything but texts was left out of it.

    First the descriptions of deep levels go, then all of them, then the levels themselves: what is cut accepts anything
    of its type, and the API checks it.
    """
    for text_depth, depth in ((None, None), (4, None), (2, None), (2, 8), (2, 6), (2, 5), (2, 4), (2, 3), (2, 2)):
        made = schema if text_depth is None else _cut(schema, text_depth, depth)
        if len(encode_bytes(made)) <= bytes_max:
            return made, depth is not None
    return {"type": "object"}, True


def _cut(schema: JsonObject, text_depth: int, depth: int | None) -> JsonObject:
    definitions = schema.get("$defs")
    named = definitions if isinstance(definitions, dict) else {}
    made = _cut_value({name: value for name, value in schema.items() if name != "$defs"}, 0, text_depth, depth)
    if not isinstance(made, dict):
        return {}
    kept: JsonObject = {}
    waiting = list(_definition_names(made))
    while waiting:
        name = waiting.pop()
        if name not in kept and name in named:
            # A definition stands somewhere below the root; its own levels count from the second.
            kept[name] = _cut_value(named[name], 2, text_depth, depth)
            waiting.extend(_definition_names(kept[name]))
    return {**made, "$defs": {name: kept[name] for name in sorted(kept)}} if kept else made


def _cut_value(schema: JsonValue, level: int, text_depth: int, depth: int | None) -> JsonValue:
    """Cut one schema. `level` counts objects and lists of values, not the words of the schema language."""
    if not isinstance(schema, dict):
        return schema
    if depth is not None and level >= depth:
        kind = schema.get("type")
        return {"type": kind} if kind is not None else {}
    made: JsonObject = {}
    for name, value in schema.items():
        if name == "description" and level >= text_depth:
            continue
        if name in ("properties", "patternProperties", "dependentSchemas") and isinstance(value, dict):
            made[name] = {key: _cut_value(item, level + 1, text_depth, depth) for key, item in value.items()}
        elif name in _ONE:
            made[name] = _cut_value(value, level + 1, text_depth, depth)
        elif name in _MANY and isinstance(value, list):
            made[name] = [_cut_value(item, level, text_depth, depth) for item in value]
        else:
            made[name] = value
    return made
