"""What a tool is, and the book of those that a caller has.

Above it: `tools` makes books, `toolsets` chooses from them. Below it: capabilities of the gate. Nothing here knows the
SDK.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.base.json import JsonObject
from penstock.operations.capability import Capability

__all__ = ["CATALOGUE", "Tool", "ToolBook", "listed_tool"]

CATALOGUE = "catalogue"
"""The populator of tools that the surface answers itself."""

_META = "penstock/"


@dataclass(frozen=True, slots=True)
class Tool:
    """A capability as a tool; `listed` is how it stands in a list, in the words of the wire."""

    name: str
    capability: Capability
    listed: JsonObject

    @property
    def starts_execution(self) -> bool:
        """Whether a call starts a workflow of the tenant's."""
        return self.capability.populator == "workflow"


@dataclass(frozen=True, slots=True)
class ToolBook:
    """The tools of a caller, in order, and every spelling under which each is found."""

    tools: tuple[Tool, ...]
    spellings: dict[str, Tool] = field(repr=False)
    operations: frozenset[str] = field(repr=False)
    """Everything that the caller may call through the gate, whether it is a tool or not."""

    def find(self, name: str) -> Tool | None:
        """A tool by any spelling of its name."""
        return self.spellings.get(name)

    def name_of(self, operation: str) -> str | None:
        """What an operation is called here; None if the caller has no such tool."""
        found = self.spellings.get(operation)
        return found.name if found else None


def listed_tool(name: str, capability: Capability, *, output_schemas: bool) -> Tool:
    """A capability under a name. `output_schemas` is about built-in operations; workflows always have theirs."""
    hints = capability.annotations
    listed: JsonObject = {
        "name": name,
        "title": capability.title,
        "description": capability.description,
        "inputSchema": capability.input_schema,
        "annotations": {
            "title": capability.title,
            "readOnlyHint": hints.read_only,
            "destructiveHint": hints.destructive,
            "idempotentHint": hints.idempotent,
            "openWorldHint": hints.open_world,
        },
    }
    if capability.output_schema is not None and (output_schemas or capability.populator != "builtin"):
        listed["outputSchema"] = capability.output_schema
    if capability.populator == "workflow":
        listed["_meta"] = {
            f"{_META}{key}": capability.metadata[key] for key in ("workflow", "version", "hash", "schema_hash")
        }
    return Tool(name, capability, listed)
