"""`penstock policy check`: every mistake of policies in files, with its place.

Exit codes: 0 when they can be used, 1 when there are mistakes, 2 when a file could not be read.
"""

from __future__ import annotations

from typing import Annotated

from penstock.base.json import JsonValue
from penstock.cli.declaration import Option, echo
from penstock.cli.policy.files import FilesArgument, project_actions, read_set
from penstock.cli.targets.settings import ConfigOption, command_settings
from penstock.cli.terminal.console import count_words
from penstock.cli.terminal.exits import JsonOption, exit_with, print_json
from penstock.governance.policy.sets import PolicySet

__all__ = ["check_command"]


def check_command(
    files: FilesArgument = None,
    *,
    config: ConfigOption = None,
    of_tenant: Annotated[
        bool, Option("--tenant", help="They are for one tenant: such policies only narrow, and permit nothing.")
    ] = False,
    strict: Annotated[bool, Option("--strict", help="Treat warnings as mistakes.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Check policies in files.

    They are checked against the schema of everything that can be called: the operations, and the workflows of the
    project (workflows.paths). Every mistake is printed with its file and line.
    """

    def work() -> int:
        settings = command_settings(config, {}, as_json=as_json).settings
        found = read_set(files or settings.policy.files, project_actions(settings), of_tenant=of_tenant)
        is_wrong = bool(found.problems if strict else found.errors)
        if as_json:
            problems: list[JsonValue] = [
                {
                    "severity": item.severity,
                    "source": item.source,
                    "line": item.line,
                    "policy": item.policy_id,
                    "message": item.message,
                }
                for item in found.problems
            ]
            version = None if is_wrong else PolicySet(found.policies).version
            print_json({"ok": not is_wrong, "policies": len(found.policies), "version": version, "problems": problems})
            return 1 if is_wrong else 0
        for item in found.problems:
            echo(f"{item.severity}: {item}")
        verdict = "cannot be used" if is_wrong else f"can be used, version {PolicySet(found.policies).version}"
        policies = "1 policy" if len(found.policies) == 1 else f"{len(found.policies)} policies"
        echo(f"{policies} in {count_words(len(found.files), 'file')}: {verdict}")
        return 1 if is_wrong else 0

    exit_with(work, as_json=as_json)
