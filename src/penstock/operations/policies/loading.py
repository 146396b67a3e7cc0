"""The internal call that replaces the server's policies, when their files are read.

Whether the policies are taken or refused is on record. If one of them is wrong, none is taken: the server continues
with the policies that it has. A file without a policy is wrong, too: nothing tells it from one that was cut off.

Above it: `app`, which watches the files. Below it: `governance.policy`, the gate's stage for policies.
"""

from __future__ import annotations

import msgspec

from penstock.base.ids import DEFAULT_TENANT
from penstock.governance.policy.sets import PolicySet
from penstock.governance.policy.source import PolicyProblem, without_policies
from penstock.operations.catalogue.capability import Capability
from penstock.operations.catalogue.declaring import operation
from penstock.operations.gate.context import Context
from penstock.operations.policies.reading import read_policies, refuse_invalid, stage_of

__all__ = ["LOAD", "OPERATIONS", "LoadedPolicies"]

LOAD = "policy.load"


class PolicyText(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file with policies."""

    name: str
    text: str = ""
    problem: str | None = None
    """Why the file could not be read; None if it was."""


class LoadPolicies(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All files with policies of the server."""

    files: list[PolicyText]


class LoadedPolicies(msgspec.Struct, frozen=True, kw_only=True):
    """What is in force now."""

    version: str | None
    policies: int
    warnings: list[str]


@operation(
    LOAD, route=None, scopes=("policy:write",), idempotent=True, risk="high", bucket="admin", errors=("POLICY_INVALID",)
)
async def policy_load(context: Context, given: LoadPolicies) -> LoadedPolicies:
    """Replace the server's policies."""
    stage = stage_of(context)
    texts = [(file.name, file.text) for file in given.files]
    unread = [PolicyProblem(message=file.problem, source=file.name) for file in given.files if file.problem]
    refuse_invalid(unread)
    read = await read_policies(context, texts, tenant=DEFAULT_TENANT, of_tenant=False)
    # A file without a policy is the cause of what the other files lack then, and so named first.
    refuse_invalid((*without_policies(texts), *read.problems))
    policies = read.policies
    stage.replace_server_set(policies)
    version = PolicySet(policies).version if policies else None
    context.call.note(policy_version=version)
    return LoadedPolicies(version=version, policies=len(policies), warnings=[str(item) for item in read.problems])


OPERATIONS: tuple[Capability, ...] = (policy_load,)
