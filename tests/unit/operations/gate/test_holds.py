"""Calls that wait: what is said to be made now, without a look at anything, would not be held either."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import get_args

import pytest

from penstock.governance.holds import Preset
from penstock.governance.intents import ApprovedCall, HoldChoices, WriteIntent
from penstock.governance.principals import Principal, PrincipalKind
from penstock.operations.builtin import builtin_operations
from penstock.operations.gate.context import Context, Request, Services, Surface
from penstock.operations.gate.holds import HoldStage, facts_of
from tests.unit.operations.conftest import OpenGate

CHANGING = [capability for capability in builtin_operations() if not capability.only_reads]
SURFACES: tuple[Surface, ...] = ("rest", "mcp", "cli", "run", "schedule", "system")


def contexts(services: Services, **more: object) -> Iterator[Context]:
    """Every operation that changes something, by every kind of caller, on every surface."""
    kinds: tuple[PrincipalKind, ...] = get_args(PrincipalKind)
    for capability, kind, surface in product(CHANGING, kinds, SURFACES):
        principal = Principal(id="key:a", tenant="default", kind=kind, scopes=frozenset({"*"}))
        request = Request(
            operation=capability.name,
            arguments={},
            principal=principal,
            surface=surface,
            request_id="r",
            **more,  # type: ignore[arg-type]  # fields of a request
        )
        yield Context(services=services, principal=principal, request=request, capability=capability)


@pytest.mark.parametrize("preset", get_args(Preset))
def test_a_call_that_is_free_has_no_reason_to_wait(open_caller: OpenGate, preset: Preset) -> None:
    async def body() -> tuple[int, int]:
        free = others = 0
        async with open_caller() as caller:
            services = replace(caller.gate.services, holds=HoldChoices(preset=preset))
            stage = HoldStage(services)
            for context in contexts(services):
                if not stage.is_free(context, None):
                    others += 1
                    continue
                free += 1
                assert await stage.settle(context, None) is None
                if context.capability.governance.holdable:
                    facts = facts_of(context.request, context.capability.governance)
                    assert await stage.hold_of(context, facts) is None, (context.capability.name, context.request)
        return free, others

    free, others = asyncio.run(body())
    assert free
    assert others or preset == "open"


def test_a_call_that_was_approved_or_says_what_it_intends_is_looked_at(open_caller: OpenGate) -> None:
    async def body() -> None:
        async with open_caller() as caller:
            stage = HoldStage(caller.gate.services)
            approval = ApprovedCall(draft_id="d", approval_id="a", digest="x", expires_at=0, votes=())
            for context in contexts(caller.gate.services, approval=approval):
                assert not stage.is_free(context, None)
            for context in contexts(caller.gate.services, intent=WriteIntent(state_witness_hash="x")):
                assert not stage.is_free(context, None)

    asyncio.run(body())
