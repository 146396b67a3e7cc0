"""The JSON Schema of `penstock.yaml`, for editors and other tools, made from the declarations.

Above it: `penstock config schema`. Below it: the declarations and their types. It checks nothing itself; `sources`
checks what a schema cannot express (networks, rules between keys).
"""

from __future__ import annotations

from penstock.app.settings.declarations import FOREIGN_SPELLINGS, Section
from penstock.app.settings.model import settings_outline
from penstock.base.json import JsonObject

__all__ = ["settings_schema"]

_DEFINITIONS: JsonObject = {
    "secret": {
        "title": "Where to find a secret",
        "description": "An environment variable, a file, or a program that prints it; never the value itself.",
        "type": "object",
        "properties": {
            "env": {
                "type": "string",
                "pattern": "^[A-Za-z_][A-Za-z0-9_]*$",
                "description": "The variable that holds it.",
            },
            "file": {"type": "string", "minLength": 1, "description": "The file that holds it."},
            "command": {
                "type": "array",
                "items": {"type": "string"},
                "minItems": 1,
                "description": "The program that prints it, and its arguments; no shell is involved.",
            },
        },
        "additionalProperties": False,
        "minProperties": 1,
        "maxProperties": 1,
    }
}


def settings_schema() -> JsonObject:
    """The schema of `penstock.yaml`."""
    whole = _section(settings_outline())
    members = whole["properties"]
    assert isinstance(members, dict)
    spelt = {theirs: members[ours] for theirs, ours in FOREIGN_SPELLINGS.items()}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Settings of Penstock (penstock.yaml)",
        **whole,
        "properties": {**members, **spelt},
        "$defs": _DEFINITIONS,
    }


def _section(section: Section) -> JsonObject:
    members: JsonObject = {
        name: _section(member) if isinstance(member, Section) else member.schema()
        for name, member in section.members.items()
    }
    # A section with all its lines commented out is null.
    return {
        "type": ["object", "null"],
        "description": section.description,
        "properties": members,
        "additionalProperties": False,
    }
