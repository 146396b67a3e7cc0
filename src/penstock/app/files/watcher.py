"""Watches files and applies changes. If a change cannot be applied, the previous contents stay in force.

Each kind of file is watched by a task of its own, so that one that hangs or crashes does not affect the others. A task
that ends is restarted. Health, metrics and the log have the last error.

Files are compared by their contents: sizes and times can stay the same. A change counts once the files have stayed the
same for a moment, so that a file that an editor is replacing raises no alarm.

Above it: `policies`, `graphs`, `workflows`, `penstock dev`. Below it: `named` reads files, readers put them in force.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from penstock.app.files.named import stamp_file
from penstock.app.files.trusted import describe_risks
from penstock.base import limits
from penstock.base.errors import Conflict, PenstockError, Rejected
from penstock.operations.telemetry.metrics import Gauge

__all__ = ["FileReader", "FileWatcher", "stamp_files"]

_LOGGER = logging.getLogger("penstock.files")
_UNKNOWN: Mapping[str, str] = {"": "unknown"}
"""Stands for the stamps of files that could not be listed."""


class FileReader(Protocol):
    """One kind of files: which they are, and how they are put in force."""

    @property
    def name(self) -> str:
        """How health, metrics and the log call them."""
        ...

    def list_paths(self) -> Iterable[Path]:
        """Return the files as they are now. It is called in a thread."""
        ...

    async def take_up(self, changed: Sequence[Path]) -> None:
        """Read the files and put them in force, all or none; raise if that fails. `changed` are those that differ."""
        ...


@dataclass(slots=True, kw_only=True)
class _Watch:
    """What is known about the files of one reader."""

    reader: FileReader
    tried: Mapping[str, str] = field(default_factory=dict)
    """The stamps of the files that were last read, whether they are in force or not."""
    problem: str | None = None
    """Why the newest files are not in force; None if they are."""
    retry_at: float | None = None
    """When to read the same files again, if something other than their contents was wrong."""
    failures_in_a_row: int = 0
    failures: int = 0
    looked_at: float = 0.0
    risks: tuple[str, ...] = ()
    """Who else can change the files."""
    task: asyncio.Task[None] | None = None

    def is_current(self, stamps: Mapping[str, str]) -> bool:
        """Whether these files were read, and reading them again would give nothing else."""
        return stamps == self.tried and (self.retry_at is None or time.monotonic() < self.retry_at)


class FileWatcher:
    """Watches the files of any number of readers."""

    def __init__(
        self,
        *,
        look_seconds: float = limits.FILES_LOOK_SECONDS,
        settle_seconds: float = limits.FILES_SETTLE_SECONDS,
    ) -> None:
        self._look_seconds = look_seconds
        self._settle_seconds = settle_seconds
        self._watches: dict[str, _Watch] = {}
        self._is_watching = False

    async def add(self, reader: FileReader, stamps: Mapping[str, str] | None = None) -> None:
        """Watch the files of a reader. It has to read them after this, or after it took the stamps that it gives."""
        tried = await asyncio.to_thread(stamp_files, reader) if stamps is None else stamps
        self._watches[reader.name] = _Watch(
            reader=reader, tried=tried, risks=await asyncio.to_thread(_find_risks, tried)
        )

    async def load(self, reader: FileReader) -> None:
        """Put the files of a reader in force, and watch them; raise if they cannot be put in force."""
        await self.add(reader)
        await reader.take_up([*map(Path, self._watches[reader.name].tried)])

    def problem(self, name: str) -> str | None:
        """Return why the newest files of a reader are not in force; None if they are."""
        watch = self._watches.get(name)
        if watch is None:
            return None
        silent = time.monotonic() - watch.looked_at
        if self._is_watching and silent > limits.FILES_SILENT_SECONDS + self._look_seconds:
            return f"the files could not be checked for {silent:.0f} s; the file system may hang"
        return watch.problem

    def risks(self) -> list[str]:
        """Return who else can change watched files, one line for each."""
        return [risk for watch in self._watches.values() for risk in watch.risks]

    def gauges(self) -> list[Gauge]:
        """Return what is measured of the files."""
        return [
            Gauge(
                name="penstock_watched_files_failing",
                help="1 if the newest files of a source are not in force, 0 if they are.",
                labels=("source",),
                read=lambda: {(name,): float(self.problem(name) is not None) for name in self._watches},
            ),
            Gauge(
                name="penstock_watched_files_failures",
                help="Attempts to read changed files that failed.",
                labels=("source",),
                kind="counter",
                read=lambda: {(name,): float(watch.failures) for name, watch in self._watches.items()},
            ),
        ]

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """Check the files regularly until the block ends."""
        self._is_watching = True
        for watch in self._watches.values():
            watch.looked_at = time.monotonic()
            self._start(watch)
        try:
            yield
        finally:
            self._is_watching = False
            tasks = [watch.task for watch in self._watches.values() if watch.task is not None]
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks)

    def _start(self, watch: _Watch) -> None:
        if not self._is_watching:
            return
        watch.task = asyncio.create_task(self._look_on(watch), name=f"penstock-files-{watch.reader.name}")
        watch.task.add_done_callback(lambda task: self._restart(watch, task))

    def _restart(self, watch: _Watch, task: asyncio.Task[None]) -> None:
        """Begin again with watching that ended before it was stopped."""
        error = None if task.cancelled() else task.exception()
        if not self._is_watching:
            return
        watch.retry_at = time.monotonic()
        task.get_loop().call_later(limits.FILES_RESTART_SECONDS, self._start, watch)  # first: the log may fail, too
        self._fail(watch, f"watching ended unexpectedly: {error!r}" if error else "watching was cancelled", error)

    async def _look_on(self, watch: _Watch) -> None:
        while True:
            await asyncio.sleep(self._look_seconds)
            await self._look_at(watch)

    async def look(self) -> None:
        """Check all files once, now."""
        for watch in self._watches.values():
            await self._look_at(watch)

    async def _look_at(self, watch: _Watch) -> None:
        """Apply what changed. No exception of a reader ends this, not even `SystemExit`."""
        try:
            stamps = await self._read_stamps(watch)
            if watch.is_current(stamps):
                return
            stamps = await self._settle(watch, stamps)
            if watch.is_current(stamps):
                return
            changed = [name for name in {**stamps, **watch.tried} if stamps.get(name) != watch.tried.get(name)]
            watch.tried = stamps
            await watch.reader.take_up([Path(name) for name in changed if name])
        except (Rejected, Conflict) as error:  # the contents are wrong: reading them again would change nothing
            watch.retry_at, watch.failures_in_a_row = None, 0
            self._fail(watch, error.message)
        except PenstockError as error:
            self._retry_later(watch)
            self._fail(watch, error.message)
        except (Exception, SystemExit) as error:  # whatever is wrong with one change, the next counts
            self._retry_later(watch)
            self._fail(watch, f"reading failed: {type(error).__name__}: {error}", error)
        else:
            before, watch.problem, watch.retry_at, watch.failures_in_a_row = watch.problem, None, None, 0
            if before is not None:
                _LOGGER.info("the newest files are in force: %s", watch.reader.name)

    async def _settle(self, watch: _Watch, stamps: Mapping[str, str]) -> Mapping[str, str]:
        """Wait until the files stay the same for a moment; return how they are then."""
        for _ in range(limits.FILES_SETTLE_LOOKS_MAX):
            await asyncio.sleep(self._settle_seconds)
            before, stamps = stamps, await self._read_stamps(watch)
            if before == stamps:
                break
        return stamps

    async def _read_stamps(self, watch: _Watch) -> Mapping[str, str]:
        before, watch.tried = watch.tried, _UNKNOWN
        stamps = await asyncio.to_thread(stamp_files, watch.reader)
        watch.risks = await asyncio.to_thread(_find_risks, stamps)
        watch.tried, watch.looked_at = before, time.monotonic()
        return stamps

    def _retry_later(self, watch: _Watch) -> None:
        pause = min(limits.FILES_RETRY_SECONDS_MAX, self._look_seconds * 2**watch.failures_in_a_row)
        watch.retry_at = time.monotonic() + pause
        watch.failures_in_a_row = min(watch.failures_in_a_row + 1, 16)

    def _fail(self, watch: _Watch, problem: str, error: BaseException | None = None) -> None:
        watch.failures += 1
        before, watch.problem = watch.problem, problem
        if before != problem:
            _LOGGER.error(
                "changed files are not applied, and the previous ones stay in force: %s: %s",
                watch.reader.name,
                problem,
                exc_info=error,
            )


def stamp_files(reader: FileReader) -> Mapping[str, str]:
    """Return what changes when a file, or the list of files, does."""
    return {str(path): stamp_file(path) for path in reader.list_paths()}


def _find_risks(stamps: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(describe_risks(map(Path, stamps)))
