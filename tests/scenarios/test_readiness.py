"""`/readyz` says no as soon as the store cannot be used, and yes again once it can."""

from __future__ import annotations

import resource
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.live.rest.servers import LiveServer, serving
from tests.waiting import wait_until

DOCUMENT = {"penstock": "v1", "name": "a", "nodes": [{"id": "done", "type": "end"}]}


def eventually(server: LiveServer, status: int, *codes: str) -> None:
    """Wait until the probe has a status, with one of these codes if it is not well."""
    said: list[str] = []

    def holds() -> bool:
        answer = server.request("GET", "/readyz", key="")
        said.append(answer.json()["checks"]["store"])
        return answer.status == status

    wait_until(holds)
    assert not codes or said[-1] in codes, said[-1]


def with_store(tmp_path: Path, change: Callable[[LiveServer, Path], None]) -> None:
    with serving(tmp_path) as server:
        server.call("POST", "workflows", {"document": DOCUMENT})
        eventually(server, 200)
        change(server, tmp_path / "penstock.db")
        assert server.request("GET", "/healthz", key="").status == 200


def test_a_moved_file_is_told_and_so_is_its_return(tmp_path: Path) -> None:
    def change(server: LiveServer, path: Path) -> None:
        path.rename(path.with_suffix(".away"))
        eventually(server, 503, "STORE_MOVED", "STORE_UNREACHABLE")
        path.with_suffix(".away").rename(path)
        eventually(server, 200)

    with_store(tmp_path, change)


def test_a_log_that_is_removed_is_noticed_as_the_file_is(tmp_path: Path) -> None:
    def change(server: LiveServer, path: Path) -> None:
        path.with_name("penstock.db-wal").unlink()
        eventually(server, 503, "STORE_MOVED")
        refused = server.request("POST", "workflows", {"document": {**DOCUMENT, "name": "b"}})
        assert refused.json()["code"] == "STORE_MOVED"

    with_store(tmp_path, change)


def test_a_disk_without_room_is_told_and_so_is_room(tmp_path: Path) -> None:
    def change(server: LiveServer, path: Path) -> None:
        no_limit = resource.prlimit(server.running.pid, resource.RLIMIT_FSIZE)
        # The kernel refuses to let any file grow beyond a page, as a full disk would.
        resource.prlimit(server.running.pid, resource.RLIMIT_FSIZE, (4_096, no_limit[1]))
        eventually(server, 503, "STORE_FULL", "STORE_IO_ERROR")
        resource.prlimit(server.running.pid, resource.RLIMIT_FSIZE, no_limit)
        eventually(server, 200)

    with_store(tmp_path, change)


@pytest.mark.parametrize("begin", [0, 4_096], ids=["its_first_bytes", "everything_after_its_first_page"])
def test_a_damaged_file_is_told(tmp_path: Path, begin: int) -> None:
    def change(server: LiveServer, path: Path) -> None:
        server.stop()
        server.start()
        eventually(server, 200)
        size = 100 if begin == 0 else path.stat().st_size - begin
        with path.open("r+b") as file:
            file.seek(begin)
            file.write(b"x" * size)
        eventually(server, 503, "STORE_CORRUPT", "STORE_FAILED")

    with_store(tmp_path, change)
