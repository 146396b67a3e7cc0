"""Compiles the definitions of a store once, and caches them by hash.

Above it: `EmbeddedHost`. Below it: the definitions of a `RunStore`, the builder of workflows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from msgspec.structs import replace

from penstock.base import limits
from penstock.base.clock import Clock
from penstock.base.errors import Rejected
from penstock.base.ids import DEFAULT_TENANT
from penstock.base.lazy_import import lazy_import
from penstock.definitions.canonical import is_newly_signed
from penstock.definitions.model import Workflow
from penstock.engine.outcomes import Refused
from penstock.governance.authorship import (
    PROPOSED,
    PROPOSED_HINT,
    Author,
    AuthorshipRules,
    agents_behind,
    is_proposed,
    proposed_message,
)
from penstock.runtime.chains import BY_AGENT, SENT_LABEL
from penstock.runtime.definition_rows import definition_row, is_stored
from penstock.runtime.ports.platform import CallRecord
from penstock.runtime.ports.runs import (
    ANY,
    AnyHash,
    DefinitionOutcome,
    DefinitionPut,
    DefinitionRow,
)
from penstock.runtime.signatures import SignatureTrust
from penstock.runtime.tables.definitions import Definitions
from penstock.runtime.tables.runs.store import RunStore

__all__ = ["StoredWorkflows", "proposed_refusal"]

if TYPE_CHECKING:
    from penstock.definitions.build import workflow as build
else:
    build = lazy_import("penstock.definitions.build.workflow")


@dataclass(slots=True, kw_only=True)
class StoredWorkflows:
    """The part of a host that compiles workflows and caches them by hash."""

    store: RunStore
    clock: Clock
    trust: SignatureTrust = field(default_factory=SignatureTrust)
    """Whose definitions are stored and started."""
    authorship: AuthorshipRules = field(default_factory=AuthorshipRules)
    """Whose definitions have to be accepted before they are started. A gate sets it."""
    _accepted: dict[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    """The agents that wrote a version which may start, by tenant and hash: an accepted version stays accepted."""
    _workflows: dict[str, Workflow] = field(default_factory=dict)

    async def register(
        self,
        workflow: Workflow,
        *,
        tenant: str = DEFAULT_TENANT,
        created_by: str | None = None,
        author: Author | None = None,
        expected_hash: str | AnyHash | None = ANY,
        call: Callable[[DefinitionRow], CallRecord | None] = lambda row: None,
    ) -> DefinitionOutcome:
        """Store a definition: new runs of its name use it, existing runs keep theirs.

        With `expected_hash`, only if that is the newest of the name now; None: only if the name is free. `call` returns
        the record of the call that stores it; `author` is who wrote the version, if somebody else than the program did.
        Raises `Rejected` if the definition has to be signed and is not.
        """
        self.trust.refuse(workflow.name, workflow.document, workflow.hash)
        known = await self.store.definitions.find_named(workflow.name, tenant=tenant) if expected_hash is ANY else None
        if known is None or not is_stored(known, workflow, author):
            row = definition_row(workflow, tenant=tenant, created_by=created_by, at=self.clock.now_ms(), author=author)
            outcome = await self.store.definitions.put(row, expected_hash=expected_hash, call=call(row))
            if not isinstance(outcome, DefinitionPut):
                return outcome
            self._accepted.pop((tenant, workflow.hash), None)  # it may have another author now
        self._workflows[workflow.hash] = workflow
        return DefinitionPut()

    async def workflow(self, definition_hash: str, *, tenant: str | None = None) -> Workflow | None:
        """Return a compiled definition by hash; with a tenant, only if that tenant has stored it.

        Raises `Rejected` if definitions have to be signed and somebody has changed this one in the store.
        """
        if tenant is not None and await self.store.definitions.find(definition_hash, tenant=tenant) is None:
            return None
        workflow = self._workflows.get(definition_hash)
        if workflow is None:
            stored = await self.store.definitions.find(definition_hash)
            if stored is None:
                return None
            workflow = await asyncio.to_thread(build.build_workflow, stored.document)
            if self.trust.mode == "require" and workflow.hash != definition_hash:
                message = f"the definition {definition_hash[:12]} ({workflow.name}) was changed in the store"
                raise Rejected("SIGNATURE_INVALID", message, "store it again, signed, or restore a backup")
            self._workflows[definition_hash] = workflow
        return workflow

    def follow_authors(self, rules: AuthorshipRules) -> None:
        """Start no version from now on that has to be accepted by these rules, and is not."""
        self.authorship = rules

    async def start_refusal(
        self, workflow: Workflow, tenant: str, labels: Mapping[str, str] | None = None
    ) -> Refused | None:
        """Return why a tenant may not start a definition, because of its signature or its author; None if it may."""
        refused = None if self.trust.mode == "off" else await self.untrusted(workflow)
        if refused is None and self.authorship.enforced and (labels or {}).get(SENT_LABEL) != workflow.hash:
            return await self.proposed(workflow, tenant)
        return refused

    async def untrusted(self, workflow: Workflow) -> Refused | None:
        """Return why an unsigned definition may not be started; None if it may.

        It may have been signed after it was read.
        """
        refused = self.trust.refusal(workflow.name, workflow.document, workflow.hash)
        if refused is None:
            return None
        stored = await self.store.definitions.find(workflow.hash)
        if stored is not None and is_newly_signed(workflow.document, stored.document):
            refused = self.trust.refusal(workflow.name, stored.document, workflow.hash)
            if refused is None:
                self._workflows[workflow.hash] = replace(workflow, document=stored.document)
                return None
        return Refused(refused.code or "SIGNATURE_INVALID", f"{workflow.name}: {refused.message}", hint=refused.hint)

    async def proposed(self, workflow: Workflow, tenant: str) -> Refused | None:
        """Return the refusal for a version that is proposed and not yet accepted; None otherwise.

        Versions that the server writes itself belong to no tenant. The call that they stand for is checked when it is
        made.
        """
        if (tenant, workflow.hash) in self._accepted:
            return None
        refused = await proposed_refusal(self.store.definitions, workflow, tenant, self.authorship)
        if refused is not None:
            return refused
        stored = await self.store.definitions.find(workflow.hash, tenant=tenant)
        if len(self._accepted) >= limits.ACCEPTED_VERSIONS_KEPT:
            self._accepted.clear()
        self._accepted[tenant, workflow.hash] = () if stored is None else agents_behind(stored.author)
        return None

    def with_author(self, labels: dict[str, str] | None, workflow: Workflow, tenant: str) -> dict[str, str]:
        """Return the labels of a run that `start_refusal` lets start; they tell whether an agent wrote its version."""
        by_agent = self.agents_behind(workflow, tenant)
        return {**(labels or {}), **BY_AGENT} if by_agent else labels or {}

    def agents_behind(self, workflow: Workflow, tenant: str) -> tuple[str, ...]:
        """Return the agents that wrote a version which `start_refusal` lets start, and who is behind them."""
        return self._accepted.get((tenant, workflow.hash), ()) if self.authorship.enforced else ()

    async def workflow_named(self, name: str, *, tenant: str = DEFAULT_TENANT) -> Workflow | None:
        """Return the newest definition of a tenant's workflow name."""
        stored = await self.store.definitions.find_named(name, tenant=tenant)
        return None if stored is None else await self.workflow(stored.hash)


async def proposed_refusal(
    definitions: Definitions, workflow: Workflow, tenant: str, rules: AuthorshipRules
) -> Refused | None:
    """The refusal for a version that is proposed in a tenant and not yet accepted."""
    stored = await definitions.find(workflow.hash, tenant=tenant)
    if stored is None or not is_proposed(stored.author, rules):
        return None
    message = proposed_message(f"workflow {workflow.name}", stored.author, workflow.hash)
    return Refused(PROPOSED, message, hint=PROPOSED_HINT)
