"""Record a store of the current format in `tests/golden/stores`. Existing ones are never changed.

    python -m tests.golden.record_store

Each store holds three runs of one workflow (one that ended, one that waits for an answer, one that was only begun), an
API key and an audit trail. Files of earlier formats were made by the releases that wrote them, with these commands. Of
the formats 2, 3 and 10 to 14 there are none: no version of Penstock ever left a file in them.

Above it: people who change the format. Below it: the command line.
"""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from penstock.runtime.stores.sqlite.schema.migrations import SCHEMA_VERSION

__all__ = ["STORES", "main"]

STORES = Path(__file__).parent / "stores"
_WAITS = 3
_WORKFLOW = """\
penstock: v1
name: refund_order
version: 1.0.0
description: Refunds a customer's order. Amounts over 100 wait for a person.
input:
  type: object
  required: [order_id, amount]
  properties:
    order_id: {type: string}
    amount: {type: number}
    note: {type: string}
nodes:
  - id: look
    type: step
    handler: steps:look_up
    with: {order_id: "${ .input.order_id }"}
  - id: policy
    type: switch
    cases:
      - {when: .input.amount > 100, next: ask}
    default: pay
  - id: ask
    type: interrupt
    message: "Refund ${ .input.amount } for order ${ .input.order_id }?"
    answer:
      type: object
      required: [approve]
      properties: {approve: {type: boolean}}
    next: {when: .ask.approve, then: pay, else: refuse}
  - id: pay
    type: step
    handler: steps:refund
    with: {order_id: "${ .look.order_id }", amount: "${ .input.amount }"}
    next: done
  - id: refuse
    type: end
    output: {refunded: 0}
  - id: done
    type: end
    output: {refunded: "${ .pay.amount }", reference: "${ .pay.reference }"}
"""
_STEPS = """\
from penstock import step


@step
def look_up(order_id: str) -> dict:
    return {"order_id": order_id, "customer": "Ada"}


@step
def refund(order_id: str, amount: float) -> dict:
    return {"amount": amount, "reference": f"RF-{order_id}"}
"""


def main() -> int:
    """Record a store, unless there is one of this format."""
    target = STORES / f"format-{SCHEMA_VERSION:02}.db.gz"
    if target.exists():
        print(f"{target.name} is recorded already; recorded stores are never changed")
        return 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "refund.yaml").write_text(_WORKFLOW, encoding="utf-8")
        (folder / "steps.py").write_text(_STEPS, encoding="utf-8")
        long_note = "n" * 6_000
        _start(folder, "paid", '{"order_id":"A-7","amount":20}', "--label", "team=blue")
        _start(folder, "waits", f'{{"order_id":"A-1042","amount":180,"note":"{long_note}"}}')
        _start(folder, "begun", '{"order_id":"A-9","amount":30}', "--detach")
        _penstock(folder, "key", "create", "--name", "owner", "--scopes", "*", "--db", "penstock.db", "--json")
        with target.open("wb") as file, gzip.GzipFile(fileobj=file, mode="wb", mtime=0) as packed:
            packed.write((folder / "penstock.db").read_bytes())
        shutil.copyfile(folder / "penstock.db.secret", STORES / f"format-{SCHEMA_VERSION:02}.secret")
    print(f"recorded {target.name}")
    return 0


def _start(folder: Path, run_id: str, given: str, *options: str) -> None:
    chosen = ("--db", "penstock.db", "--steps", "steps.py", "--run-id", run_id, "--no-watch", "--json")
    _penstock(folder, "run", "refund.yaml", "--input", given, *chosen, *options)


def _penstock(folder: Path, *words: str) -> None:
    environment = {**os.environ, "HOME": str(folder), "PYTHONPATH": str(folder)}
    command = [sys.executable, "-m", "penstock", *words]
    done = subprocess.run(command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, check=False)
    if done.returncode not in (0, _WAITS):
        raise SystemExit(f"{' '.join(words[:3])} ended with {done.returncode}")


if __name__ == "__main__":
    raise SystemExit(main())
