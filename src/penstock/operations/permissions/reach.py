"""What a version can reach with its children, as they are stored now, and who wrote the parts.

Whoever accepts a version sees it. A start is decided as the call of an agent if an agent wrote any part of what it
reaches: otherwise a harmless wrapper could do what its author may only propose.

Above it: what stores versions, what starts runs. Below it: `definitions.reach`, `starting`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from penstock.base.errors import Denied
from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.reach import reached_by
from penstock.definitions.start_needs import StartNeeds, start_needs
from penstock.governance.authorship import acts_as_agent
from penstock.operations.gate.context import Context, Services
from penstock.operations.permissions.starting import needs_of, versions_of_child
from penstock.runtime.ports.runs import DefinitionRow

__all__ = ["is_written_by_agent", "reached_from", "refuse_unattended", "written_by"]

_SHOWN_MAX = 200
"""Nobody reads a longer list; the document itself is shown beside it."""


def written_by(context: Context) -> JsonObject:
    """Return who writes what a call stores, for people."""
    return {"principal": context.principal.id, "kind": context.principal.kind, "name": context.principal.name}


async def reached_from(services: Services, tenant: str, document: JsonObject) -> tuple[JsonValue, ...]:
    """Return what runs of a document can reach, directly and through its children: kinds, names and risks."""
    found: dict[tuple[str, str], JsonObject] = {}
    documents = [document, *[row.document async for row in _children(services, tenant, [start_needs(document)])]]
    risks = {str(item.get("name")): start_needs(item).governance.get("risk") for item in documents[1:]}
    for item in (reached for each in documents for reached in reached_by(each)):
        said: JsonObject = {"kind": item.kind, "name": item.name}
        if item.kind == "workflow" and isinstance(risk := risks.get(item.name), str):
            said["risk"] = risk
        found[item.kind, item.name] = said
    return tuple(found[key] for key in sorted(found))[:_SHOWN_MAX]


async def is_written_by_agent(services: Services, tenant: str, needs: StartNeeds) -> bool:
    """Whether an agent wrote any of the children that starting a version may run."""
    if not needs.children:
        return False
    return any([acts_as_agent(row.author) async for row in _children(services, tenant, [needs])])


async def refuse_unattended(services: Services, row: DefinitionRow, label: str, *, by_agent: bool) -> None:
    """Refuse that a trigger starts children for an agent that would have to wait if an agent started them.

    `by_agent` says that an agent made the trigger, or wrote a part of it.

    A run that is under way cannot wait, and a trigger has nobody to ask. Whoever accepted the trigger accepted what it
    starts, and not what that starts further.
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
