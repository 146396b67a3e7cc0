"""How a process runs that does nothing but Penstock, by its own choice."""

import asyncio
import gc
import subprocess
import sys
from pathlib import Path

import pytest
import uvloop

import penstock
from penstock.app.event_loop import loop_name, run, server_loop, tuned_collector
from penstock.base import limits
from tests.waiting import SECONDS_MAX


async def settings() -> tuple[bool, int, int]:
    return isinstance(asyncio.get_running_loop(), uvloop.Loop), gc.get_threshold()[0], gc.get_freeze_count()


def test_a_program_that_chooses_it_runs_on_uvloop_with_a_calm_collector_and_leaves_no_trace() -> None:
    before = gc.get_threshold()
    on_uvloop, new_objects, frozen = penstock.run(settings())
    assert on_uvloop
    assert new_objects == limits.GC_NEW_OBJECTS
    assert frozen > 0
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == 0


def test_each_part_can_be_left_out() -> None:
    before = gc.get_threshold()[0]
    assert penstock.run(settings(), uvloop=False, calm=False) == (False, before, 0)


def test_a_disabled_collector_stays_disabled() -> None:
    gc.disable()
    try:
        with tuned_collector():
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_opening_a_store_changes_nothing_of_the_process(tmp_path: Path) -> None:
    program = """
import asyncio, gc
from penstock import Penstock
before = gc.get_threshold()
async def main():
    async with Penstock.open("a.db"):
        assert type(asyncio.get_running_loop()).__module__.startswith("asyncio")
        assert (gc.get_threshold(), gc.get_freeze_count()) == (before, 0)
asyncio.run(main())
"""
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True, timeout=SECONDS_MAX)


def test_the_running_loop_is_named() -> None:
    async def name() -> str:
        return loop_name()

    assert run(name()) == "uvloop"
    assert run(name(), uvloop=False) == "asyncio"


def test_a_server_uses_the_loop_of_python_where_uvloop_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert server_loop() is uvloop.new_event_loop
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert server_loop() is asyncio.new_event_loop
