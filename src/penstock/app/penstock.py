"""`Penstock`: the product in one object, for embedding in a program.

    async with Penstock.open("penstock.db", steps=[refund]) as penstock:
        run = await penstock.start("refund_order", {"order_id": "A-1042", "amount": 180})
        print(await run.result())

It opens the store, starts the driver and stops both at the end. Runs continue where they were at the next start.

Above it: users, the command line. Below it: everything; this is where real adapters are named.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.app.child_starts import GovernedChildStarts
from penstock.app.drivers import make_storage
from penstock.app.executors.delegates import DelegateExecutor
from penstock.app.executors.governed_nodes import GovernedNodes
from penstock.app.executors.graph_queries import GraphQueryExecutor
from penstock.app.executors.held_calls import HeldCallExecutor
from penstock.app.executors.lazy_executor import ClosableExecutor, LazyExecutor
from penstock.app.executors.registered_models import ModelLink
from penstock.app.executors.upstreams import UpstreamLink
from penstock.app.observability.opened import Observability, traced_commits
from penstock.app.observability.traced import TracedPerformer
from penstock.app.storage import Storage
from penstock.base.clock import Clock
from penstock.base.errors import NotFound, Rejected
from penstock.base.ids import DEFAULT_TENANT, id_in_tenant
from penstock.base.json import JsonObject, JsonValue
from penstock.base.lazy_import import lazy_import
from penstock.definitions.model import Workflow
from penstock.definitions.source.findings import Severity
from penstock.engine import inputs
from penstock.engine.inputs import PROGRAM
from penstock.engine.outcomes import Refused
from penstock.runtime.activities.performing import AsyncPerformer
from penstock.runtime.activities.routing import Router, SecretResolver
from penstock.runtime.definition_rows import name_taken
from penstock.runtime.executors.step.executor import StepExecutor
from penstock.runtime.host.driver import Driver
from penstock.runtime.host.embedded import EmbeddedHost
from penstock.runtime.ports.host import Committed, RunHost
from penstock.runtime.ports.run_memory import NoRunMemory, RunMemory
from penstock.runtime.ports.runs import DefinitionNameTaken, RunPage, RunQuery
from penstock.runtime.retention import Retention
from penstock.runtime.run_handle import Run, refusal_error
from penstock.runtime.sandbox.evaluator import SandboxedEvaluator
from penstock.runtime.schedules.scheduler import Scheduler
from penstock.runtime.secrets import AnswerSeals, EnvironmentSecrets
from penstock.runtime.signatures import SignatureTrust
from penstock.runtime.steps.registry import StepRegistry
from penstock.runtime.system import SystemClock, gone_workers, new_run_id, new_worker_id
from penstock.runtime.tables.workers import list_workers
from penstock.runtime.upstreams.tools import ToolGuard

if TYPE_CHECKING:
    from penstock.definitions import validate
    from penstock.definitions.build import workflow as build
    from penstock.runtime.executors.http import executor
    from penstock.runtime.upstreams import tool_registry
else:
    build = lazy_import("penstock.definitions.build.workflow")
    validate = lazy_import("penstock.definitions.validate")
    executor = lazy_import("penstock.runtime.executors.http.executor")
    tool_registry = lazy_import("penstock.runtime.upstreams.tool_registry")

__all__ = ["Penstock"]

_LOGGER = logging.getLogger("penstock")
_PROGRAM_TOLD = PROGRAM.to_json()


class Penstock:
    """Workflows and their runs on one store."""

    def __init__(
        self,
        *,
        storage: Storage,
        host: RunHost,
        driver: Driver | None,
        run_memory: RunMemory | None = None,
        new_id: Callable[[], str] = new_run_id,
    ) -> None:
        self.storage = storage
        self.store = store = storage.store
        self.host = host
        self.run_memory: RunMemory = run_memory or NoRunMemory(host)
        self.driver = driver
        self.step_executor: StepExecutor | None = None
        self.scheduler = Scheduler(host=host, store=store, report=_report)
        self.keeps_schedules = False
        self.secrets: SecretResolver = EnvironmentSecrets()
        self.upstream = UpstreamLink()
        self.held_calls = HeldCallExecutor()
        self.delegates = DelegateExecutor()
        self.child_starts = GovernedChildStarts()
        self.graph_queries = GraphQueryExecutor()
        self.nodes = GovernedNodes()
        self.models = ModelLink()
        self.signatures = SignatureTrust()
        self.observability = Observability()
        self._new_id = new_id

    @classmethod
    @asynccontextmanager
    async def open(  # noqa: PLR0913  # what an embedding program may want to choose
        cls,
        path: str | Path = "penstock.db",
        *,
        steps: Iterable[Callable[..., Any]] = (),
        executors: Mapping[str, AsyncPerformer] | None = None,
        workflows: Iterable[str | Path | JsonObject] = (),
        secrets: SecretResolver | None = None,
        storage: Storage | None = None,
        clock: Clock | None = None,
        perform: bool = True,
        family: str | None = None,
        observe: Callable[[Committed], None] | None = None,
        upstream: UpstreamLink | None = None,
        governed: bool = False,
        signatures: SignatureTrust | None = None,
        models: ModelLink | None = None,
        stand_in: Callable[[AsyncPerformer], AsyncPerformer] | None = None,
        observability: Observability | None = None,
    ) -> AsyncIterator[Penstock]:
        """Open the store, take over unfinished runs, and perform work until the block ends.

        With `perform=False`, nothing is performed here: for reading, answering and signalling beside another process.
        With `family`, the id of a run, only that run and its child runs are performed, and no schedules are kept.
        `observe` is called with everything that this process stores while it performs; it must not block. `upstream`
        has the MCP servers whose tools a gate imports. With `governed`, schedules and runs start others, and
        approvals are escalated, only through an open gate; else the embedding program answers for them. `signatures`
        says whose workflows are trusted. `models` has those that tenants register; `stand_in` replaces what performs.
        `observability` makes spans of what is performed.
        """
        storage = storage or make_storage(path)
        kept, seals = storage.store, _make_seals(storage)
        await kept.open()
        evaluator, query_evaluator = SandboxedEvaluator(), SandboxedEvaluator()
        host = EmbeddedHost(
            store=kept,
            clock=clock or SystemClock(),
            worker_id=new_worker_id(),
            evaluator=evaluator,
            query_evaluator=query_evaluator,
            performs=perform,
            root_run_id=family,
            seals=seals,
            trust=signatures or SignatureTrust(),
        )
        driver: Driver | None = None
        step_executor = StepExecutor(_registry(steps), observer=host.progress)
        http_executor = LazyExecutor(make=_http_executor)
        try:
            penstock = cls(storage=storage, host=host, driver=None, run_memory=host)
            penstock.step_executor, penstock.signatures = step_executor, host.trust
            penstock.secrets = secrets or penstock.secrets
            penstock.observability = observability or penstock.observability
            penstock.models = _attached(models or penstock.models, storage, host)
            penstock._import_tools_of(upstream)
            http_executor.status = penstock.upstream.executor_status
            for source in workflows:
                await penstock.register(source)
            if perform:
                performers = penstock._executors(step_executor, http_executor, executors or {})
                router = (stand_in or _itself)(Router(executors=performers, secrets=penstock.secrets, seals=seals))
                router, observe = _traced(penstock.observability, router, observe)
                penstock.child_starts.governed = penstock.held_calls.governed = penstock.nodes.governed = governed
                driver = penstock._driver(host, router, governed=governed)
                driver.observe, penstock.driver = observe or driver.observe, driver
                await driver.start(gone=await _gone_workers(storage))
                penstock.keeps_schedules = family is None
                if penstock.keeps_schedules and not governed:
                    penstock.scheduler.start()
            yield penstock
        finally:
            if driver is not None:
                await penstock.scheduler.stop()
                await driver.stop()
            await step_executor.close()
            await http_executor.close()
            evaluator.close()
            query_evaluator.close()
            await kept.close()

    def _driver(self, host: EmbeddedHost, performer: AsyncPerformer, *, governed: bool) -> Driver:
        return Driver(
            host=host,
            performer=performer,
            report=_report,
            escalate=_not_yet if governed else None,
            start_child=self.child_starts.start,
            settles=self.held_calls.settles,
        )

    def _import_tools_of(self, upstream: UpstreamLink | None) -> None:
        if upstream is not None:
            self.upstream = upstream
            upstream.attach(self.host, _guard(upstream, self.storage, self.host))

    def _executors(
        self, step: AsyncPerformer, http: AsyncPerformer, configured: Mapping[str, AsyncPerformer]
    ) -> dict[str, AsyncPerformer]:
        """Every executor by the type of its nodes. Held calls are `tool_call` nodes, too."""
        self.held_calls.tools = configured.get("tool_call")
        for performer in configured.values():
            if isinstance(performer, DelegateExecutor):
                self.delegates, performer.calls = performer, self.held_calls
        gated: dict[str, AsyncPerformer] = {"tool_call": self.held_calls, "query": self.graph_queries}
        return self.nodes.governing({"step": step, "http": http, **configured, **gated})

    def use_steps(self, steps: Iterable[Callable[..., Any]]) -> None:
        """Call these functions from now on. Attempts in progress finish with the functions they started with."""
        if self.step_executor is not None:
            self.step_executor.use(_registry(steps))

    async def register(
        self, source: str | Path | JsonObject | Workflow, *, tenant: str = DEFAULT_TENANT, created_by: str | None = None
    ) -> Workflow:
        """Register a workflow: a file, a text, a document, or a compiled workflow.

        Runs in progress keep the version they started with.
        """
        workflow = source if isinstance(source, Workflow) else _compiled(source)
        outcome = await self.host.register(workflow, tenant=tenant, created_by=created_by)
        if isinstance(outcome, DefinitionNameTaken):
            raise name_taken(workflow.name, outcome)
        await self.scheduler.put_triggers(workflow, tenant=tenant)
        return workflow

    async def start(  # noqa: PLR0913  # each is a choice of the caller
        self,
        workflow: str | Workflow,
        given: JsonValue = None,
        *,
        run_id: str | None = None,
        labels: Mapping[str, str] | None = None,
        timeout_ms: int | None = None,
        mode: str = "in_process",
        tenant: str = DEFAULT_TENANT,
    ) -> Run:
        """Start a run of the newest version of a workflow. With a `run_id` that exists, return the existing run."""
        chosen = workflow if isinstance(workflow, Workflow) else await self._named(workflow, tenant)
        identity = id_in_tenant(tenant, run_id or self._new_id())
        start = inputs.StartRun(
            at=self.host.clock.now_ms(),
            run_id=identity,
            input=given,
            mode=mode,
            timeout_ms=timeout_ms,
            tenant=tenant,
            started_by=PROGRAM.principal,
            starter=_PROGRAM_TOLD,
        )
        decision = await self.host.start(start, workflow_hash=chosen.hash, labels=dict(labels or {}))
        if isinstance(decision, Refused) and not (run_id and await self._is_theirs(decision, identity, tenant)):
            raise refusal_error(decision)
        return self.run(identity)

    async def _is_theirs(self, refused: Refused, run_id: str, tenant: str) -> bool:
        """True if a start was refused because the tenant already has the run."""
        if refused.code != "DUPLICATE_EXECUTION_ID":
            return False
        row = await self.store.row(run_id)
        return row is not None and row.tenant == tenant

    async def signal_with_start(  # each is a choice of the caller
        self,
        workflow: str,
        run_id: str,
        signal: str,
        payload: JsonValue = None,
        *,
        given: JsonValue = None,
        tenant: str = DEFAULT_TENANT,
    ) -> Run:
        """Send a signal to a run, which is started first if it does not exist."""
        run = await self.start(workflow, given, run_id=run_id, tenant=tenant)
        await run.signal(signal, payload)
        return run

    async def delete_ended(self, *, older_than_ms: int) -> int:
        """Delete runs that ended long ago. Returns how many."""
        return await Retention(store=self.store, clock=self.host.clock, keep_ms=older_than_ms).sweep()

    async def _named(self, name: str, tenant: str) -> Workflow:
        workflow = await self.host.workflow_named(name, tenant=tenant)
        if workflow is None:
            known = ", ".join(row.name for row in await self.store.definitions.list_newest(tenant=tenant)) or "none"
            raise NotFound("WORKFLOW_NOT_FOUND", f"there is no workflow {name}", f"known workflows: {known}")
        return workflow

    def run(self, run_id: str) -> Run:
        """A run by id. Whether it exists is checked when it is used."""
        return Run(run_id, self.host, self._new_id)

    async def runs(self, query: RunQuery | None = None) -> RunPage:
        """Runs by filter, newest first."""
        return await self.store.list_runs(query or RunQuery())


async def _gone_workers(storage: Storage) -> list[str]:
    return gone_workers([row.worker_id for row in await list_workers(storage.store.database)])


def _make_seals(storage: Storage) -> AnswerSeals:
    """Seals with the secret of a database. A store in memory ends with the process, and so does its key."""
    keys, database = storage.keys, storage.database
    if keys is None or database is None:
        return AnswerSeals()

    async def secret() -> bytes:
        found = await keys.open_secret(database)
        if found is None:
            raise TypeError("a store that is not only looked at has a secret")
        return found

    return AnswerSeals(secret)


def _guard(upstream: UpstreamLink, storage: Storage, host: RunHost) -> ToolGuard | None:
    """The guard that refuses changed tools of other servers when there is no gate. It accepts nothing itself."""
    if not upstream.rules or storage.database is None:
        return None
    guard: ToolGuard = tool_registry.UpstreamToolRegistry(
        platform=storage.database, clock=host.clock, rules=upstream.rules
    )
    return guard


def _attached(models: ModelLink, storage: Storage, host: RunHost) -> ModelLink:
    """The link to the models that tenants registered, with the store that has them, if there is one."""
    models.attach(storage.database, host.clock)
    return models


def _ignore(committed: Committed) -> None:
    pass


def _traced(
    observability: Observability, performer: AsyncPerformer, observe: Callable[[Committed], None] | None
) -> tuple[AsyncPerformer, Callable[[Committed], None] | None]:
    """Return what performs and what observes, with spans if there is tracing."""
    if (tracing := observability.tracing) is None:
        return performer, observe
    return TracedPerformer(performer, tracing), traced_commits(tracing, observe or _ignore)


def _itself(performer: AsyncPerformer) -> AsyncPerformer:
    """Let what performs activities perform them."""
    return performer


def _http_executor() -> ClosableExecutor:
    return executor.HttpExecutor()


def _registry(steps: Iterable[Callable[..., Any]]) -> StepRegistry:
    registry = StepRegistry()
    for function in steps:
        registry.register(function)
    return registry


async def _not_yet(tenant: str, run_id: str, given: inputs.FireTimer) -> bool:
    """Do nothing: no gate is open yet, and only a gate changes who may approve something."""
    return False


def _report(where: str, error: BaseException) -> None:
    _LOGGER.error("work on %s failed", where, exc_info=error)


def _compiled(source: str | Path | JsonObject) -> Workflow:
    if isinstance(source, dict):
        findings = validate.validate_document(source)
        errors = [item for item in findings if item.severity is Severity.ERROR]
        if errors:
            raise _refused(errors)
        return build.build_workflow(source)
    text, file = _text(source)
    loaded = validate.load_workflow(text, file=file)
    if loaded.workflow is None:
        raise _refused([item for item in loaded.findings if item.severity is Severity.ERROR])
    return loaded.workflow


def _text(source: str | Path) -> tuple[str, str | None]:
    """The text of a path, or the source itself if it has more than one line."""
    if isinstance(source, str) and ("\n" in source or source.lstrip().startswith("{")):
        return source, None
    return Path(source).read_text(encoding="utf-8"), str(source)


def _refused(errors: Sequence[Any]) -> Rejected:
    first = errors[0]
    place = first.location or first.path or "/"
    message = f"the workflow has {len(errors)} mistakes; first, at {place}: {first.message}"
    listed: list[JsonValue] = [item.to_json() for item in errors]
    return Rejected("INVALID_DOCUMENT", message, "run `penstock validate` to see every mistake", {"findings": listed})
