"""The request context: who calls, with what, and which services a handler may use.

Above it: `pipeline` makes a context for each call, handlers use it. Below it: the runtime's ports.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias

import msgspec

from penstock.base import limits
from penstock.base.clock import Clock
from penstock.base.errors import PenstockError
from penstock.base.ids import DEFAULT_TENANT
from penstock.base.json import JsonObject, JsonValue
from penstock.base.scopes import EVERYTHING, scope_allows
from penstock.definitions.jq.expressions import Evaluator
from penstock.definitions.start_needs import StartNeeds
from penstock.engine.inputs import Initiator
from penstock.governance.keys import ParsedKey
from penstock.operations.catalogue.capability import Capability, EventStream, Reply
from penstock.operations.gate.caller import Caller
from penstock.operations.gate.lru_cache import LruCache
from penstock.operations.gate.notifier import Notifier
from penstock.operations.gate.open_streams import OpenStreams
from penstock.operations.telemetry.metrics import Telemetry
from penstock.runtime.ports.host import RunHost
from penstock.runtime.ports.platform import CallRecord, PlatformStore
from penstock.runtime.ports.runs import RunStore
from penstock.runtime.run_handle import Run
from penstock.runtime.sandbox.documents import DocumentChecks
from penstock.runtime.sandbox.threads import FairThreadPool
from penstock.runtime.schedules.scheduler import Scheduler
from penstock.runtime.upstreams.tool_registry import UpstreamToolRegistry

__all__ = [
    "CatalogueView",
    "Context",
    "Credentials",
    "GateLimits",
    "Principal",
    "Request",
    "ServerParts",
    "Services",
    "Surface",
    "WebhookChoices",
]

Surface: TypeAlias = Literal["rest", "mcp", "cli", "sdk", "console", "webhook", "schedule", "system"]


class Credentials(msgspec.Struct, frozen=True, kw_only=True):
    """What a caller from outside shows: a bearer token."""

    bearer: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """Who calls: `Gate.authenticate` found out, or the process itself knows (the local owner, a trigger)."""

    id: str
    tenant: str
    scopes: frozenset[str]
    key_id: str | None = None
    name: str = ""
    toolset: str | None = None
    """The tools that their key offers them; None for those that the server offers."""
    attributes: Mapping[str, JsonValue] = field(default_factory=dict)
    on_behalf_of: str | None = None
    """The principal whose rights count, for one that acts by the clock."""
    credential: str | None = None
    """What they showed instead of a key: the name of a secret, never the secret."""

    @property
    def starter(self) -> Initiator:
        """What the first record of a run says of them."""
        return Initiator(principal=self.id, credential=self.key_id or self.credential, on_behalf_of=self.on_behalf_of)


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One call, as a surface hands it to the gate: whoever makes one has found out who calls."""

    operation: str
    arguments: JsonObject
    principal: Principal
    surface: Surface
    request_id: str
    idempotency_key: str | None = None
    trusted: bool = False
    from_person: bool = False
    """Whether a person said this in a form of their client; what stands in a tool's arguments is a model's word."""
    remote: str | None = None
    patience_seconds: float | None = None
    """How long a call may wait for an execution, where the surface decides that and not an argument."""
    observe: Callable[[JsonObject], Awaitable[None]] | None = None
    """Told what happens while a call waits."""
    client_kinds: tuple[str, ...] = ()
    """What the calling program can be asked by an execution that the call starts: sampling, roots."""
    after_leaving: Callable[[Reply[Any] | EventStream | PenstockError], None] | None = None
    """Told what came of a call whose caller was cancelled before it heard."""

    @property
    def from_outside(self) -> bool:
        """Whether what the call brings is untrusted: a model chose it, or somebody whom nobody let in by a key."""
        return self.surface in ("mcp", "webhook")

    @property
    def from_inside(self) -> bool:
        """Whether the process itself calls: nobody who comes over a surface can."""
        return self.surface in ("schedule", "system")


@dataclass(frozen=True, slots=True, kw_only=True)
class GateLimits:
    """How much one key may ask for; the operator's choice."""

    read_per_minute: int = limits.READ_CALLS_PER_MINUTE
    write_per_minute: int = limits.WRITE_CALLS_PER_MINUTE
    admin_per_minute: int = limits.ADMIN_CALLS_PER_MINUTE
    concurrent_per_key: int = limits.CONCURRENT_CALLS_PER_KEY
    idempotency_ttl_ms: int = limits.IDEMPOTENCY_TTL_MS
    sync_wait_seconds: float = limits.SYNC_WAIT_SECONDS
    sync_wait_max_seconds: float = limits.SYNC_WAIT_SECONDS_MAX
    stream_heartbeat_seconds: float = limits.STREAM_HEARTBEAT_SECONDS
    stream_retry_ms: int = limits.STREAM_RETRY_MS
    streams_max: int = limits.STREAMS_MAX
    streams_per_key: int = limits.STREAMS_PER_KEY
    key_expiry_ms: int | None = None
    """How long a new key is valid when nobody says; None: until it is revoked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookChoices:
    """What holds for webhooks, received and sent; the operator's choice."""

    public_url: str | None = None
    """The address under which others reach the server, for what they are told to call."""
    max_body_bytes: int = limits.WEBHOOK_BYTES_MAX
    allow_unsigned: bool = False
    allow_private_addresses: bool = False

    def address(self, path: str) -> str:
        """A path of this server as others call it; the path alone when nobody said under which address."""
        return (self.public_url or "").rstrip("/") + path


class CatalogueView(Protocol):
    """What handlers may know of the catalogue."""

    def all(self) -> tuple[Capability, ...]:
        """Every capability, by name."""


async def _no_checks() -> dict[str, str]:
    return {}


async def _no_metrics() -> dict[str, float]:
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerParts:
    """What a process that serves others adds to the services of its gate."""

    base_path: str = "/api/v0"
    """Where the operations stand in REST, for the addresses in answers."""
    webhooks: WebhookChoices = field(default_factory=WebhookChoices)
    checks: Callable[[], Awaitable[dict[str, str]]] = field(default=_no_checks)
    """What `system.health` looks at: a name and `ok`, or what is wrong."""
    telemetry: Telemetry = field(default_factory=Telemetry)
    """What this process counts."""
    read_metrics: Callable[[], Awaitable[dict[str, float]]] = field(default=_no_metrics)


async def _always(principal: Principal) -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """What operations work with: made once by `app`, complete from then on, and never changed."""

    store: RunStore
    platform: PlatformStore
    host: RunHost
    scheduler: Scheduler
    clock: Clock
    new_id: Callable[[], str]
    new_key_material: Callable[[], ParsedKey]
    pepper: bytes
    """Key of the hashes of API keys, and of the audit chain; kept outside the store."""
    audited: bool = True
    """False for a look into a store that has no secret yet: nothing is sealed there, and looking seals nothing."""
    limits: GateLimits = field(default_factory=GateLimits)
    catalogue: CatalogueView | None = None
    information: JsonObject = field(default_factory=dict)
    """What `system.info` tells about this process: version, when it started, which executors are configured."""
    resolve_secret: Callable[[str], str | None] = field(default=lambda name: None)
    checks: Callable[[], Awaitable[dict[str, str]]] = field(default=_no_checks)
    """What `system.health` looks at: a name and `ok`, or what is wrong."""
    telemetry: Telemetry = field(default_factory=Telemetry)
    """What this process counts."""
    read_metrics: Callable[[], Awaitable[dict[str, float]]] = field(default=_no_metrics)
    keys_changed: Notifier[[]] = field(default_factory=Notifier)
    """Told when a key was revoked, so that open streams look at once whether theirs still holds."""
    still_valid: Callable[[Principal], Awaitable[bool]] = field(default=_always)
    """Whether somebody who was let in may stay: asked again and again while a stream is open."""
    open_streams: OpenStreams = field(default_factory=OpenStreams)
    execution_views: LruCache[Hashable, Any] = field(default_factory=lambda: LruCache(limits.EXECUTION_VIEWS_KEPT))
    """Views of executions, by everything that they depend on: whoever polls a run that does not move reads little."""
    start_needs: LruCache[str, StartNeeds] = field(default_factory=lambda: LruCache(limits.START_NEEDS_KEPT))
    """What starting a version of a workflow needs, by its hash."""
    webhooks: WebhookChoices = field(default_factory=WebhookChoices)
    hook_evaluator: Evaluator | None = None
    """For the expressions and schemas of webhooks: what strangers send holds up nobody else."""
    view_threads: FairThreadPool = field(
        default_factory=lambda: FairThreadPool("penstock-views", places=1, per_holder=1)
    )
    """For views of executions with a long history."""
    hook_threads: FairThreadPool = field(default_factory=lambda: FairThreadPool.for_workers("penstock-hooks"))
    documents: DocumentChecks = field(default_factory=DocumentChecks)
    """Checks the documents that callers send."""
    nudge_deliveries: Notifier[[]] = field(default_factory=Notifier)
    """Told when there is something to be sent to a webhook now."""
    definitions_changed: Notifier[[str]] = field(default_factory=Notifier)
    """Told whose workflows were changed, so that what is made of them is made anew."""
    upstreams: UpstreamToolRegistry | None = None
    """The MCP servers whose tools are imported."""
    base_path: str = "/api/v0"
    """Where the operations stand in REST, for the addresses in answers."""


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """One call on its way through a handler."""

    services: Services
    principal: Principal
    request: Request
    capability: Capability
    call: CallRecord = msgspec.field(default_factory=CallRecord)
    """What the call leaves behind: handlers hand it to the store with their changes; see `idempotency.answered`."""
    caller: Caller = msgspec.field(default_factory=Caller)
    """The caller, who may disconnect before the answer."""

    @property
    def tenant(self) -> str:
        """The tenant that everything in this call belongs to."""
        return self.principal.tenant

    @property
    def is_operator(self) -> bool:
        """Whether the caller owns everything in the default tenant, and with that the server."""
        return self.tenant == DEFAULT_TENANT and scope_allows(self.principal.scopes, EVERYTHING)

    def now_ms(self) -> int:
        """The present instant."""
        return self.services.clock.now_ms()

    def run(self, run_id: str) -> Run:
        """A run by id; use `runs.handles.visible_run` for one that a caller names."""
        services, untrusted = self.services, self.request.from_outside
        return Run(run_id, services.host, services.new_id, self.principal.id, untrusted, self.call)
