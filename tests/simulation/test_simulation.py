"""The engine in a world of faults, for a small number of seeds; `scripts/simulate` runs many more.

The last tests break the engine on purpose: a simulation that finds nothing then would be worth nothing.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from penstock.definitions.source.findings import Severity
from penstock.definitions.validate import validate_document
from penstock.engine.folding.evolve import _HANDLERS
from penstock.engine.folding.reading import Handler
from penstock.engine.records import Body, Record, commands, events
from penstock.engine.state import RunState
from tests.simulation.scenario import simulate_seed
from tests.simulation.workflows import family

SEEDS = 40
TORN_SEEDS = 24
EVERY_CUT_SEEDS = (7, 11, 16)
BROKEN_SEEDS_MAX = 200


@pytest.mark.parametrize("seed", range(SEEDS))
def test_every_run_ends_and_every_invariant_holds(seed: int) -> None:
    report = simulate_seed(seed)
    assert report.failure is None, f"scripts/simulate --seed {seed}\n{report.details}"


@pytest.mark.parametrize("seed", range(TORN_SEEDS))
def test_a_log_that_was_torn_inside_a_decision_leads_to_the_same_end(seed: int) -> None:
    report = simulate_seed(seed, torn=True)
    assert report.failure is None, f"scripts/simulate --seed {seed} --torn\n{report.details}"


@pytest.mark.parametrize("seed", EVERY_CUT_SEEDS)
def test_a_history_may_be_cut_after_any_row(seed: int) -> None:
    report = simulate_seed(seed, every_cut=True)
    assert report.failure is None, f"scripts/simulate --seed {seed}\n{report.details}"


def test_equal_seeds_do_equal_things() -> None:
    told: list[list[str]] = [[], []]
    for lines in told:
        simulate_seed(5, tell=lines.append)
    assert told[0] == told[1]
    assert len(told[0]) > 10


def test_different_seeds_do_different_things() -> None:
    told: list[list[str]] = [[], []]
    for seed, lines in enumerate(told):
        simulate_seed(seed, tell=lines.append)
    assert told[0] != told[1]


@pytest.mark.parametrize("seed", range(0, 200, 10))
def test_every_random_document_is_valid(seed: int) -> None:
    documents = family(random.Random(seed))
    for document in (documents.main, documents.sibling, *documents.children.values()):
        errors = [item for item in validate_document(document) if item.severity is Severity.ERROR]
        assert errors == []


# --- a broken engine is found ---------------------------------------------------------------------


def drop_a_result(handler: Handler) -> Handler:
    def broken(draft: RunState, record: Record, body: Any) -> None:
        """Forget that the activity came back."""

    return broken


def forget_signal_ids(handler: Handler) -> Handler:
    def broken(draft: RunState, record: Record, body: Any) -> None:
        handler(draft, record, body)
        draft.signal_ids = {}

    return broken


def undo_in_order_of_completion(handler: Handler) -> Handler:
    def broken(draft: RunState, record: Record, body: Any) -> None:
        before = draft.compensations
        handler(draft, record, body)
        if len(draft.compensations) > len(before):
            draft.compensations = (draft.compensations[-1], *before)

    return broken


def open_one_body_too_many(handler: Handler) -> Handler:
    def broken(draft: RunState, record: Record, body: Any) -> None:
        handler(draft, record, replace(body, concurrency=99))

    return broken


def forget_the_deadline(handler: Handler) -> Handler:
    def broken(draft: RunState, record: Record, body: Any) -> None:
        handler(draft, record, replace(body, deadline=None))

    return broken


def lose_a_child(handler: Handler) -> Handler:
    def broken(draft: RunState, record: Record, body: Any) -> None:
        handler(draft, record, body)
        draft.children = {}

    return broken


def lose_carried_signals(handler: Handler) -> Handler:
    def broken(draft: RunState, record: Record, body: Any) -> None:
        handler(draft, record, body)
        draft.signals = ()

    return broken


def forget_the_next_run(handler: Handler) -> Handler:
    def broken(draft: RunState, record: Record, body: Any) -> None:
        handler(draft, record, body)
        draft.continuation = None

    return broken


BREAKAGES: dict[str, tuple[type[Body], Callable[[Handler], Handler]]] = {
    "a result is dropped": (events.ActivityCompleted, drop_a_result),
    "signal ids are forgotten": (events.SignalBuffered, forget_signal_ids),
    "nodes are undone in the wrong order": (commands.CompleteNode, undo_in_order_of_completion),
    "a timer has no deadline": (events.TimerStarted, forget_the_deadline),
    "items run all at once": (events.ForEachStarted, open_one_body_too_many),
    "carried signals are lost": (events.ExecutionStarted, lose_carried_signals),
    "the next run of a chain is never started": (events.ExecutionContinued, forget_the_next_run),
    "a child is forgotten when the run is cancelled": (events.ExecutionCancelled, lose_a_child),
}


@pytest.mark.parametrize("name", list(BREAKAGES))
def test_a_broken_engine_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, breaking = BREAKAGES[name]
    monkeypatch.setitem(_HANDLERS, kind, breaking(_HANDLERS[kind]))
    reports = (simulate_seed(seed) for seed in range(BROKEN_SEEDS_MAX))
    assert next((report.failure for report in reports if report.failure is not None), None) is not None
