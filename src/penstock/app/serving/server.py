"""A server: one process with the store, the driver, the gate and its surfaces, from start to stop.

`shutdown` defines how it ends.

Above it: `penstock serve` and `penstock dev`. Below it: `app.gate`, `rest`, uvicorn.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

import uvicorn
from starlette.routing import BaseRoute
from starlette.types import ASGIApp

from penstock import __version__
from penstock.a2a.surface import a2a_routes
from penstock.agent_profile.surface import AgentProfileOptions, agent_profile_routes
from penstock.app.files.workflows import ReadWorkflows
from penstock.app.gate import hold_choices, open_gate
from penstock.app.identity import token_choices
from penstock.app.observability.opened import export_numbers
from penstock.app.penstock import Penstock
from penstock.app.retention import Retention
from penstock.app.serving.backups import BackupChoices, BackupStatus, backup_choices, keep_backups, with_backup_check
from penstock.app.serving.checkpoints import CheckpointChoices, keep_checkpoints
from penstock.app.serving.gate_limits import gate_limits, milliseconds
from penstock.app.serving.health import health_checks
from penstock.app.serving.mcp import McpMount, mcp_options
from penstock.app.serving.metrics import export_metrics
from penstock.app.serving.request_ids import new_request_id
from penstock.app.serving.shutdown import StoppableServer
from penstock.app.serving.stamping import StampChoices, StampStatus, with_stamp_check
from penstock.app.serving.webhooks import open_dispatcher
from penstock.app.settings.graphs import GraphSettings
from penstock.app.settings.model import Settings
from penstock.app.sockets import is_loopback
from penstock.base import limits
from penstock.base.encoding import encode_bytes
from penstock.base.json import JsonObject
from penstock.base.lazy_import import lazy_import
from penstock.console.one_time_links import OneTimeLinks
from penstock.console.surface import console_routes
from penstock.mcp_surface.options import McpOptions
from penstock.openwop.surface import OpenwopOptions, OpenwopSurface
from penstock.operations.agent_profile.handles import app_grants
from penstock.operations.agent_profile.policies import app_policies
from penstock.operations.builtin import profile_operations
from penstock.operations.gate.context import GateLimits, HoldChoices, ServerParts, WebhookChoices
from penstock.operations.gate.pipeline import Gate
from penstock.operations.gate.tokens.choices import TokenChoices
from penstock.operations.telemetry.metrics import Telemetry
from penstock.rest.application import RestOptions, build_application
from penstock.rest.audit import unparsed_recorder
from penstock.rest.endpoints import ConcurrencyLimit, admit_stranger
from penstock.rest.hooks import hook_pages
from penstock.rest.http_protocol import BoundedHttpProtocol
from penstock.rest.metrics import Metrics, metrics_page
from penstock.rest.oauth import metadata_pages
from penstock.rest.openapi.reference_page import PAGE_HEADERS, reference_page
from penstock.rest.pages import document_page, probe_pages

if TYPE_CHECKING:
    from penstock.rest.openapi import document
else:
    document = lazy_import("penstock.rest.openapi.document")

__all__ = ["ServerOptions", "build_server", "open_application"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """The operator's choices."""

    host: str = "127.0.0.1"
    port: int = 5151
    drain_seconds: float = limits.DRAIN_SECONDS
    public_url: str | None = None
    trusted_proxies: tuple[str, ...] = ()
    rest: RestOptions = field(default_factory=RestOptions)
    mcp: McpOptions = field(default_factory=McpOptions)
    console: bool = True
    """True if the web console is served."""
    trace_url: str | None = None
    """The page of a trace in the operator's tracing system, with `{trace_id}` in it."""
    console_links: OneTimeLinks | None = None
    """The one-time links that sign the user of this machine in, if the command makes any."""
    openwop: bool = True
    """True if the OpenWOP wire is served. The server does not depend on it."""
    openwop_mount: bool = True
    openwop_sampling: bool = False
    openwop_seam: bool = False
    """True if conformance tests may import workflows over that wire. Never where others can reach the server."""
    agent_profile: AgentProfileOptions = field(default_factory=AgentProfileOptions)
    gate: GateLimits = field(default_factory=GateLimits)
    policy_files: tuple[str, ...] = ()
    graphs: Mapping[str, GraphSettings] = field(default_factory=dict)
    """The graphs that the settings declare."""
    holds: HoldChoices = field(default_factory=HoldChoices)
    workflow_files: ReadWorkflows | None = None
    """The workflow files that the command read, if any are named."""
    trusted_files: tuple[Path, ...] = ()
    """Files beside the watched ones that other users of the machine must not be able to change."""
    webhooks: WebhookChoices = field(default_factory=WebhookChoices)
    delivery_timeout_seconds: float = limits.WEBHOOK_DELIVERY_SECONDS_MAX
    delivery_attempts_max: int = limits.WEBHOOK_ATTEMPTS_MAX
    retention: Retention = field(default_factory=Retention)
    tokens: TokenChoices | None = None
    """Whose access tokens are accepted; None for keys only."""
    checkpoints: CheckpointChoices = field(default_factory=CheckpointChoices)
    backups: BackupChoices | None = None
    """When backups are made; None if the settings have no schedule."""

    @classmethod
    def of(cls, settings: Settings) -> ServerOptions:
        """The options of the settings."""
        server = settings.server
        return cls(
            host=server.host,
            port=server.port,
            drain_seconds=server.drain_seconds,
            public_url=server.public_url,
            trusted_proxies=server.trusted_proxies,
            rest=RestOptions(
                base_path=server.base_path,
                cors_origins=server.cors.origins,
                max_body_bytes=server.max_body_bytes,
                max_concurrent_requests=server.max_concurrent_requests,
                gzip_min_bytes=server.gzip_min_bytes,
                docs_enabled=server.docs_enabled,
                metrics_public=settings.telemetry.metrics_public,
            ),
            mcp=mcp_options(settings),
            console=server.console_enabled,
            trace_url=settings.telemetry.trace_url,
            openwop_mount=server.openwop.mcp,
            openwop_sampling=bool(settings.models),
            openwop_seam=server.openwop.seam,
            agent_profile=AgentProfileOptions(
                enabled=server.agent_profile.enabled, fixtures=server.agent_profile.fixtures
            ),
            gate=gate_limits(settings),
            policy_files=settings.policy.files,
            graphs=settings.declared_graphs,
            holds=hold_choices(settings.governance),
            webhooks=WebhookChoices(
                public_url=server.public_url,
                max_body_bytes=settings.webhooks.max_body_bytes,
                allow_unsigned=settings.webhooks.allow_unsigned,
                allow_private_addresses=settings.webhooks.allow_private_addresses,
            ),
            delivery_timeout_seconds=settings.webhooks.deliver_timeout_seconds,
            delivery_attempts_max=settings.webhooks.max_attempts,
            checkpoints=_checkpoints(settings),
            backups=backup_choices(settings),
            retention=_retention(settings),
            tokens=token_choices(settings),
        )


def _retention(settings: Settings) -> Retention:
    return Retention(
        runs_ms=milliseconds(settings.retention.runs),
        audit_ms=milliseconds(settings.audit.retention),
        deliveries_ms=milliseconds(settings.webhooks.retention),
    )


def _checkpoints(settings: Settings) -> CheckpointChoices:
    chosen = settings.audit.checkpoints
    return CheckpointChoices(
        every_entries=chosen.every_entries,
        every_ms=int(chosen.every.total_seconds() * 1000),
        files=tuple(map(Path, chosen.files)),
        webhooks=chosen.webhooks,
        git_folders=tuple(map(Path, chosen.git_folders)),
        timestamp=_timestamp(settings),
    )


def _timestamp(settings: Settings) -> StampChoices | None:
    chosen = settings.audit.checkpoints.timestamp
    if chosen.url is None:
        return None
    return StampChoices(url=chosen.url, certificates=None if chosen.certificates is None else Path(chosen.certificates))


@asynccontextmanager
async def open_application(penstock: Penstock, options: ServerOptions) -> AsyncIterator[tuple[ASGIApp, Gate]]:
    """The ASGI application on an open store, and its gate."""
    checks, telemetry, stamps, backups = health_checks(penstock), Telemetry(), StampStatus(), BackupStatus()
    if options.checkpoints.timestamp is not None:
        checks = with_stamp_check(checks, stamps)
    if options.backups is not None:
        checks = with_backup_check(checks, backups)
    metrics, profile = Metrics(telemetry), options.agent_profile
    opening = open_gate(
        penstock,
        chosen=options.gate,
        retention=options.retention,
        policy_files=options.policy_files,
        graphs=options.graphs,
        holds=options.holds,
        workflow_files=options.workflow_files,
        server=ServerParts(
            tokens=options.tokens,
            trusted_files=options.trusted_files,
            base_path=options.rest.base_path,
            webhooks=options.webhooks,
            checks=checks,
            telemetry=telemetry,
            read_metrics=metrics.numbers,
            operations=profile_operations(fixtures=profile.fixtures) if profile.enabled else (),
            derived_policies=app_policies if profile.enabled else None,
            derived_grants=app_grants if profile.enabled else None,
        ),
    )
    async with opening as gate:
        mcp = McpMount(gate, options.mcp)
        pages = [
            *probe_pages(gate.services.checks),
            metrics_page(gate, metrics, public=options.rest.metrics_public),
            *_documents(gate, options),
            *(metadata_pages(options.tokens.protected) if options.tokens is not None else []),
            *hook_pages(gate, at_once_max=options.rest.max_concurrent_requests),
        ]
        pages.extend(mcp.routes())
        pages.extend(console_routes(gate, options.console_links, options.trace_url) if options.console else [])
        busy = ConcurrencyLimit(options.rest.max_concurrent_requests)
        openwop = _openwop(gate, options, mcp) if options.openwop else None
        pages.extend(openwop.routes(busy) if openwop is not None else [])
        bodies = options.rest.max_body_bytes
        pages.extend(a2a_routes(gate, busy, max_body_bytes=bodies, server_url=options.public_url))
        if profile.enabled:
            pages.extend(agent_profile_routes(gate, profile, busy, max_body_bytes=options.rest.max_body_bytes))
        sending = open_dispatcher(
            gate, timeout_seconds=options.delivery_timeout_seconds, attempts_max=options.delivery_attempts_max
        )
        numbers = export_numbers(penstock.observability, telemetry, gate.services.clock)
        signing, saving = (
            keep_checkpoints(gate, options.checkpoints, stamps),
            keep_backups(gate, options.backups, backups),
        )
        async with sending, signing, saving, mcp, openwop or nullcontext(), numbers:
            with export_metrics(penstock, gate.services):
                app = build_application(gate, options.rest, new_request_id=new_request_id, pages=pages, busy=busy)
                yield app, gate


def _openwop(gate: Gate, options: ServerOptions, mcp: McpMount) -> OpenwopSurface:
    chosen = OpenwopOptions(
        version=__version__,
        max_body_bytes=options.rest.max_body_bytes,
        server_url=options.public_url,
        mcp_mount=options.openwop_mount,
        sampling=options.openwop_sampling,
        seam=options.openwop_seam and is_loopback(options.host),
    )
    return OpenwopSurface(gate, chosen, options.mcp, mcp.endpoint)


def _documents(gate: Gate, options: ServerOptions) -> list[BaseRoute]:
    """The documents that describe the server."""

    def described() -> JsonObject:
        return document.openapi_document(
            gate.catalogue.all(),
            version=__version__,
            base_path=options.rest.base_path,
            server_url=options.public_url,
        )

    def revision() -> int:
        return gate.catalogue.revision

    admit = partial(admit_stranger, gate)
    found = [
        document_page("/openapi.json", lambda: encode_bytes(described()), revision=revision, admit=admit),
    ]
    if options.rest.docs_enabled:
        html = "text/html; charset=utf-8"
        found.append(
            document_page(
                "/docs",
                lambda: reference_page(described()),
                html,
                revision=revision,
                headers=PAGE_HEADERS,
                admit=admit,
            )
        )
    return found


def build_server(
    app: ASGIApp, options: ServerOptions, *, gate: Gate, ready: Callable[[], None] | None = None
) -> StoppableServer:
    """The HTTP server of an application; `shutdown.serve_until` runs it. `ready` is called when it listens.

    Input that cannot be parsed as a request never reaches the application; `gate` records it.
    """
    config = uvicorn.Config(
        app,
        host=options.host,
        port=options.port,
        # Used as a class by uvicorn, which creates one for each connection.
        http=cast("type[asyncio.Protocol]", partial(BoundedHttpProtocol, refused=unparsed_recorder(gate))),
        ws="none",
        lifespan="off",
        access_log=False,
        log_config=None,
        # The application logs errors of requests, with their ids.
        log_level="critical",
        server_header=False,
        proxy_headers=bool(options.trusted_proxies),
        forwarded_allow_ips=list(options.trusted_proxies),
        timeout_graceful_shutdown=max(1, round(options.drain_seconds)),
        timeout_keep_alive=75,
    )
    server = StoppableServer(config)
    server.ready = ready
    return server
