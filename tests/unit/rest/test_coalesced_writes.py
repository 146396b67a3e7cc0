"""Head and body are sent together, in order, and nothing stays behind."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from penstock.rest.coalesced_writes import CoalescedWrites


class Wire(asyncio.Transport):
    """Where a transport sends to."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[bytes] = []
        self.events: list[str] = []

    def write(self, data: object) -> None:
        assert isinstance(data, bytes)
        self.sent.append(data)

    def writelines(self, pieces: Iterable[object]) -> None:
        self.sent.append(b"".join(piece for piece in pieces if isinstance(piece, bytes)))

    def is_closing(self) -> bool:
        return bool(self.events)

    def close(self) -> None:
        self.events.append("close")

    def abort(self) -> None:
        self.events.append("abort")


def test_a_head_and_its_body_are_one_write() -> None:
    async def body() -> None:
        wire = Wire()
        joined = CoalescedWrites(wire, asyncio.get_running_loop())
        joined.write(b"head ")
        joined.write(b"body")
        assert wire.sent == [b"head body"]
        joined.write(b"next ")
        joined.write(b"x" * 100_000)
        assert wire.sent[1:] == [b"next " + b"x" * 100_000]

    asyncio.run(body())


def test_what_nothing_follows_is_sent_when_the_turn_ends() -> None:
    async def body() -> None:
        wire = Wire()
        joined = CoalescedWrites(wire, asyncio.get_running_loop())
        joined.write(b"head")
        assert wire.sent == []
        await asyncio.sleep(0)
        assert wire.sent == [b"head"]
        joined.write(b"x" * 100_000)
        assert wire.sent[-1] == b"x" * 100_000
        joined.write(b"a")
        joined.write(b"b")
        joined.write(b"c")
        await asyncio.sleep(0)
        assert b"".join(wire.sent[2:]) == b"abc"

    asyncio.run(body())


def test_what_is_held_is_sent_before_the_end_and_not_after_it() -> None:
    async def body() -> None:
        polite, rude = Wire(), Wire()
        for wire in (polite, rude):
            CoalescedWrites(wire, asyncio.get_running_loop())
        joined = CoalescedWrites(polite, asyncio.get_running_loop())
        joined.write(b"last words")
        joined.close()
        assert (polite.sent, polite.events, joined.is_closing()) == ([b"last words"], ["close"], True)
        joined = CoalescedWrites(rude, asyncio.get_running_loop())
        joined.write(b"last words")
        joined.abort()
        await asyncio.sleep(0)
        assert (rude.sent, rude.events) == ([], ["abort"])

    asyncio.run(body())


def test_nothing_is_sent_to_somebody_who_has_hung_up() -> None:
    async def body() -> None:
        wire = Wire()
        joined = CoalescedWrites(wire, asyncio.get_running_loop())
        joined.write(b"too late")
        wire.close()
        await asyncio.sleep(0)
        assert wire.sent == []

    asyncio.run(body())
