"""Parts that an OpenAPI document holds once, under `components`, and operations share: schemas, refusals, links.

Only responses of calls that create something have links. They follow from the names: the `execution_id` of a response
fits the `execution_id` of a path, and the `id` of a new workflow fits `workflow_id`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from penstock.base.json import JsonObject, JsonValue
from penstock.operations.catalogue.capability import Capability, Route
from penstock.rest.openapi.requests import PATH_NAME
from penstock.rest.problems import PROBLEM_SCHEMA

__all__ = ["Components", "Links"]

_UNIQUE = re.compile(r"[^A-Za-z0-9]+")
_MAKES = frozenset({201, 202})


class Components:
    """The shared parts by name; different parts with the same name get different names."""

    def __init__(self) -> None:
        self.schemas: JsonObject = {"Problem": PROBLEM_SCHEMA}
        self.responses: JsonObject = {}
        self.links: JsonObject = {}

    def response(self, name: str, response: JsonObject) -> JsonObject:
        """Add a response and return a reference to it; equal ones are stored once."""
        return {"$ref": f"#/components/responses/{_kept(self.responses, name, response)}"}

    def link(self, name: str, link: JsonObject) -> JsonObject:
        """Add a link and return a reference to it; equal ones are stored once."""
        return {"$ref": f"#/components/links/{_kept(self.links, name, link)}"}

    def hoist(self, owner: str, schema: JsonObject) -> JsonObject:
        """Return a schema whose `$defs` have become components."""
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
    """Return a schema that refers to components; a definition without a new name keeps its own."""
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


class Links:
    """Finds links by parameter: the operations whose path takes a single id."""

    def __init__(self, served: Iterable[tuple[Capability, Route]]) -> None:
        self._taking: dict[str, list[str]] = {}
        for capability, route in served:
            names = PATH_NAME.findall(route.path)
            if len(names) == 1:
                self._taking.setdefault(names[0], []).append(capability.name)

    def of(self, capability: Capability, route: Route, output: JsonObject) -> dict[str, JsonObject]:
        """Return the links of a response, by target operation."""
        if route.status not in _MAKES:
            return {}
        return {
            target: {"operationId": target, "parameters": {parameter: f"$response.body#{pointer}"}}
            for pointer, parameter in _ids(capability, output)
            for target in self._taking.get(parameter, ())
        }


def _ids(capability: Capability, output: JsonObject) -> list[tuple[str, str]]:
    """Return where a response has an id, and which parameter takes it."""
    properties = output.get("properties")
    members: dict[str, Any] = properties if isinstance(properties, dict) else {}
    if not members and "anyOf" in output:
        # The response is a handle or a view; both have the members of a handle.
        return [("/execution_id", "execution_id")]
    found = [(f"/{name}", name) for name in members if name.endswith("_id") and name != "workflow_id"]
    if "id" in members:
        found.append(("/id", f"{capability.resource}_id"))
    return found
