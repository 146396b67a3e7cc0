"""A preflight that a call names is heeded under every preset: it is of exactly this call, valid, and used once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.base.clock import ManualClock
from penstock.governance.holds import PRESETS, Preset
from penstock.operations.gate.context import HoldChoices, WriteIntent
from penstock.operations.gate.pipeline import RefusedCall
from tests.scenarios.office import ERASE, Office, in_office

LOW = {**ERASE, "name": "greet_customer", "governance": {"risk": "low"}}
presets = pytest.mark.parametrize("preset", PRESETS)
START: dict[str, Any] = {"workflow_id": "greet_customer", "input": {"customer": "C-1"}, "sync": True}


async def looked(office: Office, who: str, operation: str, **arguments: Any) -> str:
    seen = await office.call(who, "preflight.run", operation=operation, arguments=arguments)
    handle: str = seen["preflight_id"]
    return handle


async def made(office: Office, who: str, operation: str, handle: str, **arguments: Any) -> str:
    """What comes of a call that names a preflight: the code of its refusal, or how it stands."""
    more = {"intent": WriteIntent(preflight_id=handle)}
    outcome = await office.outcome(who, operation, **arguments, request=more)
    if isinstance(outcome, RefusedCall):
        return outcome.error.code
    held = getattr(outcome.reply.value, "held", None)  # type: ignore[union-attr]  # no stream is asked for
    return "made" if held is None else f"held {held.denied_code}"


@presets
def test_a_handle_makes_exactly_its_call_once(tmp_path: Path, preset: Preset) -> None:
    clock = ManualClock(1_700_000_000_000)

    async def test(office: Office) -> None:
        await office.hire("shop", "service", "*")
        await office.hire("other", "service", "*")
        await office.call(office.owner, "workflow.create", document=LOW)
        call = ("shop", "workflow.execute")
        assert await made(office, *call, "pfl_unknown", **START) == "PREFLIGHT_NOT_FOUND"
        handle = await looked(office, *call, **START)
        assert await made(office, "other", "workflow.execute", handle, **START) == "PREFLIGHT_NOT_FOUND"
        assert await made(office, *call, handle, **START) == "made"
        assert await made(office, *call, handle, **START) == "PREFLIGHT_NOT_FOUND"
        handle = await looked(office, *call, **START)
        elsewhere: dict[str, Any] = {**START, "input": {"customer": "C-2"}}
        assert await made(office, *call, handle, **elsewhere) == "PREFLIGHT_MISMATCH"
        assert await made(office, *call, handle, **START) == "PREFLIGHT_NOT_FOUND", "a handle is tried once"
        handle = await looked(office, *call, **START)
        clock.advance(HoldChoices().preflight_ms)
        assert await made(office, *call, handle, **START) == "PREFLIGHT_NOT_FOUND"
        listed = await office.call(office.owner, "execution.list", workflow_id="greet_customer")
        assert len(listed["items"]) == 1

    in_office(tmp_path, test, HoldChoices(preset=preset), clock)


@presets
def test_a_handle_is_for_the_state_that_was_looked_at(tmp_path: Path, preset: Preset) -> None:
    async def test(office: Office) -> None:
        await office.hire("shop", "service", "*")
        await office.call(office.owner, "workflow.create", document=LOW)
        gone = {"workflow_id": "greet_customer"}
        handle = await looked(office, "shop", "workflow.delete", **gone)
        changed = {**LOW, "description": "It says more."}
        await office.call(office.owner, "workflow.update", **gone, document=changed)
        assert await made(office, "shop", "workflow.delete", handle, **gone) == "PREFLIGHT_MISMATCH"
        assert (await office.call(office.owner, "workflow.get", **gone))["id"] == "greet_customer"
        handle = await looked(office, "shop", "workflow.delete", **gone)
        assert await made(office, "shop", "workflow.delete", handle, **gone) == "made"

    in_office(tmp_path, test, HoldChoices(preset=preset))


def test_a_call_that_waits_anyway_uses_its_handle_up_and_is_refused_with_another_one(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        call = ("robot", "workflow:erase_customer")
        handle = await looked(office, *call, customer="C-7")
        assert await made(office, *call, handle, customer="C-8") == "PREFLIGHT_MISMATCH"
        handle = await looked(office, *call, customer="C-7")
        assert await made(office, *call, handle, customer="C-7") == "held None"
        assert await made(office, *call, handle, customer="C-7") == "PREFLIGHT_NOT_FOUND"

    in_office(tmp_path, test)


def test_a_grant_covers_no_harmless_call_with_the_handle_of_another(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        await office.call(office.owner, "workflow.create", document=LOW)
        granted = {"principal": office.people["robot"].id, "capabilities": ["workflow:greet_customer"]}
        await office.call(office.owner, "grant.create", **granted, expires_in="1h")
        call = ("robot", "workflow:greet_customer")
        handle = await looked(office, *call, customer="C-1")
        assert await made(office, *call, handle, customer="C-2") == "held PREFLIGHT_MISMATCH"
        handle = await looked(office, *call, customer="C-1")
        assert await made(office, *call, handle, customer="C-1") == "made"

    in_office(tmp_path, test, HoldChoices(preset="strict"))


def test_what_only_reads_takes_neither_a_handle_nor_a_witness(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        assert await made(office, "robot", "workflow.list", "pfl_unknown") == "PREFLIGHT_NOT_NEEDED"
        witnessed = {"intent": WriteIntent(state_witness_hash="0" * 64)}
        assert (await office.refusal("robot", "workflow.list", request=witnessed)).code == "WITNESS_UNSUPPORTED"
        justified = {"intent": WriteIntent(justification="they asked")}
        assert (await office.call("robot", "workflow.list", request=justified))["items"]

    in_office(tmp_path, test)


def test_a_decision_about_a_draft_cannot_be_looked_at_and_is_not_made_by_looking(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        await office.hire("lead", "person", "*")
        draft_id = await office.propose()
        for name in ("draft.approve", "draft.reject", "draft.cancel"):
            look = {"operation": name, "arguments": {"draft_id": draft_id}}
            assert (await office.refusal("lead", "preflight.run", **look)).code == "PREFLIGHT_UNSUPPORTED"
            assert (await office.call("lead", "draft.get", draft_id=draft_id))["status"] == "waiting"

    in_office(tmp_path, test)
