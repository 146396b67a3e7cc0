"""A run as lines: one per visit, branches and items indented, never more than fit.

    ● refund_order 1.4.0  run r_01…  waiting for an approval  00:02
      ✓ order   tool_call shop.get_order    38 ms
      ✓ policy  switch → ask
      ◌ ask     waiting for an approval: "Refund 180 for order A-1042?"  2 s

Columns are as wide as the workflow's names need. The widths are known before the first line is drawn, so that nothing
moves sideways. Items of a fan-out get one line each, and only the interesting ones are shown. Texts come from runs and
are not trusted: control characters never reach the terminal.

Above it: `display`, `watch_loop`, `runs.reports`. Below it: `view`.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from penstock.base.json import JsonValue
from penstock.base.text import clean
from penstock.cli.run.view import Mark, RunView, called, error_text, mark_of, outside_wait, prompt_of
from penstock.cli.terminal.cells import cell_count, fit_cells
from penstock.cli.terminal.styled_text import Text
from penstock.definitions.model import Node, Workflow
from penstock.definitions.nodes import kind_named
from penstock.engine.records import events
from penstock.engine.state import COMPENSATION_PREFIX
from penstock.engine.visits import Visit, VisitScope, VisitStatus, WaitKind
from penstock.runtime.simulation.tracing import shorten

__all__ = ["Line", "RenderContext", "clock_text", "duration_text", "header_of", "lines_of", "status_text", "text_of"]

_MARKS = {
    Mark.GOING: ("·", "bold cyan"),
    Mark.WAITING: ("◌", "yellow"),
    Mark.RETRYING: ("↻", "yellow"),
    Mark.DONE: ("✓", "green"),
    Mark.FAILED: ("✗", "red"),
    Mark.DROPPED: ("-", "dim"),
}
_NAME_CELLS_MAX = 32
_NAME_CELLS_MIN = 8
_WHAT_CELLS_MAX = 40
_TIME_CELLS = 7
_PREVIEW_CHARACTERS_MAX = 100
# An item's own column is wide enough for its number and a short name.
_ITEM_CHARACTERS_MAX = 12
_ITEM_CELLS = 4 + _ITEM_CHARACTERS_MAX
# How far nodes with bodies have come, as wide as it usually gets.
_USUAL_COUNTS = {
    "item": " 100 of 100, 10 failed",
    "iteration": " round 10 of at most 10",
    "branch": " 2 of 2",
}
# Items of one fan-out that get a line of their own; fewer when the window is small.
_ITEMS_SHOWN = (8, 4, 2, 0)
# Rounds, branches and child runs inside each other that are drawn; deeper ones are counted by their parents.
_DEPTH_MAX = 6
_SECOND_MS = 1_000
_MINUTE_MS = 60 * _SECOND_MS
_HOUR_MS = 60 * _MINUTE_MS
_DAY_MS = 24 * _HOUR_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line. `key` stays the same for one visit or item; `settled` says that the line will not change."""

    key: str
    depth: int
    mark: Mark | None
    name: str
    what: str
    time: str = ""
    note: str = ""
    settled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderContext:
    """Column widths for a workflow, the moment that lines are drawn for, and what child runs look like."""

    now: int
    name_cells: int
    what_cells: int
    items_shown: int = _ITEMS_SHOWN[0]
    children: Mapping[str, RunView] | None = None

    @classmethod
    def for_workflow(
        cls, workflow: Workflow, *, now: int, children: Mapping[str, RunView] | None = None
    ) -> RenderContext:
        """Columns that fit every node of a workflow."""
        names = [
            cell_count(node.id) + 2 * _depth_of(workflow, node.body)
            for node in workflow.nodes.values()
            if node.type != "start"
        ]
        names += [
            _ITEM_CELLS + 2 * (_depth_of(workflow, node.body) + 1)
            for node in workflow.nodes.values()
            if _body_word(node.type) == "item"
        ]
        whats = [cell_count(_widest_what(workflow, node)) for node in workflow.nodes.values()]
        return cls(
            now=now,
            name_cells=max(_NAME_CELLS_MIN, min(max(names, default=0), _NAME_CELLS_MAX)),
            what_cells=min(max(whats, default=8), _WHAT_CELLS_MAX),
            children=children,
        )


def _widest_what(workflow: Workflow, node: Node) -> str:
    """The text beside the name of a node; the line of an item names the node there."""
    text = f"{node.type} {called(node)}".strip()
    text += _USUAL_COUNTS.get(_body_word(node.type) or "", "")
    owner = workflow.bodies[node.body].owner
    return f"{node.id}: {text}" if owner is not None and _body_word(workflow.nodes[owner].type) == "item" else text


def _body_word(node_type: str) -> str | None:
    """What one of the bodies of a node is called: a branch, an item or an iteration; None without bodies."""
    kind = kind_named(node_type)
    return kind.bodies.word if kind is not None and kind.bodies is not None else None


def _depth_of(workflow: Workflow, body: str) -> int:
    """How far the nodes of a body are indented."""
    depth = 0
    owner = workflow.bodies[body].owner
    while owner is not None:
        node = workflow.nodes[owner]
        # Branches have a line of their own with their name, items stand in for their nodes.
        depth += 2 if _body_word(node.type) == "branch" else 1
        owner = workflow.bodies[node.body].owner
    return depth


# --- words ---------------------------------------------------------------------------------------


def duration_text(length_ms: int) -> str:
    """A length of time in one or two units, as short as it can be read."""
    length_ms = max(length_ms, 0)
    if length_ms < _SECOND_MS:
        return f"{length_ms} ms"
    if length_ms < 10 * _SECOND_MS:
        return f"{length_ms / _SECOND_MS:.1f} s"
    if length_ms < _MINUTE_MS:
        return f"{length_ms // _SECOND_MS} s"
    if length_ms < _HOUR_MS:
        return f"{length_ms // _MINUTE_MS}m{length_ms % _MINUTE_MS // _SECOND_MS:02}s"
    if length_ms < _DAY_MS:
        return f"{length_ms // _HOUR_MS}h{length_ms % _HOUR_MS // _MINUTE_MS:02}m"
    return f"{length_ms // _DAY_MS}d{length_ms % _DAY_MS // _HOUR_MS}h"


def clock_text(length_ms: int) -> str:
    """A length of time as a clock shows it: 00:02, 1:02:03."""
    seconds = max(length_ms, 0) // _SECOND_MS
    minutes, hours = seconds // 60, seconds // 3600
    return f"{hours}:{minutes % 60:02}:{seconds % 60:02}" if hours else f"{minutes:02}:{seconds % 60:02}"


def status_text(view: RunView, children: Mapping[str, RunView] | None = None) -> str:
    """What the run is doing, in a few words."""
    match view.mark:
        case Mark.DONE:
            return "completed" if view.continued_as is None else f"continued as {view.continued_as}"
        case Mark.FAILED:
            return "failed"
        case Mark.DROPPED:
            return "cancelled"
        case _:
            pass
    if view.visits.paused:
        return "paused"
    if view.visits.ending is not None:
        return "undoing"
    views = [view, *(child for name in view.children() if (child := (children or {}).get(name)) is not None)]
    waits = [outside_wait(visit) for one in views for visit in one.visits.open_leaves()]
    kinds = {wait.kind for wait in waits if wait is not None}
    if None in waits:
        kinds &= {WaitKind.APPROVAL, WaitKind.INPUT, WaitKind.DECISION}
    for kind, words in (
        (WaitKind.INPUT, "waiting for a person"),
        (WaitKind.APPROVAL, "waiting for an approval"),
        (WaitKind.DECISION, "waiting for a decision"),
        (WaitKind.SIGNAL, "waiting for a signal"),
        (WaitKind.RETRY, "waiting to try again"),
        (WaitKind.TIMER, "waiting for time to pass"),
    ):
        if kind in kinds:
            return words
    return "running"


def header_of(view: RunView, context: RenderContext) -> Text:
    """The first line: the run, its status, and how long it has been running."""
    style = {Mark.DONE: "green", Mark.FAILED: "red", Mark.DROPPED: "red"}.get(view.mark, "cyan")
    end = view.visits.updated_at if view.ended else context.now
    return Text.assemble(
        ("● ", style),
        (clean(view.workflow.name), "bold"),
        f" {clean(view.workflow.version)}  run {clean(view.run_id)}  ",
        (status_text(view, context.children), style),
        (f"  {clock_text(end - view.visits.begun_at)}", "dim"),
    )


def text_of(line: Line, context: RenderContext) -> Text:
    """A line as it is printed; where it is drawn, it is cut at the edge of the window."""
    symbol, style = _MARKS[line.mark] if line.mark is not None else (" ", "dim")
    indent = "  " * (line.depth + 1)
    text = Text(indent)
    text.append(f"{symbol} ", style)
    name_cells = max(context.name_cells - 2 * line.depth, 1)
    text.append(
        fit_cells(clean(line.name), name_cells) if line.what or line.time else clean(line.name), _name_style(line)
    )
    what, note = clean(line.what), clean(line.note)
    waits = line.mark in (Mark.WAITING, Mark.RETRYING)
    text.append("  ")
    if line.time or note:
        what = what if cell_count(what) > context.what_cells else fit_cells(what, context.what_cells)
    text.append(what, "yellow" if waits else "dim" if line.mark is Mark.DROPPED else "")
    if line.time or note:
        text.append(f"  {line.time.rjust(_TIME_CELLS)}", "dim")
    if note:
        text.append(f"  {note}", "red" if line.mark is Mark.FAILED else "dim")
    return text.rstrip()


def _name_style(line: Line) -> str:
    return "dim" if line.mark in (None, Mark.DROPPED) else "bold"


# --- lines ---------------------------------------------------------------------------------------


def lines_of(
    view: RunView, context: RenderContext, *, lines_max: int | None = None, without: Container[str] = ()
) -> list[Line]:
    """Every line of a run whose key is not in `without`, or as many of the later ones as fit."""
    lines: list[Line] = []
    for items_shown in _ITEMS_SHOWN:
        drawn = _visit_lines(view, view.walk(), replace(context, items_shown=items_shown), 0)
        lines = [line for line in drawn if line.key not in without]
        if lines_max is None or len(lines) <= lines_max:
            return lines
    kept = max((lines_max or 1) - 1, 1)
    above = len(lines) - kept
    # Above are the oldest lines of the run, done long ago.
    cut = Line(key=f"{view.run_id}/above", depth=0, mark=None, name=f"⋮ {above} more above", what="")
    return [cut, *lines[above:]]


def _visit_lines(view: RunView, visits: Iterable[Visit], context: RenderContext, depth: int) -> Iterator[Line]:
    for visit in visits:
        if view.node_type(visit) != "start":
            yield _visit_line(view, visit, context, depth)
            if depth < _DEPTH_MAX:
                yield from _inner_lines(view, visit, context, depth + 1)


def _inner_lines(
    view: RunView, visit: Visit, context: RenderContext, depth: int, *, compact: bool = False
) -> Iterator[Line]:
    """The lines inside of a visit; `compact` gives every branch one line, because the visit is inside of an item."""
    child = (context.children or {}).get(visit.child_run_id or "")
    if child is not None and not child.ended:
        yield from _visit_lines(child, child.walk(), context, depth)
    scopes = view.visits.scopes_of(visit)
    match _body_word(view.node_type(visit)):
        case "branch" if compact:
            for scope in scopes:
                yield _scope_line(view, scope, scope.branch or "", context, depth)
        case "branch":
            for scope in scopes:
                yield _branch_line(view, scope, context, depth)
                yield from _visit_lines(view, view.visits_in(scope), context, depth + 1)
        case "iteration":
            for scope in scopes[-1:]:
                yield from _visit_lines(view, view.visits_in(scope), context, depth)
        case _:
            yield from _item_lines(view, visit, scopes, context, depth)


def _item_lines(
    view: RunView, visit: Visit, scopes: Sequence[VisitScope], context: RenderContext, depth: int
) -> Iterator[Line]:
    """The items of most interest: running ones, then failed ones, then the latest."""
    order = {VisitStatus.RUNNING: 0, VisitStatus.FAILED: 1, VisitStatus.COMPLETED: 2, VisitStatus.CANCELLED: 3}
    wanted = scopes if visit.is_open else [scope for scope in scopes if scope.status is VisitStatus.FAILED]
    # Of those under way the oldest come first: they are the ones that take long.
    ranked = sorted(
        wanted,
        key=lambda scope: (order.get(scope.status, 0), scope.index if scope.is_open else -scope.index),
    )
    items = _items(visit)
    chosen = ranked[: context.items_shown]
    for scope in sorted(chosen, key=lambda scope: scope.index):
        item = shorten(items[scope.index], _ITEM_CHARACTERS_MAX) if scope.index < len(items) else ""
        yield _scope_line(view, scope, f"#{scope.index + 1} {item}".rstrip(), context, depth)
        current = _current(view, scope)
        if current is not None and depth < _DEPTH_MAX and scope.is_open:
            yield from _inner_lines(view, current, context, depth + 1, compact=True)
    if visit.is_open and chosen:
        yield from _hidden_line(view, visit, scopes, chosen, depth)


def _hidden_line(
    view: RunView, visit: Visit, scopes: Sequence[VisitScope], chosen: Sequence[VisitScope], depth: int
) -> Iterator[Line]:
    hidden, to_come = len(scopes) - len(chosen), (_total(visit) or 0) - len(scopes)
    parts = [f"{hidden} more"] if hidden > 0 else []
    parts += [f"{to_come} to come"] if to_come > 0 else []
    if parts:
        key = f"{view.run_id}/{visit.node_id}/{visit.ordinal}/hidden"
        yield Line(key=key, depth=depth, mark=None, name=f"⋮ {', '.join(parts)}", what="")


def _items(visit: Visit) -> Sequence[JsonValue]:
    listed = visit.fan_out.items if isinstance(visit.fan_out, events.ForEachStarted) else None
    return listed if isinstance(listed, list) else ()


def _total(visit: Visit) -> int | None:
    """How many branches, items or rounds there can be."""
    match visit.fan_out:
        case events.ParallelForked(branch_names=names):
            return len(names) if isinstance(names, list) else 0
        case events.ForEachStarted():
            return len(_items(visit))
        case events.LoopStarted(max_iterations=rounds):
            return rounds
        case None:
            return None


def _current(view: RunView, scope: VisitScope) -> Visit | None:
    return view.visits.visits[scope.visits[-1]] if scope.visits else None


def _scope_line(view: RunView, scope: VisitScope, name: str, context: RenderContext, depth: int) -> Line:
    """An item or a branch in one line: how it ended, or the node it is at."""
    current = _current(view, scope)
    mark, what, note = mark_of(scope), "", _scope_note(scope)
    if current is not None and scope.is_open:
        inner = _visit_line(view, current, context, depth)
        mark, what, note = inner.mark or mark, f"{_plain_name(current)}: {inner.what}", inner.note
    return Line(
        key=f"{view.run_id}/{scope.serial}",
        depth=depth,
        mark=mark,
        name=name,
        what=what,
        time=_elapsed(scope.begun_at, scope.ended_at, context.now),
        note=note,
        settled=not scope.is_open,
    )


def _scope_note(scope: VisitScope) -> str:
    return "" if scope.error is None else error_text(scope.error)


def _branch_line(view: RunView, scope: VisitScope, context: RenderContext, depth: int) -> Line:
    return Line(
        key=f"{view.run_id}/{scope.serial}",
        depth=depth,
        mark=None if scope.is_open else mark_of(scope),
        name=scope.branch or "",
        what="",
        note=_scope_note(scope),
        settled=not scope.is_open,
    )


def _visit_line(view: RunView, visit: Visit, context: RenderContext, depth: int) -> Line:
    wait = outside_wait(visit)
    waits = wait is not None and wait.kind is not WaitKind.CHILD
    return Line(
        key=f"{view.run_id}/{visit.node_id}/{visit.ordinal}",
        depth=depth,
        mark=mark_of(visit),
        name=_plain_name(visit) + (f" ({visit.ordinal})" if visit.ordinal > 1 and not depth else ""),
        what=_wait_text(view, visit, context.now) if waits else _what(view, visit),
        time=_time(view, visit, context.now),
        note=_note(view, visit),
        settled=not visit.is_open,
    )


def _plain_name(visit: Visit) -> str:
    return visit.node_id.removeprefix(COMPENSATION_PREFIX)


def _what(view: RunView, visit: Visit) -> str:
    undo = "undo with " if visit.node_id.startswith(COMPENSATION_PREFIX) else ""
    node_type, is_done = view.node_type(visit), visit.status is VisitStatus.COMPLETED
    text = f"{undo}{node_type} {view.called(visit)}".strip()
    kind = kind_named(node_type)
    match node_type:
        case "switch":
            return f"{text} {view.note(visit)}".strip()
        case _ if is_done and kind is not None and kind.run_end is not None:
            return shorten(view.output(visit), _PREVIEW_CHARACTERS_MAX)
        case "interrupt" if is_done and not visit.timed_out:
            return f"{view.note(visit)}: {shorten(view.output(visit), _PREVIEW_CHARACTERS_MAX)}"
        case _ if kind is not None and kind.bodies is not None:
            return f"{text} {_counts(view, visit)}".strip()
        case _:
            return text


def _counts(view: RunView, visit: Visit) -> str:
    """How far a node with bodies has come: `3 of 8, 1 failed`."""
    statuses, total = [scope.status for scope in view.visits.scopes_of(visit)], _total(visit)
    if _body_word(view.node_type(visit)) == "iteration":
        return f"round {len(statuses)} of at most {total}" if statuses else ""
    total = total if total is not None else len(statuses)
    failed = statuses.count(VisitStatus.FAILED)
    return f"{statuses.count(VisitStatus.COMPLETED)} of {total}" + (f", {failed} failed" if failed else "")


def _wait_text(view: RunView, visit: Visit, now: int) -> str:
    wait = visit.wait
    if wait is None:
        return ""
    left = f", {_coarse(wait.until - now)} left" if wait.until is not None else ""
    match wait.cause:
        case events.InterruptRaised() | events.ActivityAsked() as asked:
            whom = "an approval" if wait.kind is WaitKind.APPROVAL else "a person"
            return f'waiting for {whom}: "{prompt_of(asked)}"{left}'
        case events.ActivityOutcomeUnknown():
            return "waiting for a decision: the outcome is unknown: retry it, or report its outcome"
        case events.SignalWaitStarted(signal_name=name):
            return f"waiting for the signal {name or ''}{left}"
        case events.TimerStarted():
            return f"waiting for time to pass{left}"
        case events.ActivityFailed() | events.SubworkflowCompleted():
            again = f"again in {_coarse(wait.until - now)}" if wait.until is not None else "again"
            return f"{view.node_type(visit)} {view.called(visit)}".strip() + f", {again}"
        case events.SubworkflowStarted() | None:
            return ""


def _coarse(length_ms: int) -> str:
    """The rest of a wait in whole seconds, rounded up."""
    seconds = max(-(-length_ms // _SECOND_MS), 0)
    return f"{seconds} s" if seconds < 60 else duration_text(seconds * _SECOND_MS)  # noqa: PLR2004  # a minute


def _time(view: RunView, visit: Visit, now: int) -> str:
    mark = mark_of(visit)
    kind = kind_named(view.node_type(visit))
    # A node that takes no time has no duration to show.
    if kind is not None and kind.is_instant and mark is not Mark.GOING:
        return ""
    since = visit.wait.since if visit.wait is not None and mark is Mark.WAITING else visit.begun_at
    return _elapsed(since, visit.ended_at, now)


def _elapsed(since: int, ended_at: int | None, now: int) -> str:
    """How long something took, or has taken so far; the latter in whole seconds, so that lines do not flicker."""
    if ended_at is not None:
        return duration_text(ended_at - since)
    seconds = max(now - since, 0) // _SECOND_MS
    return duration_text(seconds * _SECOND_MS) if seconds >= 10 else f"{seconds} s"  # noqa: PLR2004  # as duration_text


def _note(view: RunView, visit: Visit) -> str:
    parts, node_type, note = [], view.node_type(visit), view.note(visit)
    if visit.failures and visit.attempts:
        most = view.attempts_max(visit)
        codes = ", ".join(dict.fromkeys(failure.code or "FAILED" for failure in visit.failures))
        if visit.status is VisitStatus.FAILED:
            parts += [f"attempt {visit.attempts} of {most}"] if most > 1 else []
        else:
            parts.append(f"attempt {visit.attempts} of {most} ({codes})")
    if note and node_type != "switch" and not (node_type == "interrupt" and view.output(visit) is not None):
        parts.append(note)
    return " · ".join(parts)
