"""Whose a run is stands in its history, and in the keys of its work; of the default tenant nothing is said."""

from penstock.base.json import JsonObject
from penstock.engine import inputs
from penstock.engine.decide import decide
from penstock.engine.effects import PerformActivity
from penstock.engine.folding.evolve import fold
from penstock.engine.fork import fork
from penstock.engine.outcomes import Accepted
from penstock.engine.pending import pending
from penstock.engine.replay import Replayed, replay
from penstock.engine.state import RunState
from penstock.engine.walk.starting import successor_start
from tests.unit.engine.runs import T0, native, step


def started(tenant: str, *nodes: JsonObject) -> Accepted:
    """A run of a tenant that has just begun."""
    given = inputs.StartRun(at=T0, run_id="run", input={}, tenant=tenant)
    decision = decide(native(*nodes), RunState(), given)
    assert isinstance(decision, Accepted)
    return decision


def key_of(state: RunState, *nodes: JsonObject) -> str:
    """The idempotency key of what is to be done first."""
    [effect] = pending(native(*nodes), state, T0)
    assert isinstance(effect, PerformActivity)
    return effect.idempotency_key


def test_the_tenant_stands_in_the_first_record() -> None:
    decision = started("acme", step("a"))
    assert decision.records[0].payload["tenant"] == "acme"
    assert decision.state.tenant == "acme"
    assert fold(decision.records) == decision.state


def test_of_the_default_tenant_the_history_says_nothing() -> None:
    decision = started("default", step("a"))
    assert all("tenant" not in record.payload for record in decision.records)
    assert fold(decision.records).tenant == "default"


def test_a_key_is_of_the_tenant_and_those_of_the_default_tenant_stay_as_they_were() -> None:
    assert key_of(started("default", step("a")).state, step("a")) == "run/a/1"
    assert key_of(started("acme", step("a")).state, step("a")) == "acme/run/a/1"


def test_a_key_that_the_document_gives_is_used_as_it_is() -> None:
    node = step("a", idempotency_key="order-7")
    assert key_of(started("acme", node).state, node) == "order-7"


def test_a_history_is_replayed_in_its_tenant() -> None:
    decision = started("acme", step("a"))
    assert isinstance(replay(native(step("a")), decision.records), Replayed)


def test_a_fork_is_in_the_tenant_of_its_original() -> None:
    decision = started("acme", step("a"))
    carried = fork(decision.records, at_seq=len(decision.records), run_id="other")
    assert fold(carried).tenant == "acme"


def test_the_run_that_continues_another_is_in_its_tenant() -> None:
    nodes: tuple[JsonObject, ...] = (
        {"id": "w", "type": "wait", "signal": "go"},
        {"id": "s", "type": "switch", "cases": [{"when": ".input.stop == true", "next": "end"}], "default": "again"},
        {"id": "again", "type": "continue_as_new", "input": {}},
    )
    begun = started("acme", *nodes)
    decision = decide(native(*nodes), begun.state, inputs.SendSignal(at=T0, name="go"))
    assert isinstance(decision, Accepted)
    assert successor_start(native(*nodes), decision.state, at=T0).tenant == "acme"
