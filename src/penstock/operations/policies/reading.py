"""Policies from texts, with everything that is wrong with them: what storing, checking and loading share.

Above it: the operations on policies. Below it: `governance.policy`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from penstock.base.errors import Rejected, Unavailable
from penstock.base.json import JsonObject, JsonValue
from penstock.governance.policy.source import Policy, PolicyProblem, parse_policies
from penstock.governance.policy.validation import validate
from penstock.operations.gate.context import Context
from penstock.operations.gate.policy_stage import PolicyStage
from penstock.operations.policies.known_actions import known_actions

__all__ = ["PolicyProblemView", "ReadPolicies", "problem_views", "read_policies", "refuse_invalid", "stage_of"]


class PolicyProblemView(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is wrong with a policy, and where."""

    severity: str
    source: str
    line: int
    policy: str | None
    message: str


class ReadPolicies(msgspec.Struct, frozen=True, kw_only=True):
    """The policies of some texts, and what is wrong with them."""

    policies: tuple[Policy, ...]
    problems: tuple[PolicyProblem, ...]


def stage_of(context: Context) -> PolicyStage:
    """Return the policies of this process; refuse if it has none."""
    stage = context.services.policies
    if stage is None:
        raise Unavailable(
            "NOT_CONFIGURED",
            "this process has no policies: it decides by scopes",
            "send the call to a server (`penstock serve`)",
        )
    return stage


async def read_policies(
    context: Context,
    texts: Iterable[tuple[str, str]],
    *,
    tenant: str,
    of_tenant: bool,
    beside: Sequence[Policy] = (),
) -> ReadPolicies:
    """Parse texts, each with its name, and check them as one set; `beside` are policies that stand beside them."""
    policies: list[Policy] = []
    problems: list[PolicyProblem] = []
    for name, text in texts:
        parsed = parse_policies(text, name)
        policies += parsed.policies
        problems += parsed.problems
    actions = await known_actions(context.services, tenant)
    named = {policy.source for policy in policies}
    found = validate([*beside, *policies], actions, of_tenant=of_tenant)
    problems += [item for item in found if not beside or item.source in named]
    return ReadPolicies(policies=tuple(policies), problems=tuple(problems))


def problem_views(problems: Iterable[PolicyProblem]) -> list[PolicyProblemView]:
    """Return problems as callers get them."""
    return [
        PolicyProblemView(
            severity=item.severity, source=item.source, line=item.line, policy=item.policy_id, message=item.message
        )
        for item in problems
    ]


def refuse_invalid(problems: Iterable[PolicyProblem]) -> None:
    """Refuse policies with errors; warnings refuse nothing."""
    errors = [item for item in problems if item.severity == "error"]
    if errors:
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        hint = "correct them; `penstock policy check` shows every mistake"
        # Every violation in an answer has a pointer into the arguments: here, to the text of the policies.
        listed: list[JsonValue] = [{"pointer": "/text", **msgspec.to_builtins(item)} for item in problem_views(errors)]
        details: JsonObject = {"errors": listed}
        raise Rejected("POLICY_INVALID", f"{errors[0]}{more}", hint, details)
