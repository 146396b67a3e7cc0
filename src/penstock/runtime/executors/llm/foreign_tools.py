"""Prepares the tools that other servers describe for a model: all of their free text is marked as untrusted.

    described_tool(tool.description, tool.input_schema, wrap)       a description and a schema for the model
    texts_of(tool.description, tool.input_schema)                   the texts that `wrap` will be called with

A JSON Schema can hold words in many places: in descriptions and titles, but also in values (`enum`, `default`,
`examples`), in names of properties, in keywords that no draft knows, and in a `description` that is a list. Only what
validates is kept in place, and only as far as it is one word: a value or name without spaces is kept, because the model
has to write it as it is. Anything longer is moved into the description, as JSON, where it is marked. Unknown keywords
are left out. The schema that checks the arguments of a call is the server's own and is not touched.

Above it: `prompts`. Below it: JSON. It never fails: anything that is not a schema is left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import unquote

from penstock.base.json import JsonObject, JsonValue
from penstock.runtime.executors.llm.untrusted import text_of

__all__ = ["described_tool", "texts_of"]

Wrap = Callable[[str], str]

_SCHEMAS = frozenset(
    {
        *("additionalItems", "additionalProperties", "contains", "else", "if", "items", "not", "propertyNames", "then"),
        *("unevaluatedItems", "unevaluatedProperties"),
    }
)
_LISTS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_MAPS = frozenset({"dependentSchemas", "patternProperties", "properties"})
_DEFINITIONS = ("$defs", "definitions")
_VALUES = frozenset({"const", "default", "enum", "example", "examples"})
_WORDS = frozenset({"$anchor", "$dynamicAnchor", "$dynamicRef", "$id", "$schema", "format", "pattern"})
_WORD_LISTS = frozenset({"required", "type"})
_NUMBERS = frozenset(
    {
        *("deprecated", "exclusiveMaximum", "exclusiveMinimum", "maxContains", "maxItems", "maxLength"),
        *("maxProperties", "maximum", "minContains", "minItems", "minLength", "minProperties", "minimum"),
        *("multipleOf", "nullable", "readOnly", "uniqueItems", "writeOnly"),
    }
)
# One word: letters, digits and signs without spaces and without the brackets of a mark.
_WORD = re.compile(r"[\w!-;=?-@\[-`{-~]{0,64}")


def described_tool(description: str, schema: JsonObject, wrap: Wrap) -> tuple[str, JsonObject]:
    """Return the description of a tool for a model, and the schema of its arguments."""
    shown = _Shown(wrap, _renamed(schema)).schema(schema)
    return (wrap(description) if description else ""), {**shown, "type": "object"}


def texts_of(description: str, schema: JsonObject) -> tuple[str, ...]:
    """Return the texts that are marked when a tool is described."""
    found: list[str] = []

    def note(text: str) -> str:
        found.append(text)
        return text

    described_tool(description, schema, note)
    return tuple(found)


def _is_word(value: JsonValue) -> bool:
    return isinstance(value, str) and _WORD.fullmatch(value) is not None


def _is_plain(value: JsonValue) -> bool:
    """Whether a value says nothing but one word, or many of them."""
    match value:
        case list():
            return all(map(_is_plain, value))
        case dict():
            return all(_is_word(name) and _is_plain(item) for name, item in value.items())
        case str():
            return _is_word(value)
        case _:
            return True


def _renamed(schema: JsonObject) -> dict[str, str]:
    """The references to definitions whose names are not single words, and their replacements."""
    found: dict[str, str] = {}
    for member in _DEFINITIONS:
        definitions = schema.get(member)
        for number, name in enumerate(definitions if isinstance(definitions, dict) else (), start=1):
            if not _is_word(name):
                found[f"#/{member}/{name}"] = f"definition_{number}"
    return found


@dataclass(slots=True)
class _Shown:
    """Rewrites schemas, member by member."""

    wrap: Wrap
    renamed: dict[str, str]
    moved: list[str] = field(default_factory=list)
    """Texts of the schema that move into its description because they are not single words."""

    def schema(self, schema: JsonValue) -> JsonObject:
        """Return a schema as a model may read it."""
        if not isinstance(schema, dict):
            return {}
        inner = _Shown(self.wrap, self.renamed)
        shown: JsonObject = {}
        for keyword, value in schema.items():
            kept = inner.member(keyword, value)
            if kept is not None:
                shown[keyword] = kept
        said = [schema["description"]] if isinstance(schema.get("description"), str) else []
        texts = [text for text in (*said, *inner.moved) if isinstance(text, str) and text]
        if texts:
            shown["description"] = self.wrap("\n".join(texts))
        return shown

    def member(self, keyword: str, value: JsonValue) -> JsonValue:
        """Return a member of a schema; None if it is left out or moved."""
        if keyword in _SCHEMAS:
            if isinstance(value, list):
                return [self._inner(item) for item in value]
            return self._inner(value)
        if keyword in _LISTS:
            return [self._inner(item) for item in value] if isinstance(value, list) else None
        if keyword in _MAPS or keyword in _DEFINITIONS:
            return self._map(keyword, value)
        if keyword == "title":
            return self.wrap(value) if isinstance(value, str) and value else None
        return self._leaf(keyword, value)

    def _leaf(self, keyword: str, value: JsonValue) -> JsonValue:
        if keyword in _NUMBERS:
            return value if isinstance(value, int | float) else None
        if keyword == "$ref":
            return self._reference(value)
        if keyword in _WORD_LISTS:
            words = value if isinstance(value, list) else [value]
            kept: list[JsonValue] = [word for word in words if _is_word(word)]
            return kept if isinstance(value, list) else next(iter(kept), None)
        if keyword == "dependentRequired":
            return value if _is_plain(value) else None
        if keyword in _VALUES or keyword in _WORDS:
            if _is_plain(value) if keyword in _VALUES else _is_word(value):
                return value
            self.moved.append(f"{keyword}: {text_of(value)}")
        return None

    def _inner(self, value: JsonValue) -> JsonValue:
        return value if isinstance(value, bool) else self.schema(value)

    def _map(self, keyword: str, value: JsonValue) -> JsonValue:
        shown: JsonObject = {}
        for name, schema in value.items() if isinstance(value, dict) else ():
            if _is_word(name):
                shown[name] = self._inner(schema)
            elif keyword in _DEFINITIONS:
                renamed = self.renamed.get(f"#/{keyword}/{name}")
                if renamed is not None:
                    shown[renamed] = self._inner(schema)
            else:
                self.moved.append(f"{keyword}: {text_of({name: schema})}")
        return shown

    def _reference(self, value: JsonValue) -> JsonValue:
        if not isinstance(value, str):
            return None
        renamed = self.renamed.get(unquote(value).replace("~1", "/").replace("~0", "~"))
        if renamed is not None:
            return f"{value[: value.rindex('/') + 1]}{renamed}" if "/" in value else None
        if _is_word(value):
            return value
        self.moved.append(f"$ref: {value}")
        return None
