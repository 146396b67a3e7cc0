"""With which scopes a run calls something: those of its starter that the authors of what led there have, too.

Only authors that act as agents narrow a run. People and services that deploy are trusted with what others run: a
pipeline needs `workflow:write`, and not every scope of every workflow that it stores.

An author has at most the scopes that it had when it stored the version, and at most those that its key has now. A key
that was revoked or has expired keeps its last scopes here: a person accepted the version, and it continues. For
versions of releases that did not keep scopes, and whose author has no key, only the kind of the author counts.

A start is decided as the call of an agent if an agent wrote any child that it may run: otherwise a harmless wrapper
could do what its author may only propose.

Above it: what starts runs, and what runs call. Below it: `starting`, the ports.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

from penstock.base import limits
from penstock.base.errors import Denied, PenstockError
from penstock.base.ids import id_for_callers
from penstock.base.scopes import EVERYTHING, common_scopes
from penstock.definitions.start_needs import StartNeeds
from penstock.governance.authorship import PROPOSED, Author, acts_as_agent, agents_behind, proposed_message
from penstock.governance.principals import Principal
from penstock.operations.gate.context import Services
from penstock.operations.permissions.authorship import refuse_proposed
from penstock.operations.permissions.starting import first_missing, needs_of, scopes_to_start, versions_of_child
from penstock.runtime.chains import AUTHOR_LABEL, NOT_ACCEPTED, TRUST_LABEL, VERSION_LABEL
from penstock.runtime.ports.platform import ResourceRow
from penstock.runtime.ports.runs import DefinitionRow, RunRow
from penstock.runtime.spending import caller_of
from penstock.runtime.tables.api_keys import read_key
from penstock.runtime.tables.resources import read_resource

__all__ = [
    "agents_of_children",
    "narrow_to_authors",
    "refuse_by_author",
    "refuse_proposed_run",
    "refuse_unattended",
    "scopes_of_author",
]

_KEY = "key:"
_REGISTERED = ("tool", "agent")
_NOBODY = Author(principal="unknown", kind="agent", scopes=())
"""The author of an entry that was deleted: what it might do is not known any more, so its runs call nothing."""
_ABOVE_MAX = limits.SUBWORKFLOW_DEPTH_MAX + limits.CALLED_RUNS_DEPTH_MAX


async def scopes_of_author(services: Services, author: Author, tenant: str) -> frozenset[str]:
    """Return what an author may do, as far as that is known; everything if nothing is."""
    found = frozenset({EVERYTHING}) if author.scopes is None else frozenset(author.scopes)
    key = None
    if author.principal.startswith(_KEY):
        key = await read_key(services.platform, author.principal.removeprefix(_KEY))
    return common_scopes(found, frozenset(key.scopes)) if key is not None and key.tenant == tenant else found


async def narrow_to_authors(services: Services, principal: Principal, run_id: str) -> Principal:
    """Return the principal of a run with no scope that an agent lacks who wrote its version, or one of a run above."""
    if not services.holds.authorship.enforced:
        return principal
    scopes, following = principal.scopes, await services.store.row(run_id)
    for _ in range(_ABOVE_MAX):
        if following is None or TRUST_LABEL not in following.labels:
            break  # children and called runs inherit the label: nothing above it was written by an agent
        author = await _author_of_run(services, following)
        if author is not None and acts_as_agent(author):
            scopes = common_scopes(scopes, await scopes_of_author(services, author, principal.tenant))
        above = caller_of(following.tenant, following.parent_run_id, following.labels)
        following = None if above is None else await services.store.row(above)
    return principal if scopes == principal.scopes else replace(principal, scopes=scopes)


async def _author_of_run(services: Services, row: RunRow) -> Author | None:
    """Return who wrote the version of a run; for a run of a registry's entry, who wrote the entry."""
    if AUTHOR_LABEL not in row.labels:
        return None
    version = row.labels.get(VERSION_LABEL, row.definition_hash)
    stored = await services.store.definitions.find(version, tenant=row.tenant)
    if stored is not None:
        return stored.author
    if row.workflow_name.partition(":")[0] in _REGISTERED:
        entry = await _entry_of_run(services, row)
        return _NOBODY if entry is None else entry.author
    named = await services.store.definitions.find_named(row.workflow_name, tenant=row.tenant)
    return None if named is None else named.author


async def refuse_proposed_run(services: Services, row: RunRow) -> None:
    """Refuse to repeat a run of an entry of a registry, or of a node, that somebody proposed and nobody accepted.

    Its workflow was made by the server, and has no author. The entry may have changed since: the run says what it was.
    """
    if not services.holds.authorship.enforced:
        return
    if row.labels.get(AUTHOR_LABEL) == NOT_ACCEPTED:
        message = f"the run {id_for_callers(row.tenant, row.run_id)} is of a version that nobody has accepted"
        raise Denied(PROPOSED, proposed_message(row.workflow_name, None), f"{message}; start a new run")
    entry = await _entry_of_run(services, row)
    if entry is not None:
        refuse_proposed(services, entry.author, row.workflow_name.replace(":", " ", 1), entry.etag)


async def _entry_of_run(services: Services, row: RunRow) -> ResourceRow | None:
    """Return the entry of a registry that a run is of, as it is now."""
    kind, _, name = row.workflow_name.partition(":")
    return await read_resource(services.platform, row.tenant, kind, name) if kind in _REGISTERED else None


async def refuse_by_author(services: Services, row: DefinitionRow) -> None:
    """Refuse to start a version whose children need a scope that its author lacks, or that of a child with children.

    Only what an agent wrote is checked: see above. Most versions have no children, and nothing is read for them.
    """
    if services.holds.authorship.enforced and needs_of(services, row).children:
        refusal = await _author_refusal(services, row)
        if refusal is not None:
            raise refusal


async def _author_refusal(services: Services, row: DefinitionRow) -> PenstockError | None:
    waiting, seen = [row], {row.hash}
    while waiting:
        version = waiting.pop()
        children: list[DefinitionRow] = []
        for child in needs_of(services, version).children:
            children += await versions_of_child(services, row.tenant, child, None)
        if children and version.author is not None and acts_as_agent(version.author):
            needed = await scopes_to_start(services, row.tenant, [needs_of(services, child) for child in children])
            scopes = await scopes_of_author(services, version.author, row.tenant)
            author = Principal(id=version.author.principal, tenant=row.tenant, kind="agent", scopes=scopes)
            if (missing := first_missing(author, needed)) is not None:
                message = (
                    f"{author.id} wrote {version.name} and does not have the scope {missing}, "
                    "which a workflow needs that it runs"
                )
                hint = f"a person with that scope stores {version.name} as it is, and answers for it"
                return Denied("SCOPE_REQUIRED", message, hint, {"scope": missing})
        waiting += [child for child in children if child.hash not in seen]
        seen |= {child.hash for child in children}
    return None


async def agents_of_children(services: Services, tenant: str, needs: StartNeeds) -> tuple[str, ...]:
    """Return the agents that wrote any of the children which starting a version may run, and who is behind them."""
    if not needs.children:
        return ()
    rows = [row async for row in _children(services, tenant, [needs])]
    return tuple(dict.fromkeys(name for row in rows for name in agents_behind(row.author)))


async def refuse_unattended(services: Services, row: DefinitionRow, label: str, *, by_agent: bool) -> None:
    """Refuse that a trigger starts children for an agent that would have to wait if an agent started them.

    `by_agent` says that an agent made the trigger, or wrote a part of it.

    A run that has begun cannot wait, and a trigger has nobody to ask. The person who accepted the trigger accepted what
    it starts, and not what that starts further.
    """
    needs = needs_of(services, row)
    if not services.holds.authorship.enforced or not needs.children:
        return
    children = [child async for child in _children(services, row.tenant, [needs])]
    if not by_agent and not any(acts_as_agent(version.author) for version in (row, *children)):
        return
    for child in children:
        declared = needs_of(services, child).governance
        waits = declared.get("confirm") is True or declared.get("draft") in ("always", "on_risk")
        if waits or declared.get("risk") in ("high", "critical"):
            message = (
                f"an agent made {label} or wrote a part of {row.name}, which runs {child.name}; that waits for a person"
            )
            hint = f"a person makes {label}, or stores {row.name} as it is, and answers for it"
            raise Denied("APPROVAL_REQUIRED", message, hint)


async def _children(services: Services, tenant: str, versions: list[StartNeeds]) -> AsyncIterator[DefinitionRow]:
    """Yield every version that runs as a child, at any depth, once."""
    seen: set[str] = set()
    while versions:
        for child in versions.pop().children:
            for row in await versions_of_child(services, tenant, child, None):
                if row.hash not in seen:
                    seen.add(row.hash)
                    versions.append(needs_of(services, row))
                    yield row
