"""A process that performs the runs of a file and says, line by line, what becomes of its one step. For tests."""

import asyncio
import sys

from penstock import Penstock, step

WORKFLOW = """
penstock: v1
name: long
nodes:
  - {id: work, type: step, handler: "work"}
  - {id: more, type: step, handler: "more"}
  - {id: done, type: end}
"""


@step(name="work")
async def work() -> None:
    """Last until somebody cancels it."""
    print("begun", flush=True)
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        print("cancelled", flush=True)
        raise


@step(name="more")
async def more() -> None:
    """Nobody comes here."""


async def main(path: str) -> None:
    async with Penstock.open(path, steps=[work, more], workflows=[WORKFLOW]):
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.read)  # until the test lets go


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
