"""A process that writes to the platform tables of an SQLite file against others.

    python -m tests.conformance.platform_appender PATH NAME COUNT

Appends that many audit entries to one chain, and claims as many keys that others claim too; each key that it won is a
line. It begins when it is told to by a line on its standard input.
"""

import asyncio
import sys
from pathlib import Path

from penstock.runtime.ports.platform import Claimed
from penstock.runtime.tables.call_records import append_audit
from tests.conformance.platform_stores import SEAL, claim, claimed, entry, open_sqlite

LANES = 4


async def main() -> None:
    """Open, say so, write."""
    path, name, count = sys.argv[1:]
    async with open_sqlite(Path(path)) as store:

        async def live(lane: int) -> None:
            for number in range(lane, int(count), LANES):
                await append_audit(store, [entry(number, principal=name)], seal=SEAL)
                if await claimed(store, claim(f"key-{number}", digest=name)) == Claimed():
                    print(f"key-{number}", flush=True)

        print("open", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        await asyncio.gather(*(live(lane) for lane in range(LANES)))


if __name__ == "__main__":
    asyncio.run(main())
