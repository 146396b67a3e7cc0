"""Decisions of a set of policies. Each trap that the engine is known for is a refusal here."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.governance.policy.cedar import cedarpy
from penstock.governance.policy.outcomes import ApprovalRequired, Forbidden, Permitted, PolicyOutcome
from penstock.governance.policy.requests import Circumstances, PolicyRequest, context_text, principal_entity
from penstock.governance.policy.schema import ActionShape
from penstock.governance.policy.sets import ListQuestion, PolicySet
from penstock.governance.policy.shapes import project, record_of
from penstock.governance.policy.source import parse_policies
from penstock.governance.principals import Principal

ALL = '@id("all") permit (principal, action, resource);'
_ABOUT_REFUNDS = '(principal, action == Action::"workflow:refund", resource)'
LARGE = f'@id("large") forbid {_ABOUT_REFUNDS} when {{ context.input.amount > 5000 }};'
_ASKS = '@id("ask") @outcome("approval") @approvers("leads")'
ASK = f"{_ASKS} forbid {_ABOUT_REFUNDS} when {{ context.input.amount > 500 }};"
REFUND = ActionShape(
    name="workflow:refund",
    groups=("call", "write"),
    resource_type="Workflow",
    input=record_of({"type": "object", "properties": {"amount": {"type": "integer"}, "note": {"type": "string"}}}),
)
DELETE = ActionShape(name="workflow.delete", groups=("write",), resource_type="Workflow")
STORE = ActionShape(name="policy.put", groups=("admin",), resource_type="Policy")
AGENT = Principal(id="key:a", tenant="shop", kind="agent", scopes=frozenset({"*"}), groups=frozenset({"support"}))
PERSON = Principal(id="key:p", tenant="shop", kind="person", scopes=frozenset({"*"}), groups=frozenset({"leads"}))


def policies(*texts: str, tenant: str = "") -> PolicySet:
    server, own = parse_policies("\n".join(texts)), parse_policies(tenant)
    assert (server.problems, own.problems) == ((), ())
    return PolicySet(server.policies, own.policies)


def decide(
    chosen: PolicySet,
    arguments: dict[str, Any] | None = None,
    *,
    principal: Principal = AGENT,
    action: ActionShape = REFUND,
    resource: str = "refund",
    **seen: Any,
) -> PolicyOutcome:
    circumstances = Circumstances(**{"surface": "rest", "by_model": False, "now_ms": 0, **seen})
    given = project(action.input, arguments or {}, chosen.reads.input)
    request = PolicyRequest(
        principal=principal_entity(principal),
        action=action,
        tenant=principal.tenant,
        risk="high",
        resource_id=resource,
        context=context_text(chosen.reads, circumstances, given, None),
    )
    return chosen.decide(request)


def lists(
    chosen: PolicySet, action: ActionShape = REFUND, *, principal: Principal = AGENT, resource: str | None = "refund"
) -> bool:
    circumstances = Circumstances(surface="mcp", by_model=True, now_ms=0)
    context = context_text(chosen.list_reads, circumstances, None, None)
    (found,) = chosen.listed(principal_entity(principal), [ListQuestion(action, "high", resource)], context)
    return found


def test_a_forbid_overrides_a_permit() -> None:
    chosen = policies(ALL, LARGE)
    assert decide(chosen, {"amount": 10}) == Permitted(policy_version=chosen.version, policy_ids=("all",))
    assert decide(chosen, {"amount": 6000}) == Forbidden(
        policy_version=chosen.version, policy_ids=("large",), reasons=("the policy large forbids it",)
    )


def test_without_a_permit_nothing_is_permitted() -> None:
    outcome = decide(policies('@id("other") permit (principal == User::"x", action, resource);'))
    assert isinstance(outcome, Forbidden)
    assert outcome.reasons == ("no policy permits it",)


def test_a_forbid_that_cannot_be_evaluated_refuses() -> None:
    outcome = decide(policies(ALL, LARGE), {})
    assert isinstance(outcome, Forbidden)
    assert outcome.failed
    assert outcome.policy_ids == ("large",)
    assert "policy large" in outcome.reasons[0]


def test_a_permit_that_cannot_be_evaluated_refuses_too() -> None:
    text = '@id("small") permit (principal, action, resource) when { context.input.amount < 5 };'
    assert isinstance(decide(policies(ALL, text), {}), Forbidden)


def test_a_forbid_may_ask_for_approval_instead() -> None:
    outcome = decide(policies(ALL, ASK), {"amount": 600})
    assert isinstance(outcome, ApprovalRequired)
    assert (outcome.policy_ids, outcome.approvers, outcome.quorum) == (("ask",), ("leads",), 1)


def test_approval_does_not_override_another_forbid() -> None:
    outcome = decide(policies(ALL, ASK, LARGE), {"amount": 6000})
    assert isinstance(outcome, Forbidden)
    assert set(outcome.policy_ids) == {"ask", "large"}


def test_approval_does_not_replace_a_permit() -> None:
    text = '@id("people") permit (principal is User, action, resource);'
    assert isinstance(decide(policies(text, ASK), {"amount": 600}), Forbidden)
    assert isinstance(decide(policies(text, ASK), {"amount": 600}, principal=PERSON), ApprovalRequired)


def test_a_shadow_policy_is_not_enforced() -> None:
    chosen = policies(ALL, LARGE.replace("forbid", '@mode("shadow") forbid'))
    assert isinstance(decide(chosen, {"amount": 6000}), Permitted)
    assert chosen.has_shadows


def test_a_tenants_policies_only_narrow_and_leave_policies_alone() -> None:
    chosen = policies(ALL, tenant='@id("none") forbid (principal, action, resource);')
    assert isinstance(decide(chosen, {"amount": 1}), Forbidden)
    assert isinstance(decide(chosen, action=STORE, resource="x"), Permitted)


def test_an_id_may_be_used_by_the_server_and_by_a_tenant() -> None:
    chosen = policies(ALL, tenant='@id("all") forbid (principal is User, action, resource);')
    assert isinstance(decide(chosen, {"amount": 1}), Permitted)
    assert isinstance(decide(chosen, {"amount": 1}, principal=PERSON), Forbidden)


def test_groups_of_principals_and_actions_are_understood() -> None:
    text = (
        '@id("support") permit (principal in Group::"support", action in [Action::"call", Action::"read"], resource);'
    )
    chosen = policies(text)
    assert isinstance(decide(chosen, {"amount": 1}), Permitted)
    assert isinstance(decide(chosen, {"amount": 1}, principal=PERSON), Forbidden)
    assert isinstance(decide(chosen, action=DELETE), Forbidden)


@pytest.mark.parametrize(
    ("condition", "seen", "holds"),
    [
        ('context.network.address.isInRange(ip("10.0.0.0/8"))', {"address": "10.2.3.4"}, True),
        ('context.network.address.isInRange(ip("10.0.0.0/8"))', {"address": "::ffff:10.2.3.4"}, True),
        ('context.network.address.isInRange(ip("10.0.0.0/8"))', {"address": "11.2.3.4"}, False),
        ("context.network has address", {"address": None}, False),
        ("context.network has address", {"address": "not an address"}, False),
        ("context.network.address.isLoopback()", {"address": "fe80::1%eth0"}, False),
        ('context.time.weekday == "thursday" && context.time.hour == 0', {}, True),
        ("context.time.epoch_seconds == 5", {"now_ms": 5_999}, True),
        ('context.surface == "mcp" && context.by_model', {"surface": "mcp", "by_model": True}, True),
        ("context.has_idempotency_key", {}, False),
        ('principal.kind == "agent" && principal.tenant == resource.tenant && resource.risk == "high"', {}, True),
        ('principal.groups.contains("support") && principal.scopes.contains("*")', {}, True),
    ],
)
def test_circumstances_are_seen(condition: str, seen: dict[str, Any], holds: bool) -> None:
    chosen = policies(f'@id("when") permit (principal, action, resource) when {{ {condition} }};')
    outcome = decide(chosen, {"amount": 1}, **seen)
    assert isinstance(outcome, Permitted if holds else Forbidden), outcome
    assert not isinstance(outcome, Forbidden) or not outcome.failed


def test_the_version_changes_with_every_policy() -> None:
    versions = {policies(*texts).version for texts in ([ALL], [ALL, LARGE], [ALL, ASK], [ALL, LARGE, ASK])}
    assert len(versions) == 4
    assert policies(ALL, LARGE).version == policies(ALL + "  ", LARGE).version


# --- lists -----------------------------------------------------------------------------------------


def test_what_some_arguments_could_be_permitted_is_listed() -> None:
    assert lists(policies(ALL, LARGE))
    assert lists(policies(ALL, ASK))
    assert lists(policies('@id("small") permit (principal, action, resource) when { context.input.amount < 5 };'))


def test_what_no_arguments_could_be_permitted_is_not_listed() -> None:
    assert not lists(policies('@id("people") permit (principal is User, action, resource);'))
    assert not lists(policies(ALL, '@id("no") forbid (principal is Agent, action in Action::"call", resource);'))
    text = (
        '@id("no") forbid (principal, action, resource) when { principal.kind == "agent" || context.input.amount > 5 };'
    )
    assert not lists(policies(ALL, text))
    text = (
        '@id("p") permit (principal, action, resource) when { principal.kind == "person" && context.input.amount < 5 };'
    )
    assert not lists(policies(text))


def test_a_policy_about_one_resource_decides_about_tools_and_not_about_operations() -> None:
    text = '@id("no") forbid (principal, action, resource == Workflow::"refund");'
    assert not lists(policies(ALL, text))
    assert lists(policies(ALL, text), DELETE, resource=None)
    only = policies('@id("one") permit (principal, action, resource == Workflow::"other");')
    assert not lists(only)
    assert lists(only, DELETE, resource=None)


def test_resources_are_told_apart_in_one_list() -> None:
    chosen = policies(ALL, '@id("no") forbid (principal, action, resource) when { resource.id == "b" };')
    actions = [ActionShape(name=f"workflow:{name}", groups=("call",), resource_type="Workflow") for name in "abc"]
    questions = [ListQuestion(action, "low", action.name[-1]) for action in actions]
    assert chosen.listed(principal_entity(AGENT), questions, "{}") == [True, False, True]


def test_a_policy_that_fails_in_a_list_hides() -> None:
    chosen = policies(ALL, '@id("tag") forbid (principal, action, resource) when { principal.getTag("team") == "x" };')
    assert not lists(chosen)


conditions = st.recursive(
    st.sampled_from(
        ["context.input.amount > 3", 'context.input.note == "x"', "true", "false", 'principal.kind == "agent"']
    ),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda two: f"({two[0]} && {two[1]})"),
        st.tuples(inner, inner).map(lambda two: f"({two[0]} || {two[1]})"),
        inner.map(lambda one: f"!({one})"),
        st.tuples(inner, inner, inner).map(lambda three: f"(if {three[0]} then {three[1]} else {three[2]})"),
    ),
    max_leaves=6,
)
effects = st.sampled_from(["permit", "forbid"])


@given(
    st.lists(st.tuples(effects, conditions), min_size=1, max_size=3),
    st.integers(min_value=0, max_value=6),
    st.sampled_from(["x", "y"]),
)
def test_whatever_is_permitted_was_listed(rules: list[tuple[str, str]], amount: int, note: str) -> None:
    texts = [
        f'@id("p{place}") {effect} (principal, action, resource) when {{ {condition} }};'
        for place, (effect, condition) in enumerate(rules)
    ]
    chosen = policies(*texts)
    if isinstance(decide(chosen, {"amount": amount, "note": note}), Permitted):
        assert lists(chosen)


RUN_QUERY = ActionShape(
    name="query:crm/find_user",
    groups=("call", "read", "graph:invoke_query"),
    resource_type="StoredQuery",
    input=record_of({"type": "object", "properties": {"branch": {"type": "string", "default": "main"}}}),
)
CHANGE_GRAPH = ActionShape(
    name="graph.mutate",
    groups=("write", "graph:change"),
    resource_type="Graph",
    input=record_of({"type": "object", "properties": {"branch": {"type": "string", "default": "main"}}}),
)


def test_a_rule_about_a_graph_holds_for_every_stored_query_in_it() -> None:
    chosen = policies(
        '@id("crm") permit (principal, action in Action::"graph:invoke_query", resource in Graph::"crm");'
    )
    assert isinstance(decide(chosen, action=RUN_QUERY, resource="crm/find_user"), Permitted)
    assert isinstance(decide(chosen, action=RUN_QUERY, resource="crm_2/find_user"), Forbidden)


def test_a_rule_can_name_the_queries_that_it_permits() -> None:
    named = '[StoredQuery::"crm/find_user", StoredQuery::"crm/tasks"]'
    chosen = policies(
        '@id("two") permit (principal, action in Action::"graph:invoke_query", resource)'
        f" when {{ resource in {named} }};"
    )
    assert isinstance(decide(chosen, action=RUN_QUERY, resource="crm/find_user"), Permitted)
    assert isinstance(decide(chosen, action=RUN_QUERY, resource="crm/other"), Forbidden)
    assert isinstance(decide(chosen, action=CHANGE_GRAPH, resource="crm"), Forbidden)
    entity = principal_entity(AGENT)
    questions = [ListQuestion(RUN_QUERY, "low", f"crm/{name}") for name in ("find_user", "other", "tasks")]
    assert chosen.listed(entity, questions, "{}") == [True, False, True]


def test_changes_are_listed_if_some_branch_is_permitted() -> None:
    chosen = policies(
        '@id("drafts") permit (principal, action in Action::"graph:change", resource == Graph::"crm")'
        ' when { context.input.branch like "draft-*" };'
    )
    entity = principal_entity(AGENT)
    questions = [ListQuestion(CHANGE_GRAPH, "low", "crm"), ListQuestion(CHANGE_GRAPH, "low", "hr")]
    assert chosen.listed(entity, questions, "{}") == [True, False]
    assert isinstance(decide(chosen, {"branch": "draft-1"}, action=CHANGE_GRAPH, resource="crm"), Permitted)
    assert isinstance(decide(chosen, action=CHANGE_GRAPH, resource="crm"), Forbidden)


_WHEN_RESOURCE = "forbid (principal, action, resource) when"


@pytest.mark.parametrize(
    "text",
    [
        'forbid (principal, action, resource == Workflow::"refund");',
        f'{_WHEN_RESOURCE} {{ resource == Workflow::"refund" }};',
        f'{_WHEN_RESOURCE} {{ resource in [Workflow::"refund", Workflow::"pay"] }};',
        f'{_WHEN_RESOURCE} {{ resource.id like "ref*" }};',
        f'{_WHEN_RESOURCE} {{ {{"a": resource}}.a.id == "refund" }};',
        f'{_WHEN_RESOURCE} {{ if resource has id then resource.id == "refund" else true }};',
        # A resource that a condition names is known only if it is the one that is called.
        'permit (principal, action, resource) when { Workflow::"other".risk == "high" };',
        'forbid (principal, action, resource) unless { Workflow::"other".risk == "high" };',
    ],
)
def test_a_policy_that_looks_at_which_resource_it_is_decides_about_each_of_them(text: str) -> None:
    chosen = policies(ALL, f'@id("tested") {text}')
    refund, other = (type(decide(chosen, resource=name)) for name in ("refund", "other"))
    assert (refund, other) == (Forbidden, Permitted)
    assert type(decide(chosen, resource="refund")) is Forbidden, "whatever was decided meanwhile"


def test_a_decision_that_does_not_depend_on_the_resource_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    evaluated = []
    real = cedarpy.is_authorized_batch

    def counted(*given: Any) -> Any:
        evaluated.append(given)
        return real(*given)

    monkeypatch.setattr(cedarpy, "is_authorized_batch", counted)
    support = '@id("support") permit (principal in Group::"support", action, resource is Workflow)'
    chosen = policies(f'{support} when {{ principal.tenant == resource.tenant && resource.risk != "low" }};', LARGE)
    for number in range(20):
        outcome = decide(chosen, {"amount": 10}, resource=f"refund-{number}")
        assert outcome == Permitted(policy_version=chosen.version, policy_ids=("support",))
    assert len(evaluated) == 1
    assert type(decide(chosen, {"amount": 6000}, resource="refund-1")) is Forbidden
    assert type(decide(chosen, {"amount": 10}, principal=PERSON)) is Forbidden
