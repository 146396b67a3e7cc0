"""What must hold of a finished history: replay, order of undoing, order of results, secrets, children.

Above it: `scenario`. Below it: the engine. What must hold after every single append is checked in `ledger`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.base.ids import next_in_chain
from penstock.definitions.model import ActivityDetail, ForEachDetail, ItemErrorPolicy, ParallelDetail, Workflow
from penstock.engine.folding.evolve import fold
from penstock.engine.records import Record
from penstock.engine.replay import Diverged, Replayed, replay
from penstock.engine.state import COMPENSATION_PREFIX, RunState
from penstock.engine.status import run_status
from penstock.engine.walk.questions import open_questions
from tests.simulation.cuts import essence
from tests.simulation.ledger import TERMINAL_RECORDS, require
from tests.simulation.world import SECRET_VALUE, SimulatedRun

__all__ = [
    "NAMED_WAITS",
    "check_at_most_once",
    "check_chains",
    "check_children",
    "check_compensations",
    "check_frames",
    "check_history",
    "check_item_order",
    "check_replay",
]

NAMED_WAITS = frozenset(
    {"waiting_input", "waiting_signal", "waiting_child", "waiting_activity", "waiting_decision", "waiting_timer"}
)


def check_history(run: SimulatedRun) -> None:
    """Everything that must hold of one run's history when the world has come to rest."""
    records, state = run.ledger.records, run.ledger.recovered()
    ends = [record for record in records if record.name in TERMINAL_RECORDS]
    require(len(ends) == int(state.terminal), f"{len(ends)} terminal records in a run that is {state.status}")
    require(not state.terminal or records[-1] is ends[0], "something follows the terminal record")
    # A run that is being undone says so also while a step of that asks somebody something.
    require(
        state.terminal or run_status(state) in NAMED_WAITS or bool(open_questions(state)),
        f"the run ended neither terminal nor in a named wait: {run_status(state)}",
    )
    require(not any(SECRET_VALUE.encode() in row for row in run.ledger.rows), "a resolved secret stands in the history")
    check_compensations(records, state)
    check_at_most_once(run.workflow, records)
    check_item_order(run.workflow, records)
    check_replay(run.workflow, records, state, torn=run.ledger.cuts > 0)


def check_replay(workflow: Workflow, records: Sequence[Record], state: RunState, *, torn: bool) -> None:
    """Replay finds the same commands, nothing missing, and the same state."""
    outcome = replay(workflow, records)
    if isinstance(outcome, Diverged):
        require(False, f"replay diverged: {outcome.message}")
    if not isinstance(outcome, Replayed):
        require(False, f"replay was refused: {outcome}")
        return
    missing = [record.name for record in outcome.missing]
    require(not missing, f"replay misses {missing}")
    if torn:
        # What was finished after the tear carries a later time than in the replayed decision.
        require(essence(outcome.state) == essence(state), "replay of a torn history ends differently")
    else:
        require(outcome.state == state, "replay gives another state")
        require(list(outcome.records) == list(records), "replay gives other records")


def check_compensations(records: Sequence[Record], state: RunState) -> None:
    """Nodes are undone in the reverse order of their completion, each once, and only in a run that did not complete."""
    to_undo: list[tuple[str, int]] = []
    undone: list[tuple[str, int]] = []
    for record in records:
        payload = record.payload
        node_id = str(payload.get("nodeId", ""))
        if record.name == "CompleteNode" and "compensation" in payload:
            require(not node_id.startswith(COMPENSATION_PREFIX), "an undoing is to be undone")
            to_undo.append((node_id, _number(payload["visit"])))
        if record.name == "ScheduleNode" and "compensates" in payload:
            undone.append((node_id.removeprefix(COMPENSATION_PREFIX), _number(payload["compensates"])))
    require(undone == to_undo[::-1][: len(undone)], f"undone {undone}, completed {to_undo}")
    if str(state.status) in ("failed", "cancelled"):
        require(len(undone) == len(to_undo), f"only {len(undone)} of {len(to_undo)} nodes were undone")
    else:
        require(not undone or state.ending is not None, "a run that goes on undid something")


def _number(value: object) -> int:
    require(isinstance(value, int), f"{value!r} is no number")
    return value if isinstance(value, int) else 0


def check_at_most_once(workflow: Workflow, records: Sequence[Record]) -> None:
    """An activity that may happen only once is not tried again by itself while its outcome is in doubt."""
    for record in records:
        node = workflow.nodes.get(str(record.payload.get("nodeId", "")))
        if record.name == "ActivityFailed" and node is not None and isinstance(node.detail, ActivityDetail):
            doubtful = node.detail.at_most_once and record.payload.get("code") == "TIMEOUT"
            require(not doubtful or "willRetry" not in record.payload, f"{node.id} would happen twice")


def check_item_order(workflow: Workflow, records: Sequence[Record]) -> None:
    """The results of a for_each stand in the order of its items, whatever order they came in."""
    for record in records:
        node = workflow.nodes.get(str(record.payload.get("nodeId", "")))
        if record.name != "CompleteNode" or node is None or not isinstance(node.detail, ForEachDetail):
            continue
        output = record.payload["output"]
        if node.detail.result is None or not isinstance(output, list) or "fallback" in record.payload:
            continue
        seen = [
            (place, item["position"])
            for place, item in enumerate(output)
            if isinstance(item, dict) and "position" in item
        ]
        positions = [_number(position) for _, position in seen]
        require(positions == sorted(set(positions)), f"results of {node.id} are out of order: {positions}")
        if node.detail.on_item_error is not ItemErrorPolicy.SKIP:
            require(all(place == position for place, position in seen), f"results of {node.id} are shifted: {seen}")


def check_frames(workflow: Workflow, state: RunState) -> None:
    """No node runs more bodies at once than it may, and every open body is a scope of the run."""
    for activation in state.activations():
        frame = activation.frame
        if frame is not None:
            detail = workflow.nodes[activation.node_id].detail
            allowed = detail.concurrency if isinstance(detail, ForEachDetail | ParallelDetail) else 1
            require(len(frame.open) <= allowed, f"{activation.node_id} runs {len(frame.open)} bodies at once")
            require(all(serial in state.scopes for serial in frame.open.values()), "an open body has no scope")
    for key, serial in state.active.items():
        scope = state.scopes.get(serial)
        require(scope is not None and scope.activation is not None and scope.activation.key == key, f"{key} is lost")


def check_children(runs: Mapping[str, SimulatedRun], *, at_rest: bool) -> None:
    """No run forgets a child that goes on; at rest, a run that has ended has no child that has not."""
    for run_id, run in runs.items():
        for child_id in sorted(run.ledger.children - set(run.ledger.state.children)):
            child = last_of_chain(runs, child_id)
            require(child is None or child.ledger.state.terminal, f"{run_id} forgot {child_id}, which goes on")
        if not at_rest:
            continue
        if run.ledger.state.terminal:
            for child_id in sorted(run.ledger.children):
                child = last_of_chain(runs, child_id)
                require(child is None or child.ledger.state.terminal, f"{child_id} outlives its parent {run_id}")


def last_of_chain(runs: Mapping[str, SimulatedRun], run_id: str) -> SimulatedRun | None:
    """The last run of a chain that was started; None when not even the first was."""
    run = runs.get(run_id)
    while run is not None and (successor := runs.get(run.ledger.state.continued_as or "")) is not None:
        run = successor
    return run


def check_chains(runs: Mapping[str, SimulatedRun]) -> None:
    """Every run that was continued has its successor, which took over everything that goes on."""
    for run_id, run in runs.items():
        state, last = run.ledger.state, run.ledger.records[-1]
        if last.name != "ExecutionContinued":
            require(next_in_chain(run_id) not in runs, f"{run_id} was not continued, and yet there is a next run")
            continue
        successor = runs.get(str(last.payload["successorExecutionId"]))
        require(successor is not None, f"{last.payload['successorExecutionId']} was never started")
        if successor is None:
            return
        after, first = successor.ledger.state, fold(successor.ledger.records[:1])
        require(str(state.status) == "completed", f"{run_id} was continued and is {state.status}")
        require(after.continued_from == run_id, f"{after.run_id} continues {after.continued_from}, not {run_id}")
        require(after.generation == state.generation + 1, f"{after.run_id} is run {after.generation} of its chain")
        require((after.parent_run_id, after.depth) == (state.parent_run_id, state.depth), "the parent is not kept")
        require(after.mode == state.mode, "the mode is not kept")
        require(after.chain_deadline == state.chain_deadline, "the time of the chain is not kept")
        require(first.signals == state.signals, f"signals were lost between {run_id} and {after.run_id}")
        require(list(first.signal_ids) == list(state.signal_ids), "ids of signals were lost")
