"""Secret members of answers: which places of a value a schema marks as secret, and how to replace them.

A member is secret when its schema says `writeOnly: true` or `format: password`. If several schemas apply to a place,
one mark is enough, even in an alternative that was not taken; a reference that cannot be followed also counts as a
mark. A secret is secret as a whole: nothing is looked for inside it.

Above it: the engine, which records answers without their secrets; the surfaces, which ask for secrets in another way;
`checks.secret_answers`. Below it: JSON. It stores and encrypts nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache

from penstock.base import limits
from penstock.base.encoding import encode_bytes
from penstock.base.errors import Rejected
from penstock.base.json import JsonObject, JsonValue, json_pointer
from penstock.definitions.jq.templates import SECRET_MASK
from penstock.definitions.schemas.compiled import CompiledSchema
from penstock.definitions.schemas.violations import Violation

__all__ = ["ANY_MEMBER", "has_marks", "is_secret", "secret_paths", "secrets_in", "with_values", "without_values_of"]

# Stands for every item of a list, and for every member of an object whose schema does not name its members.
ANY_MEMBER = "*"
# Keywords whose schemas apply to the same value as the schema that contains them.
_IN_PLACE_LISTS = ("allOf", "anyOf", "oneOf")
_IN_PLACE = ("if", "then", "else", "not")
_OPEN_MEMBERS = ("additionalProperties", "unevaluatedProperties", "items", "additionalItems", "contains")
_MARKS = (b'"writeOnly"', b'"password"')

_Path = tuple[str | int, ...]


def is_secret(schema: JsonValue) -> bool:
    """Whether a schema itself says that its value is secret."""
    return isinstance(schema, dict) and (schema.get("writeOnly") is True or schema.get("format") == "password")


def has_marks(schema: CompiledSchema) -> bool:
    """Whether a schema may mark something as secret. A text search finds out cheaply that nearly no schema does."""
    return _mentions_marks(schema.text)


# A start asks this several times about one schema.
@lru_cache(maxsize=256)
def _mentions_marks(text: bytes) -> bool:
    return any(mark in text for mark in _MARKS)


def secrets_in(schema: CompiledSchema, value: JsonValue) -> dict[str, JsonValue]:
    """Return the secret parts of a value by their JSON pointers.

    Raise `Rejected` if the search takes too many steps: a value whose secrets are unknown must not be stored.
    """
    if not has_marks(schema):
        return {}
    found: dict[str, JsonValue] = {}
    _Search(schema.schema).collect(value, found)
    return found


def secret_paths(schema: JsonObject) -> tuple[tuple[str, ...], ...]:
    """Return the places that a schema marks as secret, as paths of names; `ANY_MEMBER` stands for what has no name."""
    if not any(mark in encode_bytes(schema) for mark in _MARKS):
        return ()
    try:
        return tuple(_Search(schema).paths())
    except Rejected:  # the secret places are unknown, so treat the whole value as secret
        return ((),)


def with_values(value: JsonValue, places: Mapping[str, JsonValue]) -> JsonValue:
    """Return a value with other values at some of its places, given by their JSON pointers."""
    for pointer, item in places.items():
        value = _replaced(value, pointer.split("/")[1:], item)
    return value


def without_values_of(found: Iterable[Violation], secrets: Mapping[str, JsonValue]) -> tuple[Violation, ...]:
    """Return the violations with every secret value masked in what they say."""
    hidden = sorted({text for value in secrets.values() for text in _texts(value) if text}, key=len, reverse=True)
    return tuple(_masked(item, hidden) for item in found) if hidden else tuple(found)


def _masked(violation: Violation, hidden: list[str]) -> Violation:
    message, subject = violation.message, violation.subject
    for text in hidden:
        message = message.replace(text, SECRET_MASK)
        subject = None if subject is None else subject.replace(text, SECRET_MASK)
    return Violation(violation.instance_path, violation.keyword, message, subject)


def _texts(value: JsonValue) -> Iterator[str]:
    if isinstance(value, dict):
        for member in value.values():
            yield from _texts(member)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, str):
        yield value
        yield encode_bytes(value).decode()[1:-1]
    elif value is not None and not isinstance(value, bool):
        yield encode_bytes(value).decode()


def _replaced(value: JsonValue, parts: list[str], item: JsonValue) -> JsonValue:
    if not parts:
        return item
    name = parts[0].replace("~1", "/").replace("~0", "~")
    if isinstance(value, list):
        index = int(name)
        return [*value[:index], _replaced(value[index], parts[1:], item), *value[index + 1 :]]
    members: JsonObject = dict(value) if isinstance(value, dict) else {}
    members[name] = _replaced(members.get(name), parts[1:], item)
    return members


class _Search:
    """Follows one schema, and counts the steps of the search."""

    def __init__(self, root: JsonObject) -> None:
        self._root = root
        self._steps = 0
        self._expanded: dict[tuple[int, ...], tuple[JsonObject, ...] | None] = {}
        # Inside a part with its own id, references are relative to that part; those are not followed.
        self._has_parts = encode_bytes(root).count(b'"$id"') > ("$id" in root)

    def collect(self, value: JsonValue, found: dict[str, JsonValue]) -> None:
        """Add every secret part of a value to `found`."""
        pending: list[tuple[_Path, JsonValue, tuple[JsonObject, ...]]] = [((), value, (self._root,))]
        while pending:
            path, item, schemas = pending.pop()
            applicable = self.expand(schemas)
            if applicable is None or any(map(is_secret, applicable)):
                found[json_pointer(path)] = item
            elif isinstance(item, dict):
                pending.extend(
                    ((*path, name), member, below) for name, member, below in self._members(item, applicable)
                )
            elif isinstance(item, list):
                pending.extend(
                    ((*path, index), member, below) for index, member, below in self._items(item, applicable)
                )

    def _members(
        self, value: JsonObject, applicable: tuple[JsonObject, ...]
    ) -> Iterator[tuple[str, JsonValue, tuple[JsonObject, ...]]]:
        """The members of an object that some schema describes, each with its schemas."""
        for name, member in value.items():
            self._count_step()
            below = _of_member(applicable, name)
            if below:
                yield name, member, below

    def _items(
        self, value: list[JsonValue], applicable: tuple[JsonObject, ...]
    ) -> Iterator[tuple[int, JsonValue, tuple[JsonObject, ...]]]:
        """Like `_members`, for a list. From some index on, the same schemas apply to all of its items."""
        first = max((len(_listed(schema)) for schema in applicable), default=0)
        rest = _of_item(applicable, first)
        for index, member in enumerate(value if rest else value[:first]):
            self._count_step()
            below = _of_item(applicable, index) if index < first else rest
            if below:
                yield index, member, below

    def _count_step(self) -> None:
        self._steps += 1
        if self._steps > limits.SECRET_SEARCH_LOOKS_MAX:
            message = f"finding the secret members takes more than {limits.SECRET_SEARCH_LOOKS_MAX:,} steps"
            raise Rejected("SCHEMA_TOO_COSTLY", message, "send a smaller answer, or ask for it with a simpler schema")

    def paths(self) -> Iterator[tuple[str, ...]]:
        """The places of secret parts in any value."""
        no_schemas: frozenset[frozenset[int]] = frozenset()
        pending: list[tuple[tuple[str, ...], tuple[JsonObject, ...], frozenset[frozenset[int]]]] = [
            ((), (self._root,), no_schemas)
        ]
        while pending:
            path, schemas, above = pending.pop()
            applicable = self.expand(schemas)
            if applicable is None or any(map(is_secret, applicable)):
                yield path
                continue
            # The same schemas below themselves lead to the same marks, so a recursive schema is followed once.
            self._count_step()
            if (key := frozenset(map(id, applicable))) not in above:
                below = _named_members(applicable).items()
                pending.extend(((*path, name), inner, above | {key}) for name, inner in below)

    def expand(self, schemas: tuple[JsonObject, ...]) -> tuple[JsonObject, ...] | None:
        """All schemas that apply to the same value as these; None when one of them cannot be found."""
        key = tuple(map(id, schemas))
        if key not in self._expanded:
            self._expanded[key] = self._expand(schemas)
        return self._expanded[key]

    def _expand(self, schemas: tuple[JsonObject, ...]) -> tuple[JsonObject, ...] | None:
        known: dict[int, JsonObject] = {}
        pending: list[JsonValue] = list(schemas)
        while pending:
            schema = pending.pop()
            if not isinstance(schema, dict) or id(schema) in known:
                continue
            self._count_step()
            known[id(schema)] = schema
            for keyword in ("$ref", "$dynamicRef"):
                if keyword in schema:
                    target = None if self._has_parts else _target(self._root, schema[keyword])
                    if target is None:
                        return None
                    pending.append(target)
            for keyword in _IN_PLACE_LISTS:
                listed = schema.get(keyword)
                pending.extend(listed if isinstance(listed, list) else ())
            pending.extend(schema.get(keyword) for keyword in _IN_PLACE)
            dependent = schema.get("dependentSchemas")
            pending.extend(dependent.values() if isinstance(dependent, dict) else ())
        return tuple(known.values())


def _target(root: JsonObject, reference: JsonValue) -> JsonValue:
    """The target of a reference inside a schema; None if it cannot be followed."""
    if reference == "#":
        return root
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return None
    place: JsonValue = root
    for escaped in reference[2:].split("/"):
        name = escaped.replace("~1", "/").replace("~0", "~")
        if isinstance(place, dict) and name in place:
            place = place[name]
        elif isinstance(place, list) and name.isdecimal() and int(name) < len(place):
            place = place[int(name)]
        else:
            return None
    return place


def _members_of(schema: JsonObject, keyword: str) -> JsonObject:
    members = schema.get(keyword)
    return members if isinstance(members, dict) else {}


def _of_member(applicable: tuple[JsonObject, ...], name: str) -> tuple[JsonObject, ...]:
    """The schemas of an object's member. In doubt a schema is included, so that no mark is missed."""
    found: list[JsonValue] = []
    for schema in applicable:
        found.append(_members_of(schema, "properties").get(name))
        found.extend(
            inner for pattern, inner in _members_of(schema, "patternProperties").items() if _may_match(pattern, name)
        )
        if name not in _members_of(schema, "properties"):
            found.extend((schema.get("additionalProperties"), schema.get("unevaluatedProperties")))
    return tuple(item for item in found if isinstance(item, dict))


def _may_match(pattern: str, name: str) -> bool:
    """Whether a pattern of the schema's own dialect may match; one that Python cannot compile counts as a match."""
    try:
        return re.search(pattern, name) is not None
    except re.error:
        return True


def _listed(schema: JsonObject) -> list[JsonValue]:
    """The schemas of the first items of a list, one per item."""
    prefix, items = schema.get("prefixItems"), schema.get("items")
    return items if isinstance(items, list) else prefix if isinstance(prefix, list) else []


def _of_item(applicable: tuple[JsonObject, ...], index: int) -> tuple[JsonObject, ...]:
    found: list[JsonValue] = []
    for schema in applicable:
        listed = _listed(schema)
        if index < len(listed):
            found.append(listed[index])
        found.extend(schema.get(name) for name in ("items", "additionalItems", "unevaluatedItems", "contains"))
    return tuple(item for item in found if isinstance(item, dict))


def _named_members(applicable: tuple[JsonObject, ...]) -> dict[str, tuple[JsonObject, ...]]:
    """The schemas one level below, by name."""
    found: dict[str, list[JsonObject]] = {}
    for schema in applicable:
        for name, inner in _members_of(schema, "properties").items():
            found.setdefault(name, []).extend((inner,) if isinstance(inner, dict) else ())
        unnamed: list[JsonValue] = [*_members_of(schema, "patternProperties").values()]
        unnamed.extend(schema.get(keyword) for keyword in (*_OPEN_MEMBERS, "unevaluatedItems"))
        for keyword in ("prefixItems", "items"):
            listed = schema.get(keyword)
            unnamed.extend(listed if isinstance(listed, list) else ())
        for inner in unnamed:
            if isinstance(inner, dict):
                found.setdefault(ANY_MEMBER, []).append(inner)
    return {name: tuple(schemas) for name, schemas in found.items()}
