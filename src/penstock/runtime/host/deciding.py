"""Decisions that do not block the event loop: made directly if that is quick, in a thread if it may take long.

The engine is pure. So a decision that turns out to need a separate evaluation process, or that takes too many records,
is given up and made again in a thread; the first attempt changed nothing. A workflow that needed this once is decided
in a thread from then on. Plain moves are made from the workflow's plan, all other decisions by `decide`. The secret
parts of an input or an answer are sealed before the engine sees it, and it records the value without them.

Above it: the embedded host, which locks the run meanwhile. Below it: the engine; an evaluator; seals; threads that
tenants share.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TypeGuard

from msgspec.structs import replace

from penstock.base import limits
from penstock.base.json import JsonValue, exceeds_values
from penstock.definitions.jq.expressions import Evaluator, WouldWait
from penstock.definitions.model import Workflow
from penstock.definitions.schemas.compiled import CompiledSchema, Violation
from penstock.engine.decide import decide
from penstock.engine.folding.evolve import apply, fold
from penstock.engine.inputs import AnswerInterrupt, CompleteActivity, FinishChild, Input, SendSignal, StartRun
from penstock.engine.moves.plan import Plan
from penstock.engine.moves.taking import take
from penstock.engine.outcomes import Accepted, Decision
from penstock.engine.records import Record
from penstock.engine.state import RunState
from penstock.engine.walk.questions import may_be_secret, secrets_of_answer
from penstock.engine.walk.starting import has_secret_input, secrets_of_input
from penstock.runtime.sandbox.threads import FairThreadPool
from penstock.runtime.secrets import Sealer

__all__ = ["Decider", "SlicedFold"]


class Decider:
    """Makes decisions with one evaluator."""

    def __init__(self, evaluator: Evaluator, seals: Sealer) -> None:
        self._evaluator = evaluator
        self._seals = seals
        self._prompt = evaluator.prompt
        self._slow: dict[str, None] = {}
        self._plans: dict[str, Plan] = {}
        self._threads = FairThreadPool.for_workers("penstock-deciding")

    def try_decide(self, workflow: Workflow, state: RunState, given: Input) -> Decision | None:
        """Return a decision if it can be made quickly, or None if it may take long."""
        if workflow.hash in self._slow:
            return None
        given = _advance_time(state, given)
        try:
            plan = self._plans.get(workflow.hash) or self._new_plan(workflow)
            taken = take(plan, state, given, self._prompt)
            if taken is not None:
                return taken
            if exceeds_values(_value_of(given), limits.VALUES_AT_ONCE):
                return None
            if _may_be_secret(given, workflow, state):
                return None
            return decide(workflow, state, given, evaluator=self._prompt, records_max=limits.DECIDED_AT_ONCE)
        except WouldWait:
            self._slow[workflow.hash] = None
            if len(self._slow) > limits.SLOW_WORKFLOWS_REMEMBERED:
                del self._slow[next(iter(self._slow))]
            return None

    def try_take(self, workflow: Workflow, state: RunState, given: Input) -> Accepted | None:
        """Return a decision that is a plain move; None for any other, and if finding out would take long."""
        if workflow.hash in self._slow:
            return None
        given = _advance_time(state, given)
        try:
            return take(self._plans.get(workflow.hash) or self._new_plan(workflow), state, given, self._prompt)
        except WouldWait:
            return None  # it is decided again like any other input

    def _new_plan(self, workflow: Workflow) -> Plan:
        if len(self._plans) >= limits.PLANS_KEPT_MAX:
            del self._plans[next(iter(self._plans))]
        plan = self._plans[workflow.hash] = Plan(workflow)
        return plan

    async def decide(self, workflow: Workflow, state: RunState, given: Input) -> Decision:
        """Make a decision in a thread, so that it may take long without blocking others."""
        tenant = given.tenant if isinstance(given, StartRun) else state.tenant
        given = _advance_time(state, given)
        if _may_be_secret(given, workflow, state):
            if isinstance(given, StartRun):
                found = await self._threads.run(tenant, secrets_of_input, workflow, given, self._evaluator)
            else:
                found = await self._threads.run(tenant, secrets_of_answer, workflow, state, given)
            given = replace(given, sealed={place: await self._seals.seal(tenant, found[place]) for place in found})
        return await self._threads.run(tenant, decide, workflow, state, given, evaluator=self._evaluator)

    async def violations(self, schema: CompiledSchema, value: JsonValue, *, tenant: str) -> tuple[Violation, ...]:
        """Return every violation of a schema by a value; large values are checked in a thread."""
        try:
            return self._prompt.violations(schema, value)
        except WouldWait:
            return await self._threads.run(tenant, self._evaluator.violations, schema, value)


def _advance_time(state: RunState, given: Input) -> Input:
    """Return an input with a time that is not before the last record of its run.

    A clock that was set back would make the times of a history go back, too. Then nothing would tell that a timer of
    the run was set while the clock was ahead (see `timers`).
    """
    return given if given.at >= state.updated_at else replace(given, at=state.updated_at)


def _may_be_secret(given: Input, workflow: Workflow, state: RunState) -> TypeGuard[StartRun | AnswerInterrupt]:
    """Whether an input has parts that may have to be sealed first."""
    if isinstance(given, AnswerInterrupt):
        return may_be_secret(workflow, state, given)
    return isinstance(given, StartRun) and has_secret_input(workflow)


def _value_of(given: Input) -> JsonValue:
    """Return the value that an input brings from outside, which may be large."""
    match given:
        case StartRun(input=value) | CompleteActivity(result=value) | FinishChild(result=value):
            return value
        case SendSignal(payload=value) | AnswerInterrupt(answer=value):
            return value
        case _:
            return None


class SlicedFold:
    """Folds long histories in slices, so that other tasks get a turn of the event loop in between."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()

    async def fold(self, records: Sequence[Record]) -> RunState:
        """Return the state that a history leads to."""
        size = limits.FOLDED_AT_ONCE
        if len(records) <= size:
            return fold(records)
        state = RunState()
        for first in range(0, len(records), size):
            async with self._turn:
                for record in records[first : first + size]:
                    apply(state, record)
                # Release the lock only after all other tasks have had a turn.
                await asyncio.sleep(0)
        return state
