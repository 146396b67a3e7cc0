"""What a tenant exposes to assistants, as data: its tools, resources and prompts, and all its workflows at one moment.

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

__all__ = ["ExposedPrompt", "ExposedResource", "Exposure", "Exposures", "PromptText", "TenantWorkflows"]


@dataclass(frozen=True, slots=True)
class TenantWorkflows:
    """The workflows of a tenant at one moment."""

    hashes: Mapping[str, str] = field(default_factory=dict)
    words: tuple[tuple[str, str, str], ...] = ()
    """How they stand in a list: name, title, description."""

    @classmethod
    def of(cls, rows: Iterable[DefinitionRow]) -> TenantWorkflows:
        """These."""
        ordered = sorted(rows, key=lambda row: row.name)
        words = [(row.name, str(row.document.get("title")), str(row.document.get("description"))) for row in ordered]
        return cls({row.name: row.hash for row in ordered}, tuple(words))

    def changed_since(self, before: TenantWorkflows) -> Set[str]:
        """The names of those that are new, gone or other than before."""
        names = self.hashes.keys() | before.hashes.keys()
        return {name for name in names if self.hashes.get(name) != before.hashes.get(name)}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExposedResource:
    """A workflow whose result stands at an address."""

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
class PromptText:
    """A message of a prompt before its arguments are shown in it."""

    role: Literal["user", "assistant"]
    text: str

    def filled(self, given: Mapping[str, str]) -> str:
        """What is said with these arguments."""
        return filled_text(self.text, given)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExposedPrompt:
    """A workflow that people may choose as a prompt."""

    name: str
    workflow_id: str
    tool: str | None
    """What the workflow is called as a tool, if it is one."""
    title: str | None
    description: str | None
    icons: list[JsonValue]
    input_schema: JsonObject
    messages: tuple[PromptText, ...]
    """What it says; without, and unless it runs, it asks for a run of the workflow."""
    runs: bool
    """Whether its messages are what the workflow gives."""
    capability: Capability


@dataclass(frozen=True, slots=True, kw_only=True)
class Exposure:
    """What a tenant shows to assistants. `revision` is another one whenever any of it is."""

    tools: Mapping[str, Capability] = field(default_factory=lambda: MappingProxyType({}))
    """By canonical name, in its order."""
    prompts: Mapping[str, ExposedPrompt] = field(default_factory=lambda: MappingProxyType({}))
    resources: Mapping[str, ExposedResource] = field(default_factory=lambda: MappingProxyType({}))
    """By address or template, in its order."""
    contents: Mapping[str, Capability] = field(default_factory=lambda: MappingProxyType({}))
    """What reads prompts and resources, by canonical name."""
    handlers: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Which workflow handles what clients ask of the server: `sampling`, `elicitation`, `roots`."""
    hashes: tuple[str, ...] = ()
    workflows: TenantWorkflows = field(default_factory=TenantWorkflows)
    """Every workflow of the tenant, exposed or not."""
    revision: int = 0
    read_at: int = 0
    mark: int = 0
    """Of the store, before it was read."""


class Exposures(Protocol):
    """Finds what each tenant exposes. The gate looks there for what the catalogue does not have; surfaces list it."""

    def changed(self, tenant: str, *, quietly: bool = False) -> None:
        """Read a tenant's workflows again before they are shown next; tell the listeners, unless `quietly`."""

    def listen(self, hear: Callable[[str], None]) -> None:
        """Call this with each tenant whose workflows are changed here, until `leave`."""

    def leave(self, hear: Callable[[str], None]) -> None:
        """Do not call this any more."""

    async def of(self, tenant: str) -> Exposure:
        """What a tenant exposes now."""

    def at_hand(self, tenant: str) -> Exposure | None:
        """What a tenant exposes, if it is known without reading anything."""

    async def find(self, tenant: str, name: str) -> Capability | None:
        """What is exposed under a canonical name."""
