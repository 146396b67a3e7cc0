"""Which workflow owns a name (of a tool, prompt, resource or webhook) in a tenant.

A name belongs to the workflow that claimed it first, until its newest version no longer uses the name or the workflow
is deleted. Names are claimed in the transaction that stores the version, under the lock of the tenant's definitions, so
that two processes cannot both get one.

Above it: `definitions`. Below it: `penstock.definitions.claims`, which lists what a document claims.
"""

from __future__ import annotations

from penstock.definitions.claims import claimed_names
from penstock.runtime.ports.runs import DefinitionNameTaken, DefinitionRow
from penstock.runtime.ports.transactions import Transaction

__all__ = ["release_names", "take_names"]

_OWNER = "SELECT workflow FROM claimed_names WHERE tenant = ? AND kind = ? AND name = ?"
_TAKE = "INSERT INTO claimed_names (tenant, kind, name, workflow) VALUES (?,?,?,?)"
_RELEASE = "DELETE FROM claimed_names WHERE tenant = ? AND workflow = ?"


def take_names(transaction: Transaction, definition: DefinitionRow) -> DefinitionNameTaken | None:
    """Give a workflow exactly the names of its newest version; return the name that another workflow has, if any."""
    tenant, workflow = definition.tenant, definition.name
    claimed = claimed_names(workflow, definition.document)
    for kind, name in claimed:
        found = transaction.one(_OWNER, (tenant, kind, name))
        if found is not None and found[0] != workflow:
            return DefinitionNameTaken(kind=kind, name=name, owner=str(found[0]))
    release_names(transaction, workflow, tenant)
    if claimed:
        transaction.many(_TAKE, [(tenant, kind, name, workflow) for kind, name in claimed])
    return None


def release_names(transaction: Transaction, workflow: str, tenant: str) -> None:
    """Release all names of a workflow."""
    transaction.execute(_RELEASE, (tenant, workflow))
