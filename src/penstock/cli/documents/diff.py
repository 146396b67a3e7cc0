"""`penstock workflow diff OLD NEW`: what changed between two versions of a workflow, and for whom that matters.

Exit codes: 0 for no change or a compatible one; 1 for a change that breaks callers, or that is not known to be safe for
runs in flight (0 with --exit-zero); 2 when a file cannot be read.
"""

from __future__ import annotations

import json
import sys
from itertools import groupby
from typing import Annotated

from penstock.base.json import JsonObject
from penstock.cli.declaration import Argument, Exit, Option, echo
from penstock.cli.documents.reading import ReadDocument, exit_unless_readable, print_mistakes
from penstock.cli.terminal.console import Console, console_for, count_words, print_problem
from penstock.cli.terminal.styled_text import Text
from penstock.definitions.diff.compare import Change, ChangeKind, InFlight, Subject, WorkflowDiff, diff_documents

__all__ = ["diff_command"]

_MARKS = {ChangeKind.ADDED: ("+", "green"), ChangeKind.REMOVED: ("-", "red"), ChangeKind.CHANGED: ("~", "yellow")}
_HEADINGS = {
    Subject.DOCUMENT: "Document",
    Subject.INPUT: "Input",
    Subject.OUTPUT: "Output",
    Subject.STATE: "State",
    Subject.NODE: "Nodes",
    Subject.ROUTE: "Routes",
    Subject.ERROR_ROUTE: "Error routes",
    Subject.BRANCH: "Branches",
    Subject.EXPOSE: "Exposure",
    Subject.GOVERNANCE: "Governance",
    Subject.TRIGGER: "Triggers",
    Subject.TEST: "Tests",
}


def diff_command(
    old_file: Annotated[str, Argument(metavar="OLD", help="The old version (YAML or JSON), or - for standard input.")],
    new_file: Annotated[str | None, Argument(metavar="NEW", help="The file with the new version.")] = None,
    *,
    as_json: Annotated[bool, Option("--json", help="Print one JSON object instead of text.")] = False,
    exit_zero: Annotated[
        bool, Option("--exit-zero", help="Exit with 0 also when the change is breaking or unsafe.")
    ] = False,
) -> None:
    """Compare two versions of a workflow: what changed, does it break callers, could runs in flight be moved to it.

    Runs in flight always stay with the version they began with; the last question is whether their history would fit
    the new one.

    Exits with 0 when the versions are the same or compatible, 1 when the change is breaking or not known to be safe,
    2 when a file cannot be read.
    """
    if new_file is None:
        print_problem(f"name the new version, too: penstock workflow diff {old_file} NEW")
        raise Exit(2)
    old, new = exit_unless_readable(old_file), exit_unless_readable(new_file)
    diff = diff_documents(old.document, new.document)
    if as_json:
        report: JsonObject = {"before": old.about(), "after": new.about(), **diff.to_json()}
        echo(json.dumps(report, indent=2, ensure_ascii=False))
    else:
        _print(console_for(sys.stdout), old, new, diff)
    for read in (old, new):
        print_mistakes(read, "only what could be understood was compared")
    if not exit_zero and (diff.breaking_for_callers or not diff.safe_for_runs_in_flight):
        raise Exit(1)


def _print(console: Console, old: ReadDocument, new: ReadDocument, diff: WorkflowDiff) -> None:
    console.print(Text.assemble((old.title(), "bold"), " → ", (new.title(), "bold")))
    order = list(_HEADINGS)
    changes = sorted(diff.changes, key=lambda change: order.index(change.subject))
    for subject, group in groupby(changes, key=lambda change: change.subject):
        console.print()
        console.print(Text(_HEADINGS[subject], style="bold"))
        for change in group:
            _print_change(console, change)
    console.print()
    _print_verdicts(console, diff)


def _print_change(console: Console, change: Change) -> None:
    mark, style = _MARKS[change.kind]
    tags = [("  breaking", "bold red")] if change.breaking else []
    if change.in_flight is not InFlight.SAFE:
        word = "unsafe" if change.in_flight is InFlight.UNSAFE else "perhaps unsafe"
        tags.append((f"  {word} in flight", "bold magenta"))
    console.print(Text.assemble("  ", (mark, style), f" {change.message}", *tags))
    if tags and change.reason:
        console.print(Text(f"      {change.reason}", style="dim"))


def _print_verdicts(console: Console, diff: WorkflowDiff) -> None:
    breaking = sum(change.breaking for change in diff.changes)
    unsafe = sum(change.in_flight is not InFlight.SAFE for change in diff.changes)
    if diff.same:
        console.print("The two versions mean the same.")
    callers = (
        (f"breaking ({count_words(breaking, 'change')})", "bold red") if breaking else ("nothing breaks", "bold green")
    )
    runs = (
        (f"not safe to move ({count_words(unsafe, 'change')})", "bold magenta")
        if unsafe
        else ("safe to move to the new version", "bold green")
    )
    console.print(Text.assemble("Callers:        ", callers))
    console.print(Text.assemble("Runs in flight: ", runs))
