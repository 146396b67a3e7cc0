"""A workspace: the database that a command works on, with the steps, secrets and settings that its runs need.

Above it: the commands that open a database. Below it: `Penstock`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from penstock.app.drivers import database_file, has_database, storage_of
from penstock.app.executors.configured import (
    model_link,
    open_executors,
    open_upstream_link,
    secrets_of,
)
from penstock.app.observability.opened import open_observability
from penstock.app.penstock import Penstock
from penstock.app.settings.model import Settings
from penstock.app.signatures import signature_trust
from penstock.base import limits
from penstock.cli.declaration import Option
from penstock.cli.project.step_modules import load_steps
from penstock.cli.terminal.values import UsageError
from penstock.runtime.ports.host import Committed
from penstock.runtime.system import gone_workers
from penstock.runtime.tables.workers import list_workers

__all__ = ["SecretsOption", "StepsOption", "Workspace", "live_workers", "open_workspace"]

StepsOption = Annotated[
    list[str] | None,
    Option("--steps", metavar="MODULE", help="A file (steps.py) or module with @step functions; repeatable."),
]
SecretsOption = Annotated[
    Path | None,
    Option("--secret-file", metavar="DIR", help="A folder with one file per secret; PENSTOCK_SECRET_NAME works too."),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace:
    """A database with the steps and secrets of its runs, as the command line and the settings name them."""

    database: Path
    steps: tuple[str, ...] = ()
    secret_folder: Path | None = None
    settings: Settings = field(default_factory=Settings)
    config: Path | None = None

    @classmethod
    def of(cls, database: Path, steps: Iterable[str] | None = None, secret_folder: Path | None = None) -> Workspace:
        """From options as they were given."""
        return cls(database=database, steps=tuple(steps or ()), secret_folder=secret_folder)

    @classmethod
    def configured(cls, settings: Settings, *, config: Path | None, secret_folder: Path | None) -> Workspace:
        """As the settings say; `config` is the file that was named for them."""
        return cls(
            database=database_file(settings.storage.path),
            steps=settings.steps.modules,
            secret_folder=secret_folder,
            settings=settings,
            config=config,
        )

    def arguments(self) -> list[str]:
        """The options that name this workspace again."""
        config = [] if self.config is None else ["--config", str(self.config)]
        secrets = [] if self.secret_folder is None else ["--secret-file", str(self.secret_folder)]
        steps = [part for name in self.steps for part in ("--steps", name)]
        return [*config, "--db", str(self.database), *steps, *secrets]


@asynccontextmanager
async def open_workspace(
    workspace: Workspace,
    *,
    perform: bool = False,
    create: bool = False,
    family: str | None = None,
    observe: Callable[[Committed], None] | None = None,
    steps: Iterable[Callable[..., Any]] | None = None,
) -> AsyncIterator[Penstock]:
    """Open the database; with `create`, one that does not exist is created.

    `family` is the run whose work is performed: steps given for one workflow must not be tried on the runs of others.
    `steps` are those of the workspace if somebody has loaded them already.
    """
    if not create and not has_database(workspace.database):
        raise UsageError(f"there is no database {workspace.database}; `penstock run` makes one, --db names another")
    folder = workspace.secret_folder
    if folder is not None and not folder.is_dir():
        raise UsageError(f"--secret-file: {folder} is not a folder")
    if not perform:
        async with (
            open_upstream_link(workspace.settings) as upstream,
            Penstock.open(
                storage=storage_of(workspace.settings, workspace.database),
                perform=False,
                family=family,
                observe=observe,
                upstream=upstream,
                models=model_link(workspace.settings, secrets_of(workspace.settings)),
                signatures=signature_trust(workspace.settings.workflows.signatures),
            ) as penstock,
        ):
            yield penstock
        return
    async with (
        open_observability() as observability,
        open_executors(workspace.settings, secret_folder=folder) as equipment,
        Penstock.open(
            storage=storage_of(workspace.settings, workspace.database),
            steps=load_steps(workspace.steps) if steps is None else steps,
            executors=equipment.executors,
            secrets=equipment.secrets,
            family=family,
            observe=observe,
            upstream=equipment.upstream,
            models=equipment.models,
            governed=True,
            observability=observability,
            signatures=signature_trust(workspace.settings.workflows.signatures),
        ) as penstock,
    ):
        yield penstock


async def live_workers(penstock: Penstock) -> list[str]:
    """The processes that perform work on this database now, according to their heartbeats."""
    now = penstock.host.clock.now_ms()
    workers = await list_workers(penstock.store.database)
    alive = [worker.worker_id for worker in workers if abs(now - worker.seen_at) < limits.WORKER_LEASE_MS]
    gone = set(gone_workers(alive))
    return [name for name in alive if name not in gone]
