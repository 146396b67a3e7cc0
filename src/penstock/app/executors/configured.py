"""The configured executors and secrets: MCP servers, models, agents, HTTP.

    async with open_executors(settings) as tools:
        async with Penstock.open(storage=storage_of(settings), executors=tools.executors, secrets=tools.secrets): ...

A missing library is reported here, at the start. Libraries are imported, and secrets read, when something first needs
them: a run that calls no model waits for neither, and a missing key fails only the runs that need it.

Above it: the commands that perform work. Below it: the executors; `extras` loads those with optional libraries.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.app.executors.apis import ApiRouter, api_executor, api_names
from penstock.app.executors.delegates import DelegateExecutor
from penstock.app.executors.extras import load_executor, require_extra
from penstock.app.executors.lazy_executor import ClosableExecutor, LazyExecutor
from penstock.app.executors.registered_models import ModelLink
from penstock.app.executors.secret_sources import ReferenceSecrets, private_texts, resolve_secret
from penstock.app.executors.sign_ins import upstream_sign_ins
from penstock.app.executors.upstreams import UpstreamLink, import_rules, lending_rules, refuse_missing_folders
from penstock.app.settings.model import Settings
from penstock.app.settings.named import AgentSettings, McpServerSettings
from penstock.base import limits
from penstock.base.errors import Rejected, Unavailable
from penstock.base.ids import PERSON_AGENT
from penstock.base.lazy_import import lazy_import
from penstock.runtime.activities.performing import AsyncPerformer
from penstock.runtime.activities.routing import SecretResolver
from penstock.runtime.address_guard import AddressGuard
from penstock.runtime.executors.mcp.config import McpServerConfig
from penstock.runtime.extras import install_hint
from penstock.runtime.ports.models import ConfiguredModels
from penstock.runtime.secrets import BoundSecrets, ChainSecrets, EnvironmentSecrets, FileSecrets
from penstock.runtime.upstreams.oauth.model import BearerSource

if TYPE_CHECKING:
    from penstock.app.executors import models as executor_models
    from penstock.runtime.executors.agents import executor as agents_executor
    from penstock.runtime.executors.agents import person, port
    from penstock.runtime.executors.http import executor
    from penstock.runtime.executors.llm import executor as llm
    from penstock.runtime.executors.llm import models as llm_models
    from penstock.runtime.executors.mcp import client_roots
    from penstock.runtime.executors.mcp import executor as mcp_tools
else:
    executor_models = lazy_import("penstock.app.executors.models")
    port = lazy_import("penstock.runtime.executors.agents.port")
    agents_executor = lazy_import("penstock.runtime.executors.agents.executor")
    client_roots = lazy_import("penstock.runtime.executors.mcp.client_roots")
    executor = lazy_import("penstock.runtime.executors.http.executor")
    llm = lazy_import("penstock.runtime.executors.llm.executor")
    llm_models = lazy_import("penstock.runtime.executors.llm.models")
    mcp_tools = lazy_import("penstock.runtime.executors.mcp.executor")
    person = lazy_import("penstock.runtime.executors.agents.person")

__all__ = [
    "ConfiguredExecutors",
    "check_extras",
    "model_link",
    "open_executors",
    "open_upstream_link",
    "secrets_of",
]

_MILLISECOND = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfiguredExecutors:
    """What performs activities, and where it finds secrets: two arguments of `Penstock.open`."""

    executors: Mapping[str, AsyncPerformer]
    secrets: SecretResolver
    upstream: UpstreamLink = field(default_factory=UpstreamLink)
    """The servers whose tools are imported."""
    models: ModelLink = field(default_factory=ModelLink)
    """The models that tenants register."""


@asynccontextmanager
async def open_executors(
    settings: Settings, *, secret_folder: Path | None = None
) -> AsyncIterator[ConfiguredExecutors]:
    """The configured executors, until the block ends. Raises `Unavailable` if an extra is missing."""
    check_extras(settings)
    refuse_missing_folders(settings)
    secrets = secrets_of(settings, secret_folder)
    async with AsyncExitStack() as stack:
        reach = settings.http
        link = UpstreamLink(rules=import_rules(settings), sign_ins=upstream_sign_ins(settings))
        status = link.executor_status
        requests = LazyExecutor(
            make=lambda: executor.HttpExecutor(allow_private=reach.allow_private, allow_hosts=reach.allow_hosts),
            status=status,
        )
        stack.push_async_callback(requests.close)
        executors: dict[str, AsyncPerformer] = {"http": requests}
        stack.push_async_callback(link.sign_ins.close)
        tools = link.tools = _tool_executor(settings, secrets, link)
        link.api_names, link.apis = api_names(settings), api_executor(settings, secrets, link)
        for opened in filter(None, (tools, link.apis)):
            stack.push_async_callback(opened.close)
        others = tools if link.apis is None else ApiRouter(names=link.api_names, apis=link.apis, others=tools)
        executors["tool_call"] = client_roots.ClientRouter(
            member="server", own=client_roots.ClientRoots(), others=others
        )
        registered = model_link(settings, secrets)
        executors["llm_call"] = models = LazyExecutor(
            make=lambda: _model_executor(settings, secrets, registered), status=status
        )
        stack.push_async_callback(models.close)
        agents = _agent_executor(settings, secrets, tools)
        agents.status = status
        stack.push_async_callback(agents.close)
        executors["agent_delegate"] = DelegateExecutor(
            agents=agents,
            protocols={**{name: _protocol(agent) for name, agent in settings.agents.items()}, PERSON_AGENT: "sdk"},
        )
        yield ConfiguredExecutors(executors=executors, secrets=secrets, upstream=link, models=registered)


@asynccontextmanager
async def open_upstream_link(settings: Settings) -> AsyncIterator[UpstreamLink]:
    """The servers whose tools are imported, for a process that performs nothing, until the block ends."""
    sign_ins = upstream_sign_ins(settings)
    link = UpstreamLink(rules=import_rules(settings), watches=False, sign_ins=sign_ins)
    if link.rules:
        secrets = secrets_of(settings)
        link.tools = _tool_executor(settings, secrets, link)
        link.api_names, link.apis = api_names(settings), api_executor(settings, secrets, link)
    try:
        yield link
    finally:
        for opened in filter(None, (link.tools, link.apis)):
            await opened.close()
        await sign_ins.close()


def model_link(settings: Settings, secrets: SecretResolver) -> ModelLink:
    """The link to the models that tenants register, beside those of the settings."""
    # Most settings have no models, and need none of the modules that know them.
    known = executor_models.configured_models(settings.models) if settings.models else ConfiguredModels()
    guard = AddressGuard(allow_private=settings.http.allow_private, allow_hosts=settings.http.allow_hosts)
    return ModelLink(configured=known, secrets=secrets, guard=guard)


def _model_executor(settings: Settings, secrets: SecretResolver, registered: ModelLink) -> ClosableExecutor:
    made: ClosableExecutor = llm.LlmExecutor(
        executor_models.model_providers(settings.models, secrets),
        rules=executor_models.model_rules(settings.models),
        registered=registered,
        meter=llm_models.ModelMeter(registered),
        observe=registered.used,
    )
    return made


def secrets_of(settings: Settings, folder: Path | None = None) -> SecretResolver:
    """Where secrets are looked up: a folder named by a flag, then `PENSTOCK_SECRET_…`, then the settings."""
    if folder is not None and not folder.is_dir():
        raise Rejected("SECRET_FOLDER_MISSING", f"{folder} is not a folder", "check the path after --secret-file")
    named = ReferenceSecrets(settings.secrets)
    folders = () if folder is None else (FileSecrets(folder),)
    return BoundSecrets(ChainSecrets(*folders, EnvironmentSecrets(), named), settings.secret_hosts)


def check_extras(settings: Settings) -> None:
    """Check that the needed extras are installed. Raises `Unavailable`, which says what to install."""
    if any(model.provider != "mock" for model in settings.models.values()):
        require_extra("llm")
    if any(agent.type == "a2a" for agent in settings.agents.values()):
        require_extra("a2a")
    for name, model in settings.models.items():
        if model.provider == "anthropic" and find_spec("anthropic") is None:
            message = f"the model {name} is served by anthropic, whose library is not installed"
            raise Unavailable("EXTRA_NOT_INSTALLED", message, install_hint("anthropic"))


def _tool_executor(settings: Settings, secrets: SecretResolver, link: UpstreamLink) -> LazyExecutor | None:
    listed = {name: server for name, server in settings.mcp_servers.items() if not server.disabled}
    if not listed:
        return None
    servers = {name: _server(server, None) for name, server in listed.items()}

    def preparation(name: str) -> Callable[[], None]:
        return lambda: servers.update({name: _server(listed[name], secrets, link.sign_ins.bearer(name))})

    def make() -> ClosableExecutor:
        made: ClosableExecutor = mcp_tools.McpToolExecutor(
            servers,
            allow_commands=settings.mcp_allow_commands,
            on_progress=link.on_progress,
            on_log=link.on_log,
            guard=link,
            imports=link.rules,
            run_ended=link.run_ended,
            lender=lambda: link.lend,
            followed=link.followed,
        )
        return made

    return LazyExecutor(
        make=make,
        name_of=lambda call: call.activity.config.get("server"),
        prepare={
            name: preparation(name) for name, server in listed.items() if server.env or server.headers or server.auth
        },
        status=link.executor_status,
    )


def _server(
    server: McpServerSettings, secrets: SecretResolver | None, bearer: BearerSource | None = None
) -> McpServerConfig:
    """The executor's configuration of a server. Without a resolver it omits everything that may contain secrets."""
    return McpServerConfig(
        command=server.command,
        args=server.args,
        env={} if secrets is None else private_texts(server.env, secrets),
        cwd=server.cwd,
        url=server.url,
        headers={} if secrets is None else private_texts(server.headers, secrets),
        protocol=server.protocol,
        timeout_ms=None if server.timeout is None else server.timeout // _MILLISECOND,
        bearer=bearer,
        lending=lending_rules(server),
    )


def _agent_executor(settings: Settings, secrets: SecretResolver, tools: AsyncPerformer | None) -> LazyExecutor:
    listed = settings.agents
    agents: dict[str, agents_executor.AgentConfig] = {name: _agent(agent, None) for name, agent in listed.items()}

    def preparation(name: str) -> Callable[[], None]:
        return lambda: agents.update({name: _agent(listed[name], secrets)})

    def make() -> ClosableExecutor:
        speaks_a2a = any(agent.type == "a2a" for agent in listed.values())
        agents[person.PERSON_AGENT] = agents_executor.SdkAgent(person.ask_person)
        return agents_executor.AgentExecutor(
            agents, a2a=load_executor("a2a").A2aClients() if speaks_a2a else None, tools=tools
        )

    return LazyExecutor(
        make=make,
        name_of=lambda call: (call.activity.delegate or {}).get("agentId", call.activity.config.get("agent_id")),
        prepare={
            name: preparation(name) for name, agent in listed.items() if agent.api_key is not None or agent.headers
        },
    )


def _protocol(agent: AgentSettings) -> str:
    """The protocol that `agent_delegate` nodes have to name for an agent."""
    return "mcp" if agent.type == "mcp" else "a2a"


def _agent(agent: AgentSettings, secrets: SecretResolver | None) -> agents_executor.AgentConfig:
    """The executor's configuration of an agent. Without a resolver it omits everything that may contain secrets."""
    key = None if agent.api_key is None or secrets is None else resolve_secret(agent.api_key)
    poll_ms = None if agent.poll_interval is None else agent.poll_interval // _MILLISECOND
    match agent.type:
        case "mcp":
            return agents_executor.McpAgent(server=agent.server or "", tool=agent.tool or "")
        case "task_api":
            poll_interval_ms = limits.AGENT_POLL_MS_DEFAULT if poll_ms is None else poll_ms
            return agents_executor.TaskApiAgent(
                base_url=agent.url or "", api_key=key, poll_interval_ms=poll_interval_ms
            )
        case "a2a":
            return port.A2aAgent(
                url=agent.url or "",
                api_key=key,
                headers={} if secrets is None else private_texts(agent.headers, secrets),
                trusted_origins=agent.trusted_origins,
                poll_interval_ms=poll_ms,
            )
