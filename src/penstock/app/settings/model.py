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
    DATABASE,
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
from penstock.app.settings.secrets import CommandReference, EnvironmentReference, FileReference, SecretReference
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

# The references of `SecretReference`, spelt out where annotations are read at run time.
_References = EnvironmentReference | FileReference | CommandReference


class CorsSettings(Struct, frozen=True, kw_only=True):
    """Cross-origin requests (CORS). Browsers block pages of other origins unless you list the origins."""

    origins: Annotated[
        tuple[str, ...],
        Field("Origins whose pages may call the API; none turns CORS off, `*` allows any origin.", format=ORIGIN),
    ] = ()


class StreamSettings(Struct, frozen=True, kw_only=True):
    """Event streams of runs."""

    max: Annotated[int, Field("The maximum number of open streams.", minimum=1)] = limits.STREAMS_MAX
    per_key: Annotated[int, Field("The maximum number of open streams for one API key.", minimum=1)] = (
        limits.STREAMS_PER_KEY
    )
    heartbeat_seconds: Annotated[
        float, Field("How long a stream may be silent before it says that it lives.", minimum=0.1, maximum=3600)
    ] = limits.STREAM_HEARTBEAT_SECONDS
    retry_seconds: Annotated[float, Field("How long clients wait before they reconnect.", minimum=0, maximum=3600)] = (
        limits.STREAM_RETRY_MS / 1000
    )


class McpSettings(Struct, frozen=True, kw_only=True):
    """Penstock as an MCP server."""

    enabled: Annotated[bool, Field("Whether to offer tools over MCP.", aliases=(f"{_FOREIGN}ENABLED",))] = True
    path: Annotated[
        str,
        Field("The path where MCP clients connect.", aliases=("MCP_SERVER_PATH", f"{_FOREIGN}PATH"), format=URL_PATH),
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
            "The protocol version: `auto` negotiates the newest version that each client knows; a fixed version is "
            "the only one offered.",
            aliases=(
                "PENSTOCK_SERVER_MCP_PROTOCOL",
                f"{_FOREIGN}PROTOCOL_VERSION",
                f"{_FOREIGN}PROTOCOL",
            ),
        ),
    ] = "auto"
    tool_prefix: Annotated[
        str,
        Field("The prefix of the names of built-in tools.", aliases=(f"{_FOREIGN}TOOL_PREFIX",), format=TOOL_PREFIX),
    ] = "penstock"
    tool_names: Annotated[
        Literal["underscore", "dot"],
        Field(
            "The spelling of tool names: `penstock_workflow_list` or `penstock.workflow.list`; calls may use either."
        ),
    ] = "underscore"
    exclude_endpoints: Annotated[
        tuple[str, ...],
        Field(
            "REST paths not to offer as tools; `*` matches anything.",
            aliases=(f"{_FOREIGN}EXCLUDE_ENDPOINTS",),
            format=ENDPOINT,
        ),
    ] = ("/api/v0/admin/*", "/api/v0/internal/*")
    output_schemas: Annotated[
        bool,
        Field(
            "Whether tool lists include the output schemas of built-in operations; those of workflows are always "
            "included."
        ),
    ] = False
    toolset: Annotated[
        str,
        Field(
            "The tools for clients whose address has no `?toolset=`. `default` has exposed workflows, imported "
            "tools, and the tools to follow their runs; `management` has operations, too.",
            "--toolset",
            format=TOOLSET,
        ),
    ] = "default"
    catalogue_bytes: Annotated[
        int,
        Field(
            "The size of the tool list above which the toolset `management` replaces operations with a search. "
            "Exposed workflows are always listed. A token is about four bytes.",
            minimum=0,
        ),
    ] = limits.MCP_CATALOGUE_BYTES_MAX
    fast_path: Annotated[
        bool,
        Field(
            "Whether to use the faster path for frequent requests (lists, reads, task status). The answers are the "
            "same."
        ),
    ] = True
    max_concurrent_requests: Annotated[
        int,
        Field("Requests that are worked on at once.", aliases=(f"{_FOREIGN}MAX_CONCURRENT_REQUESTS",), minimum=1),
    ] = limits.MCP_CALLS_AT_ONCE_MAX
    request_timeout: Annotated[
        timedelta,
        Field(
            "How long a call waits for its run before it answers with a handle.",
            aliases=(f"{_FOREIGN}REQUEST_TIMEOUT",),
            minimum=0.001,
        ),
    ] = timedelta(milliseconds=limits.MCP_CALL_MS_MAX)
    on_disconnect: Annotated[
        Literal["cancel", "keep"],
        Field(
            "What happens to the run of a tool call when its client disconnects before the answer. "
            "`notifications/cancelled` always cancels the run. Over HTTP, clients of revision 2026-07-28 cancel a "
            "call by disconnecting, so this setting decides for them."
        ),
    ] = "keep"
    step_logs: Annotated[
        bool,
        Field(
            "Whether a client that waits for a run receives the log lines of steps (`context.logger`). Secrets of "
            "the step are masked."
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
            "How long clients of sessions wait before they reconnect to a closed stream.",
            aliases=(f"{_FOREIGN}SSE_RETRY_INTERVAL",),
        ),
    ] = timedelta(milliseconds=limits.STREAM_RETRY_MS)
    sse_close_after: Annotated[
        timedelta | None,
        Field(
            "How long the event stream of a call stays open in a session. Then it is closed, and the client "
            "reconnects for the rest (revision 2025-11-25). Null leaves it open until the answer.",
            minimum=0.1,
        ),
    ] = None


class OpenwopSettings(Struct, frozen=True, kw_only=True):
    """The wire of OpenWOP hosts, under `/v1`."""

    mcp: Annotated[
        bool, Field("Whether to offer MCP at `/v1/mcp` too, as OpenWOP defines it; requires `server.mcp`.")
    ] = True
    seam: Annotated[
        bool,
        Field(
            "Whether conformance tests may add workflows at `/v1/host/sample/workflows`; only on a server that only "
            "this machine can reach."
        ),
    ] = False


class ServerSettings(Struct, frozen=True, kw_only=True):
    """The HTTP server: its address, its surfaces and its bounds."""

    host: Annotated[
        str,
        Field("The address to listen on; by default, only this machine can connect.", "--host", format=HOST),
    ] = "127.0.0.1"
    port: Annotated[int, Field("The port to listen on; 0 chooses a free one.", "--port", minimum=0, maximum=65_535)] = (
        5151
    )
    base_path: Annotated[str, Field("The prefix of the paths of the REST API.", format=URL_PATH)] = "/api/v0"
    public_url: Annotated[
        str | None, Field("The public address of the server, for links and discovery.", format=URL)
    ] = None
    cors: CorsSettings = CorsSettings()
    max_body_bytes: Annotated[int, Field("The largest body of a request.", minimum=1_024)] = limits.REQUEST_BYTES_MAX
    max_concurrent_requests: Annotated[
        int, Field("The maximum number of concurrent requests, without streams.", minimum=1)
    ] = limits.REQUESTS_AT_ONCE_MAX
    drain_seconds: Annotated[
        float, Field("How long work in progress may continue after a signal to stop.", minimum=0, maximum=3600)
    ] = limits.DRAIN_SECONDS
    sync_wait_seconds: Annotated[
        float, Field("How long a call with `sync: true` waits for its run by default.", minimum=0)
    ] = limits.SYNC_WAIT_SECONDS
    sync_wait_max_seconds: Annotated[
        float, Field("The longest wait that a call may ask for.", minimum=0, maximum=3600)
    ] = limits.SYNC_WAIT_SECONDS_MAX
    gzip_min_bytes: Annotated[
        int | None, Field("The smallest answer that is compressed; null turns compression off.", minimum=0)
    ] = limits.GZIP_BYTES_MIN
    trusted_proxies: Annotated[
        tuple[str, ...], Field("Proxies that are trusted to report the client's address.", format=NETWORK)
    ] = ()
    secret: Annotated[
        _References | None,
        Field(
            "Where the server's secret comes from: 64 hexadecimal digits, the same for all servers on one database. "
            "Unless set, a file beside the database, which the first start makes."
        ),
    ] = None
    audit_key: Annotated[
        _References | None,
        Field(
            "Where the key that signs audit checkpoints comes from: 64 hexadecimal digits, the same for all servers on "
            "one database. Unless set, a file beside that of the secret or the database."
        ),
    ] = None
    docs_enabled: Annotated[bool, Field("Whether to serve the API documentation.")] = True
    console_enabled: Annotated[bool, Field("Whether to serve the web console, at /console.")] = True
    streams: StreamSettings = StreamSettings()
    mcp: McpSettings = McpSettings()
    openwop: OpenwopSettings = OpenwopSettings()
    agent_profile: AgentProfileSettings = AgentProfileSettings()


class BackupSettings(Struct, frozen=True, kw_only=True):
    """Scheduled backups by the server, in `storage.backup_folder`."""

    every: Annotated[
        timedelta | None,
        Field("How often the server makes a backup, such as `24h`; null means only on request.", minimum=60),
    ] = None
    keep: Annotated[
        int,
        Field(
            "How many scheduled backups to keep. The server deletes older ones after each new one. Backups on "
            "request are not counted and never deleted.",
            minimum=1,
            maximum=limits.BACKUPS_SCHEDULED_MAX // 2,
        ),
    ] = limits.BACKUPS_KEPT
    keep_for: Annotated[
        timedelta | None,
        Field(
            "How long to keep scheduled backups at least, whatever their number; null lets `keep` decide.", minimum=60
        ),
    ] = None


class StorageSettings(Struct, frozen=True, kw_only=True):
    """Where data is stored."""

    path: Annotated[
        str,
        Field(
            "The database: a SQLite file that holds definitions, runs and keys.",
            "--db",
            ("PENSTOCK_DB",),
            format=DATABASE,
        ),
    ] = "penstock.db"
    synchronous: Annotated[
        Literal["FULL", "NORMAL", "OFF"],
        Field(
            "When commits reach the disk: `FULL` at once; `NORMAL` and `OFF` may lose the last commits in a power "
            "failure."
        ),
    ] = "FULL"
    backup_folder: Annotated[
        str | None,
        Field(
            "The folder for backups that the server makes, on a schedule (`storage.backups`) or on request "
            "(`backup.create`); null turns them off.",
            format=PATH,
        ),
    ] = None
    backups: BackupSettings = BackupSettings()


class WorkflowSettings(Struct, frozen=True, kw_only=True):
    """The workflow documents that the server registers, at the start and when they change."""

    paths: Annotated[
        tuple[str, ...], Field("Files, folders, and patterns such as `flows/**/*.yaml`.", "--workflows", format=PATH)
    ] = ()
    signatures: SignatureSettings = SignatureSettings()


class StepSettings(Struct, frozen=True, kw_only=True):
    """The Python functions that workflows may call."""

    modules: Annotated[
        tuple[str, ...], Field("Files (steps.py) or modules with @step functions.", "--steps", format=MODULE)
    ] = ()


class AuthKeySettings(Struct, frozen=True, kw_only=True):
    """API keys."""

    default_expiry: Annotated[
        timedelta | None,
        Field("The default validity of a new key; null means until it is revoked.", minimum=60),
    ] = None


class AuthSettings(Struct, frozen=True, kw_only=True):
    """How callers authenticate."""

    pepper_file: Annotated[
        str | None,
        Field(
            "The file with the server's secret, made at the first start; unless set, a file beside the database. "
            "`server.secret` names other sources.",
            format=PATH,
        ),
    ] = None
    keys: AuthKeySettings = AuthKeySettings()
    oauth: OauthSettings = OauthSettings()


class RetentionSettings(Struct, frozen=True, kw_only=True):
    """How long data is kept."""

    runs: Annotated[
        timedelta | None, Field("How long to keep runs after they ended; null means forever.", minimum=60)
    ] = None


class IdempotencySettings(Struct, frozen=True, kw_only=True):
    """Answers to repeated calls."""

    ttl: Annotated[timedelta, Field("How long to keep the answer to a call with an `Idempotency-Key`.", minimum=60)] = (
        timedelta(milliseconds=limits.IDEMPOTENCY_TTL_MS)
    )


class WebhookSettings(Struct, frozen=True, kw_only=True):
    """Webhooks, received and sent."""

    max_body_bytes: Annotated[int, Field("The largest webhook to accept.", minimum=1)] = limits.WEBHOOK_BYTES_MAX
    deliver_timeout_seconds: Annotated[
        float, Field("How long a receiver may take to accept an event.", minimum=0.1, maximum=300)
    ] = limits.WEBHOOK_DELIVERY_SECONDS_MAX
    max_attempts: Annotated[
        int, Field("Attempts to deliver an event before it is marked dead.", minimum=1, maximum=100)
    ] = limits.WEBHOOK_ATTEMPTS_MAX
    allow_private_addresses: Annotated[
        bool, Field("Whether to send events into private networks and to this machine.")
    ] = False
    allow_unsigned: Annotated[
        bool, Field("Whether to accept webhooks without a secret; anybody can then start their workflows.")
    ] = False
    retention: Annotated[
        timedelta | None, Field("How long to keep deliveries after they ended; null means forever.", minimum=60)
    ] = timedelta(milliseconds=limits.DELIVERY_RETENTION_MS)


class HttpSettings(Struct, frozen=True, kw_only=True):
    """The addresses that `http` nodes may reach."""

    allow_hosts: Annotated[
        tuple[str, ...],
        Field("Hosts that are always allowed: names, `*.name`, addresses, networks.", format=ALLOWED_HOST),
    ] = ()
    allow_private: Annotated[
        bool, Field("Whether to allow private networks and this machine; metadata services stay blocked.")
    ] = False


class LoggingSettings(Struct, frozen=True, kw_only=True):
    """The log, on standard error."""

    level: Annotated[Literal["debug", "info", "warning", "error"], Field("The lowest level to log.", "--verbose")] = (
        "info"
    )
    format: Annotated[
        Literal["text", "json"], Field("`text` writes lines for people, `json` objects for programs.", "--json")
    ] = "text"


class TelemetrySettings(Struct, frozen=True, kw_only=True):
    """Metrics, and links to traces."""

    metrics_public: Annotated[bool, Field("Whether `/metrics` is available without a key.")] = False
    trace_url: Annotated[
        str | None,
        Field(
            "The page of a trace in your tracing system, with `{trace_id}` for its id. The console links runs to it.",
            format=TRACE_URL,
        ),
    ] = None


class Settings(Struct, frozen=True, kw_only=True):
    """All settings. `Settings()` has the defaults."""

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
            "MCP servers whose tools `tool_call` nodes may use; `import` adds tools to the catalogue. `mcpServers`, "
            "as in MCP clients, works too.",
            format=TABLE_NAME,
        ),
    ] = {}
    mcp_allow_commands: Annotated[
        tuple[str, ...], Field("The names of programs that may be started as MCP servers.")
    ] = DEFAULT_ALLOWED_COMMANDS
    apis: Annotated[
        Mapping[str, ApiSettings],
        Field(
            "APIs with an OpenAPI document, whose operations `tool_call` nodes may use; `import` adds operations to "
            "the catalogue.",
            format=TABLE_NAME,
        ),
    ] = {}
    models: Annotated[
        Mapping[str, ModelSettings], Field("Language models that `llm_call` nodes may use.", format=TABLE_NAME)
    ] = {}
    agents: Annotated[
        Mapping[str, AgentSettings], Field("Agents that `agent_delegate` nodes may call.", format=TABLE_NAME)
    ] = {}
    graph: OnlyGraphSettings = OnlyGraphSettings()
    graphs: Annotated[
        Mapping[str, GraphSettings],
        Field("Graphs with their stored queries; a server with one graph may write `graph` instead.", format=GRAPH_ID),
    ] = {}
    secrets: Annotated[
        Mapping[str, SecretReference],
        Field("Where to find the secrets that documents name.", format=SECRET_NAME),
    ] = {}
    secret_hosts: Annotated[
        Mapping[str, tuple[str, ...]],
        Field(
            "The hosts that a secret may be sent to, by its name: `api.example.com`, or `*.example.com` for all "
            "subdomains. A listed secret is sent nowhere else. Other secrets go where documents send them, unless an "
            "agent wrote the document.",
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
