"""Where a suite of governance runs: on a plain server, or on one with everything on.

    async with open_server(folder, ServerOptions(...)) as (penstock, app, gate): ...

A suite opens its servers here, and `tests/scenarios/conftest.py` runs it in both surroundings. What a test chooses
itself counts on both: its options are laid over those of the server with everything on.

Above it: the helpers of scenarios that open a server or an office. Below it: `tests/fixtures/everything_on.py`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from starlette.types import ASGIApp

from penstock.app.gate import open_gate
from penstock.app.penstock import Penstock
from penstock.app.serving.server import ServerOptions, open_application
from penstock.cli.server.workflow_files import workflow_files
from penstock.operations.gate.context import HoldChoices
from penstock.operations.gate.pipeline import Gate
from tests.fixtures.everything_on import Neighborhood, everything_on, open_everything

__all__ = ["EVERYTHING_ON", "PLAIN", "open_server", "open_store", "surrounded_by"]

PLAIN, EVERYTHING_ON = "plain", "everything on"
_AROUND: list[Neighborhood] = []


@contextmanager
def surrounded_by(around: Neighborhood) -> Iterator[None]:
    """Open servers with everything on, until the block ends."""
    _AROUND.append(around)
    try:
        yield
    finally:
        _AROUND.pop()


@asynccontextmanager
async def open_server(
    folder: Path, options: ServerOptions, **more: Any
) -> AsyncIterator[tuple[Penstock, ASGIApp, Gate]]:
    """Open the application on the file of a folder; further arguments are those of `Penstock.open`."""
    if not _AROUND:
        async with (
            Penstock.open(folder / "penstock.db", **more) as penstock,
            open_application(penstock, options) as (app, gate),
        ):
            yield penstock, app, gate
        return
    settings = everything_on(folder, _AROUND[-1])
    chosen = _laid_over(ServerOptions.of(settings), options, ServerOptions())
    if options.policy_files:
        # What a test's policies do not permit is refused; only what forbids is added to them.
        guards = str(_AROUND[-1].files / "policies" / "guard.cedar")
        chosen = dataclasses.replace(chosen, policy_files=(*options.policy_files, guards))
    chosen = dataclasses.replace(chosen, graphs={**settings.declared_graphs, **options.graphs})
    chosen = dataclasses.replace(chosen, workflow_files=workflow_files(settings))
    async with (
        open_everything(settings, _AROUND[-1], **more) as penstock,
        open_application(penstock, chosen) as (app, gate),
    ):
        yield penstock, app, gate


@asynccontextmanager
async def open_store(
    folder: Path, holds: HoldChoices | None = None, **more: Any
) -> AsyncIterator[tuple[Penstock, Gate]]:
    """Open a gate on the file of a folder, with all of a server around it where everything is on."""
    if not _AROUND:
        async with (
            Penstock.open(folder / "penstock.db", **more) as penstock,
            open_gate(penstock, holds=holds) as gate,
        ):
            yield penstock, gate
        return
    async with open_server(folder, ServerOptions(holds=holds or HoldChoices()), **more) as (penstock, _, gate):
        yield penstock, gate


def _laid_over(below: Any, above: Any, unset: Any) -> Any:
    """Return one choice with what differs from the default in another."""
    if not dataclasses.is_dataclass(unset) or type(above) is not type(unset) or type(below) is not type(unset):
        return below if above == unset else above
    names = (field.name for field in dataclasses.fields(unset))
    changed = {name: _laid_over(*(getattr(item, name) for item in (below, above, unset))) for name in names}
    made: Any = type(below)
    return made(**changed)
