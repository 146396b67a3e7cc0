"""Who wrote what is in a list, and which held calls would store something more.

A version that somebody proposed is a held call until a person accepts it. Its run carries labels with the kind and the
name of what it would store, so that a list finds it with one look into the index.

Above it: the operations that list definitions. Below it: `held_access`, the index of runs.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from penstock.base import limits
from penstock.base.ids import id_for_callers
from penstock.base.scopes import scope_allows
from penstock.governance.authorship import Author, is_proposed
from penstock.operations.catalogue.capability import DefinitionKind
from penstock.operations.catalogue.fields import instant
from penstock.operations.gate.context import Context, Services
from penstock.operations.runs.held_access import without_unseen
from penstock.operations.runs.held_calls import PROPOSED_NAME_LABEL, PROPOSES_LABEL
from penstock.operations.runs.waits import HELD_PREFIX
from penstock.runtime.ports.runs import RunQuery

__all__ = ["AuthorView", "ProposalView", "author_view", "proposals_of"]

_READ_SCOPE = "draft:read"
_WAITING = ("waiting_approval", "waiting_input")


class AuthorView(msgspec.Struct, frozen=True, kw_only=True):
    """Who wrote a version, and whether it takes effect."""

    principal: str
    kind: str
    status: Literal["trusted", "accepted", "proposed"]
    """trusted: it takes effect by its author; accepted: a person or a grant let it; proposed: it has no effect yet."""
    by_model: bool = False
    """Whether a model chose what was written: over MCP, or inside a run."""
    accepted_by: list[str] = []
    draft_id: str | None = None
    """The held call with which it was proposed."""
    look: str | None = None
    """The path of that draft."""


class ProposalView(msgspec.Struct, frozen=True, kw_only=True):
    """A held call that stores a version once a person accepts it."""

    draft_id: str
    operation: str
    name: str | None
    """The resource that the call would store, or null if the call does not name it."""
    proposed_by: str | None
    proposed_at: str | None
    look: str
    """The path of the draft."""


def author_view(services: Services, author: Author | None) -> AuthorView | None:
    """Return who wrote a version; None for one of the settings or a file, or from before authors were recorded."""
    if author is None:
        return None
    proposed = is_proposed(author, services.holds.authorship)
    return AuthorView(
        principal=author.principal,
        kind=author.kind,
        status="proposed" if proposed else "accepted" if author.is_accepted else "trusted",
        by_model=author.by_model,
        accepted_by=list(author.accepted_by),
        draft_id=author.draft_id,
        look=None if author.draft_id is None else f"/drafts/{author.draft_id}",
    )


async def proposals_of(
    context: Context, kind: DefinitionKind, *, cursor: str | None = None, prefix: str | None = None
) -> list[ProposalView]:
    """Return the held calls that would store something of a kind, for the first page of a list of it, newest first.

    Callers see them if they may read drafts; agents see their own.
    """
    if cursor is not None or not scope_allows(context.principal.scopes, _READ_SCOPE):
        return []
    services, tenant = context.services, context.tenant
    query = RunQuery(statuses=_WAITING, label=(PROPOSES_LABEL, kind), tenant=tenant, limit=limits.PROPOSALS_LISTED_MAX)
    rows = await without_unseen(services, context.principal, (await services.store.list_runs(query)).rows)
    found = []
    for row in rows:
        draft_id, name = id_for_callers(tenant, row.run_id), row.labels.get(PROPOSED_NAME_LABEL)
        if prefix is None or (name or "").startswith(prefix):
            view = ProposalView(
                draft_id=draft_id,
                operation=row.workflow_name.removeprefix(HELD_PREFIX),
                name=name,
                proposed_by=row.started_by,
                proposed_at=instant(row.created_at),
                look=f"/drafts/{draft_id}",
            )
            found.append(view)
    return found
