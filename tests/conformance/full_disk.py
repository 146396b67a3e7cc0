"""Fill a disk with decisions: run where the folder given is a small file system of its own.

    python -m tests.conformance.full_disk FOLDER

Prints one JSON object: how many decisions were acknowledged before the disk was full, the code of the error, how many
of them are there, and whether the store works again after something was removed.
"""

import asyncio
import json
import sys
from pathlib import Path

from penstock.base.errors import Unavailable
from penstock.runtime.ports.runs import Appended
from penstock.runtime.stores.sqlite.database import SqliteDatabase
from penstock.runtime.tables.runs.store import RunStore
from tests.conformance.stores import listed, start

RUNS_MAX = 10_000


async def main(folder: Path) -> None:
    """Write until it fails, make room, write again."""
    ballast = folder / "ballast"
    ballast.write_bytes(b"x" * 200_000)
    store = RunStore(SqliteDatabase(folder / "store.db"))
    await store.open()
    acknowledged: list[str] = []
    code = ""
    while not code and len(acknowledged) < RUNS_MAX:
        run_id = f"r_{len(acknowledged)}"
        try:
            await store.append(start(run_id, payload={"text": "x" * 1_000}))
            acknowledged.append(run_id)
        except Unavailable as error:
            code = error.code
    found = [run_id for run_id in acknowledged if await store.load(run_id) is not None]
    runs = len(await listed(store, limit=1_000))
    ballast.unlink()
    again = await store.append(start("after", payload={"text": "x" * 1_000})) == Appended()
    await store.close()
    result = {"acknowledged": len(acknowledged), "code": code, "found": len(found), "runs": runs, "again": again}
    print(json.dumps(result))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
