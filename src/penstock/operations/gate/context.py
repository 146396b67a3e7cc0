"""The request context: who calls, with what, and which services a handler may use.

Above it: `pipeline` makes a context for each call, and handlers use it. Below it: the ports of the runtime.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

import msgspec

from penstock.base import limits
from penstock.base.clock import Clock
from penstock.base.errors import PenstockError
from penstock.base.json import JsonObject
from penstock.base.lru_cache import LruCache
from penstock.definitions.jq.expressions import Evaluator
from penstock.definitions.reached import Reached
from penstock.definitions.start_needs import StartNeeds
from penstock.engine.inputs import Initiator
from penstock.governance.audit.checkpoints import SigningKey
from penstock.governance.holds import Approval, CallFacts, Grant, Hold
from penstock.governance.intents import INTENT_NAMES, ApprovedCall, HoldChoices, WriteIntent, intent_of
from penstock.governance.kept_authority import has_kept_authority, kept_authority
from penstock.governance.keys import ParsedKey
from penstock.governance.policy.outcomes import PolicyOutcome
from penstock.governance.principals import Principal, TokenReference
from penstock.operations.catalogue.capability import Capability, EventStream, Governance, Reply
from penstock.operations.catalogue.offers import McpOffer
from penstock.operations.gate.caller import Caller
from penstock.operations.gate.chosen_limits import CapabilityLimit, GateLimits
from penstock.operations.gate.notifier import Notifier
from penstock.operations.gate.open_streams import OpenStreams
from penstock.operations.gate.policy_stage import DerivedPolicies, PolicyStage, Standpoint
from penstock.operations.gate.quotas import Quotas, quota_accounts
from penstock.operations.gate.rates.limiter import RateLimiter
from penstock.operations.gate.tokens.choices import TokenChoices
from penstock.operations.gate.tokens.protected_resource import ProtectedResource
from penstock.operations.telemetry.metrics import Telemetry
from penstock.runtime.ports.backups import BackupFolder
from penstock.runtime.ports.database import Database
from penstock.runtime.ports.graphs import GraphStore
from penstock.runtime.ports.host import RunHost
from penstock.runtime.ports.models import ConfiguredModels
from penstock.runtime.ports.platform import CallRecord
from penstock.runtime.ports.run_memory import RunMemory
from penstock.runtime.run_handle import Run
from penstock.runtime.sandbox.documents import DocumentChecks
from penstock.runtime.sandbox.threads import FairThreadPool
from penstock.runtime.schedules.scheduler import Scheduler
from penstock.runtime.signatures import SignatureTrust
from penstock.runtime.tables.runs.store import RunStore
from penstock.runtime.upstreams.oauth.sign_ins import UpstreamSignIns
from penstock.runtime.upstreams.tool_registry import UpstreamToolRegistry

__all__ = [
    "INTENT_NAMES",
    "ApprovedCall",
    "AuditKeys",
    "CapabilityLimit",
    "CatalogueView",
    "Context",
    "Credentials",
    "GateLimits",
    "HoldChoices",
    "NodeVisit",
    "Origin",
    "Principal",
    "Request",
    "ServerParts",
    "Services",
    "Surface",
    "WebhookChoices",
    "WriteIntent",
    "intent_of",
]

Surface: TypeAlias = Literal["rest", "mcp", "cli", "sdk", "console", "webhook", "run", "schedule", "system"]


class Credentials(msgspec.Struct, frozen=True, kw_only=True):
    """The credentials of an outside caller: a key or an access token."""

    bearer: str | None = None


class Origin(Protocol):
    """Where a call came from, beyond its address. It is looked up only when an audit record is made."""

    @property
    def client(self) -> str | None:
        """The program that calls, as it names itself."""

    @property
    def trace_id(self) -> str | None:
        """The id of the trace that the call belongs to."""

    @property
    def traceparent(self) -> str | None:
        """The caller's span as it was sent. It may be anything."""


class NodeVisit(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One visit of a node of a run, by the id that the run is stored under."""

    run_id: str
    node_id: str
    visit: int
    depth: int = 1
    """The depth of nested runs at this call."""
    by_model: bool = False
    """Whether a model chose the call, or began the run."""
    approved: dict[str, Any] | None = None
    """What the run may reach, if a person approved its start. What the call starts may reach nothing else."""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One call, as a surface hands it to the gate. The surface has authenticated the caller already."""

    operation: str
    arguments: JsonObject
    principal: Principal
    surface: Surface
    request_id: str
    idempotency_key: str | None = None
    idempotency_scope: str | None = None
    """What the key is for, if not for this operation alone: used with another operation there, it counts as reused."""
    trusted: bool = False
    from_person: bool = False
    """Whether a person entered this in a form of their client. Arguments of a tool call come from a model instead."""
    remote: str | None = None
    origin: Origin | None = None
    patience_seconds: float | None = None
    """How long the call may wait for a run, if the surface decides that and not an argument."""
    observe: Callable[[JsonObject], Awaitable[None]] | None = None
    """Called with progress while the call waits."""
    reads_along: bool = False
    """Whether `observe` also wants what a model writes, and which tools it calls, as it happens."""
    streams: bool = False
    """Whether the caller wants events instead of one answer, from an operation that has both."""
    client_kinds: tuple[str, ...] = ()
    """What a run that the call starts may ask the client for: sampling, roots."""
    after_leaving: Callable[[Reply[Any] | EventStream | PenstockError], None] | None = None
    """Called with the outcome if the caller was cancelled before it could get it."""
    intent: WriteIntent | None = None
    """What the caller says about the change that it wants to make."""
    approval: ApprovedCall | None = None
    """That the call was held, and approved since. No surface sets this."""
    visit: NodeVisit | None = None
    """The visit of a node that makes the call, if a run does. If it waits for approval, it is made for that visit only.
    """

    @property
    def approved_reach(self) -> JsonObject | None:
        """What a run that the call starts may reach: as the call was approved, or the run that makes it."""
        if self.approval is not None:
            return self.approval.reach
        return None if self.visit is None else self.visit.approved

    @property
    def by_model(self) -> bool:
        """Whether a model makes the call, as far as that can be known."""
        return (self.surface == "mcp" and not self.from_person) or self._in_run_of_model

    @property
    def _in_run_of_model(self) -> bool:
        return self.visit is not None and self.visit.by_model

    @property
    def by_agent(self) -> bool:
        """Whether an agent acts here: by its own key, or as a model over MCP."""
        return self.principal.kind == "agent" or self.by_model

    @property
    def by_owner(self) -> bool:
        """Whether the owner of the file makes the call, without a model or a workflow in between."""
        return self.principal.kind == "local" and not self.by_model and self.surface != "run"

    @property
    def is_free(self) -> bool:
        """Whether no rate applies: the process starts, or its owner runs a command on the file."""
        return self.by_owner and self.surface in ("cli", "system")

    @property
    def from_outside(self) -> bool:
        """Whether the arguments are untrusted: a model chose them, or a sender without a key."""
        return self.surface in ("mcp", "webhook") or self._in_run_of_model

    @property
    def standpoint(self) -> Standpoint:
        """From where the call is made, for policies."""
        return Standpoint(
            surface=self.surface,
            remote=self.remote,
            from_person=self.from_person,
            has_idempotency_key=self.idempotency_key is not None,
            from_model=self._in_run_of_model,
        )

    @property
    def from_inside(self) -> bool:
        """Whether the process itself calls. No caller on a surface can."""
        return self.surface in ("schedule", "system")


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookChoices:
    """Settings for webhooks, received and sent, as the operator configured them."""

    public_url: str | None = None
    """The address under which others reach the server; used in the URLs that they are given."""
    max_body_bytes: int = limits.WEBHOOK_BYTES_MAX
    allow_unsigned: bool = False
    allow_private_addresses: bool = False

    def address(self, path: str) -> str:
        """Return the URL of a path on this server, or the path alone if no public address is configured."""
        return (self.public_url or "").rstrip("/") + path


class AuditKeys(Protocol):
    """The key that signs checkpoints of audit trails, wherever the process keeps it."""

    def exists(self) -> bool:
        """Return whether there is a key already."""

    async def signing_key(self) -> SigningKey:
        """Return the key, as it is now: another process may have changed it. The first call creates it."""

    def new_seed(self) -> bytes:
        """Return the secret part of a new key."""

    async def prepare(self, new: SigningKey) -> None:
        """Keep a key that may replace the current one, so that another process can finish that."""

    async def prepared(self) -> Sequence[SigningKey]:
        """Return the keys that were prepared and are not used yet."""

    async def discard(self, new: SigningKey) -> None:
        """Delete a key that was prepared and is not wanted any more."""

    async def replace(self, old: SigningKey, new: SigningKey) -> None:
        """Sign with a prepared key from now on; raise `Conflict` if the key is neither the old nor the new one."""


class CatalogueView(Protocol):
    """The part of the catalogue that handlers may use."""

    def all(self) -> tuple[Capability, ...]:
        """Every capability, sorted by name."""


async def _no_checks() -> dict[str, str]:
    return {}


async def _no_metrics() -> dict[str, float]:
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerParts:
    """What a server process adds to the services of its gate."""

    base_path: str = "/api/v0"
    """The prefix of the REST routes, for the addresses in answers."""
    webhooks: WebhookChoices = field(default_factory=WebhookChoices)
    checks: Callable[[], Awaitable[dict[str, str]]] = field(default=_no_checks)
    """The checks of `system.health`: each name with `ok` or with what is wrong."""
    telemetry: Telemetry = field(default_factory=Telemetry)
    """The counters of this process."""
    read_metrics: Callable[[], Awaitable[dict[str, float]]] = field(default=_no_metrics)
    operations: tuple[Capability, ...] = ()
    """Operations beside the built-in ones, of surfaces that the operator switched on."""
    derived_policies: DerivedPolicies | None = None
    """Policies that such a surface makes from what it stores."""
    derived_grants: Callable[[Context], Awaitable[tuple[Grant, ...]]] | None = None
    """Grants that such a surface makes from what it stores."""
    tokens: TokenChoices | None = None
    """Whose access tokens are accepted; None for keys only."""
    trusted_files: tuple[Path, ...] = ()
    """Files beside the watched ones that other users of the machine must not be able to change."""


async def _always(principal: Principal) -> bool:
    return True


async def _no_token(token: TokenReference) -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """What operations work with. `app` makes it once; it is complete from then on and never changes."""

    store: RunStore
    platform: Database
    host: RunHost
    run_memory: RunMemory
    """What this process has in memory of runs."""
    scheduler: Scheduler
    clock: Clock
    new_id: Callable[[], str]
    new_key_material: Callable[[], ParsedKey]
    pepper: bytes
    """The key for the hashes of API keys and for the audit chain. It is kept outside the store."""
    audited: bool = True
    """False when only looking into a store that has no secret yet: no audit entry can be sealed there."""
    limits: GateLimits = field(default_factory=GateLimits)
    rate_limiter: RateLimiter = field(default_factory=lambda: RateLimiter(GateLimits()))
    holds: HoldChoices = field(default_factory=HoldChoices)
    quotas: Quotas | None = None
    """What tenants and keys may use."""
    catalogue: CatalogueView | None = None
    information: JsonObject = field(default_factory=dict)
    """What `system.info` reports about this process: version, start time, configured executors."""
    resolve_secret: Callable[[str], str | None] = field(default=lambda name: None)
    checks: Callable[[], Awaitable[dict[str, str]]] = field(default=_no_checks)
    """The checks of `system.health`: each name with `ok` or with what is wrong."""
    telemetry: Telemetry = field(default_factory=Telemetry)
    """The counters of this process."""
    read_metrics: Callable[[], Awaitable[dict[str, float]]] = field(default=_no_metrics)
    policies: PolicyStage | None = None
    """Decides what scopes allow: None where only scopes decide, as in programs that embed the library."""
    keys_changed: Notifier[[]] = field(default_factory=Notifier)
    """Called when a key was revoked, so that open streams check at once whether their key is still valid."""
    perform_also: Callable[[str], None] = field(default=lambda run_id: None)
    """Performs a run that a run here waits for, if this process performs only some runs."""
    still_valid: Callable[[Principal], Awaitable[bool]] = field(default=_always)
    """Whether an authenticated principal may go on. Open streams ask this repeatedly."""
    open_streams: OpenStreams = field(default_factory=OpenStreams)
    execution_views: LruCache[Hashable, Any] = field(default_factory=lambda: LruCache(limits.EXECUTION_VIEWS_KEPT))
    """Views of runs, by everything that they depend on, so that polling an idle run reads little."""
    start_needs: LruCache[str, StartNeeds] = field(default_factory=lambda: LruCache(limits.START_NEEDS_KEPT))
    """What starting a version of a workflow needs, by the hash of the version."""
    reached: LruCache[str, tuple[Reached, ...]] = field(default_factory=lambda: LruCache(limits.START_NEEDS_KEPT))
    """What else a version of a workflow refers to, by the hash of the version."""
    webhooks: WebhookChoices = field(default_factory=WebhookChoices)
    hook_evaluator: Evaluator | None = None
    """Evaluates expressions and schemas of webhooks, so that payloads from strangers do not block other work."""
    view_threads: FairThreadPool = field(
        default_factory=lambda: FairThreadPool("penstock-views", places=1, per_holder=1)
    )
    """Threads that build the views of runs with a long history."""
    hook_threads: FairThreadPool = field(default_factory=lambda: FairThreadPool.for_workers("penstock-hooks"))
    documents: DocumentChecks = field(default_factory=DocumentChecks)
    """Checks the documents that callers send."""
    nudge_deliveries: Notifier[[]] = field(default_factory=Notifier)
    """Called when a delivery to a webhook is due now."""
    definitions_changed: Notifier[[str]] = field(default_factory=Notifier)
    """Called with the tenant whose workflows changed, so that everything derived from them is built again."""
    audit_keys: AuditKeys | None = None
    """The key that signs checkpoints; None if this process only looks into a store that has no secret yet."""
    upstreams: UpstreamToolRegistry | None = None
    """The MCP servers whose tools are imported."""
    graphs: GraphStore | None = None
    """Keeps graphs; None where there is no store for them."""
    backups: BackupFolder | None = None
    """Where backups of the whole store are made; None where no folder is set."""
    checked_graphs: LruCache[Hashable, Any] = field(default_factory=lambda: LruCache(limits.CHECKED_GRAPHS_KEPT))
    """The checked stored queries of graphs, by everything that they depend on."""
    signatures: SignatureTrust = field(default_factory=SignatureTrust)
    """Whose workflows are stored and started."""
    configured_models: ConfiguredModels = field(default_factory=ConfiguredModels)
    """The models that the settings have. No tenant can register one of their names."""
    delegates: Mapping[str, str] = field(default_factory=dict)
    """The agents that the settings name for `agent_delegate` nodes, each with the protocol that it is reached by."""
    mcp: McpOffer = field(default_factory=McpOffer)
    """What is known of MCP, once it is served."""
    sign_ins: UpstreamSignIns = field(default_factory=UpstreamSignIns)
    """The MCP servers that we sign in to."""
    base_path: str = "/api/v0"
    """The prefix of the REST routes, for the addresses in answers."""
    protected: ProtectedResource | None = None
    """What clients learn about signing in; None if no issuer of tokens is configured."""
    is_token_revoked: Callable[[TokenReference], Awaitable[bool]] = field(default=_no_token)
    """Whether a token, or its subject, may act no more. What they made or started acts for them until then."""


class Holds(Protocol):
    """Decides whether something that a call would start has to wait for approval first."""

    @property
    def call(self) -> Callable[[Request], Awaitable[Any]] | None:
        """Makes a call through the gate, for operations that make one for their caller."""

    @property
    def find(self) -> Callable[[str, str], Awaitable[Capability | None]] | None:
        """Finds what a tenant exposes by its name: a workflow, a stored query, an imported tool."""

    @property
    def reach(self) -> Callable[[str, Iterable[Reached]], Awaitable[dict[str, str | None]]] | None:
        """Returns everything that names of a tenant lead to, each with its version."""

    async def hold_for(
        self, context: Context, governance: Governance, asked: tuple[Approval, ...] = (), *, changes: bool
    ) -> Hold | None:
        """Return why a call waits, given what it needs and who is to approve it; None if it does not wait."""

    async def hold_of(self, context: Context, facts: CallFacts, asked: tuple[Approval, ...] = ()) -> Hold | None:
        """Return why it waits; None if it is done now."""


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """The context of one call, as its handler gets it."""

    services: Services
    principal: Principal
    request: Request
    capability: Capability
    call: CallRecord = msgspec.field(default_factory=CallRecord)
    """What the call stores. Handlers pass it to the store together with their change; see `idempotency.answered`."""
    policy: PolicyOutcome | None = None
    """What policies decided about the call; or None."""
    caller: Caller = msgspec.field(default_factory=Caller)
    """The caller, who may disconnect before the answer."""
    given: Any = None
    """The input of the handler."""
    policy_version: str | None = None
    """The version of the policies that decided about the call; or None."""
    holds: Holds | None = None
    """Decides what waits for approval; None where nothing does."""
    rehearses: bool = False
    """Whether the handler only runs to its first effect, to find out what would be refused; see `rehearsal`."""
    found_out: dict[str, Any] = msgspec.field(default_factory=dict)
    """What a stage found out and cannot find out again: whether the preflight that was used up is of this call."""

    @property
    def tenant(self) -> str:
        """The tenant that everything in this call belongs to."""
        return self.principal.tenant

    @property
    def initiator(self) -> Initiator:
        """The caller as the first record of a run names it."""
        principal = self.principal
        authority: JsonObject | None = None
        if has_kept_authority(principal.id):
            authority = kept_authority(principal, self.now_ms() + self.services.limits.standing_authority_ms)
        return Initiator(
            principal=principal.id,
            credential=principal.credential_id,
            on_behalf_of=principal.on_behalf_of,
            principal_kind=principal.kind,
            groups=tuple(sorted(principal.groups)),
            acting_for=principal.acting_for,
            owner=principal.owner,
            authority=authority,
            approved=self.request.approved_reach,
            subject=principal.subject,
            lineage=principal.lineage,
            accounts=quota_accounts(principal),
        )

    @property
    def is_operator(self) -> bool:
        """Whether the caller has every scope in the default tenant, and so owns the server."""
        return self.principal.is_operator

    def now_ms(self) -> int:
        """The current time in milliseconds."""
        return self.services.clock.now_ms()

    def run(self, run_id: str) -> Run:
        """Return a run by id. For an id that comes from a caller, use `runs.handles.visible_run`."""
        services, untrusted = self.services, self.request.from_outside
        return Run(run_id, services.host, services.new_id, self.principal.id, untrusted, self.call)
