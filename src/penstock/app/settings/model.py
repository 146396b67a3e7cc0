"""Everything an operator can set, each key declared once: `Settings`.

    settings = load_settings().settings
    settings.server.port

Above it: the modules that compose the product. Below it: `declarations` defines what a declaration means. `sources`
reads `penstock.yaml`, the environment and flags. Numbers that are limits have their reason in `base.limits`.
"""

# No `from __future__ import annotations`: the annotations are the declarations, and are read at run time.
from collections.abc import Mapping
from datetime import timedelta
from functools import cache
from typing import Annotated, Literal

from msgspec import Struct

from penstock.app.settings.agent_profile import AgentProfileSettings
from penstock.app.settings.audit import AuditSettings
from penstock.app.settings.composite_types import Field
from penstock.app.settings.declarations import Section, outline_of
from penstock.app.settings.formats import (
    ALLOWED_HOST,
    ENDPOINT,
    GRAPH_ID,
    HOST,
    MODULE,
    NETWORK,
    ORIGIN,
    PATH,
    SECRET_NAME,
    TABLE_NAME,
    TOOL_PREFIX,
    TOOLSET,
    TRACE_URL,
    URL,
    URL_PATH,
)
from penstock.app.settings.governance import GovernanceSettings, PolicySettings, SignatureSettings
from penstock.app.settings.graphs import ONLY_GRAPH, GraphSettings, OnlyGraphSettings
from penstock.app.settings.identity import OauthSettings, PipeSettings
from penstock.app.settings.limits import LimitSettings
from penstock.app.settings.named import AgentSettings, ApiSettings, McpServerSettings, ModelSettings
from penstock.app.settings.quotas import MemorySettings, QuotaSettings
from penstock.app.settings.secrets import SecretReference
from penstock.base import limits
from penstock.runtime.executors.mcp.config import DEFAULT_ALLOWED_COMMANDS

__all__ = [
    "AuthKeySettings",
    "AuthSettings",
    "BackupSettings",
    "CorsSettings",
    "HttpSettings",
    "IdempotencySettings",
    "LoggingSettings",
    "McpSettings",
    "OpenwopSettings",
    "RetentionSettings",
    "ServerSettings",
    "Settings",
    "StepSettings",
    "StorageSettings",
    "StreamSettings",
    "TelemetrySettings",
    "WebhookSettings",
    "WorkflowSettings",
    "settings_outline",
]

# The product requirements were written for another product name; variables with that name are accepted too.
_FOREIGN = "COMPOZY_SERVER_MCP_"


class CorsSettings(Struct, frozen=True, kw_only=True):
    """Web pages of other origins. Browsers refuse them unless they are listed."""

    origins: Annotated[
        tuple[str, ...], Field("Origins whose pages may call the API; none means off, `*` any.", format=ORIGIN)
    ] = ()


class StreamSettings(Struct, frozen=True, kw_only=True):
    """Event streams of runs."""

    max: Annotated[int, Field("Streams that may be open at once.", minimum=1)] = limits.STREAMS_MAX
    per_key: Annotated[int, Field("Streams that one API key may have open at once.", minimum=1)] = (
        limits.STREAMS_PER_KEY
    )
    heartbeat_seconds: Annotated[
        float, Field("How long a stream may be silent before it says that it lives.", minimum=0.1, maximum=3600)
    ] = limits.STREAM_HEARTBEAT_SECONDS
    retry_seconds: Annotated[
        float, Field("How long clients are told to wait before they connect again.", minimum=0, maximum=3600)
    ] = limits.STREAM_RETRY_MS / 1000


class McpSettings(Struct, frozen=True, kw_only=True):
    """Penstock as an MCP server."""

    enabled: Annotated[bool, Field("Whether tools are offered over MCP.", aliases=(f"{_FOREIGN}ENABLED",))] = True
    path: Annotated[
        str,
        Field("Where MCP clients connect.", aliases=("MCP_SERVER_PATH", f"{_FOREIGN}PATH"), format=URL_PATH),
    ] = "/mcp"
    transport: Annotated[
        Literal["http", "sse", "stdio"],
        Field(
            "`http` is Streamable HTTP, with the older HTTP+SSE beside it at `sse` under the path, and at the path "
            "itself for clients that ask for an event stream there; with `sse`, also for those that do not say what "
            "they ask for; `stdio` opens no address.",
            aliases=(f"{_FOREIGN}TRANSPORT",),
        ),
    ] = "http"
    protocol_version: Annotated[
        Literal["auto", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"],
        Field(
            "`auto` agrees with each client on the newest version that both know; a version is offered alone.",
            aliases=(
                "PENSTOCK_SERVER_MCP_PROTOCOL",
                f"{_FOREIGN}PROTOCOL_VERSION",
                f"{_FOREIGN}PROTOCOL",
            ),
        ),
    ] = "auto"
    tool_prefix: Annotated[
        str,
        Field("What the names of built-in tools begin with.", aliases=(f"{_FOREIGN}TOOL_PREFIX",), format=TOOL_PREFIX),
    ] = "penstock"
    tool_names: Annotated[
        Literal["underscore", "dot"],
        Field(
            "How names of tools are spelt: `penstock_workflow_list` or `penstock.workflow.list`; both are understood."
        ),
    ] = "underscore"
    exclude_endpoints: Annotated[
        tuple[str, ...],
        Field(
            "REST paths that are not offered as tools; `*` stands for anything.",
            aliases=(f"{_FOREIGN}EXCLUDE_ENDPOINTS",),
            format=ENDPOINT,
        ),
    ] = ("/api/v0/admin/*", "/api/v0/internal/*")
    output_schemas: Annotated[
        bool,
        Field("Whether lists of tools say what built-in operations answer with; those of workflows always do."),
    ] = False
    toolset: Annotated[
        str,
        Field(
            "The tools that clients have whose address names none with `?toolset=`: exposed workflows, imported tools "
            "and what follows their runs, unless it says `management` or names others.",
            "--toolset",
            format=TOOLSET,
        ),
    ] = "default"
    catalogue_bytes: Annotated[
        int,
        Field(
            "How large the list of tools may be before the toolset `management` leaves operations to a search; exposed "
            "workflows are always listed. A token is about four bytes.",
            minimum=0,
        ),
    ] = limits.MCP_CATALOGUE_BYTES_MAX
    fast_path: Annotated[
        bool,
        Field(
            "Whether frequent requests (lists, calls that only read, looks at tasks) take the short way; the answers "
            "are the same."
        ),
    ] = True
    max_concurrent_requests: Annotated[
        int,
        Field("Requests that are worked on at once.", aliases=(f"{_FOREIGN}MAX_CONCURRENT_REQUESTS",), minimum=1),
    ] = limits.MCP_CALLS_AT_ONCE_MAX
    request_timeout: Annotated[
        timedelta,
        Field(
            "How long a call waits for a run before it answers with a handle.",
            aliases=(f"{_FOREIGN}REQUEST_TIMEOUT",),
            minimum=0.001,
        ),
    ] = timedelta(milliseconds=limits.MCP_CALL_MS_MAX)
    on_disconnect: Annotated[
        Literal["cancel", "keep"],
        Field(
            "What becomes of a run that a tool started when its client disconnects before the answer. "
            "`notifications/cancelled` cancels the run in any case; over HTTP, clients of revision 2026-07-28 cancel "
            "a call by disconnecting, so this decides for them."
        ),
    ] = "keep"
    step_logs: Annotated[
        bool,
        Field(
            "Whether a client that waits with a run hears what steps write with `context.logger`; secrets that a step "
            "was given are taken out."
        ),
    ] = True
    pipe: PipeSettings = PipeSettings()
    sse_heartbeat_interval: Annotated[
        timedelta,
        Field(
            "How long an event stream may be silent before it says that it lives.",
            aliases=(f"{_FOREIGN}SSE_HEARTBEAT_INTERVAL",),
            minimum=0.1,
        ),
    ] = timedelta(seconds=limits.STREAM_HEARTBEAT_SECONDS)
    sse_retry_interval: Annotated[
        timedelta,
        Field(
            "How long clients of sessions are told to wait before they come back to a stream that was closed.",
            aliases=(f"{_FOREIGN}SSE_RETRY_INTERVAL",),
        ),
    ] = timedelta(milliseconds=limits.STREAM_RETRY_MS)
    sse_close_after: Annotated[
        timedelta | None,
        Field(
            "How long the event stream of a call stays open in a session; then it is closed, and the client comes back "
            "for the rest (clients of revision 2025-11-25). Null leaves it open until the answer.",
            minimum=0.1,
        ),
    ] = None


class OpenwopSettings(Struct, frozen=True, kw_only=True):
    """The wire of OpenWOP hosts, under `/v1`."""

    mcp: Annotated[
        bool, Field("Whether MCP is offered at `/v1/mcp` too, as that wire has it; only where `server.mcp` is on.")
    ] = True
    seam: Annotated[
        bool,
        Field(
            "Whether conformance tests may put workflows in at `/v1/host/sample/workflows`; only on a server that "
            "nobody but this machine reaches."
        ),
    ] = False


class ServerSettings(Struct, frozen=True, kw_only=True):
    """What listens, and what it lets in."""

    host: Annotated[
        str,
        Field("The address to listen on; only this machine can connect unless it is changed.", "--host", format=HOST),
    ] = "127.0.0.1"
    port: Annotated[
        int, Field("The port to listen on; 0 takes any that is free.", "--port", minimum=0, maximum=65_535)
    ] = 5151
    base_path: Annotated[str, Field("What the paths of the REST API begin with.", format=URL_PATH)] = "/api/v0"
    public_url: Annotated[
        str | None, Field("The address under which others reach the server, for links and discovery.", format=URL)
    ] = None
    cors: CorsSettings = CorsSettings()
    max_body_bytes: Annotated[int, Field("The largest body of a request.", minimum=1_024)] = limits.REQUEST_BYTES_MAX
    max_concurrent_requests: Annotated[int, Field("Requests that are worked on at once, streams apart.", minimum=1)] = (
        limits.REQUESTS_AT_ONCE_MAX
    )
    drain_seconds: Annotated[
        float, Field("How long work under way may go on after a signal to stop.", minimum=0, maximum=3600)
    ] = limits.DRAIN_SECONDS
    sync_wait_seconds: Annotated[
        float, Field("How long a call with `sync: true` waits for its run when it does not say.", minimum=0)
    ] = limits.SYNC_WAIT_SECONDS
    sync_wait_max_seconds: Annotated[
        float, Field("The longest wait that a call may ask for.", minimum=0, maximum=3600)
    ] = limits.SYNC_WAIT_SECONDS_MAX
    gzip_min_bytes: Annotated[
        int | None, Field("The smallest answer that is compressed; null turns compression off.", minimum=0)
    ] = limits.GZIP_BYTES_MIN
    trusted_proxies: Annotated[
        tuple[str, ...], Field("Proxies whose word on the client's address is believed.", format=NETWORK)
    ] = ()
    docs_enabled: Annotated[bool, Field("Whether the API's own documentation is served.")] = True
    console_enabled: Annotated[bool, Field("Whether the web console is served, at /console.")] = True
    streams: StreamSettings = StreamSettings()
    mcp: McpSettings = McpSettings()
    openwop: OpenwopSettings = OpenwopSettings()
    agent_profile: AgentProfileSettings = AgentProfileSettings()


class BackupSettings(Struct, frozen=True, kw_only=True):
    """Backups that the server makes by itself, in `storage.backup_folder`."""

    every: Annotated[
        timedelta | None,
        Field("How often the server makes a backup, such as `24h`; null means only when it is asked to.", minimum=60),
    ] = None
    keep: Annotated[
        int,
        Field(
            "How many scheduled backups stay; the server deletes older ones after each new one. Backups that somebody "
            "asked for are not counted, and never deleted.",
            minimum=1,
            maximum=limits.BACKUPS_SCHEDULED_MAX // 2,
        ),
    ] = limits.BACKUPS_KEPT
    keep_for: Annotated[
        timedelta | None,
        Field("How long scheduled backups stay at least, however many there are; null lets `keep` decide.", minimum=60),
    ] = None


class StorageSettings(Struct, frozen=True, kw_only=True):
    """Where everything is kept."""

    path: Annotated[
        str, Field("The SQLite file that holds definitions, runs and keys.", "--db", ("PENSTOCK_DB",), format=PATH)
    ] = "penstock.db"
    synchronous: Annotated[
        Literal["FULL", "NORMAL", "OFF"],
        Field(
            "When the disk must have a commit: `FULL` at once, `NORMAL` and `OFF` may lose the last ones with power."
        ),
    ] = "FULL"
    backup_folder: Annotated[
        str | None,
        Field(
            "The folder for backups that the server makes, on a schedule (`storage.backups`) or when it is asked to "
            "(`backup.create`); null means none.",
            format=PATH,
        ),
    ] = None
    backups: BackupSettings = BackupSettings()


class WorkflowSettings(Struct, frozen=True, kw_only=True):
    """Which documents are made known, at the start and when they change."""

    paths: Annotated[
        tuple[str, ...], Field("Files, folders, and patterns such as `flows/**/*.yaml`.", "--workflows", format=PATH)
    ] = ()
    signatures: SignatureSettings = SignatureSettings()


class StepSettings(Struct, frozen=True, kw_only=True):
    """Which Python functions workflows may call."""

    modules: Annotated[
        tuple[str, ...], Field("Files (steps.py) or modules with @step functions.", "--steps", format=MODULE)
    ] = ()


class AuthKeySettings(Struct, frozen=True, kw_only=True):
    """API keys."""

    default_expiry: Annotated[
        timedelta | None,
        Field("How long a new key is valid when nobody says; null means until it is revoked.", minimum=60),
    ] = None


class AuthSettings(Struct, frozen=True, kw_only=True):
    """Who may come in."""

    pepper_file: Annotated[
        str | None,
        Field(
            "The file with the key that API keys are hashed with; without one it stands beside the database.",
            format=PATH,
        ),
    ] = None
    keys: AuthKeySettings = AuthKeySettings()
    oauth: OauthSettings = OauthSettings()


class RetentionSettings(Struct, frozen=True, kw_only=True):
    """What is forgotten, and when."""

    runs: Annotated[
        timedelta | None, Field("How long runs are kept after they ended; null means forever.", minimum=60)
    ] = None


class IdempotencySettings(Struct, frozen=True, kw_only=True):
    """Calls that are made twice."""

    ttl: Annotated[timedelta, Field("How long the answer to a call with an `Idempotency-Key` is kept.", minimum=60)] = (
        timedelta(milliseconds=limits.IDEMPOTENCY_TTL_MS)
    )


class WebhookSettings(Struct, frozen=True, kw_only=True):
    """Webhooks, received and sent."""

    max_body_bytes: Annotated[int, Field("The largest webhook that is received.", minimum=1)] = limits.WEBHOOK_BYTES_MAX
    deliver_timeout_seconds: Annotated[
        float, Field("How long a receiver may take to accept an event.", minimum=0.1, maximum=300)
    ] = limits.WEBHOOK_DELIVERY_SECONDS_MAX
    max_attempts: Annotated[
        int, Field("Attempts to deliver an event before it is put aside.", minimum=1, maximum=100)
    ] = limits.WEBHOOK_ATTEMPTS_MAX
    allow_private_addresses: Annotated[
        bool, Field("Whether events may be sent into private networks and to this machine.")
    ] = False
    allow_unsigned: Annotated[
        bool, Field("Whether webhooks that name no secret are received; anybody can then start their workflows.")
    ] = False
    retention: Annotated[
        timedelta | None, Field("How long deliveries are kept after they ended; null means forever.", minimum=60)
    ] = timedelta(milliseconds=limits.DELIVERY_RETENTION_MS)


class HttpSettings(Struct, frozen=True, kw_only=True):
    """Where `http` nodes may go."""

    allow_hosts: Annotated[
        tuple[str, ...],
        Field(
            "Hosts that may be reached wherever they are: names, `*.name`, addresses, networks.", format=ALLOWED_HOST
        ),
    ] = ()
    allow_private: Annotated[
        bool, Field("Whether private networks and this machine may be reached; metadata services stay closed.")
    ] = False


class LoggingSettings(Struct, frozen=True, kw_only=True):
    """What a process says about its work, on standard error."""

    level: Annotated[
        Literal["debug", "info", "warning", "error"], Field("The least that is worth a line.", "--verbose")
    ] = "info"
    format: Annotated[Literal["text", "json"], Field("Lines for people, or JSON objects for programs.", "--json")] = (
        "text"
    )


class TelemetrySettings(Struct, frozen=True, kw_only=True):
    """Numbers for monitoring, and where traces are looked at."""

    metrics_public: Annotated[bool, Field("Whether `/metrics` answers without a key.")] = False
    trace_url: Annotated[
        str | None,
        Field(
            "The page of a trace in your tracing system, with `{trace_id}` for its id: the console links runs to it.",
            format=TRACE_URL,
        ),
    ] = None


class Settings(Struct, frozen=True, kw_only=True):
    """All settings. `Settings()` is what holds when nothing is set."""

    server: ServerSettings = ServerSettings()
    storage: StorageSettings = StorageSettings()
    workflows: WorkflowSettings = WorkflowSettings()
    steps: StepSettings = StepSettings()
    auth: AuthSettings = AuthSettings()
    policy: PolicySettings = PolicySettings()
    limits: LimitSettings = LimitSettings()
    governance: GovernanceSettings = GovernanceSettings()
    quotas: QuotaSettings = QuotaSettings()
    memory: MemorySettings = MemorySettings()
    audit: AuditSettings = AuditSettings()
    retention: RetentionSettings = RetentionSettings()
    idempotency: IdempotencySettings = IdempotencySettings()
    webhooks: WebhookSettings = WebhookSettings()
    http: HttpSettings = HttpSettings()
    logging: LoggingSettings = LoggingSettings()
    telemetry: TelemetrySettings = TelemetrySettings()
    mcp_servers: Annotated[
        Mapping[str, McpServerSettings],
        Field(
            "MCP servers whose tools `tool_call` nodes may use; `import` puts tools into the catalogue. May also be "
            "written `mcpServers`, as MCP clients do.",
            format=TABLE_NAME,
        ),
    ] = {}
    mcp_allow_commands: Annotated[tuple[str, ...], Field("Programs that may be started as MCP servers, by name.")] = (
        DEFAULT_ALLOWED_COMMANDS
    )
    apis: Annotated[
        Mapping[str, ApiSettings],
        Field(
            "APIs with an OpenAPI document, whose operations `tool_call` nodes may use; `import` puts some into the "
            "catalogue.",
            format=TABLE_NAME,
        ),
    ] = {}
    models: Annotated[
        Mapping[str, ModelSettings], Field("Language models that `llm_call` nodes may use.", format=TABLE_NAME)
    ] = {}
    agents: Annotated[
        Mapping[str, AgentSettings], Field("Agents that `agent_delegate` nodes may give work to.", format=TABLE_NAME)
    ] = {}
    graph: OnlyGraphSettings = OnlyGraphSettings()
    graphs: Annotated[
        Mapping[str, GraphSettings],
        Field("Graphs with their stored queries; a server with one graph may write `graph` instead.", format=GRAPH_ID),
    ] = {}
    secrets: Annotated[
        Mapping[str, SecretReference],
        Field("Where the secrets that documents name are to be found.", format=SECRET_NAME),
    ] = {}
    secret_hosts: Annotated[
        Mapping[str, tuple[str, ...]],
        Field(
            "The hosts that a secret may be sent to, by its name: `api.example.com`, or `*.example.com` for all below "
            "it. A secret that is listed goes nowhere else. One that is not goes where documents send it, unless an "
            "agent wrote them.",
            format=SECRET_NAME,
        ),
    ] = {}

    @property
    def tool_sources(self) -> Mapping[str, McpServerSettings | ApiSettings]:
        """The MCP servers and APIs by name, without those that are disabled. Names are unique among both."""
        sources: dict[str, McpServerSettings | ApiSettings] = {**self.mcp_servers, **self.apis}
        return {name: source for name, source in sources.items() if not source.disabled}

    @property
    def declared_graphs(self) -> Mapping[str, GraphSettings]:
        """The graphs of the server by id, however they are declared."""
        only = self.graph.named()
        return self.graphs if only is None else {ONLY_GRAPH: only}


@cache
def settings_outline() -> Section:
    """The declarations of all settings."""
    return outline_of(Settings)
