"""A database with real runs in it: some ended, some wait for an answer or for time."""

from pathlib import Path

from penstock.app.penstock import Penstock

__all__ = ["WORKFLOWS", "make_database", "make_runs"]

WORKFLOWS = [
    """
penstock: v1
name: ask
version: 1.0.0
nodes:
  - {id: question, type: interrupt, prompt: "Shall we?"}
  - {id: done, type: end}
""",
    """
penstock: v1
name: nap
version: 1.0.0
nodes:
  - {id: sleep, type: wait, duration: 1h}
  - {id: done, type: end}
""",
]


async def make_runs(penstock: Penstock, count: int = 3) -> None:
    """Runs of every kind, so many of each."""
    for number in range(count):
        answered = await penstock.start("ask", run_id=f"answered-{number}", labels={"team": "Blue"})
        await answered.answer({"yes": True})
        await answered.result(timeout_seconds=240)
        await penstock.start("ask", run_id=f"asking-{number}", labels={"team": "Green", "n": str(number)})
        await penstock.start("nap", run_id=f"napping-{number}")


async def make_database(path: Path, count: int = 3) -> None:
    """A file with runs, closed."""
    async with Penstock.open(path, workflows=WORKFLOWS) as penstock:
        await make_runs(penstock, count)
