"""Where the lines of a log go, and when."""

import asyncio
import io
import logging
import threading
from collections.abc import Iterator

import pytest

from penstock.cli.server.logs import BatchingHandler


class Writes(io.StringIO):
    """A stream that remembers each write."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[str] = []

    def write(self, text: str) -> int:
        self.pieces.append(text)
        return super().write(text)


@pytest.fixture
def written() -> Iterator[Writes]:
    stream = Writes()
    handler, logger = BatchingHandler(stream), logging.getLogger("tests.log_lines")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    yield stream
    logger.removeHandler(handler)


LOGGER = logging.getLogger("tests.log_lines")


def test_the_lines_of_one_turn_of_a_loop_are_written_in_one_piece(written: Writes) -> None:
    async def turns() -> None:
        LOGGER.info("one")
        LOGGER.info("two")
        assert written.pieces == []
        await asyncio.sleep(0)
        assert written.pieces == ["one\ntwo\n"]
        LOGGER.info("three")
        await asyncio.sleep(0)

    asyncio.run(turns())
    assert written.pieces == ["one\ntwo\n", "three\n"]


def test_a_warning_is_written_at_once_with_everything_before_it(written: Writes) -> None:
    async def turn() -> None:
        LOGGER.info("one")
        LOGGER.warning("two")
        assert written.getvalue() == "one\ntwo\n"

    asyncio.run(turn())
    assert written.getvalue() == "one\ntwo\n"


def test_lines_of_threads_and_programs_without_a_loop_are_written_at_once(written: Writes) -> None:
    LOGGER.info("one")
    assert written.getvalue() == "one\n"

    async def turn() -> None:
        LOGGER.info("two")
        thread = threading.Thread(target=LOGGER.info, args=("three",))
        thread.start()
        await asyncio.to_thread(thread.join)

    asyncio.run(turn())
    assert written.getvalue() == "one\ntwo\nthree\n"


def test_what_a_loop_left_behind_is_written_by_the_next_one_or_at_the_end(written: Writes) -> None:
    loop = asyncio.new_event_loop()
    loop.call_soon(loop.stop)
    loop.call_soon(LOGGER.info, "one")
    loop.run_forever()
    loop.close()

    async def turn() -> None:
        LOGGER.info("two")
        await asyncio.sleep(0)

    asyncio.run(turn())
    assert written.getvalue() == "one\ntwo\n"
