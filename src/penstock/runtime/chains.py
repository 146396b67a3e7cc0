"""Chains of runs: a run that ended with `continue_as_new`, the run that continues it, and so on.

Every later run of a chain carries a label with the id of the first one. With it, one index lookup finds the newest of
thousands of runs, even if the runs in between have been deleted, and people can list a chain.

Above it: hosts, the driver, `Run`. Below it: the host port, the index of runs.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.base.ids import AUTHOR_LABEL, chain_of, generation_of
from penstock.engine.approved import approved_reach
from penstock.engine.outcomes import Refused
from penstock.engine.walk.starting import successor_start
from penstock.runtime.ports.host import RunHost, RunSnapshot
from penstock.runtime.ports.runs import RunQuery
from penstock.runtime.tables.runs.store import RunStore

__all__ = [
    "AUTHOR_LABEL",
    "BY_AGENT",
    "CHAIN_LABEL",
    "NOT_ACCEPTED",
    "SENT_LABEL",
    "TRUST_LABEL",
    "UNTRUSTED",
    "VERSION_LABEL",
    "child_labels",
    "latest_in_chain",
    "own_labels",
    "start_successor",
    "successor_labels",
]

CHAIN_LABEL = "penstock.chain"
TRUST_LABEL = "penstock.trust"
"""The label of runs that a model began, or whose version an agent wrote. Their children inherit it."""
UNTRUSTED = "untrusted"
BY_AGENT = {AUTHOR_LABEL: "agent", TRUST_LABEL: UNTRUSTED}
"""The labels of a run whose version an agent wrote."""
NOT_ACCEPTED = "proposed"
"""The value of the author's label for a version that nobody accepted."""
SENT_LABEL = "penstock.sent"
"""The label of a run whose version a model sent along: the hash of the version. Its children and forks inherit it."""
VERSION_LABEL = "penstock.version"
"""The label of a run of one node of a workflow: the hash of the version that has the node."""
# Children have a version and an author of their own.
_OWN = (CHAIN_LABEL, AUTHOR_LABEL, VERSION_LABEL)
# A caller may have put the label on an unrelated run; the newest of the chain is still among the first few.
_CANDIDATES_MAX = 20


def successor_labels(labels: Mapping[str, str], run_id: str) -> dict[str, str]:
    """Return the labels of the run that continues a run with these labels."""
    return {**labels, CHAIN_LABEL: chain_of(run_id)}


def own_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """Return the labels without the chain label: the labels that forks get."""
    return {name: value for name, value in labels.items() if name != CHAIN_LABEL}


def child_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """Return the labels that child runs get: those of a fork, but the child has an author of its own."""
    return {name: value for name, value in labels.items() if name not in _OWN}


async def latest_in_chain(store: RunStore, run_id: str) -> str | None:
    """Return the newest run that continues a run, directly or not, or None."""
    chain = chain_of(run_id)
    page = await store.list_runs(RunQuery(label=(CHAIN_LABEL, chain), limit=_CANDIDATES_MAX))
    later = [
        row.run_id
        for row in page.rows
        if chain_of(row.run_id) == chain and generation_of(row.run_id) > generation_of(run_id)
    ]
    return max(later, key=generation_of, default=None)


async def start_successor(host: RunHost, ended: RunSnapshot) -> Refused | None:
    """Start the run that continues an ended one; return None if it exists, no matter who started it."""
    state, workflow = ended.state, ended.workflow
    # An approved run continues with the approved version.
    if state.continuation is not None and state.continuation.newest and approved_reach(state.starter) is None:
        workflow = await host.workflow_named(state.workflow_name, tenant=state.tenant) or workflow
    given = successor_start(ended.workflow, state, at=host.clock.now_ms())
    labels = successor_labels(ended.row.labels, given.run_id)
    decision = await host.start(given, workflow_hash=workflow.hash, labels=labels)
    if isinstance(decision, Refused) and decision.code != "DUPLICATE_EXECUTION_ID":
        return decision
    return None
