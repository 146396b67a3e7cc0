"""Values as commands take them: JSON, @FILE, NAME=JSON pairs, labels and durations.

Above it: the commands. A value that cannot be read is a `UsageError`, which ends a command with 2.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping

from penstock.base.json import JsonObject, JsonValue
from penstock.cli.terminal.files import SourceText, Unreadable, read_path
from penstock.definitions.durations import parse_instant_ms, parse_native_duration_ms
from penstock.definitions.source.document import SourceDocument, read_source

__all__ = [
    "UsageError",
    "loose_value",
    "parse_fields",
    "parse_json",
    "parse_labels",
    "parse_pairs",
    "parse_since",
    "parse_value",
    "read_fields",
]


class UsageError(Exception):
    """An argument or option that cannot be read."""


def parse_json(text: str) -> JsonValue:
    """Strict JSON: no NaN, no infinities; ValueError otherwise."""
    value: JsonValue = json.loads(text, parse_constant=_refuse_constant, parse_float=_finite)
    return value


def parse_value(text: str, option: str) -> JsonValue:
    """A JSON value, or the content of @FILE (YAML or JSON)."""
    if text.startswith("@"):
        source = read_path(text[1:])
        if isinstance(source, Unreadable):
            raise UsageError(f"{option}: {source.label}: {source.message}")
        return _parsed(source, option)
    try:
        return parse_json(text)
    except (ValueError, RecursionError):
        raise UsageError(f"{option}: {text!r} is not JSON; quote it for the shell, or use @FILE") from None


def parse_pairs(options: Iterable[str] | None, option: str) -> JsonObject:
    """NAME=JSON pairs; @FILE adds all members of an object."""
    pairs: JsonObject = {}
    for text in options or ():
        if text.startswith("@"):
            members = parse_value(text, option)
            pairs.update(members if isinstance(members, dict) else {})
            continue
        name, separator, value = text.partition("=")
        if not separator:
            raise UsageError(f"{option} takes NAME=JSON or @FILE, not {text!r}")
        pairs[name] = parse_value(value, f"{option} {name}")
    return pairs


def loose_value(text: str) -> JsonValue:
    """JSON if it reads as JSON, the text itself otherwise: `approve=true comment=fine`."""
    try:
        return parse_json(text)
    except (ValueError, RecursionError):
        return text


def parse_fields(words: Iterable[str] | None, option: str) -> dict[str, str]:
    """KEY=VALUE arguments, not read yet; `option` is the one that takes everything as JSON."""
    fields: dict[str, str] = {}
    for text in words or ():
        name, separator, value = text.partition("=")
        if not separator or not name:
            raise UsageError(f"arguments are KEY=VALUE, not {text!r}; {option} takes JSON")
        fields[name] = value
    return fields


def read_fields(fields: Mapping[str, str], schema: JsonObject) -> JsonObject:
    """The values of fields. Where the schema wants a string, a value stays one, even if it looks like a number."""
    properties = schema.get("properties")
    known = properties if isinstance(properties, dict) else {}
    found: JsonObject = {}
    for name, text in fields.items():
        wanted = known.get(name)
        kind = wanted.get("type") if isinstance(wanted, dict) else None
        found[name] = text if kind == "string" else loose_value(text)
    return found


def parse_labels(options: Iterable[str] | None) -> dict[str, str]:
    """KEY=VALUE pairs of plain text."""
    labels: dict[str, str] = {}
    for text in options or ():
        name, separator, value = text.partition("=")
        if not separator or not name:
            raise UsageError(f"--label takes KEY=VALUE, not {text!r}")
        labels[name] = value
    return labels


def parse_since(text: str, now_ms: int) -> int:
    """A moment: a timestamp (`2026-11-15T10:00Z`), or how long ago (`2h`, `7d`)."""
    moment = parse_instant_ms(text)
    if moment is not None:
        return moment
    ago_ms = parse_native_duration_ms(text)
    if ago_ms is None:
        raise UsageError(f"--since takes a length of time (`2h`, `7d`) or a timestamp, not {text!r}")
    return now_ms - ago_ms


def _parsed(source: SourceText, option: str) -> JsonValue:
    document = read_source(source.text, file=source.label)
    if not isinstance(document, SourceDocument):
        raise UsageError(f"{option}: {document[0].location}: {document[0].message}")
    return document.value


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"{text} is too large a number")
    return value
