"""A semaphore lets so many in, the others in their order, and loses no place."""

import asyncio
from collections.abc import Coroutine

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.runtime.semaphores import FairSemaphore
from tests.waiting import SECONDS_MAX


def run_bounded(work: Coroutine[object, object, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(SECONDS_MAX):
            await work

    asyncio.run(bounded())


def test_who_finds_room_acquires_without_waiting_and_others_wait() -> None:
    semaphore = FairSemaphore(2)
    assert semaphore.try_acquire()
    assert not semaphore.locked()
    assert semaphore.try_acquire()
    assert semaphore.locked()
    assert not semaphore.try_acquire()
    semaphore.release()
    assert semaphore.try_acquire()


def test_places_go_to_whoever_waits_longest_and_nobody_slips_in_between() -> None:
    async def scenario() -> None:
        semaphore, entered = FairSemaphore(), list[str]()

        async def visitor(name: str) -> None:
            async with semaphore:
                entered.append(name)

        assert semaphore.try_acquire()
        waiting = [asyncio.ensure_future(visitor(name)) for name in "abc"]
        await asyncio.sleep(0)
        semaphore.release()
        assert not semaphore.try_acquire()  # handed over, although the one who has it has not run yet
        await asyncio.gather(*waiting)
        assert entered == ["a", "b", "c"]
        assert semaphore.try_acquire()

    run_bounded(scenario())


def test_the_place_of_one_who_gave_up_goes_to_the_next() -> None:
    async def scenario() -> None:
        semaphore = FairSemaphore()
        assert semaphore.try_acquire()
        early, late, last = (asyncio.ensure_future(semaphore.acquire()) for _ in range(3))
        await asyncio.sleep(0)
        early.cancel()  # while it waits
        semaphore.release()
        late.cancel()  # when the place was handed over already
        await last
        assert semaphore.locked()
        assert early.cancelled()
        assert late.cancelled()
        semaphore.release()
        assert semaphore.try_acquire()

    run_bounded(scenario())


@settings(max_examples=2 * settings().max_examples)
@given(places=st.integers(1, 3), acts=st.lists(st.tuples(st.integers(0, 6), st.sampled_from("ewc")), max_size=40))
def test_there_are_never_more_inside_than_places_and_in_the_end_all_are_free(
    places: int, acts: list[tuple[int, str]]
) -> None:
    async def scenario() -> None:
        semaphore, inside, most = FairSemaphore(places), 0, 0
        visits: dict[int, asyncio.Task[None]] = {}

        async def visit() -> None:
            nonlocal inside, most
            async with semaphore:
                inside += 1
                most = max(most, inside)
                try:
                    await asyncio.sleep(0)
                finally:
                    inside -= 1

        for number, act in acts:
            if act == "e" and number not in visits:
                visits[number] = asyncio.ensure_future(visit())
            elif act == "c" and number in visits:
                visits.pop(number).cancel()
            else:
                await asyncio.sleep(0)
        await asyncio.gather(*visits.values(), return_exceptions=True)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert most <= places
        assert [semaphore.try_acquire() for _ in range(places + 1)] == [True] * places + [False]

    run_bounded(scenario())
