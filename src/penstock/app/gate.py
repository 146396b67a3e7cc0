"""Opens a gate on an open `Penstock`: puts together the services that operations use.

    async with Penstock.open("penstock.db") as penstock:
        async with open_gate(penstock) as gate:
            outcome = await gate.call(Request(...))

Above it: `serving.server`, the command line. Below it: the platform store, the catalogue, the gate.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from secrets import token_bytes
from typing import TYPE_CHECKING

from penstock import __version__
from penstock.app.executors.lazy_executor import ExecutorStatus
from penstock.app.files.graphs import GraphFiles, GraphPolicies, graph_checks, load_graphs
from penstock.app.files.policies import POLICIES_CHECK, PolicyFiles
from penstock.app.files.trusted import RiskLog, describe_risks
from penstock.app.files.watcher import FileWatcher
from penstock.app.files.workflows import ReadWorkflows, quarantined_gauge, workflow_checks
from penstock.app.observability.traced import TracedGate
from penstock.app.os_users import os_user
from penstock.app.penstock import Penstock
from penstock.app.retention import Retention, RetentionStatus, Sweeps, end_graph_loads, renew_graph_loads
from penstock.app.server_secret.keys import ServerKeys
from penstock.app.server_secret.sources import KEY_BYTES
from penstock.app.settings.governance import GovernanceSettings
from penstock.app.settings.graphs import GraphSettings
from penstock.app.storage import Storage
from penstock.base.clock import Clock
from penstock.base.errors import PenstockError, Rejected
from penstock.base.ids import DEFAULT_TENANT
from penstock.base.lazy_import import lazy_import
from penstock.base.limits import GRAPH_LOAD_HEARTBEAT_SECONDS
from penstock.governance.holds import Approval, Escalation
from penstock.operations.builtin import builtin_operations, internal_operations
from penstock.operations.catalogue.catalogue import Catalogue
from penstock.operations.drafts.making import define_through, make_held_call
from penstock.operations.drafts.preflight import DraftDeskAtGate
from penstock.operations.executions.approved_nodes import check_approved_through
from penstock.operations.executions.capability_calls import call_from_node
from penstock.operations.executions.child_starts import start_children_through
from penstock.operations.executions.escalating import escalate_through
from penstock.operations.executions.node_permissions import decide_nodes_through
from penstock.operations.executions.tool_calls import decide_tool_calls_through
from penstock.operations.executions.withdrawals import record_withdrawals_through
from penstock.operations.exposed.workflows import ExposedWorkflows
from penstock.operations.gate.authentication import Authenticator
from penstock.operations.gate.context import GateLimits, HoldChoices, Principal, ServerParts, Services
from penstock.operations.gate.internal_callers import internal_call
from penstock.operations.gate.notifier import Notifier
from penstock.operations.gate.pipeline import Gate
from penstock.operations.gate.policy_stage import PolicyStage
from penstock.operations.gate.quotas import Quotas
from penstock.operations.gate.rates.limiter import RateLimiter
from penstock.operations.gate.tokens.choices import TokenChoices
from penstock.operations.graphs.nodes import run_query_node
from penstock.operations.keys.operations import NewKey
from penstock.operations.reachable import reach_of
from penstock.operations.runs.held_calls import HeldCalls
from penstock.operations.runs.hidden_fields import HiddenFields
from penstock.operations.schedules.starts import fire_through
from penstock.operations.system.health import EXECUTORS_CHECK, FILE_ACCESS_CHECK
from penstock.operations.system.restores import record_restores
from penstock.operations.upstreams.accepting import accept_through
from penstock.operations.upstreams.lending import lend_models_through
from penstock.runtime.ports.database import Database
from penstock.runtime.sandbox.evaluator import SandboxedEvaluator
from penstock.runtime.system import new_key_material, new_run_id
from penstock.runtime.tables.api_keys import list_keys
from penstock.runtime.upstreams.oauth.grants import GrantStore
from penstock.runtime.upstreams.oauth.vault import TokenVault
from penstock.runtime.upstreams.tool_registry import UpstreamToolRegistry

if TYPE_CHECKING:
    from penstock.operations.gate.tokens import authenticator as token_authenticator
else:
    token_authenticator = lazy_import("penstock.operations.gate.tokens.authenticator")

__all__ = ["create_owner_key", "has_keys", "hold_choices", "local_owner", "open_gate"]

_LOGGER = logging.getLogger("penstock")
_FLUSH_SECONDS = 5.0


def local_owner(tenant: str = DEFAULT_TENANT) -> Principal:
    """The user of the operating system as a principal. Access to the file means owning its contents."""
    user = os_user()
    return Principal(
        id=user.principal_id,
        tenant=tenant,
        kind="local",
        scopes=frozenset({"*"}),
        name=user.name,
        attributes={"uid": user.uid},
    )


def hold_choices(settings: GovernanceSettings) -> HoldChoices:
    """Which calls wait for a person, as the settings say."""
    wanted = settings.approvals
    separate = settings.preset == "strict" if wanted.separate is None else wanted.separate
    after, escalation = wanted.escalate_after, None
    if after is not None:
        escalation = Escalation(after_ms=int(after.total_seconds() * 1000), groups=wanted.escalate_to)
    return HoldChoices(
        preset=settings.preset,
        approval=Approval(
            groups=wanted.groups,
            count=wanted.count,
            not_requester=separate,
            services=wanted.services,
            escalation=escalation,
        ),
        services_propose=settings.service_definitions == "proposed",
        draft_ms=int(wanted.timeout.total_seconds() * 1000),
        preflight_ms=int(settings.preflight_timeout.total_seconds() * 1000),
    )


@asynccontextmanager
async def open_gate(  # noqa: PLR0913  # everything that the operator of a gate may choose
    penstock: Penstock,
    *,
    chosen: GateLimits | None = None,
    retention: Retention | None = None,
    looks_only: bool = False,  # nothing is changed, and no secret made
    server: ServerParts | None = None,
    policy_files: Sequence[str] = (),  # for all tenants
    graphs: Mapping[str, GraphSettings] | None = None,  # those that are declared
    stored_graphs: Mapping[str, GraphSettings] | None = None,  # of these, only the policies are brought into force
    holds: HoldChoices | None = None,
    workflow_files: ReadWorkflows | None = None,
) -> AsyncIterator[Gate]:
    """A gate on an open store. Buffered records are written while it is open, and at the end."""
    platform, secrets = _database_of(storage := penstock.storage)
    pepper = await secrets.open_secret(platform, looks_only=looks_only)
    key = pepper or token_bytes(KEY_BYTES)  # without a stored secret, nothing was or will be made with one
    clock, changed, parts = penstock.host.clock, Notifier[[str]](), server or ServerParts()
    catalogue = Catalogue((*builtin_operations(), *parts.operations), internal_operations())
    limits, deleting = _checked(chosen or GateLimits(), catalogue), RetentionStatus(storage.set_aside)
    authenticator = Authenticator(platform, clock, key, _token_authenticator(parts.tokens, platform, clock))
    operator = _OperatorFiles(policy_files, graphs or {}, stored_graphs or {}, workflow_files, parts.trusted_files)
    upstreams = UpstreamToolRegistry(platform=platform, clock=clock, rules=penstock.upstream.rules, changed=changed)
    services = Services(
        store=storage.store,
        platform=platform,
        host=penstock.host,
        run_memory=penstock.run_memory,
        scheduler=penstock.scheduler,
        clock=clock,
        new_id=new_run_id,
        new_key_material=new_key_material,
        pepper=key,
        audited=pepper is not None,
        limits=limits,
        rate_limiter=RateLimiter(limits),
        holds=holds or HoldChoices(),
        quotas=Quotas(platform, clock, limits.quotas),
        information={"version": __version__},
        resolve_secret=penstock.secrets,
        webhooks=parts.webhooks,
        hook_evaluator=(hook_evaluator := SandboxedEvaluator()),
        catalogue=catalogue,
        upstreams=upstreams,
        graphs=None if storage.graphs is None else storage.graphs(),
        backups=storage.backups,
        policies=PolicyStage(platform, clock, parts.derived_policies),
        sign_ins=penstock.upstream.sign_ins,
        configured_models=penstock.models.configured,
        delegates=penstock.delegates.protocols,
        audit_keys=None if pepper is None else await secrets.open_audit_keys(pepper, looks_only=looks_only),
        signatures=penstock.signatures,
        perform_also=_perform_nothing if penstock.driver is None else penstock.driver.host.perform_also,
        still_valid=authenticator.still_valid,
        definitions_changed=changed,
        checks=_with_executors(deleting.with_check(operator.checks(parts.checks)), penstock.upstream.executor_status),
        telemetry=parts.telemetry,
        read_metrics=parts.read_metrics,
        base_path=parts.base_path,
        protected=None if parts.tokens is None else parts.tokens.protected,
        is_token_revoked=authenticator.is_token_revoked,
    )
    await _begin(gate := _gate(penstock, catalogue, services, authenticator), penstock, upstreams, pepper, parts)
    try:
        async with _beside(gate, retention, deleting), operator.in_force(gate), _performing(gate, penstock, upstreams):
            yield gate
    finally:
        _close(services, penstock, hook_evaluator)
        await authenticator.close()


def _perform_nothing(run_id: str) -> None:
    """Leave a run to others: this process performs none."""


def _gate(penstock: Penstock, catalogue: Catalogue, services: Services, authenticator: Authenticator) -> Gate:
    exposed, tracing = ExposedWorkflows(services), penstock.observability.tracing
    if tracing is None:
        return _governing(penstock, Gate(catalogue, services, authenticator, exposed))
    traced = TracedGate(catalogue, services, authenticator, exposed)
    traced.tracing = tracing
    return _governing(penstock, traced)


@dataclass(slots=True)
class _OperatorFiles:
    """The files of the operator that a gate keeps in force."""

    policies: Sequence[str]
    graphs: Mapping[str, GraphSettings]
    stored_graphs: Mapping[str, GraphSettings]
    workflows: ReadWorkflows | None = None
    trusted: Sequence[Path] = ()
    risk_log: RiskLog = field(default_factory=RiskLog)
    watcher: FileWatcher = field(default_factory=FileWatcher)
    _loaded: list[GraphFiles] = field(default_factory=list)

    def checks(self, others: Callable[[], Awaitable[dict[str, str]]]) -> Callable[[], Awaitable[dict[str, str]]]:
        """Return the checks of `system.health`, with those of the files."""

        async def look() -> dict[str, str]:
            found = {**await others(), **await self._look_at_access()}
            if self.policies:
                problem = self.watcher.problem(POLICIES_CHECK)
                found = {
                    **found,
                    POLICIES_CHECK: "ok" if problem is None else f"older policies are in force: {problem}",
                }
            if self.workflows is not None:
                found = {**found, **workflow_checks(self.watcher, self.workflows)}
            return {**found, **graph_checks(self.watcher, self._loaded)} if self.graphs else found

        return look

    async def _look_at_access(self) -> dict[str, str]:
        """Return the check of who else can change files, and log new risks. Returns nothing without files."""
        if not (self.trusted or self.policies or self.graphs or self.workflows):
            return {}
        self.risk_log.note([*self.watcher.risks(), *await asyncio.to_thread(describe_risks, self.trusted)])
        return {FILE_ACCESS_CHECK: self.risk_log.state()}

    @asynccontextmanager
    async def in_force(self, gate: Gate) -> AsyncIterator[None]:
        """Keep what the files say in force, until the block ends."""
        beside = bool(self.policies)
        self._loaded = await load_graphs(self.watcher, gate, self.graphs, beside_server=beside) if self.graphs else []
        async with GraphPolicies(self.stored_graphs, beside_server=beside).in_force(gate):
            if self.policies:
                await self.watcher.load(PolicyFiles(self.policies, gate))
            if self.workflows is not None:
                await self.watcher.add(self.workflows, self.workflows.stamps)
                await self.workflows.register(gate)
            await self._look_at_access()
            gate.services.telemetry.gauges.extend([*self.watcher.gauges(), quarantined_gauge(self.workflows)])
            async with self.watcher.watching():
                yield


def _with_executors(
    checks: Callable[[], Awaitable[dict[str, str]]], status: ExecutorStatus
) -> Callable[[], Awaitable[dict[str, str]]]:
    """Return the checks of `system.health`, with that of the executors."""

    async def look() -> dict[str, str]:
        return {**await checks(), EXECUTORS_CHECK: status.health()}

    return look


@asynccontextmanager
async def _beside(gate: Gate, retention: Retention | None, status: RetentionStatus) -> AsyncIterator[None]:
    """What a gate does beside its calls, until the block ends; then the calls in flight end, and all is written."""
    tasks = [
        asyncio.create_task(_flush_regularly(gate)),
        asyncio.create_task(Sweeps(gate, retention or Retention(), status).run()),
        asyncio.create_task(gate.key_monitor.run()),
        asyncio.create_task(gate.share_rates()),
        asyncio.create_task(_look_after_loads(gate.services, renew_graph_loads)),
        asyncio.create_task(_look_after_loads(gate.services, end_graph_loads)),
    ]
    try:
        yield
    finally:
        await gate.finish()
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        await gate.flush(final=True)


def _governing(penstock: Penstock, gate: Gate) -> Gate:
    """Let a gate decide what answers show, and whose versions have to be accepted."""
    penstock.host.follow_authors(rules := gate.services.holds.authorship)
    penstock.models.authorship = rules
    gate.answers = HiddenFields(gate.services)
    return gate


def _token_authenticator(
    chosen: TokenChoices | None, platform: Database, clock: Clock
) -> token_authenticator.TokenAuthenticator | None:
    if chosen is None:
        return None
    return token_authenticator.TokenAuthenticator(chosen.issuers, chosen.new_client(), platform, clock)


def _database_of(storage: Storage) -> tuple[Database, ServerKeys]:
    """Return the database of a storage, and where its secrets come from."""
    if storage.database is None or storage.keys is None:
        raise Rejected("STORE_UNSUITABLE", "the gate needs a store with a database", "open Penstock with a path")
    return storage.database, storage.keys


def _checked(limits: GateLimits, catalogue: Catalogue) -> GateLimits:
    """Return limits that can be enforced; raise NotFound for an operation that does not exist."""
    for name in limits.capabilities:
        if ":" not in name:  # tenants store workflows at any time
            catalogue.find(name)
    return limits


def _close(services: Services, penstock: Penstock, hook_evaluator: SandboxedEvaluator) -> None:
    """Release what the services of a gate hold."""
    hook_evaluator.close()
    penstock.held_calls.detach()
    penstock.child_starts.detach()
    penstock.graph_queries.detach()
    penstock.nodes.detach()
    penstock.upstream.lend = None
    services.sign_ins.grants = None
    services.documents.close()
    services.hook_threads.close()
    services.view_threads.close()


async def _begin(
    gate: Gate, penstock: Penstock, upstreams: UpstreamToolRegistry, pepper: bytes | None, parts: ServerParts
) -> None:
    """Initialise a gate that has the secret of its file: from now on, automatic changes go through the gate too."""
    if pepper is None:
        return
    services, act = gate.services, accept_through(gate)
    gate.holds.holder = HeldCalls(services, define_through(gate))
    gate.holds.desk = DraftDeskAtGate(parts.derived_grants)
    gate.holds.find = gate.exposed.find
    gate.holds.reach = partial(reach_of, services, gate.exposed)
    upstreams.act = act
    services.sign_ins.grants = GrantStore(
        platform=services.platform, clock=services.clock, vault=TokenVault(pepper), act=act
    )
    await record_restores(gate)


@asynccontextmanager
async def _performing(gate: Gate, penstock: Penstock, upstreams: UpstreamToolRegistry) -> AsyncIterator[None]:
    """Let runs start, call and reach others through a gate, which decides about each.

    Unfinished runs continue immediately, so the policies and graphs of the operator's files must be in force before
    this.
    """
    penstock.child_starts.attach(start_children_through(gate))
    if gate.services.audited:
        penstock.held_calls.attach(
            partial(make_held_call, gate), decide_tool_calls_through(gate), partial(call_from_node, gate)
        )
        penstock.graph_queries.attach(partial(run_query_node, gate))
        penstock.nodes.attach(
            decide_nodes_through(gate), record_withdrawals_through(gate), check_approved_through(gate)
        )
        penstock.upstream.lend = lend_models_through(gate)
    async with penstock.upstream.watch_servers(upstreams), _scheduling(penstock, gate):
        yield


@asynccontextmanager
async def _scheduling(penstock: Penstock, gate: Gate) -> AsyncIterator[None]:
    """Start scheduled runs, and escalate approvals, through calls of this gate until the block ends."""
    scheduler, driver = penstock.scheduler, penstock.driver
    begins = penstock.keeps_schedules and not scheduler.is_looking
    before, scheduler.fire = scheduler.fire, fire_through(gate)
    escalated = None if driver is None else driver.escalate_with(escalate_through(gate))
    if begins:
        scheduler.start()
    try:
        yield
    finally:
        if begins:
            await scheduler.stop()
        scheduler.fire = before
        if driver is not None:
            driver.escalate_with(escalated)


async def _flush_regularly(gate: Gate) -> None:
    """Write buffered records."""
    while True:
        await asyncio.sleep(_FLUSH_SECONDS)
        try:
            await gate.flush()
        except PenstockError:
            _LOGGER.exception("buffered records could not be written; trying again")


async def _look_after_loads(services: Services, look: Callable[[Services], Awaitable[None]]) -> None:
    """Keep the loads of this process alive, or end those of processes that died, from the start on."""
    while True:
        try:
            await look(services)
        except PenstockError:
            _LOGGER.exception("leases of graph loads could not be renewed or ended; trying again")
        await asyncio.sleep(GRAPH_LOAD_HEARTBEAT_SECONDS)


async def has_keys(gate: Gate) -> bool:
    """True if a store has a key, valid or not."""
    return bool((await list_keys(gate.services.platform, tenant=None, limit=1)).rows)


async def create_owner_key(gate: Gate) -> str | None:
    """Create the first key of a store, which may do everything; None if there are keys already.

    The key is created for the user who starts the server, with the same call as on the command line.
    """
    if await has_keys(gate):
        return None
    made: NewKey = await internal_call(
        gate, local_owner(), "key.create", {"name": "owner", "scopes": ["*"], "kind": "person"}
    )
    return made.secret
