"""Policies in files, and the actions that they may name: the operations, and the workflows of the project.

Above it: the commands. Below it: `governance.policy`, the catalogue.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import yaml

from penstock.app.files.policies import read_policy_texts
from penstock.app.settings.model import Settings
from penstock.base.errors import PenstockError
from penstock.base.json import JsonObject
from penstock.cli.declaration import Argument
from penstock.cli.server.workflow_files import project_workflows
from penstock.cli.terminal.values import UsageError
from penstock.governance.policy.cases import CaseMistake, PolicyCase, read_case
from penstock.governance.policy.schema import ActionShape
from penstock.governance.policy.sets import PolicySet
from penstock.governance.policy.source import Policy, PolicyProblem, parse_policies, without_policies
from penstock.governance.policy.validation import validate
from penstock.operations.builtin import builtin_operations
from penstock.operations.runs.actions.nodes import NODE_ACTIONS
from penstock.operations.runs.actions.workflows import workflow_action

__all__ = ["CaseFile", "FilesArgument", "PolicyFileSet", "project_actions", "read_cases", "read_set"]

_CASES_SUFFIX = ".tests.yaml"

FilesArgument = Annotated[
    list[str] | None,
    Argument(metavar="FILE", help="Files with policies, or folders; those of the settings (policy.files) without any."),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyFileSet:
    """The policies of some files, and what is wrong with them."""

    files: tuple[str, ...]
    policies: tuple[Policy, ...]
    problems: tuple[PolicyProblem, ...]

    @property
    def errors(self) -> list[PolicyProblem]:
        """What keeps the policies from being used."""
        return [item for item in self.problems if item.severity == "error"]

    def usable(self) -> PolicySet:
        """Return the policies as one set; raise `UsageError` if one has a mistake."""
        if self.errors:
            raise UsageError(f"{self.errors[0]}; `penstock policy check` shows every mistake")
        return PolicySet(self.policies)


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseFile:
    """A file with test cases, and the actions that it describes by itself."""

    path: Path
    policies: tuple[str, ...]
    actions: Mapping[str, ActionShape]
    cases: tuple[PolicyCase, ...]


def project_actions(settings: Settings) -> dict[str, ActionShape]:
    """Return the actions of every operation, of the workflows of the project, and of what nodes reach."""
    found = [capability.policy_action for capability in builtin_operations()]
    found += [workflow_action(workflow.name, workflow.document) for workflow in project_workflows(settings)]
    found += [kind.action for kind in NODE_ACTIONS.values()]
    return {action.name: action for action in found}


def read_set(named: Sequence[str], actions: Mapping[str, ActionShape], *, of_tenant: bool = False) -> PolicyFileSet:
    """Read the policies of files and check them together."""
    try:
        texts = read_policy_texts(named)
    except PenstockError as error:
        raise UsageError(error.message) from None
    if not texts:
        raise UsageError("there are no policies: name files, or folders with .cedar files")
    policies: list[Policy] = []
    problems = without_policies(texts)
    for name, text in texts:
        parsed = parse_policies(text, name)
        policies += parsed.policies
        problems += parsed.problems
    problems += validate(policies, actions, of_tenant=of_tenant)
    return PolicyFileSet(files=tuple(name for name, _ in texts), policies=tuple(policies), problems=tuple(problems))


def case_paths(named: Iterable[str]) -> list[Path]:
    """Return the files with test cases: themselves, and all of them below folders."""
    found: list[Path] = []
    for text in named:
        path = Path(text)
        found += sorted(path.rglob(f"*{_CASES_SUFFIX}")) if path.is_dir() else [path]
    return found


def read_cases(named: Sequence[str]) -> list[CaseFile]:
    """Read files with test cases; raise `UsageError` for one that cannot be read."""
    files = [_case_file(path) for path in case_paths(named)]
    if not files:
        raise UsageError(f"there are no test cases: name files, or folders with {_CASES_SUFFIX} files")
    return files


def _case_file(path: Path) -> CaseFile:
    try:
        written = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from None
    if not isinstance(written, dict) or not isinstance(written.get("cases"), list):
        raise UsageError(f"{path} has no `cases`")
    unknown = sorted(set(map(str, written)) - {"policies", "workflows", "cases"})
    if unknown:
        raise UsageError(f"{path}: nothing is known about `{unknown[0]}`; there are policies, workflows and cases")
    policies = written.get("policies", [str(path.name).removesuffix(_CASES_SUFFIX) + ".cedar"])
    if not isinstance(policies, list):
        raise UsageError(f"{path}: `policies` is a list of files")
    try:
        cases = tuple(read_case(item) for item in written["cases"])
    except CaseMistake as error:
        raise UsageError(f"{path}: {error}") from None
    return CaseFile(
        path=path,
        policies=tuple(str(path.parent / str(name)) for name in policies),
        actions=_described(path, written.get("workflows", {})),
        cases=cases,
    )


def _described(path: Path, workflows: Any) -> dict[str, ActionShape]:
    """Return the actions of workflows that the file describes: their documents, or just their `input`."""
    if not isinstance(workflows, dict) or not all(isinstance(item, dict) for item in workflows.values()):
        raise UsageError(f"{path}: `workflows` has an object with an `input` schema for each workflow")
    documents: dict[str, JsonObject] = workflows
    found = [workflow_action(str(name), document) for name, document in documents.items()]
    found += [kind.action for kind in NODE_ACTIONS.values()]
    return {action.name: action for action in found}
