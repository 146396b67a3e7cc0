"""A refund with an approval in the middle, a SIGKILL in the middle of the approval, and a payment that fails once.

    scripts/demo            asks you for the approval
    scripts/demo --yes      approves by itself

One process starts the run and is killed while the run waits for a person. Another one opens the same file, finds the
run where it was, and finishes it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from zlib import crc32

from penstock import Penstock, Run, StepContext, step
from penstock.engine.records import Record, events
from penstock.runtime.executors.mcp.config import McpServerConfig
from penstock.runtime.executors.mcp.executor import McpToolExecutor
from penstock.runtime.simulation.tracing import TraceLine, trace_lines
from penstock.runtime.steps.registry import StepFailed

EXAMPLE = Path(__file__).parents[1] / "refund-with-approval.yaml"
SHOP = Path(__file__).with_name("shop_server.py")
MARKS = {"done": "✓", "wait": "◌", "retry": "↻", "fail": "✗"}


@step(name="shop.payments:refund")
async def refund(order_id: str, amount: float, *, context: StepContext) -> dict[str, object]:
    """Pay the money back. The first attempt runs into a timeout of the bank, as banks do."""
    if context.attempt == 1:
        raise StepFailed("TIMEOUT", "the bank did not answer")
    # The bank books a key once, however often it is asked: the reference follows from the key.
    return {"amount": amount, "reference": f"RF-{crc32(context.idempotency_key.encode()) % 100_000:05}"}


@step(name="shop.payments:void_refund")
async def void_refund(**anything: object) -> dict[str, object]:
    """Take a refund back; the demo does not need it."""
    return {"voided": True}


@asynccontextmanager
async def open_shop(file: Path) -> AsyncIterator[Penstock]:
    """Penstock on a file, with the shop as an MCP server over a pipe and the payments as steps."""
    config = McpServerConfig(command=sys.executable, args=(str(SHOP),))
    shop = McpToolExecutor({"shop": config}, allow_commands=(Path(sys.executable).name,))
    try:
        async with Penstock.open(
            file, steps=[refund, void_refund], executors={"tool_call": shop}, workflows=[EXAMPLE]
        ) as penstock:
            yield penstock
    finally:
        await shop.close()


async def show(penstock: Penstock, run: Run, *, after_seq: int = 0) -> int:
    """Print what happens until the run waits for a person or ends; the last record that was seen."""
    workflow = await penstock.host.workflow((await run.state()).definition_hash)
    if workflow is None:
        raise SystemExit("the workflow of the run is not in the file")
    async for record in run.stream(after_seq=after_seq):
        after_seq = record.seq
        for line in trace_lines([(run.id, record)], {run.id: workflow}):
            print_line(line, record)
        if record.body_type is events.InterruptRaised:
            break
    return after_seq


def print_line(line: TraceLine, record: Record) -> None:
    """One line of the trace."""
    if line.mark in MARKS or record.body_type is events.ActivityRequested:
        print(f"  {MARKS.get(line.mark, '·')} {line.node_id:<10} {line.text}", flush=True)


async def begin(file: Path, run_id: str) -> None:
    """The first process: start the run, show it, and wait to be killed."""
    async with open_shop(file) as penstock:
        run = await penstock.start("refund_order", {"order_id": "A-1042", "amount": 180}, run_id=run_id)
        print(f"● refund_order  run {run.id}", flush=True)
        await show(penstock, run)
        print("WAITING", file=sys.stderr, flush=True)
        await asyncio.Event().wait()


async def finish(file: Path, run_id: str, *, approve: bool) -> None:
    """The second process: find the run where it was, answer it, and see it through."""
    async with open_shop(file) as penstock:
        run = penstock.run(run_id)
        state = await run.state()
        print(f"● run {run.id} found in {file.name}, still {await run.status()} at “{state.last_node_id}”")
        if not approve:
            said = await asyncio.to_thread(input, "  Approve this refund? [y/N] ")
            approve = said.strip().lower() in ("y", "yes")
        by = os.environ.get("USER", "you")
        await run.answer({"approve": approve}, by=by)
        await show(penstock, run, after_seq=state.seq)
        final = await run.state()
        records = await run.history()
        seconds = (final.updated_at - final.started_at) / 1000
        print(f"{final.status} in {seconds:.1f} s · {len(records)} records · result {json.dumps(final.result)}")
        names = [record.name for record in records]
        print(f"history: {', '.join(names[:6])}, … {', '.join(names[-2:])}")
        asked = [record.body_as(events.ActivityRequested) for record in records]
        attempts = sum(body is not None and body.node_id == "pay" for body in asked)
        print(f"the payment was tried {attempts} times under one idempotency key, {run.id}/pay/1")


def kill_in_the_middle(file: Path, run_id: str) -> None:
    """Start the first process, and kill it once its run waits."""
    command = [sys.executable, __file__, "--begin", str(file), run_id]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    give_up_at = time.monotonic() + 60
    if process.stderr is None:
        raise SystemExit("the first process cannot be watched")
    for line in process.stderr:
        if line.strip() == "WAITING" or time.monotonic() > give_up_at:
            break
        sys.stderr.write(line)
    process.send_signal(signal.SIGKILL)
    process.wait()
    print("— killed the process (SIGKILL) — starting it again —", flush=True)


def main() -> None:
    """Run the demo."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--yes", action="store_true", help="approve without asking")
    parser.add_argument("--begin", nargs=2, metavar=("FILE", "RUN"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.begin:
        asyncio.run(begin(Path(given.begin[0]), given.begin[1]))
        return
    with tempfile.TemporaryDirectory(prefix="penstock-demo-") as folder:
        file, run_id = Path(folder) / "penstock.db", "r_demo"
        kill_in_the_middle(file, run_id)
        asyncio.run(finish(file, run_id, approve=given.yes or not sys.stdin.isatty()))


if __name__ == "__main__":
    main()
