"""The keywords of our own JSON Schemas, one by one: what is wrong with a value, in words for its author.

Each defect also carries AJV's wording, for drivers that expect it. Above it: `validator`, which walks schemas and
values together. This module has only keywords that look at one value, and only those that `editor_schema` writes.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from penstock.base.json import JsonObject, JsonValue, json_pointer
from penstock.definitions.shapes.fields import Shape
from penstock.definitions.source.findings import suggestion

__all__ = [
    "INVALID_VALUE",
    "MISSING_FIELD",
    "RESERVED_ID",
    "UNKNOWN_FIELD",
    "Defect",
    "Place",
    "choice_names",
    "constant_defects",
    "counted",
    "general_defect",
    "has_type",
    "kind_of",
    "list_at",
    "meets_condition",
    "number_at",
    "number_defects",
    "object_at",
    "presence_defects",
    "quoted",
    "same_value",
    "text_defects",
    "type_words",
    "word_hint",
    "wrong_type",
]

INVALID_VALUE = "INVALID_VALUE"
MISSING_FIELD = "MISSING_FIELD"
UNKNOWN_FIELD = "UNKNOWN_FIELD"
RESERVED_ID = "RESERVED_ID"

# Longer values are cut in messages; the path shows where to read the whole value.
_QUOTED_CHARACTERS_MAX = 60
# Booleans of YAML 1.1, which people still write.
_BOOLEAN_WORDS = {"yes": True, "on": True, "true": True, "no": False, "off": False, "false": False}
_TYPE_WORDS = {
    "string": "a text",
    "number": "a number",
    "integer": "a whole number",
    "boolean": "true or false",
    "object": "an object",
    "array": "a list",
    "null": "null",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a value is: its JSON pointer, the table that describes it, and the places of members that are elsewhere."""

    path: str = ""
    shape: str = ""
    moved: Mapping[str, str] = field(default_factory=dict)

    def member(self, name: str | int) -> "Place":
        """The place of a member or an item."""
        moved = self.moved.get(str(name)) if self.moved else None
        if moved is None:
            moved = f"{self.path}/{name}" if isinstance(name, int) else self.path + json_pointer((name,))
        return Place(path=moved)

    @property
    def label(self) -> str:
        """The place as a reader would call it: the name of the member, or the list with the index of the item."""
        parts = [part.replace("~1", "/").replace("~0", "~") for part in self.path.split("/")[1:]]
        if not parts:
            return "the document"
        if len(parts) > 1 and parts[-1].isdecimal():
            return f"`{parts[-2]}[{parts[-1]}]`"
        return f"`{parts[-1]}`"


@dataclass(frozen=True, slots=True, kw_only=True)
class Defect:
    """One mistake. `standard_path` and `standard_message` are AJV's version of it."""

    code: str
    path: str
    keyword: str
    message: str
    standard_path: str
    standard_message: str
    hint: str | None = None


def quoted(value: JsonValue) -> str:
    """A value as it appears in a message: short, and in backquotes."""
    text = value if isinstance(value, str) else _literal(value)
    text = " ".join(text.split())
    return f"`{text}`" if len(text) <= _QUOTED_CHARACTERS_MAX else f"`{text[:_QUOTED_CHARACTERS_MAX]}…`"


def _literal(value: JsonValue) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | dict):
        return kind_of(value)
    return str(value)


def general_defect(
    place: Place, keyword: str, message: str, standard_message: str, hint: str | None = None, code: str = INVALID_VALUE
) -> Defect:
    """Make a defect at a place that AJV reports at the same path."""
    return Defect(
        code=code,
        path=place.path,
        keyword=keyword,
        message=message,
        hint=hint,
        standard_path=place.path,
        standard_message=standard_message,
    )


def has_type(schema: JsonObject, value: JsonValue) -> bool:
    """Whether a value has the type, or one of the types, of a schema."""
    wanted = schema.get("type")
    names = wanted if isinstance(wanted, list) else [wanted]
    return wanted is None or any(_is_of_type(value, name) for name in names)


def _is_of_type(value: JsonValue, name: JsonValue) -> bool:
    match name:
        case "string":
            return isinstance(value, str)
        case "boolean":
            return isinstance(value, bool)
        case "object":
            return isinstance(value, dict)
        case "array":
            return isinstance(value, list)
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "integer":
            whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
            return whole and not isinstance(value, bool)
        case _:
            return value is None


def kind_of(value: JsonValue) -> str:
    """The kind of a value, for the end of "must be …, not …"."""
    if value is None:
        return "empty"
    if isinstance(value, bool | int | float):
        return quoted(value)
    name = "string" if isinstance(value, str) else "array" if isinstance(value, list) else "object"
    return _TYPE_WORDS[name]


def type_words(schema: JsonObject) -> str:
    """What a schema requires, for the middle of "must be …, not …"."""
    if "const" in schema:
        return quoted(schema["const"])
    wanted = schema.get("type")
    names = wanted if isinstance(wanted, list) else [wanted]
    return " or ".join(_TYPE_WORDS.get(str(name), "a value") for name in names)


def wrong_type(schema: JsonObject, value: JsonValue, place: Place) -> Defect:
    """Make the defect for a value of the wrong type."""
    wanted = schema.get("type")
    names = [str(name) for name in (wanted if isinstance(wanted, list) else [wanted])]
    is_unquoted = names == ["string"] and "enum" not in schema and isinstance(value, int | float)
    hint = f'write it in quotes: "{_literal(value)}"' if is_unquoted else word_hint([schema], value)
    return general_defect(
        place,
        "type",
        f"{place.label} must be {type_words(schema)}, not {kind_of(value)}",
        f"must be {','.join(names)}",
        hint=hint,
    )


def word_hint(schemas: Iterable[JsonObject], value: JsonValue) -> str | None:
    """Return what to write in place of `yes` or `no`, which YAML 1.2 reads as text; None if no boolean may be here."""
    meant = _BOOLEAN_WORDS.get(value.lower()) if isinstance(value, str) else None
    fits = any(schema.get("type") == "boolean" or schema.get("const") is meant for schema in schemas)
    return None if meant is None or not fits else f"write `{str(meant).lower()}`: in YAML, `{value}` is a text"


def same_value(wanted: JsonValue, value: JsonValue) -> bool:
    """Whether two scalars are the same JSON value."""
    # In Python True equals 1; in JSON it does not.
    return type(wanted) is type(value) and wanted == value


def constant_defects(schema: JsonObject, value: JsonValue, place: Place) -> Iterator[Defect]:
    """Check `const`, `enum`, and reserved names (`not` with `enum`)."""
    if "const" in schema and not same_value(schema["const"], value):
        message = f"{place.label} must be {quoted(schema['const'])}, not {quoted(value)}"
        yield general_defect(place, "const", message, "must be equal to constant")
    words = _strings(schema, "enum")
    if words and value not in words:
        listed = ", ".join(words)
        message = f"{place.label} must be one of {listed}, not {quoted(value)}"
        hint = suggestion(value, words) if isinstance(value, str) else None
        yield general_defect(place, "enum", message, "must be equal to one of the allowed values", hint=hint)
    refused = _strings(object_at(schema, "not"), "enum")
    if refused and value in refused:
        yield general_defect(
            place,
            "not",
            f"{quoted(value)} is a reserved name",
            "must NOT be valid",
            hint=f"choose another name; reserved are {', '.join(refused)}",
            code=RESERVED_ID,
        )


def text_defects(schema: JsonObject, value: str, place: Place) -> Iterator[Defect]:
    """Check `minLength` and `pattern`."""
    length_min = number_at(schema, "minLength")
    if length_min is not None and len(value) < length_min:
        standard = f"must NOT have fewer than {length_min} characters"
        yield general_defect(place, "minLength", f"{place.label} must not be empty", standard)
    expression = schema.get("pattern")
    if isinstance(expression, str) and not re.fullmatch(expression, value):
        examples = ", ".join(_strings(schema, "examples"))
        help_texts = (schema.get("description"), f"For example: {examples}" if examples else None)
        yield general_defect(
            place,
            "pattern",
            f"{place.label} does not have the right form: {quoted(value)}",
            f'must match pattern "{expression}"',
            hint=" ".join(str(text) for text in help_texts if text) or None,
        )


def number_defects(schema: JsonObject, value: float, place: Place) -> Iterator[Defect]:
    """Check `minimum`, `maximum` and `exclusiveMinimum`."""
    for keyword, words, sign in (
        ("minimum", "at least", ">="),
        ("maximum", "at most", "<="),
        ("exclusiveMinimum", "greater than", ">"),
    ):
        limit = number_at(schema, keyword)
        if limit is None:
            continue
        fits = {">=": value >= limit, "<=": value <= limit, ">": value > limit}[sign]
        if not fits:
            message = f"{place.label} must be {words} {limit}, not {_literal(value)}"
            yield general_defect(place, keyword, message, f"must be {sign} {limit}")


def presence_defects(schema: JsonObject, value: JsonObject, place: Place, shape: Shape | None) -> Iterator[Defect]:
    """Check which members are present: `minProperties`, `required`, `dependentRequired` and choices of members."""
    properties_min = number_at(schema, "minProperties")
    if properties_min is not None and len(value) < properties_min:
        message = f"{place.label} needs at least {counted(properties_min, 'member')}"
        yield general_defect(place, "minProperties", message, f"must NOT have fewer than {properties_min} properties")
    for name in _strings(schema, "required"):
        if name not in value:
            standard, hint = f"must have required property '{name}'", _about(name, shape)
            yield general_defect(place, "required", f"`{name}` is missing", standard, hint=hint, code=MISSING_FIELD)
    for name, others in object_at(schema, "dependentRequired").items():
        for other in others if isinstance(others, list) and name in value else []:
            if other not in value:
                standard = f"must have property {other} when property {name} is present"
                message = f"`{name}` needs `{other}` beside it"
                yield general_defect(place, "dependentRequired", message, standard, code=MISSING_FIELD)
    yield from _check_choices(schema, value, place)


def _check_choices(schema: JsonObject, value: JsonObject, place: Place) -> Iterator[Defect]:
    for keyword in ("oneOf", "anyOf"):
        names = choice_names(list_at(schema, keyword))
        if not names:
            continue
        present = [name for name in names if name in value]
        standard = "must match exactly one schema in oneOf" if keyword == "oneOf" else "must match a schema in anyOf"
        listed = ", ".join(f"`{name}`" for name in names)
        if not present:
            yield general_defect(place, keyword, f"one of {listed} is missing", standard, code=MISSING_FIELD)
        elif keyword == "oneOf" and len(present) > 1:
            both = " and ".join(f"`{name}`" for name in present)
            hint = f"keep one of {listed}"
            yield general_defect(place, keyword, f"{both} cannot be used together", standard, hint=hint)
    excluded = _strings(object_at(schema, "not"), "required")
    if excluded and all(name in value for name in excluded):
        both = " and ".join(f"`{name}`" for name in excluded)
        yield general_defect(
            place, "not", f"{both} cannot be used together", "must NOT be valid", hint="keep one of them"
        )


def _about(name: str, shape: Shape | None) -> str | None:
    described = [member.description for member in shape.fields if member.name == name] if shape else []
    return f"`{name}`: {described[0]}" if described else None


def meets_condition(condition: JsonObject, value: JsonValue) -> bool:
    """Whether an `if` holds. Ours only require members, and members with a certain value."""
    if not isinstance(value, dict):
        return True
    if not all(name in value for name in _strings(condition, "required")):
        return False
    return all(
        same_value(rule.get("const"), value[name])
        for name, rule in object_at(condition, "properties").items()
        if name in value and isinstance(rule, dict)
    )


def counted(count: float, noun: str) -> str:
    """A number with its noun."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def choice_names(alternatives: Iterable[JsonValue]) -> list[str]:
    """The members that a rule chooses between, if every alternative requires just one member."""
    names: list[str] = []
    for alternative in alternatives:
        if not isinstance(alternative, dict) or set(alternative) != {"required"}:
            return []
        names.extend(_strings(alternative, "required"))
    return names


def object_at(schema: JsonObject, keyword: str) -> JsonObject:
    """The object under a keyword; empty if the keyword is missing."""
    value = schema.get(keyword)
    return value if isinstance(value, dict) else {}


def list_at(schema: JsonObject, keyword: str) -> list[JsonValue]:
    """The list under a keyword; empty if the keyword is missing."""
    value = schema.get(keyword)
    return value if isinstance(value, list) else []


def _strings(schema: JsonObject, keyword: str) -> list[str]:
    return [item for item in list_at(schema, keyword) if isinstance(item, str)]


def number_at(schema: JsonObject, keyword: str) -> int | float | None:
    """The number under a keyword, or None."""
    value = schema.get(keyword)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None
