"""How fast runs are listed: 100 runs against 100,000, the same questions with the same number of answers.

    python -m benchmarks.listing            # or: scripts/benchmark listing
    python -m benchmarks.listing 1000000    # a larger file instead

Two SQLite files are filled in bulk, then each question is put to both in turn, through the store as anybody would ask
it; the figure is the median. Questions with few answers hold as many in both files, spread over the whole file or at
its old end, where a walk from the newest run would find them last. The anchor is the small file: a listing that comes
from an index costs the same in both.

The last line is one JSON object; `ok` is true only if no question takes more than twice as long in the large file, or
three times if it looks for text: the index of texts is in pieces, and a large file has a few more of them.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from penstock.base.ids import ENTROPY_BYTES, run_id_of
from penstock.runtime.ports.runs import RunQuery
from penstock.runtime.stores.sqlite.database import SqliteDatabase
from penstock.runtime.stores.sqlite.schema.files import open_for_writing
from penstock.runtime.stores.sqlite.schema.sql_functions import indexed_text
from penstock.runtime.tables.runs.row_keys import first_key_of
from penstock.runtime.tables.runs.store import RunStore

TARGET_RATIO, TARGET_RATIO_OF_TEXT = 2.0, 3.0
SMALL, LARGE = 100, 100_000
PAGE = 10
ROUNDS = 200
AT = 1_767_225_600_000
RARE = 10  # runs with a rare property, in either file

_RUN = "INSERT INTO runs VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,0,?)"
_LABEL = "INSERT INTO labels VALUES (?,?,?,?)"
_TEXT = "INSERT INTO runs_text (rowid, text) VALUES (?,?)"
_HISTORY = "INSERT INTO history VALUES (?,?,?,?)"


def run_id(number: int) -> str:
    """The id of the run with a number, as if they had been started a millisecond apart."""
    return run_id_of(AT + number, number.to_bytes(ENTROPY_BYTES, "big"))


def is_rare(number: int, total: int) -> bool:
    """True for a few runs at the old end of the file."""
    return number % max(total // 1_000, 1) == 0 and 0 <= number < RARE * max(total // 1_000, 1)


def properties(number: int, total: int) -> tuple[str, str, dict[str, str], str | None]:
    """Status, workflow, labels and parent of a run."""
    rare = is_rare(number, total)
    status = "failed" if rare else ("completed", "waiting_input")[number % 2]
    workflow = "seldom" if rare else ("refund", "onboarding")[number // 2 % 2]
    labels = {"team": ("blue", "green")[number // 4 % 2], "customer": f"customer {number}"}
    if rare:
        labels["campaign"] = "Zebra"
    return status, workflow, labels, run_id(total) if rare else None


def fill(path: Path, total: int) -> None:
    """Write a file with runs, their labels and a short history each."""
    connection = open_for_writing(str(path), synchronous="OFF")
    connection.execute("BEGIN")
    connection.executemany(_RUN, runs(total))
    connection.executemany(_LABEL, labels_of_runs(total))
    connection.executemany(_TEXT, texts_of_runs(total))
    connection.executemany(_HISTORY, ((first_key_of(AT + number), 1, 1, b"x" * 200) for number in range(total)))
    connection.execute("COMMIT")
    connection.close()


def runs(total: int) -> Iterator[tuple[object, ...]]:
    """The rows of the index, oldest first."""
    for number in range(total):
        status, workflow, labels, parent = properties(number, total)
        at = AT + number
        text = msgspec.json.encode(labels).decode()
        ended = status != "waiting_input"
        row = (run_id(number), workflow, "1.0.0", "f" * 64, status, 1, at, at, parent, text, None, 0, None, ended)
        yield (first_key_of(at), *row, tenant_of(number, total), "key:rare" if parent else f"key:{number // 2 % 3}")


def tenant_of(number: int, total: int) -> str:
    """Half of the runs are of one tenant; what is rare, too; a few old ones are of a small tenant."""
    if is_rare(number - RARE * max(total // 1_000, 1), total):
        return "small"
    return "acme" if is_rare(number, total) or number % 4 < 2 else "default"


def texts_of_runs(total: int) -> Iterator[tuple[object, ...]]:
    """The rows of the index of texts."""
    for number in range(total):
        _, workflow, labels, _ = properties(number, total)
        tenant = tenant_of(number, total)
        yield first_key_of(AT + number), indexed_text(tenant, run_id(number), workflow, labels.values())


def labels_of_runs(total: int) -> Iterator[tuple[object, ...]]:
    """The rows of the index of labels."""
    for number in range(total):
        for name, value in properties(number, total)[2].items():
            yield value.casefold(), name, first_key_of(AT + number), value


async def questions(store: RunStore, total: int) -> dict[str, RunQuery]:
    """What is asked, by name; each has a page of answers."""
    cursor = None
    for _ in range(max(total // 2 // 1_000, 1)):
        page = await store.list_runs(RunQuery(limit=min(1_000, total // 2), cursor=cursor))
        cursor = page.next_cursor
    middle = AT + total // 2
    asked: dict[str, RunQuery] = {
        "first_page": RunQuery(),
        "deep_page": RunQuery(cursor=cursor),
        "status": RunQuery(statuses=("completed",)),
        "status_rare": RunQuery(statuses=("failed",)),
        "two_statuses": RunQuery(statuses=("completed", "waiting_input")),
        "workflow": RunQuery(workflow_name="refund"),
        "workflow_rare": RunQuery(workflow_name="seldom"),
        "label": RunQuery(label=("team", "blue")),
        "label_rare": RunQuery(label=("campaign", "Zebra")),
        "parent": RunQuery(parent_run_id=run_id(total)),
        "time": RunQuery(created_after=middle, created_before=middle + PAGE + 1),
        "time_and_status": RunQuery(created_before=middle, statuses=("completed",)),
        "status_and_workflow": RunQuery(statuses=("completed",), workflow_name="refund"),
        "rare_status_and_workflow": RunQuery(statuses=("failed",), workflow_name="seldom"),
        "label_and_status": RunQuery(label=("team", "green"), statuses=("waiting_input",)),
        "tenant": RunQuery(tenant="acme"),
        "tenant_deep_page": RunQuery(tenant="acme", cursor=cursor),
        "tenant_rare": RunQuery(tenant="small"),
        "tenant_and_status": RunQuery(tenant="acme", statuses=("waiting_input",)),
        "tenant_and_rare_status": RunQuery(tenant="acme", statuses=("failed",)),
        "tenant_and_foreign_status": RunQuery(tenant="default", statuses=("failed",)),
        "tenant_and_two_statuses": RunQuery(tenant="acme", statuses=("completed", "waiting_input")),
        "tenant_and_workflow": RunQuery(tenant="acme", workflow_name="refund"),
        "tenant_and_label": RunQuery(tenant="acme", label=("team", "blue")),
        "tenant_and_text": RunQuery(tenant="acme", text="fund"),
        "tenant_rare_and_text": RunQuery(tenant="small", text="customer"),
        "text_of_all_ids": RunQuery(text="r_"),
        "text_of_one_id": RunQuery(text=run_id(3).lower()),
        "text_of_all_labels": RunQuery(text="customer "),
        "text_of_few_labels": RunQuery(text="ZEB"),
        "text_inside_few_labels": RunQuery(text="ebra"),
        "text_inside_many_names": RunQuery(text="boardin"),
        "text_of_two_words": RunQuery(text="cust zebra"),
        "text_of_many_and_few": RunQuery(text="seld tomer"),
        "text_of_nothing": RunQuery(text="nobody has this"),
        "text_and_status": RunQuery(text="blue", statuses=("completed",)),
    }
    return {name: msgspec.structs.replace(query, limit=PAGE) for name, query in asked.items()}


async def measure(stores: list[RunStore], totals: list[int]) -> dict[str, list[float]]:
    """The median time of every question in milliseconds, by file."""
    asked = [await questions(store, total) for store, total in zip(stores, totals, strict=True)]
    medians: dict[str, list[float]] = {}
    for name in asked[0]:
        times: list[list[float]] = [[] for _ in stores]
        answers = [len((await store.list_runs(of[name])).rows) for store, of in zip(stores, asked, strict=True)]
        if len(set(answers)) > 1:
            raise ValueError(f"{name} has {answers} answers; the comparison would not be fair")
        for _ in range(ROUNDS):
            for number, store in enumerate(stores):
                began = time.perf_counter()
                await store.list_runs(asked[number][name])
                times[number].append((time.perf_counter() - began) * 1000)
        medians[name] = [statistics.median(found) for found in times]
    return medians


async def main() -> int:
    """Fill, measure, report."""
    totals = [SMALL, int(sys.argv[1]) if len(sys.argv) > 1 else LARGE]
    with tempfile.TemporaryDirectory() as folder:
        stores = []
        for total in totals:
            path = Path(folder) / f"{total}.db"
            fill(path, total)
            store = RunStore(SqliteDatabase(path))
            await store.open()
            stores.append(store)
        try:
            medians = await measure(stores, totals)
        finally:
            for store in stores:
                await store.close()
    ratios = {name: large / small for name, (small, large) in medians.items()}
    for name, (small, large) in medians.items():
        print(f"{name:26} {small:8.3f} ms {large:8.3f} ms   x {ratios[name]:.2f}", file=sys.stderr)
    worst = max(ratio for name, ratio in ratios.items() if "text" not in name)
    worst_of_text = max(ratio for name, ratio in ratios.items() if "text" in name)
    result = {
        "runs": totals,
        "page": PAGE,
        "median_ms": {name: [round(value, 4) for value in values] for name, values in medians.items()},
        "ratio": {name: round(value, 3) for name, value in ratios.items()},
        "worst_ratio": round(worst, 3),
        "worst_ratio_of_text": round(worst_of_text, 3),
        "ok": worst <= TARGET_RATIO and worst_of_text <= TARGET_RATIO_OF_TEXT,
    }
    print(json.dumps(result))
    return 0 if result["ok"] else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
