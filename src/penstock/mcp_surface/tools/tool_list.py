"""What a tool is, and the list of a caller's tools. `registry` builds the lists, `toolsets` narrows them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from penstock.base.encoding import encode_bytes
from penstock.base.json import JsonObject
from penstock.mcp_surface.tools.naming import UNCHANGED, ToolNaming
from penstock.operations.catalogue.capability import QUERY, REGISTERED_TOOL, Capability
from penstock.operations.catalogue.profile_names import short_metadata
from penstock.operations.runs.tool_schemas import or_standing

__all__ = [
    "BYTES_PER_TOKEN",
    "CATALOGUE",
    "CATALOGUE_META",
    "Tool",
    "ToolList",
    "catalogue_bytes",
    "catalogue_size",
    "listed_tool",
    "pinned_version",
    "tool_listing",
]

BYTES_PER_TOKEN = 4
"""Roughly how many bytes of JSON make a token of a language model."""

CATALOGUE = "catalogue"
"""The populator of tools that the surface itself answers."""

CATALOGUE_META = "penstock/catalogue"
"""The key in a tool list's metadata that holds the size of the catalogue."""

_META = "penstock/"
# Who makes capabilities whose calls start executions.
_STARTS = frozenset({"workflow", "upstream", REGISTERED_TOOL})
# The version of the workflow that a call runs, and a digest of its schemas; both change only with the workflow.
_PINNED = ("workflow", "version", "hash", "schema_hash")


@dataclass(frozen=True, slots=True)
class Tool:
    """A capability as a tool; `listed` is its entry in `tools/list`."""

    name: str
    capability: Capability
    listed: JsonObject
    fixed: JsonObject = field(default_factory=dict)
    """Arguments that every call has, whatever its caller says."""
    renamed: Mapping[str, str] = field(default_factory=dict)
    """Other spellings of arguments, and what they are called here."""

    def arguments(self, given: JsonObject) -> JsonObject:
        """Return the arguments of a call from those that its caller gave."""
        if not self.fixed and not self.renamed:
            return given
        # With both spellings, the gate refuses the other one: no operation has an argument of that name.
        spelt = {
            name: value for name, value in given.items() if name not in self.renamed or self.renamed[name] in given
        }
        spelt |= {self.renamed[name]: value for name, value in given.items() if name not in spelt}
        return {**spelt, **self.fixed}

    @property
    def starts_execution(self) -> bool:
        """Whether a call starts a run: of a workflow, or of a registered or imported tool."""
        return self.capability.populator in _STARTS

    @property
    def follows_execution(self) -> bool:
        """Whether a call may wait for the run that it starts: also one that gives work to an agent."""
        route = self.capability.route
        return self.starts_execution or (route is not None and route.streams)

    @property
    def withheld(self) -> bool:
        """Whether it is not listed; a caller who calls it anyway gets the reason."""
        return self.capability.metadata.get("withheld") is True


@dataclass(frozen=True, slots=True)
class ToolList:
    """The tools of a caller, in order, and every spelling under which each is found."""

    tools: tuple[Tool, ...]
    spellings: dict[str, Tool] = field(repr=False)
    operations: frozenset[str] = field(repr=False)
    """Everything that the caller may call through the gate, whether it is a tool or not."""
    naming: ToolNaming = field(default=UNCHANGED, repr=False)
    """How texts for models name the tools."""

    def size(self) -> JsonObject:
        """Return the size of the list, which takes up the context of a model that reads it."""
        return catalogue_size(self.tools)

    def find(self, name: str) -> Tool | None:
        """Find a tool by any spelling of its name."""
        return self.spellings.get(name)

    def name_of(self, operation: str) -> str | None:
        """Return the tool name of an operation; None if the caller has no such tool."""
        found = self.spellings.get(operation)
        return found.name if found else None


def catalogue_bytes(tools: Iterable[Tool]) -> int:
    """Return the size of a list of these tools."""
    return sum(len(encode_bytes(tool.listed)) + 1 for tool in tools)


def catalogue_size(tools: Sequence[Tool]) -> JsonObject:
    """Return the size of a list of these tools: how many, and about how many tokens."""
    size = catalogue_bytes(tools)
    return {"tools": len(tools), "bytes": size, "tokens": -(-size // BYTES_PER_TOKEN)}


def tool_listing(tools: Sequence[Tool]) -> JsonObject:
    """Return the members of a `tools/list` result that every revision of the protocol has."""
    return {"tools": [tool.listed for tool in tools], "_meta": {CATALOGUE_META: catalogue_size(tools)}}


def pinned_version(capability: Capability) -> JsonObject:
    """Return which version of which workflow a call runs."""
    known = [key for key in _PINNED if key in capability.metadata]
    return {f"{_META}{key}": capability.metadata[key] for key in known}


def listed_tool(name: str, capability: Capability, *, output_schemas: bool, naming: ToolNaming = UNCHANGED) -> Tool:
    """Build the tool of a capability under a name.

    `output_schemas` and `naming` apply to built-in operations only: workflows always have their output schemas, and
    texts of authors stay as they wrote them.
    """
    wording = naming if capability.is_builtin else UNCHANGED
    listed: JsonObject = {
        "name": name,
        "title": capability.title,
        "description": wording.of(capability.description),
        "inputSchema": wording.of_schema(capability.input_schema),
        "annotations": _hints(capability),
    }
    if capability.output_schema is not None and (output_schemas or not capability.is_builtin):
        own = wording.of_schema(capability.output_schema)
        # Those that start executions say by themselves that they may have no result yet.
        listed["outputSchema"] = own if capability.populator in _STARTS else or_standing(own)
    if capability.metadata.get("icons"):
        listed["icons"] = capability.metadata["icons"]
    if capability.populator == "workflow":
        listed["_meta"] = pinned_version(capability)
    if capability.populator == "upstream":
        listed["_meta"] = {f"{_META}{key}": capability.metadata.get(key) for key in ("server", "upstream", "hash")}
    if capability.populator == QUERY:
        listed["_meta"] = {f"{_META}{key}": capability.metadata.get(key) for key in ("graph", "query", "hash")}
    if capability.populator == REGISTERED_TOOL:
        listed["_meta"] = {f"{_META}{key}": capability.metadata.get(key) for key in ("tool", "hash")}
    governance = short_metadata(capability)
    if governance:
        known = listed.get("_meta")
        listed["_meta"] = {**(known if isinstance(known, dict) else {}), f"{_META}governance": governance}
    return Tool(name, capability, listed)


def _hints(capability: Capability) -> JsonObject:
    """Return the annotations of a tool, without the protocol's defaults, except those that clients ask people about."""
    annotations = capability.annotations
    hints: JsonObject = {
        "title": capability.title,
        "readOnlyHint": annotations.read_only,
        "destructiveHint": annotations.destructive,
    }
    if annotations.idempotent:
        hints["idempotentHint"] = True
    if not annotations.open_world:
        hints["openWorldHint"] = False
    return hints
