"""The policies in the guides are policies: they parse, and fit the schema of what can be called."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from penstock.governance.policy.source import parse_policies
from penstock.governance.policy.validation import validate
from penstock.operations.builtin import builtin_operations
from penstock.operations.catalogue.reasons import REASONS
from penstock.operations.runs.actions.nodes import NODE_ACTIONS
from penstock.operations.runs.actions.workflows import workflow_action

DOCS = Path(__file__).parents[2] / "docs"
GUIDES = DOCS / "guides"
PAGES = (GUIDES / "policies.md", GUIDES / "hide-fields.md", DOCS / "explanation" / "policies.md")
REFUND: dict[str, Any] = {
    "input": {"type": "object", "required": ["amount"], "properties": {"amount": {"type": "number"}}},
    "output": {
        "type": "object",
        "properties": {
            "card_number": {"type": "string"},
            "customer": {"type": "object", "properties": {"email": {"type": "string"}}},
        },
    },
}


def test_every_policy_of_the_pages_can_be_used() -> None:
    texts = (page.read_text(encoding="utf-8") for page in PAGES)
    blocks = [block for text in texts for block in re.findall(r"```cedar\n(.*?)```", text, re.DOTALL)]
    # The same policy stands in two pages.
    parsed = parse_policies("\n".join(dict.fromkeys(blocks)), "guide")
    refund = workflow_action("refund_order", REFUND)
    operations, nodes = (
        (item.policy_action for item in builtin_operations()),
        (it.action for it in NODE_ACTIONS.values()),
    )
    actions = {action.name: action for action in (*operations, *nodes, refund)}
    assert (parsed.problems, validate(parsed.policies, actions)) == ((), ())
    assert len(parsed.policies) == 13


def test_the_policies_of_the_guide_about_graphs_can_be_used() -> None:
    text = (GUIDES / "graph-operations.md").read_text(encoding="utf-8")
    parsed = parse_policies("\n".join(re.findall(r"```cedar\n(.*?)```", text, re.DOTALL)), "guide")
    actions = {item.policy_action.name: item.policy_action for item in builtin_operations()}
    assert (parsed.problems, validate(parsed.policies, actions)) == ((), ())
    assert [policy.id for policy in parsed.policies] == ["two-queries", "everything-of-hr"]


def test_the_codes_that_the_guide_about_graphs_explains_exist() -> None:
    text = (GUIDES / "graph-operations.md").read_text(encoding="utf-8")
    rows = text.partition("## Troubleshooting")[2].splitlines()
    codes = {code for row in rows for code in re.findall(r"`([A-Z][A-Z_]+)`", row.partition(" | ")[0])}
    assert len(codes) > 15
    assert codes <= REASONS.keys(), codes - REASONS.keys()
