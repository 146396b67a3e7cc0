"""Fields of answers that policies hide from some principals.

    @id("cards-are-for-finance")
    @redact("output.card_number, output.customer.email")
    forbid (principal, action == Action::"workflow:refund_order", resource)
    unless { principal in Group::"finance" };

does not forbid the call, but the fields. `output` is the answer of an operation, or the output of a workflow wherever a
run of it is shown. A path names members of objects; of a list it means every item.

What a hidden field becomes has to fit the declared schema, because clients check answers with it: an optional member is
left out, a nullable one is null, a text is masked, a list or an object is empty. A field in whose place nothing fits is
refused when the policy is stored, and so is one that the schema does not declare: nobody could tell whether it is ever
hidden.

Above it: `annotations`, `validation`, `sets`; what shows answers. Below it: JSON Schema, as `shapes` reads it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum
from typing import Final, TypeAlias

from penstock.base.json import JsonObject, JsonValue
from penstock.governance.policy.shapes import allows_null, resolved

__all__ = ["HIDDEN_TEXT", "FieldPath", "path_text", "read_redactions", "why_not_hidden", "without_fields"]

FieldPath: TypeAlias = tuple[str, ...]
"""The names that lead to a field of an answer, without the leading `output`."""
HIDDEN_TEXT = "[hidden]"
"""What stands for a hidden text."""

_ROOT = "output"
_PATH = re.compile(r"output(?:\.[^\s.,]+)+")
_BOUNDS: Final = ("enum", "const", "pattern", "format", "maxLength", "minLength")


class _Left(Enum):
    """What else can become of a field."""

    OUT = "out"
    IMPOSSIBLE = "impossible"


def read_redactions(text: str) -> tuple[tuple[FieldPath, ...], list[str]]:
    """Read the fields of an annotation; return them and every mistake."""
    found: dict[FieldPath, None] = {}
    problems: list[str] = []
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        if _PATH.fullmatch(part):
            found[tuple(part.split(".")[1:])] = None
        else:
            problems.append(f"@redact: {part[:80]!r} is not a field of the answer: write `output.name`")
    if not found and not problems:
        problems.append("@redact is empty: write the fields to hide, such as `output.card_number`")
    return tuple(found), problems


def path_text(path: FieldPath) -> str:
    """Return a field as policies write it."""
    return ".".join((_ROOT, *path))


def why_not_hidden(schema: JsonObject | None, path: FieldPath) -> str | None:
    """Return why a field of an answer with this schema cannot be hidden; None if it can."""
    if schema is None:
        return f"{path_text(path)}: the answer has no declared fields"
    within: JsonValue = schema
    for index, name in enumerate(path):
        members = _object(within, schema)
        declared = members.get("properties") if members is not None else None
        if members is None or not isinstance(declared, dict) or name not in declared:
            return f"{path_text(path[: index + 1])} is not declared by the output schema"
        if index == len(path) - 1 and _stand_in(members, name, schema) is _Left.IMPOSSIBLE:
            return (
                f"{path_text(path)} is required, and nothing fits in its place: make it optional in the output schema"
            )
        within = declared[name]
    return None


def without_fields(value: JsonValue, paths: Iterable[FieldPath], schema: JsonObject | None) -> JsonValue:
    """Return an answer without some fields. What the schema does not declare is left out."""
    for path in paths:
        value = _without(value, path, schema, schema or {})
    return value


def _without(value: JsonValue, path: FieldPath, schema: JsonValue, root: JsonObject) -> JsonValue:
    if isinstance(value, list):
        items = _items(schema, root)
        return [_without(item, path, items, root) for item in value]
    name, *rest = path
    if not isinstance(value, dict) or name not in value:
        return value
    members = _object(schema, root)
    if rest:
        declared = members.get("properties") if members is not None else None
        member = declared.get(name) if isinstance(declared, dict) else None
        return {**value, name: _without(value[name], tuple(rest), member, root)}
    standing = _Left.OUT if members is None else _stand_in(members, name, root)
    if isinstance(standing, _Left):
        return {key: member for key, member in value.items() if key != name}
    return {**value, name: standing}


def _object(schema: JsonValue, root: JsonObject) -> JsonObject | None:
    """Return the schema of an object, or of the items of a list; None if it is neither."""
    found = resolved(schema, root)
    for _ in range(len(_NESTED)):
        if found is None or (found.get("type") != "array" and "items" not in found):
            return found
        found = resolved(found.get("items"), root)
    return found


# Lists of lists of lists are not followed further.
_NESTED: Final = (1, 2, 3)


def _items(schema: JsonValue, root: JsonObject) -> JsonValue:
    found = resolved(schema, root)
    return None if found is None else found.get("items")


def _stand_in(members: JsonObject, name: str, root: JsonObject) -> JsonValue | _Left:
    """Return the replacement of a member of an object."""
    required, declared = members.get("required"), members.get("properties")
    if not isinstance(required, list) or name not in required or not isinstance(declared, dict) or name not in declared:
        return _Left.OUT
    member = declared[name]
    if allows_null(member, root):
        return None
    found = resolved(member, root)
    if found is None:
        return _Left.IMPOSSIBLE
    match found.get("type"):
        case "string" if not any(bound in found for bound in _BOUNDS):
            return HIDDEN_TEXT
        case "array" if "minItems" not in found and "contains" not in found:
            return []
        case "object" if not found.get("required") and "minProperties" not in found:
            return {}
        case _:
            return _Left.IMPOSSIBLE
