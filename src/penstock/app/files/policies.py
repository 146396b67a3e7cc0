"""The server's policies in files: in force from the start on, and again whenever a file changes.

At the start, a mistake in a policy, a missing file, and a file without policies stop the server. Later, the previous
policies stay in force and the server is not ready; the log, `system.health` and the audit log report it.

Above it: `gate`. Below it: `watcher`, the internal operation `policy.load`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path

from penstock.app.files.named import FoundFiles, UnreadableFile, find_files, read_text
from penstock.base import limits
from penstock.base.errors import Rejected
from penstock.base.json import JsonValue
from penstock.operations.gate.internal_callers import internal_call, system_principal
from penstock.operations.gate.pipeline import Gate
from penstock.operations.policies.loading import LOAD, LoadedPolicies

__all__ = ["POLICIES_CHECK", "PolicyFiles", "find_policies", "read_policy_files", "read_policy_texts"]

_LOGGER = logging.getLogger("penstock.policy")
POLICIES_CHECK = "policies"
"""The name of the check in `system.health`, and of these files in metrics."""
_SUFFIX = ".cedar"


def find_policies(named: Sequence[str]) -> FoundFiles:
    """Return the files that the settings name; raise `Rejected` if there are too many."""
    found = find_files(named, _SUFFIX)
    if len(found.paths) > limits.POLICY_FILES_MAX:
        message = f"policy.files names more than {limits.POLICY_FILES_MAX} files"
        raise Rejected("POLICY_INVALID", message, "name the files, or a folder that has only policies")
    return found


def read_policy_files(named: Sequence[str]) -> tuple[list[tuple[str, str]], list[UnreadableFile]]:
    """Return the name and the text of every file that can be read, and what cannot be."""
    found = find_policies(named)
    texts, problems = [], [*found.problems]
    for path in found.paths:
        text = read_text(path)
        if isinstance(text, UnreadableFile):
            problems.append(text)
        else:
            texts.append((str(path), text))
    return texts, problems


def read_policy_texts(named: Sequence[str]) -> list[tuple[str, str]]:
    """Return the name and the text of every file; raise `Rejected` for one that cannot be read."""
    texts, problems = read_policy_files(named)
    if problems:
        raise Rejected("POLICY_INVALID", str(problems[0]), "correct `policy.files`, or restore the file")
    return texts


class PolicyFiles:
    """The policy files of one server, for the watcher of its files."""

    name = POLICIES_CHECK

    def __init__(self, named: Sequence[str], gate: Gate) -> None:
        self._named = tuple(named)
        self._gate = gate

    def list_paths(self) -> Sequence[Path]:
        """Return the files as they are now."""
        return find_policies(self._named).paths

    async def take_up(self, changed: Sequence[Path]) -> None:
        """Put the policies of all files in force; raise if one of them cannot be. Either is on record."""
        texts, problems = await asyncio.to_thread(read_policy_files, self._named)
        files: list[JsonValue] = [{"name": name, "text": text} for name, text in texts]
        files += [{"name": item.name, "problem": item.reason} for item in problems]
        principal = system_principal("policies", "policy:write")
        loaded: LoadedPolicies = await internal_call(self._gate, principal, LOAD, {"files": files})
        for warning in loaded.warnings:
            _LOGGER.warning("%s", warning)
        names = {name for name, _ in texts}
        for path in changed:
            if str(path) not in names:
                _LOGGER.warning("%s was removed, and its policies no longer apply", path)
        _LOGGER.info("%d policies are in force, version %s", loaded.policies, loaded.version)
