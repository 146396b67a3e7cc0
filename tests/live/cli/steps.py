"""Steps that the processes of these tests perform."""

from pathlib import Path

from penstock import StepContext, StepFailed, step


@step
async def greet(name: str) -> dict[str, str]:
    return {"text": f"Hello {name}"}


@step
def wait_for_gate(gate: str, *, context: StepContext) -> dict[str, str]:
    """Block until the test opens the gate: a named pipe, read to its end."""
    with Path(gate).open(encoding="utf-8") as pipe:
        said = pipe.read()
    with Path(gate).with_suffix(".ledger").open("a", encoding="utf-8") as ledger:
        ledger.write(f"{context.idempotency_key} {context.attempt}\n")
    return {"said": said}


@step
def refuse(marker: str) -> dict[str, str]:
    """Fail until the test has put a file in place."""
    if not Path(marker).exists():
        raise StepFailed("NOT_READY", "the marker is missing", retryable=False)
    return {"marker": "found"}
