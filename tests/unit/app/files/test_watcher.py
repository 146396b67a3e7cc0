"""Nothing that happens to files, or inside a reader, ends the watching, loosens what is in force, or goes unsaid."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from penstock.app.files.policies import POLICIES_CHECK, PolicyFiles
from penstock.app.files.watcher import FileWatcher
from penstock.app.gate import open_gate
from penstock.app.penstock import Penstock
from penstock.base import limits
from penstock.base.errors import Rejected, Unavailable
from penstock.operations.gate.pipeline import Gate
from tests.waiting import SECONDS_MAX, until

GOOD = (
    '@id("scopes-decide") permit (principal, action, resource);\n'
    '@id("no") forbid (principal is Agent, action, resource);\n'
)


def emptied(file: Path) -> None:
    file.write_text("")


def cut_off(file: Path) -> None:
    file.write_text(GOOD[: GOOD.index("forbid") + 12])


def only_comments(file: Path) -> None:
    file.write_text("// permit (principal, action, resource);\n\n   // nothing\n")


def deleted(file: Path) -> None:
    file.unlink()


def renamed(file: Path) -> None:
    file.rename(file.with_suffix(".old"))


def folder_in_its_place(file: Path) -> None:
    file.unlink()
    file.mkdir()


def symlink_loop(file: Path) -> None:
    file.unlink()
    file.symlink_to(file)


def dangling_symlink(file: Path) -> None:
    file.unlink()
    file.symlink_to(file.with_name("nowhere"))


def pipe_in_its_place(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def device_in_its_place(file: Path) -> None:
    file.unlink()
    file.symlink_to("/dev/zero")


def not_utf8(file: Path) -> None:
    file.write_bytes(GOOD.encode() + b"// \xff\xfe\n")


def nul_bytes(file: Path) -> None:
    file.write_bytes(b"\0" * len(GOOD))


def nul_bytes_in_a_comment(file: Path) -> None:
    file.write_bytes(b"// \0\n" + GOOD.encode())


def huge(file: Path) -> None:
    with file.open("wb") as opened:
        opened.truncate(limits.OPERATOR_FILE_BYTES_MAX * 1000)


def folder_removed(file: Path) -> None:
    shutil.rmtree(file.parent)


def folder_is_a_file(file: Path) -> None:
    shutil.rmtree(file.parent)
    file.parent.write_text("")


WAYS = (
    emptied,
    cut_off,
    only_comments,
    deleted,
    renamed,
    folder_in_its_place,
    symlink_loop,
    dangling_symlink,
    pipe_in_its_place,
    device_in_its_place,
    not_utf8,
    nul_bytes,
    nul_bytes_in_a_comment,
    huge,
    folder_removed,
    folder_is_a_file,
)


@contextmanager
def restored(file: Path) -> Iterator[None]:
    """Bring the file back after the block, whatever is in its place."""
    try:
        yield
    finally:
        if file.parent.is_dir():
            shutil.rmtree(file.parent)
        else:
            file.parent.unlink(missing_ok=True)
        file.parent.mkdir()
        file.write_text(GOOD)


def in_force(gate: Gate) -> list[str]:
    assert gate.services.policies is not None
    return [policy.id for policy in gate.services.policies.server]


def on_gate(folder: Path, body: Callable[[Gate], Coroutine[Any, Any, None]]) -> None:
    async def opened() -> None:
        async with (
            asyncio.timeout(SECONDS_MAX),
            Penstock.open(folder / "penstock.db") as penstock,
            open_gate(penstock) as gate,
        ):
            await body(gate)

    asyncio.run(opened())


@pytest.mark.parametrize("named", ["policies/rules.cedar", "policies", "policies/*.cedar", "policies/**/*.cedar"])
def test_policies_stay_in_force_whatever_happens_to_their_file(
    named: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "policies/rules.cedar"
    file.parent.mkdir()
    file.write_text(GOOD)

    async def body(gate: Gate) -> None:
        watcher = FileWatcher(settle_seconds=0)
        await watcher.load(PolicyFiles([str(tmp_path / named)], gate))
        for way in WAYS:
            with restored(file):
                way(file)
                await watcher.look()
                problem = watcher.problem(POLICIES_CHECK)
                assert problem is not None, way
                assert str(file.parent) in problem, (way, problem)
                assert problem in caplog.text, way
                assert in_force(gate) == ["scopes-decide", "no"], way
            await watcher.look()
            assert watcher.problem(POLICIES_CHECK) is None, way

    with caplog.at_level(logging.ERROR, "penstock.files"):
        on_gate(tmp_path, body)


def test_other_contents_count_although_size_and_times_stay_the_same(tmp_path: Path) -> None:
    file = tmp_path / "rules.cedar"
    file.write_text(GOOD)

    async def body(gate: Gate) -> None:
        watcher = FileWatcher(settle_seconds=0)
        await watcher.load(PolicyFiles([str(file)], gate))
        before = file.stat()
        with file.open("r+") as opened:
            opened.write(GOOD.replace('"no"', '"on"'))
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
        await watcher.look()
        assert in_force(gate) == ["scopes-decide", "on"]

    on_gate(tmp_path, body)


class Reader:
    """A reader that does what a test says."""

    name = "things"

    def __init__(self, file: Path) -> None:
        self.file = file
        self.error: BaseException | None = None
        self.list_error: BaseException | None = None
        self.taken: list[str] = []
        self.changed: list[Path] = []

    def list_paths(self) -> Sequence[Path]:
        if self.list_error is not None:
            raise self.list_error
        return sorted(self.file.parent.glob("*.txt"))

    async def take_up(self, changed: Sequence[Path]) -> None:
        self.changed = [*changed]
        if self.error is not None:
            raise self.error
        self.taken.append(self.file.read_text() if self.file.exists() else "gone")


CRASHES = (
    RuntimeError("a bug"),
    IndexError(),
    MemoryError(),
    RecursionError(),
    AssertionError(),
    SystemExit(1),
    asyncio.CancelledError(),
    GeneratorExit(),
    Unavailable("STORE_BUSY", "the store is busy", ""),
    Rejected("POLICY_INVALID", "it is wrong", ""),
)


def watching_with(tmp_path: Path, body: Callable[[FileWatcher, Reader], Coroutine[Any, Any, None]]) -> None:
    file = tmp_path / "one.txt"
    file.write_text("1")
    reader = Reader(file)

    async def watched() -> None:
        watcher = FileWatcher(look_seconds=0.01, settle_seconds=0.01)
        await watcher.load(reader)
        async with asyncio.timeout(SECONDS_MAX), watcher.watching():
            await body(watcher, reader)

    asyncio.run(watched())


@pytest.mark.parametrize("error", CRASHES, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("place", ["take_up", "list_paths"])
def test_whatever_a_reader_raises_the_next_change_is_taken_up(
    error: BaseException, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "FILES_RESTART_SECONDS", 0.01)

    async def body(watcher: FileWatcher, reader: Reader) -> None:
        if place == "take_up":
            reader.error = error
        else:
            reader.list_error = error
        reader.file.write_text("2")
        await until(lambda: watcher.problem("things") is not None)
        reader.error = reader.list_error = None
        reader.file.write_text("3")
        await until(lambda: reader.taken[-1] == "3" and watcher.problem("things") is None)

    watching_with(tmp_path, body)


def test_watching_that_is_cancelled_from_outside_begins_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "FILES_RESTART_SECONDS", 0.01)

    async def body(watcher: FileWatcher, reader: Reader) -> None:
        for number in ("2", "3"):
            for task in asyncio.all_tasks():
                if task.get_name() == "penstock-files-things":
                    task.cancel()
            await until(lambda: watcher.problem("things") == "watching was cancelled")
            reader.file.write_text(number)
            await until(lambda: reader.taken[-1] == number and watcher.problem("things") is None)  # noqa: B023

    watching_with(tmp_path, body)


def test_a_log_that_fails_ends_no_watching(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "FILES_RESTART_SECONDS", 0.01)

    def fail(record: logging.LogRecord) -> bool:
        raise OSError(f"the disk is full: {record.levelname}")

    async def body(watcher: FileWatcher, reader: Reader) -> None:
        logger = logging.getLogger("penstock.files")
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
        logger.addFilter(fail)
        try:
            reader.error = RuntimeError("a bug")
            reader.file.write_text("2")
            await until(lambda: watcher.problem("things") is not None)
            reader.error = None
            reader.file.write_text("3")
            await until(lambda: reader.taken[-1] == "3")
        finally:
            logger.removeFilter(fail)
        reader.file.write_text("4")
        await until(lambda: reader.taken[-1] == "4" and watcher.problem("things") is None)

    watching_with(tmp_path, body)


def test_a_failure_that_is_not_about_the_files_is_tried_again_without_another_change(tmp_path: Path) -> None:
    async def body(watcher: FileWatcher, reader: Reader) -> None:
        reader.error = Unavailable("STORE_BUSY", "the store is busy", "")
        reader.file.write_text("2")
        await until(lambda: watcher.problem("things") == "the store is busy")
        reader.error = None
        await until(lambda: reader.taken[-1] == "2" and watcher.problem("things") is None)

    watching_with(tmp_path, body)


def test_files_that_are_replaced_in_steps_raise_no_alarm(tmp_path: Path) -> None:
    file = tmp_path / "one.txt"
    file.write_text("1")
    reader = Reader(file)

    async def body() -> None:
        watcher = FileWatcher(settle_seconds=0.2)
        await watcher.load(reader)
        for number in range(2, 12):
            looking = asyncio.create_task(watcher.look())
            file.rename(tmp_path / "one.bak")
            await asyncio.sleep(0)
            (tmp_path / "one.new").write_text(str(number))
            (tmp_path / "one.new").rename(file)
            await looking
        assert reader.taken == [str(number) for number in range(1, 12)]

    asyncio.run(body())


def test_files_that_come_and_go_are_changes_that_are_named(tmp_path: Path) -> None:
    first, second = tmp_path / "one.txt", tmp_path / "two.txt"
    first.write_text("1")
    reader = Reader(first)

    async def body() -> None:
        watcher = FileWatcher(settle_seconds=0)
        await watcher.add(reader)
        await watcher.look()
        assert reader.changed == []
        second.write_text("2")
        await watcher.look()
        assert reader.changed == [second]
        second.unlink()
        await watcher.look()
        assert reader.changed == [second]
        assert len(reader.taken) == 2

    asyncio.run(body())


def test_a_file_system_that_hangs_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "FILES_SILENT_SECONDS", 0.0)

    async def body(watcher: FileWatcher, reader: Reader) -> None:
        answers = threading.Event()

        def hang() -> list[Path]:
            answers.wait(SECONDS_MAX)
            return []

        monkeypatch.setattr(reader, "list_paths", hang)
        await until(lambda: "could not be checked" in (watcher.problem("things") or ""))
        answers.set()

    watching_with(tmp_path, body)
