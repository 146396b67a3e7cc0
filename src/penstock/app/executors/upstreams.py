"""Other MCP servers and APIs whose tools are imported: links settings, tool registry, gate and executors.

Connections are opened in the background once the gate is open. A server that cannot be reached blocks nothing, and is
tried again. A process that performs nothing connects only to list tools on request.

Above it: `app.gate`, the commands. Below it: `configured` has the executor that connects to servers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.app.executors.lazy_executor import ExecutorStatus, LazyExecutor
from penstock.app.settings.model import Settings
from penstock.app.settings.named import McpServerSettings, ToolRuleSettings
from penstock.base.errors import PenstockError, Rejected, Unavailable
from penstock.runtime.activities.performing import ActivityCall
from penstock.runtime.activities.progress import ServerMessage
from penstock.runtime.ports.host import RunHost
from penstock.runtime.upstreams.followed_resources import FollowedResources
from penstock.runtime.upstreams.lending import LendingRules, ModelLender, SamplingTerms
from penstock.runtime.upstreams.oauth.sign_ins import UpstreamSignIns
from penstock.runtime.upstreams.tools import (
    ImportRules,
    NoGuard,
    ServerState,
    ToolGuard,
    ToolRefusal,
    ToolRule,
    UpstreamResource,
    UpstreamTool,
)

if TYPE_CHECKING:
    from penstock.runtime.upstreams.tool_registry import UpstreamToolRegistry

__all__ = ["UpstreamLink", "import_rules", "lending_rules", "refuse_missing_folders"]

_LOGGER = logging.getLogger("penstock.upstream")
# How long one wait for the end of a run lasts, before it is repeated.
_PATIENCE_SECONDS = 600.0
_MILLISECOND = timedelta(milliseconds=1)


def import_rules(settings: Settings) -> dict[str, ImportRules]:
    """The import rules of servers and APIs. Those that are disabled or have no rules are left out."""
    return {
        name: ImportRules(
            prefix=wanted.prefix or name,
            tools=wanted.tools,
            resources=wanted.resources,
            prompts=wanted.prompts,
            accept=wanted.accept,
            tenants=wanted.tenants,
            rules={pattern: _rule(rule) for pattern, rule in wanted.governance.items()},
        )
        for name, server in settings.tool_sources.items()
        if (wanted := server.import_) is not None
    }


def _rule(said: ToolRuleSettings) -> ToolRule:
    return ToolRule(
        scopes=said.scopes,
        risk=said.risk,
        read_only=said.read_only,
        destructive=said.destructive,
        idempotent=said.idempotent,
        open_world=said.open_world,
        title=said.title,
        description=said.description,
    )


def lending_rules(server: McpServerSettings) -> LendingRules | None:
    """What the settings lend to a server; None if they lend nothing."""
    said = server.sampling
    if said is None and not server.roots:
        return None
    sampling = None
    if said is not None:
        sampling = SamplingTerms(
            model=said.model,
            tenants=said.tenants,
            requests_per_call=said.requests_per_call,
            max_tokens=said.max_tokens,
            timeout_ms=max(1, said.timeout // _MILLISECOND),
            cost_per_call=said.cost_per_call,
        )
    return LendingRules(sampling=sampling, folders=server.roots)


def refuse_missing_folders(settings: Settings) -> None:
    """Raise `Rejected` if a folder that the settings lend to a server does not exist."""
    for name, server in settings.mcp_servers.items():
        for folder in (folder for folders in server.roots.values() for folder in folders):
            if not server.disabled and not Path(folder).is_dir():
                message = f"mcp_servers.{name}.roots: {folder} is not a folder"
                raise Rejected("ROOT_NOT_FOUND", message, "correct the path, or create the folder")


@dataclass(slots=True, kw_only=True)
class UpstreamLink:
    """The link between the executor that talks to servers and the tool registry. It is a `ToolGuard` itself."""

    rules: Mapping[str, ImportRules] = field(default_factory=dict)
    tools: LazyExecutor | None = None
    """The executor for MCP servers; None if this process does not connect to any."""
    apis: LazyExecutor | None = None
    """The executor for APIs; None if the settings have none."""
    api_names: frozenset[str] = frozenset()
    watches: bool = True
    """True if connections are kept open. A process that performs nothing connects only on request."""
    guard: ToolGuard = field(default_factory=NoGuard)
    host: RunHost | None = None
    sign_ins: UpstreamSignIns = field(default_factory=UpstreamSignIns)
    """The servers that want OAuth."""
    followed: FollowedResources = field(default_factory=FollowedResources)
    """The resources whose changes somebody follows."""
    lend: ModelLender | None = None
    """How models are lent to servers, while a gate is open."""
    executor_status: ExecutorStatus = field(default_factory=ExecutorStatus)
    """Which executors cannot be made now: those for servers, and all others of the settings."""

    def __post_init__(self) -> None:
        self.executor_status.tell = self._tell_run

    def _tell_run(self, call: ActivityCall, level: int, message: str) -> None:
        if self.host is not None:
            self.host.progress.log(call, level, message)

    async def tools_listed(self, server: str, tools: tuple[UpstreamTool, ...]) -> None:
        """Pass a server's listing to the guard."""
        await self.guard.tools_listed(server, tools)

    def resources_listed(self, server: str, resources: tuple[UpstreamResource, ...]) -> None:
        """Pass the resources of a server to the guard."""
        self.guard.resources_listed(server, resources)

    async def refusal(self, tenant: str, server: str, tool: str) -> ToolRefusal | None:
        """Why a tool must not be called now."""
        return await self.guard.refusal(tenant, server, tool)

    def state(self, server: str, state: ServerState) -> None:
        """Pass a new connection state of a server to the guard."""
        self.guard.state(server, state)

    def on_progress(self, call: ActivityCall, news: Any) -> None:
        """Pass on the progress of a tool."""
        if self.host is None:
            return
        if news.total:
            self.host.progress.progress(call, min(max(news.progress / news.total, 0.0), 1.0), news.message)
        else:
            self.host.progress.heartbeat(call, {"progress": news.progress, "message": news.message})

    def on_log(self, call: ActivityCall, said: ServerMessage) -> None:
        """Keep a log message that a server sent during a call."""
        if self.host is not None:
            self.host.progress.server_log(call, said)

    async def run_ended(self, run_id: str) -> None:
        """Wait until a run has ended."""
        while self.host is not None:
            state = await self.host.wait_for_end(run_id, timeout_seconds=_PATIENCE_SECONDS)
            if state is None or state.terminal:
                return

    def attach(self, host: RunHost, guard: ToolGuard | None) -> None:
        """Use the runs of a host. The guard decides about calls here too, even without a gate."""
        self.host = host
        self.guard = guard or self.guard

    async def look(self, server: str) -> None:
        """List the tools of a server now. Raises `Unavailable` if it cannot be reached."""
        try:
            executor: Any = await self._executor(server)
            await executor.look(server)
        except PenstockError:
            raise
        except Exception as error:  # any error of the server, the network or the library
            message = f"{server} cannot be reached: {str(error) or type(error).__name__}"
            raise Unavailable(
                "UPSTREAM_UNAVAILABLE", message, "check its log, and its entry in `mcp_servers` or `apis`"
            ) from error

    @asynccontextmanager
    async def watch_servers(self, board: UpstreamToolRegistry) -> AsyncIterator[None]:
        """Keep the connections to the servers open until the block ends."""
        before, self.guard = self.guard, board
        board.followed = self.followed
        board.connections = self if self.tools is not None or self.apis is not None else None
        names = [name for name in self.rules if self.watches and self._lazy(name) is not None]
        watching = [asyncio.create_task(self._watch(name), name=f"upstream {name}") for name in names]
        try:
            yield
        finally:
            for task in watching:
                task.cancel()
            if watching:
                await asyncio.wait(watching)
            self.guard = before

    async def _executor(self, server: str) -> Any:
        lazy = self._lazy(server)
        if lazy is None:
            raise Unavailable("UPSTREAM_UNAVAILABLE", "this process is not connected to other servers")
        return await lazy.ready(server)

    def _lazy(self, server: str) -> LazyExecutor | None:
        return self.apis if server in self.api_names else self.tools

    async def _watch(self, server: str) -> None:
        try:
            executor: Any = await self._executor(server)
        except PenstockError as error:
            self.guard.state(server, ServerState(status="unavailable", error=error.message))
            _LOGGER.warning("%s: %s", server, error)
            return
        await executor.watch(server).run()
