"""`penstock policy test` and `penstock policy diff`: policies against test cases in YAML.

Exit codes of `test`: 0 when every case holds, 1 when one does not. Of `diff`: 0 when all decisions are equal, 1 when
one differs. 2 when a file could not be read.
"""

from __future__ import annotations

from typing import Annotated

from penstock.base.json import JsonObject, JsonValue
from penstock.cli.declaration import Argument, Option, echo
from penstock.cli.policy.files import CaseFile, project_actions, read_cases, read_set
from penstock.cli.targets.settings import ConfigOption, command_settings
from penstock.cli.terminal.exits import JsonOption, exit_with, print_json
from penstock.cli.terminal.values import UsageError
from penstock.governance.policy.cases import CaseMistake, CaseResult, decide_case
from penstock.governance.policy.schema import ActionShape
from penstock.governance.policy.sets import PolicySet

__all__ = ["cases_command", "diff_command"]

CasesArgument = Annotated[
    list[str], Argument(metavar="CASES...", help="Files with test cases, or folders with .tests.yaml files.")
]


def cases_command(cases: CasesArgument, *, config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Run the test cases of policies.

    A file NAME.tests.yaml tests NAME.cedar beside it, or the files that it lists under `policies`. Each case has a
    request and what is expected: permitted, forbidden or approval.
    """

    def work() -> int:
        actions = project_actions(command_settings(config, {}, as_json=as_json).settings)
        shown: list[JsonValue] = []
        failed = total = 0
        for file in read_cases(cases):
            chosen = read_set(file.policies, {**actions, **file.actions}).usable()
            for result in _results(file, chosen, actions):
                total += 1
                failed += bool(result.differences)
                shown.append({"file": str(file.path), **_json(result)})
                if not as_json:
                    echo(f"{'failed' if result.differences else 'passed'}  {file.path}: {result.case.name}")
                    for difference in result.differences:
                        echo(f"        {difference}")
        if as_json:
            print_json({"ok": not failed, "passed": total - failed, "failed": failed, "cases": shown})
        else:
            echo(f"{total - failed} of {total} cases hold")
        return 1 if failed else 0

    exit_with(work, as_json=as_json)


def diff_command(
    old: Annotated[str, Argument(metavar="OLD", help="A file or folder with the policies before.")],
    new: Annotated[str, Argument(metavar="NEW", help="A file or folder with the policies after.")],
    cases: CasesArgument,
    *,
    config: ConfigOption = None,
    show_all: Annotated[bool, Option("--all", help="Show the requests that are decided equally, too.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Compare two sets of policies on sample requests.

    The requests are those of test cases; what the cases expect does not matter here.
    """

    def work() -> int:
        actions = project_actions(command_settings(config, {}, as_json=as_json).settings)
        rows: list[JsonObject] = []
        for file in read_cases(cases):
            known = {**actions, **file.actions}
            before, after = read_set([old], known).usable(), read_set([new], known).usable()
            pairs = zip(_results(file, before, actions), _results(file, after, actions), strict=True)
            rows += [_row(one, other) for one, other in pairs]
        changed = [row for row in rows if row["before"] != row["after"] or row["listed_before"] != row["listed_after"]]
        if as_json:
            print_json({"requests": len(rows), "changed": len(changed), "rows": [*(rows if show_all else changed)]})
        else:
            for row in rows if show_all else changed:
                listed = "" if row["listed_before"] == row["listed_after"] else _listed_words(row)
                echo(f"{row['before']} -> {row['after']}  {row['name']}{listed}")
            echo(f"{len(changed)} of {len(rows)} requests are decided differently")
        return 1 if changed else 0

    exit_with(work, as_json=as_json)


def _results(file: CaseFile, policies: PolicySet, actions: dict[str, ActionShape]) -> list[CaseResult]:
    try:
        return [decide_case(policies, {**actions, **file.actions}, case) for case in file.cases]
    except CaseMistake as error:
        raise UsageError(f"{file.path}: {error}") from None


def _json(result: CaseResult) -> JsonObject:
    return {
        "name": result.case.name,
        "decision": result.decision,
        "policies": list(result.policies),
        "reasons": list(result.reasons),
        "listed": result.listed,
        "differences": list(result.differences),
    }


def _row(before: CaseResult, after: CaseResult) -> JsonObject:
    return {
        "name": before.case.name,
        "before": before.decision,
        "after": after.decision,
        "policies_before": list(before.policies),
        "policies_after": list(after.policies),
        "listed_before": before.listed,
        "listed_after": after.listed,
    }


def _listed_words(row: JsonObject) -> str:
    return " (now listed)" if row["listed_after"] else " (no longer listed)"
