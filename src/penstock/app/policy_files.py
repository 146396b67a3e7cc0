"""The server's policies in files: read at the start, and again whenever a file changes.

A set with a mistake at the start stops the start. Later, the server goes on with the policies that it has, and says so
in the log, in `system.health` and in the audit log.

Above it: `gate`. Below it: the internal operation `policy.load`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from penstock.base import limits
from penstock.base.errors import PenstockError, Rejected
from penstock.base.json import JsonValue
from penstock.operations.gate.internal_callers import internal_call, system_principal
from penstock.operations.gate.pipeline import Gate
from penstock.operations.policies.loading import LOAD, LoadedPolicies

__all__ = ["POLICIES_CHECK", "PolicyFiles", "policy_paths", "read_policy_texts", "with_policy_check"]

_LOGGER = logging.getLogger("penstock.policy")
POLICIES_CHECK = "policies"
"""The name of the check in `system.health`."""
_SUFFIX = "*.cedar"


def policy_paths(named: Sequence[str]) -> list[Path]:
    """Return the files that the settings name: themselves, and all `.cedar` files below folders."""
    found: list[Path] = []
    for text in named:
        path = Path(text)
        found += sorted(path.rglob(_SUFFIX)) if path.is_dir() else [path]
    if len(found) > limits.POLICY_FILES_MAX:
        message = f"policy.files names more than {limits.POLICY_FILES_MAX} files"
        raise Rejected("POLICY_INVALID", message, "name the files, or a folder that has only policies")
    return found


def read_policy_texts(named: Sequence[str]) -> list[tuple[str, str]]:
    """Return the name and the text of every file; raise `Rejected` for one that cannot be read."""
    texts = []
    for path in policy_paths(named):
        try:
            texts.append((str(path), path.read_text(encoding="utf-8")))
        except (OSError, UnicodeDecodeError) as error:
            raise Rejected("POLICY_INVALID", f"{path} cannot be read: {error}", "correct policy.files") from None
    return texts


class PolicyFiles:
    """The files of one server."""

    def __init__(self, named: Sequence[str]) -> None:
        self.named = tuple(named)
        self._seen: object = None
        """What the files looked like when they were last read."""
        self.problem: str | None = None
        """Why the newest files are not in force; None if they are."""

    def health(self) -> str:
        """Return `ok`, or what is wrong."""
        return "ok" if self.problem is None else f"older policies are in force: {self.problem}"

    async def load(self, gate: Gate) -> None:
        """Read the files and put their policies in force; raise if one of them is wrong."""
        self._seen = await asyncio.to_thread(_looks, self.named)
        texts = await asyncio.to_thread(read_policy_texts, self.named)
        files: list[JsonValue] = [{"name": name, "text": text} for name, text in texts]
        loaded: LoadedPolicies = await internal_call(
            gate, system_principal("policies", "policy:write"), LOAD, {"files": files}
        )
        for warning in loaded.warnings:
            _LOGGER.warning("%s", warning)
        _LOGGER.info("%d policies are in force, version %s", loaded.policies, loaded.version)
        self.problem = None

    @asynccontextmanager
    async def in_force(self, gate: Gate) -> AsyncIterator[None]:
        """Put the policies in force, and read them again whenever a file changes, until the block ends."""
        if not self.named:
            yield
            return
        await self.load(gate)
        watching = asyncio.create_task(self.watch(gate))
        try:
            yield
        finally:
            watching.cancel()
            await asyncio.wait([watching])

    async def watch(self, gate: Gate) -> None:
        """Read the files again whenever they change, until cancelled."""
        while True:
            await asyncio.sleep(limits.POLICY_FILES_LOOK_SECONDS)
            await self.look(gate)

    async def look(self, gate: Gate) -> None:
        """Read the files again if they have changed. With a mistake, the policies before them stay in force."""
        if await asyncio.to_thread(_looks, self.named) == self._seen:
            return
        try:
            await self.load(gate)
        except PenstockError as error:
            self.problem = error.message
            _LOGGER.error("the changed policies are not used, the ones before stay in force: %s", error.message)  # noqa: TRY400


def _looks(named: Sequence[str]) -> object:
    """Return what changes when a file does: names, sizes and times."""
    found = []
    try:
        for path in policy_paths(named):
            status = path.stat()
            found.append((str(path), status.st_size, status.st_mtime_ns, status.st_ino))
    except (OSError, PenstockError) as error:
        return str(error)
    return found


def with_policy_check(
    checks: Callable[[], Awaitable[dict[str, str]]], files: PolicyFiles
) -> Callable[[], Awaitable[dict[str, str]]]:
    """Return the checks of `system.health`, with one that says whether the newest policies are in force."""
    if not files.named:
        return checks

    async def look() -> dict[str, str]:
        return {**await checks(), POLICIES_CHECK: files.health()}

    return look
