"""Policies are checked before they are used: types, names, and what they are together."""

from __future__ import annotations

import pytest

from penstock.governance.policy.schema import ActionShape
from penstock.governance.policy.shapes import record_of
from penstock.governance.policy.source import PolicyProblem, parse_policies
from penstock.governance.policy.validation import validate

REFUND = ActionShape(
    name="workflow:refund",
    groups=("call", "write"),
    resource_type="Workflow",
    input=record_of(
        {
            "type": "object",
            "required": ["amount"],
            "properties": {"amount": {"type": "number"}, "note": {"type": "string"}},
        }
    ),
)
CREATE = ActionShape(name="key.create", groups=("admin",), resource_type="Key")
ACTIONS = {action.name: action for action in (REFUND, CREATE)}
ALL = '@id("all") permit (principal, action, resource);'


def found(text: str, *, of_tenant: bool = False) -> list[PolicyProblem]:
    parsed = parse_policies(text, "p.cedar")
    assert parsed.problems == ()
    return [*validate(parsed.policies, ACTIONS, of_tenant=of_tenant)]


def test_good_policies_have_no_problems() -> None:
    text = (
        '@id("large") forbid (principal in Group::"support", action == Action::"workflow:refund", resource)'
        ' when { context.input.amount.greaterThan(decimal("500.0")) && context.network has address &&'
        ' !context.network.address.isInRange(ip("10.0.0.0/8")) && context.time.hour > 8 };'
        '@id("hourly") @history("n: count of workflow:refund by principal within 1h;'
        ' total: count of workflow:refund by tenant within 1h")'
        " forbid (principal, action, resource) when { context.history.n > 3 || context.history.total > 9 };"
    )
    assert found(ALL + text) == []


@pytest.mark.parametrize(
    ("condition", "told"),
    [
        ("principal.nme == 3", "attribute `nme`"),
        ("context.input.amount > 5", "unexpected type"),
        ('context.input.note == "x"', "optional attribute `input.note`"),
        ('context.input.amout == decimal("1.0")', "amout"),
        ("context.network.address.isLoopback()", "optional attribute `network.address`"),
        ("context.history.n > 1", "history"),
    ],
)
def test_what_cannot_be_evaluated_safely_is_an_error(condition: str, told: str) -> None:
    text = f'{ALL}\n@id("x") forbid (principal, action == Action::"workflow:refund", resource) when {{ {condition} }};'
    problems = found(text)
    assert any(told in str(item) for item in problems), problems
    assert {(item.policy_id, item.line, item.severity) for item in problems} == {("x", 2, "error")}


def test_a_tool_that_is_not_there_yet_is_a_warning() -> None:
    (problem,) = found(f'{ALL}@id("x") forbid (principal, action == Action::"workflow:refnd", resource);')
    assert problem.severity == "warning"
    assert 'did you mean Action::"workflow:refund"?' in problem.message


def test_an_operation_is_never_suggested_for_a_workflow() -> None:
    parsed = parse_policies(f'{ALL}@id("x") forbid (principal, action == Action::"workflow:create", resource);')
    create = ActionShape(name="workflow.create", groups=("write",), resource_type="Workflow")
    (problem,) = validate(parsed.policies, {create.name: create})
    assert "did you mean" not in problem.message


def test_a_policy_about_all_tools_may_be_there_before_the_first_tool() -> None:
    parsed = parse_policies(f'{ALL}@id("x") forbid (principal is Agent, action in Action::"call", resource);')
    (problem,) = validate(parsed.policies, {CREATE.name: CREATE})
    assert problem.severity == "warning"


def test_a_set_that_permits_nothing_is_an_error() -> None:
    (problem,) = found('@id("x") forbid (principal, action, resource);')
    assert "no policy permits anything" in problem.message


def test_a_tenant_cannot_permit() -> None:
    (problem,) = found(ALL, of_tenant=True)
    assert "only narrow" in problem.message
    assert found('@id("x") forbid (principal, action, resource);', of_tenant=True) == []


def test_two_policies_cannot_count_different_things_under_one_name() -> None:
    counted = '@history("n: count of key.create by {} within 1h") forbid (principal, action, resource);'
    text = f'{ALL}@id("a") {counted.format("principal")}@id("b") {counted.format("tenant")}'
    assert any("uses the name" in str(item) for item in found(text))


@pytest.mark.parametrize(
    ("field", "told"), [("amount", None), ("note", "note is not a number"), ("amout", "is not a declared argument")]
)
def test_what_is_added_up_must_be_a_declared_number(field: str, told: str | None) -> None:
    text = (
        f'@id("x") @history("spent: sum of {field} of workflow:refund by principal within 1h")'
        ' forbid (principal, action, resource) when { context.history.spent.greaterThan(decimal("10.0")) };'
    )
    problems = found(ALL + text)
    assert [told in item.message for item in problems if told is not None] == ([] if told is None else [True])
    assert all(item.severity == "error" for item in problems)


def test_a_sum_is_compared_as_a_decimal() -> None:
    text = (
        '@id("x") @history("spent: sum of amount of workflow:refund by principal within 1h")'
        " forbid (principal, action, resource) when { context.history.spent > 10 };"
    )
    assert any("type" in item.message for item in found(ALL + text))


def test_stored_queries_are_inside_their_graphs() -> None:
    run = ActionShape(name="query:crm/find", groups=("call", "read", "graph:invoke_query"), resource_type="StoredQuery")
    known = {run.name: run}
    fine = parse_policies(
        '@id("a") permit (principal, action in Action::"graph:invoke_query", resource in Graph::"crm");'
    )
    assert validate(fine.policies, known) == ()
    wrong = parse_policies(
        '@id("a") permit (principal, action == Action::"query:crm/find", resource in Workflow::"crm");'
    )
    assert validate(wrong.policies, known)
