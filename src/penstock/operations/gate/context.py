"""The request context: who calls, with what, and which services a handler may use.

Above it: `pipeline` makes a context for each call, and handlers use it. Below it: the ports of the runtime.
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
    """The credentials of an outside caller: a bearer token."""

    bearer: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """Who calls. `Gate.authenticate` returns it, or the process makes it itself (the local owner, a trigger)."""

    id: str
    tenant: str
    scopes: frozenset[str]
    key_id: str | None = None
    name: str = ""
    toolset: str | None = None
    """The toolset of the key; None for the server's default."""
    attributes: Mapping[str, JsonValue] = field(default_factory=dict)
    on_behalf_of: str | None = None
    """The principal whose permissions apply, for one that acts on a schedule."""
    credential: str | None = None
    """What authenticated the caller instead of a key: the name of a secret, never the secret."""

    @property
    def starter(self) -> Initiator:
        """The initiator that the first record of a run names."""
        return Initiator(principal=self.id, credential=self.key_id or self.credential, on_behalf_of=self.on_behalf_of)


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One call, as a surface hands it to the gate. The surface has authenticated the caller already."""

    operation: str
    arguments: JsonObject
    principal: Principal
    surface: Surface
    request_id: str
    idempotency_key: str | None = None
    trusted: bool = False
    from_person: bool = False
    """Whether a person entered this in a form of their client. Arguments of a tool call come from a model instead."""
    remote: str | None = None
    patience_seconds: float | None = None
    """How long the call may wait for an execution, if the surface decides that and not an argument."""
    observe: Callable[[JsonObject], Awaitable[None]] | None = None
    """Called with progress while the call waits."""
    client_kinds: tuple[str, ...] = ()
    """What an execution that the call starts may ask the client for: sampling, roots."""
    after_leaving: Callable[[Reply[Any] | EventStream | PenstockError], None] | None = None
    """Called with the outcome if the caller was cancelled before it could get it."""

    @property
    def from_outside(self) -> bool:
        """Whether the arguments are untrusted: a model chose them, or a sender without a key."""
        return self.surface in ("mcp", "webhook")

    @property
    def from_inside(self) -> bool:
        """Whether the process itself calls. No caller on a surface can."""
        return self.surface in ("schedule", "system")


@dataclass(frozen=True, slots=True, kw_only=True)
class GateLimits:
    """Limits of a single key, as the operator configured them."""

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
    """How long a new key is valid by default; None: until it is revoked."""


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


async def _always(principal: Principal) -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """What operations work with. `app` makes it once; it is complete from then on and never changes."""

    store: RunStore
    platform: PlatformStore
    host: RunHost
    scheduler: Scheduler
    clock: Clock
    new_id: Callable[[], str]
    new_key_material: Callable[[], ParsedKey]
    pepper: bytes
    """The key for the hashes of API keys and for the audit chain. It is kept outside the store."""
    audited: bool = True
    """False when only looking into a store that has no secret yet: no audit entry can be sealed there."""
    limits: GateLimits = field(default_factory=GateLimits)
    catalogue: CatalogueView | None = None
    information: JsonObject = field(default_factory=dict)
    """What `system.info` reports about this process: version, start time, configured executors."""
    resolve_secret: Callable[[str], str | None] = field(default=lambda name: None)
    checks: Callable[[], Awaitable[dict[str, str]]] = field(default=_no_checks)
    """The checks of `system.health`: each name with `ok` or with what is wrong."""
    telemetry: Telemetry = field(default_factory=Telemetry)
    """The counters of this process."""
    read_metrics: Callable[[], Awaitable[dict[str, float]]] = field(default=_no_metrics)
    keys_changed: Notifier[[]] = field(default_factory=Notifier)
    """Called when a key was revoked, so that open streams check at once whether their key is still valid."""
    still_valid: Callable[[Principal], Awaitable[bool]] = field(default=_always)
    """Whether an authenticated principal may go on. Open streams ask this repeatedly."""
    open_streams: OpenStreams = field(default_factory=OpenStreams)
    execution_views: LruCache[Hashable, Any] = field(default_factory=lambda: LruCache(limits.EXECUTION_VIEWS_KEPT))
    """Views of executions, by everything that they depend on, so that polling an idle run reads little."""
    start_needs: LruCache[str, StartNeeds] = field(default_factory=lambda: LruCache(limits.START_NEEDS_KEPT))
    """What starting a version of a workflow needs, by the hash of the version."""
    webhooks: WebhookChoices = field(default_factory=WebhookChoices)
    hook_evaluator: Evaluator | None = None
    """Evaluates expressions and schemas of webhooks, so that payloads from strangers do not block other work."""
    view_threads: FairThreadPool = field(
        default_factory=lambda: FairThreadPool("penstock-views", places=1, per_holder=1)
    )
    """Threads that build the views of executions with a long history."""
    hook_threads: FairThreadPool = field(default_factory=lambda: FairThreadPool.for_workers("penstock-hooks"))
    documents: DocumentChecks = field(default_factory=DocumentChecks)
    """Checks the documents that callers send."""
    nudge_deliveries: Notifier[[]] = field(default_factory=Notifier)
    """Called when a delivery to a webhook is due now."""
    definitions_changed: Notifier[[str]] = field(default_factory=Notifier)
    """Called with the tenant whose workflows changed, so that everything derived from them is built again."""
    upstreams: UpstreamToolRegistry | None = None
    """The MCP servers whose tools are imported."""
    base_path: str = "/api/v0"
    """The prefix of the REST routes, for the addresses in answers."""


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """The context of one call, as its handler gets it."""

    services: Services
    principal: Principal
    request: Request
    capability: Capability
    call: CallRecord = msgspec.field(default_factory=CallRecord)
    """What the call stores. Handlers pass it to the store together with their change; see `idempotency.answered`."""
    caller: Caller = msgspec.field(default_factory=Caller)
    """The caller, who may disconnect before the answer."""

    @property
    def tenant(self) -> str:
        """The tenant that everything in this call belongs to."""
        return self.principal.tenant

    @property
    def is_operator(self) -> bool:
        """Whether the caller has every scope in the default tenant, and so owns the server."""
        return self.tenant == DEFAULT_TENANT and scope_allows(self.principal.scopes, EVERYTHING)

    def now_ms(self) -> int:
        """The current time in milliseconds."""
        return self.services.clock.now_ms()

    def run(self, run_id: str) -> Run:
        """Return a run by id. For an id that comes from a caller, use `runs.handles.visible_run`."""
        services, untrusted = self.services, self.request.from_outside
        return Run(run_id, services.host, services.new_id, self.principal.id, untrusted, self.call)
