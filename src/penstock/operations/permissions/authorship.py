"""Who writes the version that a call stores, and whether a stored version may take effect.

Above it: the operations that store definitions, and everything that runs, calls, sends or asks by one. Below it:
`governance.authorship` decides, the gate's context says who calls.
"""

from __future__ import annotations

from typing import NamedTuple

from penstock.base.errors import Denied
from penstock.base.json import JsonObject
from penstock.governance.authorship import (
    PROPOSED,
    PROPOSED_HINT,
    Author,
    acts_as_agent,
    is_proposed,
    proposed_message,
)
from penstock.operations.gate.context import Context, Services
from penstock.operations.gate.holds import GRANTED, runs_as_sent
from penstock.runtime.chains import AUTHOR_LABEL, BY_AGENT, NOT_ACCEPTED
from penstock.runtime.ports.runs import DefinitionRow

__all__ = ["RunMarks", "author_of", "marks_of", "refuse_proposed", "refuse_proposed_version", "written_by"]


def author_of(context: Context) -> Author:
    """Return the author of what a call stores: its caller, and who accepted it."""
    principal, request = context.principal, context.request
    approval = request.approval
    return Author(
        principal=principal.id,
        kind=principal.kind,
        by_model=request.by_model,
        subject=principal.subject,
        lineage=tuple(dict.fromkeys(name for name in (principal.owner, *principal.lineage) if name is not None)),
        scopes=tuple(sorted(principal.scopes)),
        accepted_by=() if approval is None else tuple(dict.fromkeys(vote.principal for vote in approval.votes)),
        draft_id=None if approval is None else approval.draft_id,
        granted=context.found_out.get(GRANTED) is True,
        sent=runs_as_sent(request, context.capability.governance, context.services.holds.authorship),
    )


def written_by(context: Context) -> JsonObject:
    """Return who writes what a call stores, for people."""
    return {"principal": context.principal.id, "kind": context.principal.kind, "name": context.principal.name}


class RunMarks(NamedTuple):
    """What the server says of a run that it starts."""

    labels: dict[str, str]
    authors: tuple[str, ...] = ()
    """The agents that wrote what the run is of, and who is behind them, if the host does not know them."""


def marks_of(author: Author | None) -> RunMarks:
    """Return what is said of a run of an entry of a registry, or of a node: whether an agent wrote it."""
    if author is None or not acts_as_agent(author):
        return RunMarks({})
    labels = dict(BY_AGENT) if author.is_accepted else {**BY_AGENT, AUTHOR_LABEL: NOT_ACCEPTED}
    return RunMarks(labels, author.names)


def refuse_proposed(services: Services, author: Author | None, what: str, version: str | None = None) -> None:
    """Refuse to let a version take effect that its author has proposed, and nobody has accepted."""
    if is_proposed(author, services.holds.authorship):
        raise Denied(PROPOSED, proposed_message(what, author, version), PROPOSED_HINT)


def refuse_proposed_version(services: Services, row: DefinitionRow) -> None:
    """Refuse to start a version of a workflow that is only proposed."""
    refuse_proposed(services, row.author, f"workflow {row.name}", row.hash)
