"""The page about the engine's states: diagrams drawn from the tables in `engine/transitions.py`."""

from collections.abc import Iterable, Iterator, Mapping

from docs.generator.markdown import code, page, table
from penstock.engine.transitions import (
    ACTIVATION_TRANSITIONS,
    FINISHED_PHASES,
    READY_PHASES,
    RUN_TRANSITIONS,
    Phase,
)

__all__ = ["RUN_MOVES", "VISIT_MOVES", "states_page"]

# One picture of all transitions would be unreadable. The phases are in groups; each group is named by its first phase.
GROUPS: Mapping[Phase, str] = {
    Phase.SCHEDULING: "Being scheduled",
    Phase.REQUESTED: "Activities",
    Phase.STARTING_TIMER: "Time",
    Phase.RAISING: "Questions to people",
    Phase.STARTING_SIGNAL_WAIT: "Signals",
    Phase.FORKING: "Bodies",
    Phase.STARTING_CHILD: "Child runs",
    Phase.FAILING: "The end of a visit",
}

Transitions = Mapping[str, tuple[Iterable[str], str]]

RUN_MOVES: Transitions = {kind.__name__: move for kind, move in RUN_TRANSITIONS.items()}
VISIT_MOVES: Transitions = {
    f"{kind.__name__}:{variant}" if variant else kind.__name__: move
    for (kind, variant), move in ACTIVATION_TRANSITIONS.items()
}


def states_page() -> str:
    """Run statuses and phases of a visit, as diagrams and as a table."""
    return page("States of the engine", "`engine/transitions.py`", _parts())


def _parts() -> Iterator[str]:
    yield (
        "A run is computed from its history. Each record moves the run, or one visit of one node, from one state to "
        "the next; a record that cannot follow is refused as a corrupt history. A name with a colon is one record in "
        "several variants: what it says decides where it leads."
    )
    yield "## A run"
    yield (
        "What a running run waits for (`waiting_input`, `waiting_activity`, `waiting_signal`, …) is read from the "
        "phases of its visits. A paused run is running, and makes no move."
    )
    yield _diagram(RUN_MOVES)
    yield "## A visit of a node"
    yield (
        "A phase says what was recorded last. In most of them the engine makes the next record by itself; in those "
        "drawn with a broken line the visit waits for somebody: an executor, a person, a signal, a timer, a child run "
        "or what runs inside of it."
    )
    for title, phases in _groups().items():
        yield f"### {title}"
        yield _diagram({name: move for name, move in VISIT_MOVES.items() if move[1] in phases})
    yield "## All transitions of a visit"
    yield table(["Record", "From", "To"], _rows())
    yield "## Phases"
    yield table(["Phase", "Who makes the next record"], ([code(phase), _mover(phase)] for phase in Phase))


def _groups() -> dict[str, list[Phase]]:
    """The phases by the title of their group."""
    groups: dict[str, list[Phase]] = {}
    for phase in Phase:
        title = GROUPS.get(phase) or list(groups)[-1]
        groups.setdefault(title, []).append(phase)
    return groups


def _diagram(transitions: Transitions) -> str:
    lines = ["```mermaid", "stateDiagram-v2"]
    waiting: set[str] = set()
    for name, (sources, target) in transitions.items():
        for source in sorted(map(str, sources)):
            lines.append(f"    {source} --> {target}: {name.replace(':', ' / ')}")
            waiting |= {state for state in (source, str(target)) if state in _WAITING}
    if waiting:
        lines.append("    classDef waiting stroke-width:3px,stroke-dasharray:4 3")
        lines.append(f"    class {','.join(sorted(waiting))} waiting")
    return "\n".join([*lines, "```"])


_WAITING = frozenset(str(phase) for phase in Phase if phase not in READY_PHASES)


def _rows() -> Iterator[list[str]]:
    for name, (sources, target) in VISIT_MOVES.items():
        yield [code(name), ", ".join(code(source) for source in sorted(map(str, sources))), code(target)]


def _mover(phase: Phase) -> str:
    if phase in FINISHED_PHASES:
        return "the engine: the visit is over, the walk goes on"
    if phase is Phase.FORKED:
        return "the engine or a body, depending on what runs inside"
    if phase is Phase.AWAITING_SIGNAL:
        return "a signal; the engine when a fitting one was kept"
    return "the engine" if phase in READY_PHASES else "somebody outside"
