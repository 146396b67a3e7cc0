"""What a tenant exposes to assistants, as data: its tools, resources and prompts, and a snapshot of all its workflows.

Above it: `exposed` makes these, the gate finds capabilities in them, surfaces list them. Below it: `capability`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, Protocol

from penstock.base.addresses import AddressTemplate
from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.jq.prompt_texts import filled_text
from penstock.operations.catalogue.capability import Capability
from penstock.runtime.ports.runs import DefinitionRow
from penstock.runtime.ports.topics import Mark
from penstock.runtime.upstreams.tools import READS_RESOURCES, UpstreamResource

__all__ = [
    "RESOURCE_READER",
    "ExposedGraph",
    "ExposedPrompt",
    "ExposedResource",
    "Exposure",
    "Exposures",
    "ImportedResource",
    "PromptText",
    "TenantWorkflows",
]

RESOURCE_READER = READS_RESOURCES[1]
"""What a server's tool that reads one of its resources is called there."""


@dataclass(frozen=True, slots=True)
class TenantWorkflows:
    """A snapshot of the workflows of a tenant."""

    hashes: Mapping[str, str] = field(default_factory=dict)
    words: tuple[tuple[str, str, str], ...] = ()
    """Their entries in a list: name, title, description."""

    @classmethod
    def of(cls, rows: Iterable[DefinitionRow]) -> TenantWorkflows:
        """Make a snapshot of these rows."""
        ordered = sorted(rows, key=lambda row: row.name)
        words = [(row.name, str(row.document.get("title")), str(row.document.get("description"))) for row in ordered]
        return cls({row.name: row.hash for row in ordered}, tuple(words))

    def changed_since(self, before: TenantWorkflows) -> Set[str]:
        """Return the names of the workflows that were added, removed or changed."""
        names = self.hashes.keys() | before.hashes.keys()
        return {name for name in names if self.hashes.get(name) != before.hashes.get(name)}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExposedResource:
    """A workflow whose result is a resource at an address."""

    address: AddressTemplate
    name: str
    workflow_id: str
    title: str | None
    description: str | None
    mime_type: str | None
    result: Literal["data", "content"]
    icons: list[JsonValue]
    input_schema: JsonObject
    capability: Capability


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedResource:
    """A resource of another MCP server, or a template of resources; `capability` reads it."""

    server: str
    listed: UpstreamResource
    capability: Capability


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptText:
    """A message of a prompt, before its arguments are filled in."""

    role: Literal["user", "assistant"]
    text: str

    def filled(self, given: Mapping[str, str]) -> str:
        """Return the text with these arguments filled in."""
        return filled_text(self.text, given)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExposedPrompt:
    """A workflow that people may choose as a prompt."""

    name: str
    workflow_id: str
    tool: str | None
    """The name of the workflow as a tool, if it is exposed as one."""
    title: str | None
    description: str | None
    icons: list[JsonValue]
    input_schema: JsonObject
    messages: tuple[PromptText, ...]
    """Its messages. If it has none and does not run, the prompt asks for a run of the workflow."""
    runs: bool
    """Whether a run of the workflow produces the messages."""
    capability: Capability


@dataclass(frozen=True, slots=True, kw_only=True)
class ExposedGraph:
    """A graph as assistants reach it."""

    graph_id: str
    title: str
    queries: tuple[str, ...] = ()
    """The canonical names of its exposed queries, sorted."""
    as_pair: bool = False
    """Whether the queries are offered through one tool that lists them and one that runs them."""
    allows_adhoc: bool = False
    """Whether callers may send queries of their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exposure:
    """What a tenant exposes to assistants. `revision` changes whenever any of it does."""

    tools: Mapping[str, Capability] = field(default_factory=lambda: MappingProxyType({}))
    """By canonical name, sorted."""
    prompts: Mapping[str, ExposedPrompt] = field(default_factory=lambda: MappingProxyType({}))
    resources: Mapping[str, ExposedResource] = field(default_factory=lambda: MappingProxyType({}))
    """By address or template, sorted."""
    imported: tuple[ImportedResource, ...] = ()
    """Resources of other servers."""
    contents: Mapping[str, Capability] = field(default_factory=lambda: MappingProxyType({}))
    """The capabilities that read prompts and resources, by canonical name."""
    unlisted: Mapping[str, Capability] = field(default_factory=lambda: MappingProxyType({}))
    """Capabilities that can be called, by canonical name, and that no list shows."""
    graphs: Mapping[str, ExposedGraph] = field(default_factory=lambda: MappingProxyType({}))
    """The graphs of the tenant, by id, sorted."""
    handlers: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """The workflow that handles each kind of request: `sampling`, `elicitation`, `roots`."""
    hashes: tuple[str, ...] = ()
    workflows: TenantWorkflows = field(default_factory=TenantWorkflows)
    """Every workflow of the tenant, exposed or not."""
    revision: int = 0
    read_at: int = 0
    mark: Mark = ()
    """What the store said of changes before it was read."""

    def found(self, name: str) -> Capability | None:
        """Return the capability with a canonical name, listed or not."""
        return self.tools.get(name) or self.contents.get(name) or self.unlisted.get(name)


class Exposures(Protocol):
    """Finds what each tenant exposes. The gate looks here for names that the catalogue lacks; surfaces list it."""

    def changed(self, tenant: str, *, quietly: bool = False) -> None:
        """Read a tenant's workflows again before they are next used; notify the listeners, unless `quietly`."""

    def listen(self, callback: Callable[[str], None]) -> None:
        """Call this with each tenant whose workflows this process changes, until `leave`."""

    def leave(self, callback: Callable[[str], None]) -> None:
        """Remove a listener."""

    async def of(self, tenant: str) -> Exposure:
        """Return what a tenant exposes now."""

    def at_hand(self, tenant: str) -> Exposure | None:
        """Return what a tenant exposes, if it is cached; None if it has to be read."""

    def mark_of_lists(self) -> Mark:
        """Return what differs once any process has stored something that may change what a caller sees in a list."""

    async def find(self, tenant: str, name: str) -> Capability | None:
        """Return the capability that is exposed under a canonical name."""
