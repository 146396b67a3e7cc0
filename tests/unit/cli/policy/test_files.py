"""`penstock policy`: what the commands print, and how they end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from penstock.cli.main import app

ROOT = Path(__file__).parents[4]
EXAMPLES = ROOT / "examples" / "policies"
ALL = '@id("all") permit (principal, action, resource);\n'


def penstock(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["policy", *arguments])


def answered(*arguments: str) -> tuple[int, Any]:
    result = penstock(*arguments, "--json")
    return result.exit_code, json.loads(result.stdout)


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(name: str, text: str) -> str:
    Path(name).write_text(text, encoding="utf-8")
    return name


def test_every_case_of_the_examples_holds() -> None:
    code, report = answered("test", str(EXAMPLES))
    assert (code, report["failed"]) == (0, 0), report
    assert report["passed"] >= 18


def test_a_case_that_does_not_hold_says_why() -> None:
    write("p.cedar", ALL)
    cases = write(
        "p.tests.yaml", "cases: [{name: nobody lists, action: workflow.list, expect: forbidden, policies: []}]"
    )
    result = penstock("test", cases)
    assert result.exit_code == 1
    assert "expected forbidden, but it is permitted by all" in result.stdout
    assert "0 of 1 cases hold" in result.stdout


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("cases: [{name: x}]", "action"),
        ("cases: [{name: x, action: no.such}]", "there is no action no.such"),
        ("cases: [{name: x, action: workflow.list, acton: 1}]", "acton"),
        ("cases: [{name: x, action: workflow.list, from: {at: soon}}]", "is not a time"),
        ("cases: [{name: x, action: workflow.list, history: {n: 1}}]", "no policy counts n"),
        ("other: 1", "has no `cases`"),
        ("cases: []\nmore: 1", "nothing is known about `more`"),
    ],
)
def test_a_case_with_a_mistake_is_no_case(text: str, told: str) -> None:
    write("p.cedar", ALL)
    result = penstock("test", write("p.tests.yaml", text))
    assert result.exit_code == 2
    assert told in result.output


def test_mistakes_are_printed_with_their_places() -> None:
    file = write("p.cedar", ALL + '@id("x") forbid (principal, action, resource) when { principal.nme == "a" };\n')
    result = penstock("check", file)
    assert result.exit_code == 1
    assert "error: p.cedar:2 (x): attribute `nme`" in result.stdout
    code, report = answered("check", file)
    assert (code, report["ok"], report["problems"][0]["line"]) == (1, False, 2)
    assert answered("check", write("p.cedar", ALL))[0] == 0
    assert penstock("check", "nothing.cedar").exit_code == 2


def test_policies_are_checked_against_the_workflows_of_the_project() -> None:
    Path("flows").mkdir()
    write("penstock.yaml", "workflows: {paths: [flows]}\npolicy: {files: [p.cedar]}\n")
    write(
        "flows/refund.yaml",
        "penstock: v1\nname: refund\ninput: {type: object, required: [amount], properties: {amount: {type: integer}}}\n"
        "nodes: [{id: done, type: end}]\n",
    )
    rule = '@id("x") forbid (principal, action == Action::"workflow:refund", resource) when {{ {} }};'
    write("p.cedar", ALL + rule.format("context.input.amount > 5"))
    assert penstock("check").exit_code == 0
    write("p.cedar", ALL + rule.format('context.input.amount == "5"'))
    assert penstock("check").exit_code == 1
    write("p.cedar", ALL + rule.format("context.input.amuont > 5"))
    assert penstock("check").exit_code == 1


def test_policies_are_checked_against_what_nodes_reach() -> None:
    rule = '@id("x") forbid (principal, action == Action::"node:http", resource) when {{ {} }};'
    write("p.cedar", ALL + rule.format('context.input.host == "example.com"'))
    code, report = answered("check", "p.cedar")
    assert (code, report["problems"]) == (0, [])
    write("p.cedar", ALL + rule.format('context.input.hots == "example.com"'))
    assert penstock("check", "p.cedar").exit_code == 1


def test_two_sets_are_compared_on_sample_requests() -> None:
    old = write("old.cedar", ALL)
    new = write(
        "new.cedar", ALL + '@id("no") forbid (principal is Agent, action == Action::"workflow.delete", resource);'
    )
    cases = write(
        "c.tests.yaml",
        "cases:\n- {name: an agent deletes, principal: {kind: agent}, action: workflow.delete}\n"
        "- {name: a person deletes, action: workflow.delete}\n",
    )
    result = penstock("diff", old, new, cases)
    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        "permitted -> forbidden  an agent deletes (no longer listed)",
        "1 of 2 requests are decided differently",
    ]
    assert answered("diff", old, old, cases) == (0, {"requests": 2, "changed": 0, "rows": []})


def test_a_call_is_explained_and_the_trail_replayed_on_a_file() -> None:
    runner = CliRunner()
    file = write(
        "p.cedar", ALL + '@id("no-agents") forbid (principal is Agent, action == Action::"key.list", resource);'
    )
    write("penstock.yaml", f"policy: {{files: [{file}]}}\n")
    made = runner.invoke(app, ["key", "create", "--name", "bot", "--scopes", "key:read", "--kind", "agent"])
    assert made.exit_code == 0, made.output
    refused = penstock("explain", "--as", "key:bot", "key.list")
    assert refused.exit_code == 1
    assert refused.stdout.splitlines() == [
        'listed: no (policy "no-agents", scope key:read)',
        'call:   refused (policy "no-agents"): the policy no-agents forbids it',
    ]
    allowed = penstock("explain", "--as", '{"kind": "person", "scopes": ["key:read"]}', "key.list")
    assert allowed.stdout.splitlines() == [
        'listed: yes (policy "all", scope key:read)',
        'call:   permitted (policy "all")',
    ]
    stricter = write("new.cedar", '@id("reads") permit (principal, action in Action::"read", resource);')
    replayed = penstock("replay", stricter)
    assert replayed.exit_code == 1
    assert "would now be refused" in replayed.stdout
    assert "key.create" in replayed.stdout
