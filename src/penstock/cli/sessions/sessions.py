"""How commands open a database, and how they end: errors become messages and exit codes.

Above it: the commands that work on runs. Below it: `Penstock`.
Exit codes: 0 for success, 1 for a run that failed or was cancelled, 2 for a command that could not be carried out,
3 for a run that is still waiting, 130 when it was left with Ctrl-C.
"""

from __future__ import annotations

import asyncio
import getpass
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from penstock.app.executors.configured import equipped, looking_upstream, storage_of
from penstock.app.loops import calm_collector
from penstock.app.penstock import Penstock
from penstock.app.settings.model import Settings
from penstock.app.step_modules import load_steps
from penstock.base import limits
from penstock.base.errors import PenstockError
from penstock.cli.sessions.configuration import DatabaseOption, is_store
from penstock.cli.terminal.endings import command_text, print_json, report_problem
from penstock.cli.terminal.values import UsageError
from penstock.runtime.ports.host import Committed
from penstock.runtime.system import gone_workers

__all__ = [
    "DatabaseOption",
    "JsonOption",
    "Left",
    "SecretsOption",
    "StepsOption",
    "Workshop",
    "command_text",
    "conduct",
    "hold_signals",
    "live_workers",
    "opened",
    "print_json",
    "until_left",
    "user_name",
]

T = TypeVar("T")

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
StepsOption = Annotated[
    list[str] | None,
    typer.Option("--steps", metavar="MODULE", help="A file (steps.py) or module with @step functions; repeatable."),
]
SecretsOption = Annotated[
    Path | None,
    typer.Option(
        "--secret-file", metavar="DIR", help="A folder with one file per secret; PENSTOCK_SECRET_NAME works too."
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Workshop:
    """Where work is performed: the database, the steps and the secrets, as the command line and settings name them."""

    database: Path
    steps: tuple[str, ...] = ()
    secret_folder: Path | None = None
    settings: Settings = field(default_factory=Settings)
    config: Path | None = None

    @classmethod
    def of(cls, database: Path, steps: Iterable[str] | None = None, secret_folder: Path | None = None) -> Workshop:
        """From options as they were given."""
        return cls(database=database, steps=tuple(steps or ()), secret_folder=secret_folder)

    @classmethod
    def configured(cls, settings: Settings, *, config: Path | None, secret_folder: Path | None) -> Workshop:
        """As the settings say; `config` is the file that was named for them."""
        return cls(
            database=Path(settings.storage.path),
            steps=settings.steps.modules,
            secret_folder=secret_folder,
            settings=settings,
            config=config,
        )

    @property
    def pepper_file(self) -> Path | None:
        """The secret of the database, where the settings name it."""
        named = self.settings.auth.pepper_file
        return Path(named) if named else None

    def arguments(self) -> list[str]:
        """The options that name this workshop again."""
        config = [] if self.config is None else ["--config", str(self.config)]
        secrets = [] if self.secret_folder is None else ["--secret-file", str(self.secret_folder)]
        steps = [part for name in self.steps for part in ("--steps", name)]
        return [*config, "--db", str(self.database), *steps, *secrets]


@asynccontextmanager
async def opened(
    workshop: Workshop,
    *,
    perform: bool = False,
    create: bool = False,
    family: str | None = None,
    observe: Callable[[Committed], None] | None = None,
    steps: Iterable[Callable[..., Any]] | None = None,
) -> AsyncIterator[Penstock]:
    """Open the database; one that does not exist is made only where that makes sense.

    `family` is the run whose work is performed: steps given for one workflow must not be tried on the runs of others.
    `steps` are those of the workshop if somebody has loaded them already.
    """
    if not create and not is_store(workshop.database):
        raise UsageError(f"there is no database {workshop.database}; `penstock run` makes one, --db names another")
    folder = workshop.secret_folder
    if folder is not None and not folder.is_dir():
        raise UsageError(f"--secret-file: {folder} is not a folder")
    if not perform:
        async with (
            looking_upstream(workshop.settings) as upstream,
            Penstock.open(
                workshop.database,
                perform=False,
                family=family,
                observe=observe,
                upstream=upstream,
                pepper_file=workshop.pepper_file,
            ) as penstock,
        ):
            yield penstock
        return
    async with (
        equipped(workshop.settings, secret_folder=folder) as equipment,
        Penstock.open(
            workshop.database,
            storage=storage_of(workshop.settings, workshop.database),
            steps=load_steps(workshop.steps) if steps is None else steps,
            executors=equipment.executors,
            secrets=equipment.secrets,
            family=family,
            observe=observe,
            upstream=equipment.upstream,
            pepper_file=workshop.pepper_file,
            governed=True,
        ) as penstock,
    ):
        yield penstock


async def live_workers(penstock: Penstock) -> list[str]:
    """The processes that perform work on this database now, as far as a glance can tell."""
    now = penstock.host.clock.now_ms()
    workers = await penstock.store.workers()
    alive = [worker.worker_id for worker in workers if abs(now - worker.seen_at) < limits.WORKER_LEASE_MS]
    gone = set(gone_workers(alive))
    return [name for name in alive if name not in gone]


def conduct(
    work: Callable[[], Coroutine[Any, Any, int]],
    *,
    as_json: bool = False,
    loop: Callable[[], asyncio.AbstractEventLoop] | None = None,
) -> None:
    """Run a command to its end and leave with its exit code.

    `loop` makes another event loop than the usual one: for commands that go on and on. Those look for garbage less.
    """
    try:
        with calm_collector() if loop else nullcontext(), asyncio.Runner(loop_factory=loop) as runner:
            code = runner.run(work())
    except (UsageError, PenstockError) as error:
        report_problem(error, as_json=as_json)
        code = 2
    if code:
        raise typer.Exit(code)


def user_name() -> str | None:
    """Who sits here, as the machine knows them."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return None


@dataclass(frozen=True, slots=True)
class Left:
    """Somebody pressed Ctrl-C, or the process was told to end."""


_HELD: list[int] = []
_LEAVING: list[Callable[[], None]] = []


def hold_signals() -> None:
    """Keep a Ctrl-C or SIGTERM for `until_left`, which is about to be called: what was just begun must be told of."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, _hold, number)


def _hold(number: int) -> None:
    # A signal that came before `until_left` may be told of after it has begun: then nobody looks at what is held.
    if _LEAVING:
        _LEAVING[-1]()
    else:
        _HELD.append(number)


async def until_left(work: Coroutine[Any, Any, T]) -> T | Left:
    """Work until it is done, Ctrl-C or SIGTERM; a second Ctrl-C ends the process on the spot."""
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(work)
    told = asyncio.Event()

    def leave() -> None:
        told.set()
        _stop_listening(loop)
        task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, leave)
    _LEAVING.append(leave)
    if _HELD:
        _HELD.clear()
        loop.call_soon(leave)
    try:
        return await task
    except asyncio.CancelledError:
        if told.is_set():
            return Left()
        raise
    finally:
        _LEAVING.remove(leave)
        if not told.is_set():
            _stop_listening(loop)


def _stop_listening(loop: asyncio.AbstractEventLoop) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.remove_signal_handler(number)
        signal.signal(number, signal.SIG_DFL)
