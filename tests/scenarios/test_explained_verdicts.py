"""What `policy.explain` says of a call is what the gate does with it: made, held or refused."""

from __future__ import annotations

from itertools import count, product
from pathlib import Path
from typing import Any

import pytest

from penstock.governance.holds import PRESETS, Preset
from penstock.operations.gate.context import HoldChoices
from penstock.operations.gate.pipeline import RefusedCall
from tests.scenarios.office import ERASE, Office, in_office

_KINDS: dict[str, tuple[str, tuple[str, ...]]] = {
    "anna": ("person", ("*",)),
    "shop": ("service", ("*",)),
    "bot": ("agent", ("*",)),
    "poor": ("agent", ("workflow:read",)),
}
_POLICIES = """
@id("no_ten") forbid(principal, action == Action::"workflow:greet", resource) when { context.input.customer == "ten" };
@id("ask") @outcome("approval") @approvers("leads") @quorum("2")
forbid(principal, action == Action::"workflow:greet", resource) when { context.input.customer == "two" };
"""


def _workflow(name: str, **governance: Any) -> dict[str, Any]:
    return {**ERASE, "name": name, "governance": governance}


_WORKFLOWS = (
    _workflow("greet", risk="low"),
    _workflow("always", draft="always"),
    _workflow("confirmed", confirm=True),
    {
        **_workflow("parent", risk="low"),
        "nodes": [
            {"id": "c", "type": "subworkflow", "workflow": "erase_customer", "input": "${ .input }"},
            {"id": "done", "type": "end"},
        ],
    },
)
_CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    *((f"workflow:{name}", {"customer": "C"}) for name in ("greet", "always", "confirmed", "parent", "erase_customer")),
    *(("workflow:greet", {"customer": name}) for name in ("ten", "two")),
    *(
        ("workflow.execute", {"workflow_id": name, "input": {"customer": "C"}})
        for name in ("greet", "always", "erase_customer")
    ),
    ("workflow.list", {}),
    ("model.create", {"id": "m", "provider": "mock", "model": "m", "replies": []}),
    ("graph.create", {"id": "g", "schema": "node Person { name: String @key }"}),
    ("preflight.run", {"operation": "workflow:greet", "arguments": {"customer": "C"}}),
)
_MEANS = {"permitted": "made", "held": "held", "approval": "held"}


@pytest.mark.parametrize("preset", PRESETS)
def test_the_verdict_is_what_the_gate_does(tmp_path: Path, preset: Preset) -> None:
    async def test(office: Office) -> None:
        for document in _WORKFLOWS:
            await office.call(office.owner, "workflow.create", document=document)
        for name, (kind, scopes) in _KINDS.items():
            await office.hire(name, kind, *scopes)
        await office.call(office.owner, "policy.put", policy_id="some", text=_POLICIES)
        numbers = count()
        for name, surface in product(_KINDS, ("rest", "mcp")):
            clerk = await office.hire(f"{name} {surface}", "person", "policy:read")  # nobody may ask too often
            for operation, known in _CALLS:
                arguments = {**known, "id": f"x{next(numbers)}"} if "id" in known else known
                told = await office.call(
                    clerk,
                    "policy.explain",
                    action=operation,
                    arguments=arguments,
                    key=office.people[name].key_id,
                    surface=surface,
                )
                outcome = await office.outcome(name, operation, request={"surface": surface}, **arguments)
                did = "refused"
                if not isinstance(outcome, RefusedCall):
                    value = getattr(outcome.reply, "value", None)
                    did = "held" if getattr(value, "held", None) is not None else "made"
                said = _MEANS.get(told["call"], "refused")
                assert said == did, (preset, name, operation, arguments, surface, told, outcome)
                assert (told["held_because"] is not None) == (did == "held")
                if did == "held":
                    assert told["approvers"]

    in_office(tmp_path, test, HoldChoices(preset=preset))


# Refusals that are about who calls; all others are about what is there, and come after the verdict.
_OF_AUTHORITY = frozenset({"SCOPE_REQUIRED", "POLICY_DENIED"})
_FORBIDS = """
@id("no_bot_keys") forbid(principal is Agent, action == Action::"key.list", resource);
@id("ask_first") @outcome("approval") @approvers("leads")
forbid(principal is Service, action == Action::"key.create", resource);
"""
_NAMED: dict[str, dict[str, Any]] = {
    "upstream.refresh": {"server": "everything-shop"},
    "upstream.begin_sign_in": {"server": "everything-vault", "redirect_uri": "http://127.0.0.1:1/back"},
}


@pytest.mark.parametrize("preset", PRESETS)
def test_the_verdict_on_every_operation_is_what_the_gate_does(tmp_path: Path, preset: Preset) -> None:
    """With the arguments of its example, and for each kind of caller."""

    async def test(office: Office) -> None:
        for name, (kind, scopes) in _KINDS.items():
            await office.hire(name, kind, *scopes)
        await office.call(office.owner, "policy.put", policy_id="some", text=_FORBIDS)
        numbers = count()
        wrong, known = [], office.gate.catalogue.all()
        groups = [known[first : first + 80] for first in range(0, len(known), 80)]
        for name, group in product(_KINDS, groups):
            clerk = await office.hire(f"clerk {next(numbers)}", "person", "policy:read")  # nobody may ask too often
            for capability in group:
                given = capability.examples[0].arguments if capability.examples else {}
                arguments = _NAMED.get(capability.name, given)
                asked = {"action": capability.name, "arguments": arguments, "key": office.people[name].key_id}
                told = await office.call(clerk, "policy.explain", surface="rest", **asked)
                outcome = await office.outcome(name, capability.name, **arguments)
                said = _MEANS.get(told["call"], "refused")
                if isinstance(outcome, RefusedCall):
                    fits = said == "refused" or outcome.error.code not in _OF_AUTHORITY
                else:
                    held = getattr(getattr(outcome.reply, "value", None), "held", None) is not None
                    fits = said == ("held" if held else "made")
                if not fits:
                    wrong.append((name, capability.name, told["call"], getattr(outcome, "error", "answered")))
        assert not wrong

    in_office(tmp_path, test, HoldChoices(preset=preset))
