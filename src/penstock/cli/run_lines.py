"""Lines for a run: one per visit, branches and items indented, never more than fit.

    ● refund_order 1.4.0  run r_01…  waiting for a person  00:02
      ✓ order   tool_call shop.get_order    38 ms
      ✓ policy  switch → ask
      ◌ ask     waiting for a person: "Refund 180 for order A-1042?"  2 s

Columns are as wide as the workflow's names need, known before the first line is drawn, so that nothing moves sideways.
Items of a fan-out get one line each and only the interesting ones are shown. Texts come from runs and are not trusted:
control characters never reach the terminal.

Above it: the live view and the reports. Below it: `run_view`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from penstock.cli.run_view import Mark, RunView, ScopeView, VisitView, WaitKind, called
from penstock.definitions.drawing_text import clean
from penstock.definitions.model import Workflow
from penstock.engine.state import COMPENSATION_PREFIX
from penstock.runtime.tracing import shorten

__all__ = ["Line", "Sheet", "clock_text", "header_of", "length_text", "lines_of", "status_words", "text_of"]

_MARKS = {
    Mark.GOING: ("·", "bold cyan"),
    Mark.WAITING: ("◌", "yellow"),
    Mark.RETRYING: ("↻", "yellow"),
    Mark.DONE: ("✓", "green"),
    Mark.FAILED: ("✗", "red"),
    Mark.DROPPED: ("-", "dim"),
}
_NAME_CELLS_MAX = 24
_WHAT_CELLS_MAX = 40
_TIME_CELLS = 7
_PREVIEW_CHARACTERS_MAX = 100
_ITEM_CHARACTERS_MAX = 24
# Items of one fan-out that get a line of their own; fewer when the window is small.
_ITEMS_SHOWN = (8, 4, 2, 0)
# Rounds, branches and child runs inside each other that are drawn; deeper ones are counted by their parents.
_DEPTH_MAX = 6
# Node types whose visits take no time worth telling.
_INSTANT_TYPES = frozenset({"switch", "set_state", "end", "fail", "emit"})
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
class Sheet:
    """Column widths for a workflow, the moment that lines are drawn for, and what child runs look like."""

    now: int
    name_cells: int
    what_cells: int
    items_shown: int = _ITEMS_SHOWN[0]
    children: Mapping[str, RunView] | None = None

    @classmethod
    def for_workflow(cls, workflow: Workflow, *, now: int, children: Mapping[str, RunView] | None = None) -> Sheet:
        """Columns that fit every node of a workflow."""
        names = [cell_len(node.id) for node in workflow.nodes.values() if node.type != "start"]
        whats = [cell_len(f"{node.type} {called(node)}".strip()) for node in workflow.nodes.values()]
        return cls(
            now=now,
            name_cells=min(max(names, default=8), _NAME_CELLS_MAX),
            what_cells=min(max(whats, default=8), _WHAT_CELLS_MAX),
            children=children,
        )


# --- words ---------------------------------------------------------------------------------------


def length_text(length_ms: int) -> str:
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


def status_words(view: RunView, children: Mapping[str, RunView] | None = None) -> str:
    """What the run is doing, in a few words."""
    match view.mark:
        case Mark.DONE:
            return "completed"
        case Mark.FAILED:
            return "failed"
        case Mark.DROPPED:
            return "cancelled"
        case _:
            pass
    if view.paused:
        return "paused"
    if view.ending:
        return "undoing"
    views = [view, *(child for name in view.children() if (child := (children or {}).get(name)) is not None)]
    kinds = {visit.wait.kind for one in views for visit in one.open_visits() if visit.wait is not None}
    if any(visit.wait is None for one in views for visit in one.open_visits()):
        kinds &= {WaitKind.PERSON, WaitKind.DECISION}
    for kind, words in (
        (WaitKind.PERSON, "waiting for a person"),
        (WaitKind.DECISION, "waiting for a decision"),
        (WaitKind.SIGNAL, "waiting for a signal"),
        (WaitKind.RETRY, "waiting to try again"),
        (WaitKind.TIMER, "waiting for time to pass"),
    ):
        if kind in kinds:
            return words
    return "running"


def header_of(view: RunView, sheet: Sheet) -> Text:
    """The first line: which run, how it stands, how long it has been going."""
    style = {Mark.DONE: "green", Mark.FAILED: "red", Mark.DROPPED: "red"}.get(view.mark, "cyan")
    end = view.updated_at if view.ended else sheet.now
    text = Text.assemble(
        ("● ", style),
        (clean(view.workflow.name), "bold"),
        f" {clean(view.workflow.version)}  run {clean(view.run_id)}  ",
        (status_words(view, sheet.children), style),
        (f"  {clock_text(end - view.began_at)}", "dim"),
    )
    text.no_wrap, text.overflow = True, "ellipsis"
    return text


def text_of(line: Line, sheet: Sheet) -> Text:
    """A line as it is printed; too much of it is cut at the edge of the window."""
    symbol, style = _MARKS[line.mark] if line.mark is not None else (" ", "dim")
    indent = "  " * (line.depth + 1)
    text = Text(indent, no_wrap=True, overflow="ellipsis")
    text.append(f"{symbol} ", style)
    name_cells = max(sheet.name_cells - 2 * line.depth, 4)
    name = clean(line.name)
    text.append(name if cell_len(name) > name_cells else set_cell_size(name, name_cells), _name_style(line))
    what, note = clean(line.what), clean(line.note)
    waits = line.mark in (Mark.WAITING, Mark.RETRYING)
    text.append("  ")
    if line.time or note:
        what = what if cell_len(what) > sheet.what_cells else set_cell_size(what, sheet.what_cells)
    text.append(what, "yellow" if waits else "dim" if line.mark is Mark.DROPPED else "")
    if line.time or note:
        text.append(f"  {line.time.rjust(_TIME_CELLS)}", "dim")
    if note:
        text.append(f"  {note}", "red" if line.mark is Mark.FAILED else "dim")
    text.rstrip()
    return text


def _name_style(line: Line) -> str:
    return "dim" if line.mark in (None, Mark.DROPPED) else "bold"


# --- lines ---------------------------------------------------------------------------------------


def lines_of(view: RunView, sheet: Sheet, *, lines_max: int | None = None) -> list[Line]:
    """Every line of a run, or as many of the later ones as fit."""
    lines: list[Line] = []
    for items_shown in _ITEMS_SHOWN:
        lines = list(_scope_lines(view, view.scopes[0], replace(sheet, items_shown=items_shown), 0))
        if lines_max is None or len(lines) <= lines_max:
            return lines
    kept = max((lines_max or 1) - 1, 1)
    above = len(lines) - kept
    # Above are the oldest lines of the run, done long ago.
    cut = Line(key=f"{view.run_id}/above", depth=0, mark=None, name=f"⋮ {above} more above", what="")
    return [cut, *lines[above:]]


def _scope_lines(view: RunView, scope: ScopeView, sheet: Sheet, depth: int) -> Iterator[Line]:
    for key in scope.visits:
        visit = view.visits[key]
        if visit.node_type != "start":
            yield _visit_line(view, visit, sheet, depth)
            if depth < _DEPTH_MAX:
                yield from _inner_lines(view, visit, sheet, depth + 1)


def _inner_lines(view: RunView, visit: VisitView, sheet: Sheet, depth: int) -> Iterator[Line]:
    child = (sheet.children or {}).get(visit.child_id or "")
    if child is not None and not child.ended:
        yield from _scope_lines(child, child.scopes[0], sheet, depth)
    scopes = [view.scopes[serial] for serial in visit.scopes]
    match visit.node_type:
        case "parallel" | "race":
            for scope in scopes:
                yield _branch_line(view, scope, sheet, depth)
                yield from _scope_lines(view, scope, sheet, depth + 1)
        case "loop":
            for scope in scopes[-1:]:
                yield from _scope_lines(view, scope, sheet, depth)
        case _:
            yield from _item_lines(view, visit, scopes, sheet, depth)


def _item_lines(
    view: RunView, visit: VisitView, scopes: Sequence[ScopeView], sheet: Sheet, depth: int
) -> Iterator[Line]:
    """The items that somebody wants to see: those under way, then failed ones, then the latest."""
    order = {Mark.GOING: 0, Mark.FAILED: 1, Mark.DONE: 2, Mark.DROPPED: 3}
    chosen = sorted(scopes, key=lambda scope: (order.get(scope.mark, 0), -scope.index))[: sheet.items_shown]
    for scope in sorted(chosen, key=lambda scope: scope.index):
        yield _item_line(view, visit, scope, sheet, depth)
        current = _current(view, scope)
        if current is not None and depth < _DEPTH_MAX and scope.ended_at is None:
            yield from _inner_lines(view, current, sheet, depth + 1)
    hidden = (visit.total or len(scopes)) - len(chosen)
    if chosen and hidden > 0:
        key = f"{view.run_id}/{visit.node_id}/{visit.visit}/hidden"
        yield Line(key=key, depth=depth, mark=None, name=f"⋮ {hidden} more", what="", settled=not visit.open)


def _current(view: RunView, scope: ScopeView) -> VisitView | None:
    return view.visits[scope.visits[-1]] if scope.visits else None


def _item_line(view: RunView, visit: VisitView, scope: ScopeView, sheet: Sheet, depth: int) -> Line:
    item = shorten(visit.items[scope.index], _ITEM_CHARACTERS_MAX) if scope.index < len(visit.items) else ""
    current = _current(view, scope)
    inner = _visit_line(view, current, sheet, depth) if current is not None else None
    mark, what, note = scope.mark, "", scope.note
    if inner is not None and scope.ended_at is None:
        mark, what, note = inner.mark or mark, f"{inner.name}: {inner.what}", inner.note
    return Line(
        key=f"{view.run_id}/{scope.serial}",
        depth=depth,
        mark=mark,
        name=f"#{scope.index + 1} {item}".rstrip(),
        what=what,
        time=length_text((scope.ended_at or sheet.now) - scope.began_at),
        note=note,
        settled=scope.ended_at is not None,
    )


def _branch_line(view: RunView, scope: ScopeView, sheet: Sheet, depth: int) -> Line:
    ended = scope.ended_at
    return Line(
        key=f"{view.run_id}/{scope.serial}",
        depth=depth,
        mark=scope.mark if ended is not None else None,
        name=scope.name,
        what="",
        note=scope.note,
        settled=ended is not None,
    )


def _visit_line(view: RunView, visit: VisitView, sheet: Sheet, depth: int) -> Line:
    waits = visit.wait is not None and visit.wait.kind is not WaitKind.CHILD
    return Line(
        key=f"{view.run_id}/{visit.node_id}/{visit.visit}",
        depth=depth,
        mark=visit.mark,
        name=visit.node_id.removeprefix(COMPENSATION_PREFIX) + (f" ({visit.visit})" if visit.visit > 1 else ""),
        what=_wait_text(visit, sheet.now) if waits else _what(view, visit),
        time=_time(visit, sheet.now),
        note=_note(visit),
        settled=not visit.open,
    )


def _what(view: RunView, visit: VisitView) -> str:
    undo = "undo with " if visit.node_id.startswith(COMPENSATION_PREFIX) else ""
    told = f"{undo}{visit.node_type} {visit.called}".strip()
    match visit.node_type:
        case "switch":
            return f"{told} {visit.note}".strip()
        case "end" if visit.mark is Mark.DONE:
            return shorten(visit.output, _PREVIEW_CHARACTERS_MAX)
        case "interrupt" if visit.mark is Mark.DONE and visit.note != "timed out":
            return f"{visit.note}: {shorten(visit.output, _PREVIEW_CHARACTERS_MAX)}"
        case "parallel" | "race" | "for_each" | "loop":
            return f"{told} {_counts(view, visit)}".strip()
        case _:
            return told


def _counts(view: RunView, visit: VisitView) -> str:
    """How far a node with bodies has come: `3 of 8, 1 failed`."""
    marks = [view.scopes[serial].mark for serial in visit.scopes]
    if visit.node_type == "loop":
        return f"round {len(marks)} of at most {visit.total}" if marks else ""
    total = visit.total if visit.total is not None else len(marks)
    failed = marks.count(Mark.FAILED)
    return f"{marks.count(Mark.DONE)} of {total}" + (f", {failed} failed" if failed else "")


def _wait_text(visit: VisitView, now: int) -> str:
    wait = visit.wait
    if wait is None:
        return ""
    left = f", {length_text(wait.until - now)} left" if wait.until is not None else ""
    match wait.kind:
        case WaitKind.PERSON:
            return f'waiting for a person: "{wait.text}"{left}'
        case WaitKind.DECISION:
            return f"waiting for a decision: {wait.text}"
        case WaitKind.SIGNAL:
            return f"waiting for the signal {wait.text}{left}"
        case WaitKind.TIMER:
            return f"waiting for time to pass{left}"
        case WaitKind.RETRY:
            again = f"again in {length_text(wait.until - now)}" if wait.until is not None else "again"
            return f"{visit.node_type} {visit.called}".strip() + f", {again}"
        case WaitKind.CHILD:
            return ""


def _time(visit: VisitView, now: int) -> str:
    if visit.node_type in _INSTANT_TYPES and visit.mark is not Mark.GOING:
        return ""
    since = visit.wait.since if visit.wait is not None and visit.mark is Mark.WAITING else visit.began_at
    return length_text((visit.ended_at if visit.ended_at is not None else now) - since)


def _note(visit: VisitView) -> str:
    parts = []
    if visit.failures and visit.attempt:
        codes = ", ".join(dict.fromkeys(visit.failures))
        if visit.mark is Mark.FAILED:
            parts.append(f"attempt {visit.attempt} of {visit.attempts_max}")
        else:
            parts.append(f"attempt {visit.attempt} of {visit.attempts_max} ({codes})")
    if visit.note and visit.node_type != "switch" and not (visit.node_type == "interrupt" and visit.output is not None):
        parts.append(visit.note)
    return "  ".join(parts)
