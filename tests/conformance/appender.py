"""A process that writes to an SQLite store until it is killed, or until it has written enough.

python -m tests.conformance.appender PATH NAME              # every acknowledged decision is a line: run, seq
python -m tests.conformance.appender PATH NAME --shared N   # moves the run `shared` N times, against others
"""

import asyncio
import sys
from itertools import count

from penstock.runtime.ports.runs import Appended
from penstock.runtime.stores.sqlite.database import SqliteDatabase
from penstock.runtime.tables.runs.store import RunStore
from tests.conformance.stores import start, step

RUNS_AT_ONCE = 8
DECISIONS_PER_RUN = 5


async def write_runs(store: RunStore, name: str) -> None:
    """Start and move runs for ever, and say so each time."""

    async def live(lane: int) -> None:
        for number in count():
            write = start(f"{name}-{lane}-{number}", records=3, labels={"by": name, "lane": str(lane)})
            for _ in range(DECISIONS_PER_RUN):
                assert await store.append(write) == Appended()
                print(write.row.run_id, write.row.seq, flush=True)
                write = step(write, records=2)

    await asyncio.gather(*(live(lane) for lane in range(RUNS_AT_ONCE)))


async def move_shared(store: RunStore, name: str, times: int) -> None:
    """Move one run that others move too; also write runs of one's own."""
    done = 0
    await store.append(start("shared", payload={"by": "start"}))
    while done < times:
        await store.append(start(f"{name}-{done}"))
        loaded = await store.load("shared")
        assert loaded is not None
        write = step(start("shared", records=loaded.row.seq), payload={"by": name})
        if await store.append(write) == Appended():
            done += 1
    print(name, done, flush=True)


async def main() -> None:
    """Open, say so, write."""
    path, name, *rest = sys.argv[1:]
    store = RunStore(SqliteDatabase(path))
    await store.open()
    print("open", flush=True)
    if rest:
        await move_shared(store, name, int(rest[1]))
        await store.close()
    else:
        await write_runs(store, name)


if __name__ == "__main__":
    asyncio.run(main())
