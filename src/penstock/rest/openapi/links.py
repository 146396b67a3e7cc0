"""Links of the OpenAPI document: what can be called next with an id that an answer has.

Only answers of calls that make something have links; they follow from the names: the `execution_id` of an answer fits
the `execution_id` of a path, and the `id` of a new workflow the `workflow_id`.

Above it: `document`, `responses`. Below it: the catalogue.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from penstock.base.json import JsonObject
from penstock.operations.catalogue.capability import Capability, Route
from penstock.rest.openapi.requests import PATH_NAME

__all__ = ["Links"]

_MAKES = frozenset({201, 202})


class Links:
    """Which paths take which single id."""

    def __init__(self, served: Iterable[tuple[Capability, Route]]) -> None:
        self._taking: dict[str, list[str]] = {}
        for capability, route in served:
            names = PATH_NAME.findall(route.path)
            if len(names) == 1:
                self._taking.setdefault(names[0], []).append(capability.name)

    def of(self, capability: Capability, route: Route, output: JsonObject) -> dict[str, JsonObject]:
        """The links of an answer, by the name of what they lead to."""
        if route.status not in _MAKES:
            return {}
        return {
            target: {"operationId": target, "parameters": {parameter: f"$response.body#{pointer}"}}
            for pointer, parameter in _ids(capability, output)
            for target in self._taking.get(parameter, ())
        }


def _ids(capability: Capability, output: JsonObject) -> list[tuple[str, str]]:
    """Where an answer has an id, and which parameter takes it."""
    properties = output.get("properties")
    members: dict[str, Any] = properties if isinstance(properties, dict) else {}
    if not members and "anyOf" in output:
        # Handle or view: both have what a handle has.
        return [("/execution_id", "execution_id")]
    found = [(f"/{name}", name) for name in members if name.endswith("_id") and name != "workflow_id"]
    if "id" in members:
        found.append(("/id", f"{capability.resource}_id"))
    return found
