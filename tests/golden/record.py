"""The command behind `scripts/record-histories`: adds golden histories of the engine as it is now.

Four sources: the test cases of the examples, runs of the simulator (chosen for what they have that others have not),
the scripted runs of `scripted`, and the agents of `agents`. A history that is there already is left alone, whatever
this engine would write.

The last line on stdout is one JSON object with the figures.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from unittest.mock import patch

from penstock import __version__
from penstock.definitions.model import Workflow
from penstock.engine import inputs
from penstock.engine.decide import decide
from penstock.engine.folding.evolve import fold
from penstock.engine.outcomes import Accepted, Decision
from penstock.engine.records import Record
from penstock.engine.state import RunState
from penstock.engine.status import run_status
from penstock.runtime.host import memory
from penstock.runtime.simulation.cases import run_case
from tests.examples.cases import all_cases, load_example, workflows_by_name
from tests.golden.agents import agent_cases
from tests.golden.history import HISTORIES, Golden, Heading, due_ids, limited, portrait, row_bytes, step_of, write
from tests.golden.scripted import scripted_runs
from tests.simulation.scenario import lived

__all__ = ["main"]

_SEEDS = 400
_TORN_SEEDS = 80
_ROWS_MAX = 160  # of a simulated run: longer ones say little more
_KEPT_PER_KIND = 1  # how many histories show the same thing
_NAME_LENGTH_MAX = 120


@dataclass(kw_only=True)
class Recording:
    """A run as it goes: every input, and how many of its records were kept."""

    source: str
    workflow: Workflow
    records: list[Record] = field(default_factory=list)
    taken: list[tuple[inputs.Input, int, int]] = field(default_factory=list)
    limits: dict[str, int] = field(default_factory=dict)

    def golden(self) -> Golden:
        """The run in the form of the files."""
        steps, state, seen = [], RunState(), 0
        for given, written, decided in self.taken:
            if not written:
                continue
            records = self.records[seen : seen + written]
            seen += written
            state = fold(records, state)
            rows = [row_bytes(state.run_id, record) for record in records]
            cut = written < decided
            status, due = run_status(state), due_ids(self.workflow, state, given.at)
            steps.append(step_of(given, rows, status=status, due=due, cut=cut))
        heading = Heading(
            source=self.source,
            format="native" if "penstock" in self.workflow.document else "published",
            engine=__version__,
            definition_hash=self.workflow.hash,
            document=self.workflow.document,
            limits=self.limits,
        )
        return Golden(
            heading=heading, steps=tuple(steps), portrait=portrait(self.workflow, state, self.taken[-1][0].at)
        )

    def traits(self) -> set[str]:
        """What there is to see in it: record names by format and node type, inputs, endings, failure codes."""
        form = "native" if "penstock" in self.workflow.document else "published"
        found = {f"{form} input {type(given).__name__}" for given, written, _ in self.taken if written}
        for record in self.records:
            node = self.workflow.nodes.get(str(record.payload.get("nodeId")))
            kind = "" if node is None else node.type
            found.add(f"{form} {record.name} {kind}")
            if record.name.endswith("Failed"):
                found.add(f"{form} {record.name} {record.payload.get('code')}")
        return found


# --- sources -------------------------------------------------------------------------------------


def examples() -> Iterator[Recording]:
    """The runs of every test case of every example, child runs too."""
    known = workflows_by_name()
    for case in all_cases():
        recorder = _Recorder(case.name)
        with patch.object(memory, "decide", recorder.decide):
            run_case(load_example(case.example), case.value, workflows=known)
        yield from recorder.runs.values()


def agents() -> Iterator[Recording]:
    """The runs of agents that say everything that a block may say."""
    for workflow, case in agent_cases():
        recorder = _Recorder(f"agent {workflow.name}: {case['name']}")
        with patch.object(memory, "decide", recorder.decide):
            run_case(workflow, case)
        yield from recorder.runs.values()


@dataclass
class _Recorder:
    """`decide`, with a memory."""

    source: str
    runs: dict[str, Recording] = field(default_factory=dict)

    def decide(self, workflow: Workflow, state: RunState, given: inputs.Input, **options: object) -> Decision:
        decision = decide(workflow, state, given, **options)  # type: ignore[arg-type]  # handed on as they came
        if isinstance(decision, Accepted) and decision.records:
            run_id = given.run_id if isinstance(given, inputs.StartRun) else state.run_id
            source = f"{self.source}, {run_id}"
            run = self.runs.setdefault(run_id, Recording(source=source, workflow=workflow))
            run.records.extend(decision.records)
            run.taken.append((given, len(decision.records), len(decision.records)))
        return decision


def simulated(seeds: range, *, torn: bool) -> Iterator[Recording]:
    """Runs of the simulator."""
    for seed in seeds:
        for run_id, run in lived(seed, torn=torn).runs.items():
            source = f"simulator seed {seed}{' torn' if torn else ''}, {run_id}"
            ledger = run.ledger
            if len(ledger.records) <= _ROWS_MAX:
                yield Recording(source=source, workflow=run.workflow, records=ledger.records, taken=ledger.taken)


def chosen(recordings: Iterator[Recording]) -> Iterator[Recording]:
    """Those that show something which too few before them showed."""
    shown: dict[str, int] = {}
    for recording in recordings:
        new = [trait for trait in recording.traits() if shown.get(trait, 0) < _KEPT_PER_KIND]
        if new:
            yield recording
            for trait in recording.traits():
                shown[trait] = shown.get(trait, 0) + 1


def scripted() -> Iterator[Recording]:
    """The runs that are written for what the other sources do not show."""
    for run in scripted_runs():
        recorder, state = _Recorder(run.name), RunState()
        with limited(run.limits):
            for given in run.inputs:
                if state.terminal:
                    break
                decision = recorder.decide(run.workflow, state, given)
                if not isinstance(decision, Accepted):
                    raise TypeError(f"{run.name}: {decision}")
                state = decision.state
        for recording in recorder.runs.values():
            recording.limits = run.limits
            yield recording


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    argparse.ArgumentParser(prog="scripts/record-histories", description=__doc__).parse_args(arguments)
    added = kept = 0
    HISTORIES.mkdir(exist_ok=True)
    for recording in _everything():
        path = HISTORIES / f"{_slug(recording.source)}.jsonl"
        if path.exists():
            kept += 1
            continue
        write(path, recording.golden())
        added += 1
        print(path.name, file=sys.stderr)
    print(json.dumps({"added": added, "kept": kept, "ok": True}))
    return 0


def _everything() -> Iterator[Recording]:
    yield from examples()
    yield from agents()
    yield from scripted()
    yield from chosen(simulated(range(_SEEDS), torn=False))
    yield from chosen(simulated(range(_TORN_SEEDS), torn=True))


def _slug(source: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", source.lower()).strip("-")[:_NAME_LENGTH_MAX].strip("-")


if __name__ == "__main__":
    sys.exit(main())
