"""Checks policies before they are used: against the schema of everything that can be called, and among each other.

A policy may name a tool that does not exist yet, because its workflow is stored later. Such a policy cannot be checked
in full, which is a warning. Everything else that Cedar's validator objects to is an error.

Above it: the operations on policies, the files of policies, `penstock policy check`. Below it: `schema`, `source`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from penstock.base import limits
from penstock.governance.policy.amounts import why_not_summed
from penstock.governance.policy.cedar import cedarpy
from penstock.governance.policy.expressions import conditions_of, paths_of
from penstock.governance.policy.history import Counter
from penstock.governance.policy.redaction import why_not_hidden
from penstock.governance.policy.schema import ACTION_GROUPS, ActionShape, cedar_schema
from penstock.governance.policy.slices import actions_named
from penstock.governance.policy.source import Policy, PolicyProblem

__all__ = ["validate"]

# A policy about all tools concerns nothing until a tenant has one.
_NOTHING_YET = "unable to find an applicable action"
# What is known of a call when it is made, and not when its answer is looked at later.
_OF_THE_CALL = frozenset({"input", "history", "has_idempotency_key"})
_UPSTREAM = "upstream:"
_POSITION = re.compile(r"policy(\d+)")


def validate(
    policies: Sequence[Policy], actions: Mapping[str, ActionShape], *, of_tenant: bool = False
) -> tuple[PolicyProblem, ...]:
    """Return every problem of policies that are to be used together. `of_tenant`: they narrow those of the server."""
    problems = [
        *_set_problems(policies, of_tenant=of_tenant),
        *_counter_problems(policies, actions),
        *_redaction_problems(policies, actions),
    ]
    checked = []
    for policy in policies:
        named = dict.fromkeys((*_actions_of(policy.body["action"]), *_actions_in(policy.body["conditions"])))
        unknown = [name for name in named if name not in actions]
        problems += [_unknown_action(policy, name, actions) for name in unknown]
        if not unknown:
            checked.append(policy)
    counters = {item.name: item for policy in policies for item in policy.annotations.history}
    return (*problems, *_schema_problems(checked, actions.values(), counters.values()))


def _problem(policy: Policy, message: str, *, warning: bool = False) -> PolicyProblem:
    return PolicyProblem(
        message=message,
        source=policy.source,
        line=policy.line,
        policy_id=policy.id,
        severity="warning" if warning else "error",
    )


def _set_problems(policies: Sequence[Policy], *, of_tenant: bool) -> Iterable[PolicyProblem]:
    if len(policies) > limits.POLICIES_MAX:
        yield PolicyProblem(message=f"there are more than {limits.POLICIES_MAX} policies", source=policies[0].source)
    first: dict[str, Policy] = {}
    for policy in policies:
        before = first.setdefault(policy.id, policy)
        if before is not policy:
            yield _problem(policy, f"{before.source}:{before.line} has a policy with this id already")
        if of_tenant and policy.effect == "permit":
            yield _problem(policy, "a tenant's policies can only narrow what is allowed: use forbid")
    enforced = [policy for policy in policies if policy.effect == "permit" and not policy.is_shadow]
    if policies and not of_tenant and not enforced:
        message = "no policy permits anything; add `permit (principal, action, resource);` to let scopes decide"
        yield PolicyProblem(message=message, source=policies[0].source, line=policies[0].line)


def _counter_problems(policies: Iterable[Policy], actions: Mapping[str, ActionShape]) -> Iterable[PolicyProblem]:
    known: dict[str, Counter] = {}
    for policy in policies:
        for counter in policy.annotations.history:
            if known.setdefault(counter.name, counter) != counter:
                yield _problem(policy, f"@history: another policy uses the name {counter.name} for a different count")
            if counter.action not in actions:
                yield _unknown_action(policy, counter.action, actions)
            elif counter.is_sum and (why := why_not_summed(actions[counter.action].input, counter.field)) is not None:
                yield _problem(policy, f"@history: {counter.name} cannot be added up: {why}")


def _redaction_problems(policies: Iterable[Policy], actions: Mapping[str, ActionShape]) -> Iterable[PolicyProblem]:
    """Yield what keeps policies from hiding the fields that they name."""
    for policy in policies:
        if not policy.annotations.redact:
            continue
        scope = policy.body["action"]
        named = _actions_of(scope)
        if scope["op"] == "All" or len(named) < len(actions_named(scope)):
            yield _problem(policy, "@redact: name the operations and workflows whose answers have the fields")
        read = [path for condition in conditions_of(policy.body) for path in paths_of(condition)]
        if any(path[0] == "context" and (len(path) == 1 or path[1] in _OF_THE_CALL) for path in read):
            message = "@redact cannot depend on arguments or earlier calls, because answers are also shown later"
            yield _problem(policy, message)
        for name in named:
            if name.startswith(_UPSTREAM):
                yield _problem(policy, f"@redact: {name} also answers with text, in which fields cannot be hidden")
            elif name in actions:
                schema = actions[name].answer()
                problems = (why_not_hidden(schema, path) for path in policy.annotations.redact)
                yield from (_problem(policy, f"@redact: {name}: {why}") for why in problems if why is not None)


def _actions_of(scope: dict[str, Any]) -> list[str]:
    """Return the actions that a scope names, without the groups of actions."""
    named = scope.get("entities", [scope["entity"]] if "entity" in scope else [])
    return [item["id"] for item in named if item["type"] == "Action" and item["id"] not in ACTION_GROUPS]


def _actions_in(expression: Any) -> Iterator[str]:
    """Yield the actions that conditions name, without the groups of actions."""
    if isinstance(expression, dict):
        entity = expression.get("__entity")
        if isinstance(entity, dict) and entity.get("type") == "Action" and entity.get("id") not in ACTION_GROUPS:
            yield str(entity["id"])
    members = expression.values() if isinstance(expression, dict) else expression
    for member in members if isinstance(expression, (dict, list)) else ():
        yield from _actions_in(member)


def _unknown_action(policy: Policy, name: str, actions: Iterable[str]) -> PolicyProblem:
    # `workflow:refund` is a workflow that does not exist, not a misspelt operation.
    is_workflow = ":" in name
    near = get_close_matches(name, [known for known in actions if (":" in known) == is_workflow], n=1)
    meant = f'; did you mean Action::"{near[0]}"?' if near else ""
    message = f'there is no Action::"{name[:100]}" now, so this policy could not be checked{meant}'
    return _problem(policy, message, warning=True)


def _schema_problems(
    policies: Sequence[Policy], actions: Iterable[ActionShape], counters: Iterable[Counter]
) -> Iterable[PolicyProblem]:
    if not policies:
        return
    schema = cedarpy.Schema.from_json_str(json.dumps(cedar_schema(actions, counters)))
    result = cedarpy.validate_policies("\n".join(policy.text for policy in policies), schema)
    for found in result.errors:
        position = _POSITION.fullmatch(found.policy_id)
        if position is None:
            yield PolicyProblem(message=found.error, source=policies[0].source)
        else:
            # The message begins with the parser's name of the policy, which says nothing to anybody.
            message = re.sub(r"^for policy `policy\d+`,? ?", "", found.error)
            yield _problem(policies[int(position[1])], message, warning=_NOTHING_YET in message)
