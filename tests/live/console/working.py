"""Steps that a server of the console's tests performs: work that reports, for as long as a test lets it."""

from pathlib import Path

from penstock import StepContext, step


@step
def report(gate: str, said: str, *, context: StepContext) -> dict[str, str]:
    """Report how far it is, and end when the test opens the gate: a named pipe, read to its end."""
    context.progress(0.25, f"a quarter {said}")
    context.logger.warning("looking %s", said)
    with Path(gate).open(encoding="utf-8") as pipe:
        heard = pipe.readline()
        context.progress(0.75, f"three quarters {heard}")
        context.logger.info("heard %s", heard)
        pipe.read()
    return {"said": said}
