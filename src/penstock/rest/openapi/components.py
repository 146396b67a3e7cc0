"""What an OpenAPI document has once, under `components`, however many operations use it: schemas, refusals, links.

Above it: `document` and its parts. Below it: nothing but schemas.
"""

from __future__ import annotations

import re
from typing import Any

from penstock.base.json import JsonObject, JsonValue
from penstock.rest.problems import PROBLEM_SCHEMA

__all__ = ["Components"]

_UNIQUE = re.compile(r"[^A-Za-z0-9]+")


class Components:
    """Parts by name; two different ones of one name are told apart."""

    def __init__(self) -> None:
        self.schemas: JsonObject = {"Problem": PROBLEM_SCHEMA}
        self.responses: JsonObject = {}
        self.links: JsonObject = {}

    def response(self, name: str, response: JsonObject) -> JsonObject:
        """A reference to a response; equal ones are kept once."""
        return {"$ref": f"#/components/responses/{_kept(self.responses, name, response)}"}

    def link(self, name: str, link: JsonObject) -> JsonObject:
        """A reference to a link; equal ones are kept once."""
        return {"$ref": f"#/components/links/{_kept(self.links, name, link)}"}

    def hoist(self, owner: str, schema: JsonObject) -> JsonObject:
        """A schema whose `$defs` have become components."""
        definitions = schema.get("$defs")
        body = {name: value for name, value in schema.items() if name != "$defs"}
        if not isinstance(definitions, dict):
            return body
        names = {name: self._name(owner, name, definition) for name, definition in definitions.items()}
        for name, definition in definitions.items():
            self.schemas[names[name]] = _renamed(definition, names)
        renamed = _renamed(body, names)
        return renamed if isinstance(renamed, dict) else body

    def _name(self, owner: str, name: str, definition: JsonValue) -> str:
        taken = self.schemas.get(name)
        same = taken is None or taken == _renamed(definition, {})
        return name if same else f"{_UNIQUE.sub('_', owner)}_{name}"


def _kept(kept: JsonObject, name: str, part: JsonObject) -> str:
    chosen, number = name, 1
    while kept.setdefault(chosen, part) != part:
        number += 1
        chosen = f"{name}_{number}"
    return chosen


def _renamed(value: Any, names: dict[str, str]) -> Any:
    """A schema that refers to components; a definition without a new name keeps its own."""
    if isinstance(value, list):
        return [_renamed(item, names) for item in value]
    if not isinstance(value, dict):
        return value
    reference = value.get("$ref")
    if isinstance(reference, str) and reference.startswith("#/$defs/"):
        name = reference.rpartition("/")[2]
        others = {key: item for key, item in value.items() if key != "$ref"}
        return {"$ref": f"#/components/schemas/{names.get(name, name)}", **others}
    return {name: _renamed(item, names) for name, item in value.items()}
