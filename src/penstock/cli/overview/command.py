"""`penstock` without a command: prints where you are and what to do next, in at most 15 lines.

Above it: `main`, `application`. Below it: `position`.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from typing import Final

from penstock import __version__
from penstock.base.json import JsonObject, JsonValue
from penstock.base.text import clean
from penstock.cli.overview.position import FAILED_WITHIN, Counts, Position, find_position

__all__ = ["describe", "next_steps", "print_overview"]

_STEPS_MAX: Final = 4


def print_overview(*, as_json: bool = False) -> None:
    """Look around, and print what is found."""
    position = find_position(__version__)
    if as_json:
        steps: list[JsonValue] = [{"command": command, "purpose": purpose} for command, purpose in next_steps(position)]
        found: JsonObject = {**position.to_json(), "next": steps}
        print(json.dumps(found, indent=2, ensure_ascii=False))
    else:
        print("\n".join(describe(position)))


def describe(position: Position) -> list[str]:
    """The lines for people."""
    lines = [f"Penstock {position.version}", ""]
    lines += [f"  {label:<10}{clean(text)}" for label, text in _facts(position)]
    steps = list(next_steps(position))
    width = max(len(command) for command, _ in steps)
    lines += ["", "Next:"]
    lines += [f"  {clean(command):<{width}}  {purpose}" for command, purpose in steps]
    return [*lines, "", "`penstock --help` lists the commands."]


def _facts(position: Position) -> Iterator[tuple[str, str]]:
    if position.project is not None:
        yield "project", f"{position.project} in {position.folder}"
    elif position.project_above is not None:
        yield "project", f"none in this folder; {position.project_above} has one"
    else:
        yield "project", "none in this folder"
    if position.place and position.kind == "server":
        named = "PENSTOCK_SERVER" if position.profile is None else f"profile {position.profile}"
        yield "server", f"{position.place} ({named})"
    elif position.place and (position.exists or position.project_above is None or position.project is not None):
        yield "database", _database(position)
        if position.exists or position.listening is not None:
            yield "at work", _at_work(position)
    if position.problem is not None:
        yield "problem", position.problem
    if position.counts is not None:
        yield "waiting", _waiting(position.counts)
        more = " or more" if position.counts.more else ""
        yield "failed", f"{_count(position.counts.failed, 'run')}{more} in the last {FAILED_WITHIN}"


def _database(position: Position) -> str:
    if not position.exists:
        return f"{position.place} (not there yet; the first start creates it)"
    if position.format_version is not None and position.format_version != position.current_format:
        return f"{position.place}, format {position.format_version}; this release has {position.current_format}"
    live = position.counts.live if position.counts is not None else None
    return position.place if live is None else f"{position.place}: {_count(live, 'unfinished run')}"


def _at_work(position: Position) -> str:
    parts = []
    if position.listening is not None:
        parts.append(f"a server listens at {position.listening}")
    if position.workers:
        parts.append(f"{_count(position.workers, 'process')} performing runs")
    return ", ".join(parts) or "no server or worker is running"


def _waiting(counts: Counts) -> str:
    parts = [_count(counts.approvals, "approval")] if counts.approvals else []
    if counts.questions:
        parts.append(_count(counts.questions, "question"))
    if counts.unknown_outcomes:
        parts.append(f"{_count(counts.unknown_outcomes, 'call')} with an unknown outcome")
    return f"{', '.join(parts) or 'nothing'}{' or more' if counts.more else ''}"


def _count(number: int, noun: str) -> str:
    plural = f"{noun}es" if noun.endswith("s") else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural}"


def next_steps(position: Position) -> list[tuple[str, str]]:
    """The commands that make sense from here, the most urgent first."""
    return list(_steps(position))[:_STEPS_MAX]


def _steps(position: Position) -> Iterator[tuple[str, str]]:
    if position.hint is not None:
        yield position.hint, "find out what is wrong"
    if position.kind == "file" and position.format_version not in (None, position.current_format):
        yield "penstock server migrate --check", "bring the database to the current format"
    if position.counts is not None:
        yield from _work_to_do(position.counts, is_idle=position.workers == 0)
    if position.kind == "server":
        yield "penstock runs top", "watch live"
        yield "penstock workflow list", "see what can be started"
    elif position.project is not None:
        if position.listening is None:
            yield "penstock dev", "serve the project, reload what you save"
        else:
            yield "penstock runs top", "watch live"
        yield "penstock test", "run its test cases"
        yield "penstock mcp install CLIENT", "add it to an assistant, such as claude-code"
    elif position.project_above is not None:
        yield f"cd {shlex.quote(position.project_above)}", "go to the project"
    else:
        yield "penstock init shop", "create a project that runs"
        yield "penstock run FILE", "run a workflow file"


def _work_to_do(counts: Counts, *, is_idle: bool) -> Iterator[tuple[str, str]]:
    if counts.approvals or counts.questions:
        yield "penstock approval list", "see what waits for you"
    if counts.unknown_outcomes:
        yield "penstock runs list --status waiting_decision", "report the outcome of these calls"
    if counts.failed:
        yield f"penstock runs list --status failed --updated-since {FAILED_WITHIN}", "see what failed"
    if counts.live and is_idle:
        yield "penstock server worker", "perform the unfinished runs"
