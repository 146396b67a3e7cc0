"""Rules between settings. The rules for a single setting are part of its declaration.

Above it: `sources`. Below it: `model`. It does no I/O.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias
from urllib.parse import urlsplit

from msgspec import Struct

from penstock.app.settings.formats import SECURE_URL, TOOL_PREFIX
from penstock.app.settings.model import Settings
from penstock.app.settings.secrets import EnvironmentReference, SecretReference
from penstock.app.sockets import is_loopback
from penstock.base import limits
from penstock.definitions.jq.templates import SECRET_REFERENCE
from penstock.definitions.source.findings import suggestion
from penstock.governance.secret_hosts import fits_host
from penstock.runtime.executors.mcp.config import CLIENT, OWN_SERVER, command_name
from penstock.runtime.ports.models import fallback_cycle
from penstock.runtime.secrets import SECRET_PREFIX

__all__ = ["SettingsProblem", "settings_problems"]


class SettingsProblem(Struct, frozen=True, kw_only=True):
    """A problem and the keys it is about; `below` is the path inside the first key's value."""

    paths: tuple[str, ...]
    message: str
    below: tuple[str, ...] = ()
    hint: str | None = None


def settings_problems(settings: Settings) -> Iterator[SettingsProblem]:
    """Every violation of a rule between settings."""
    server = settings.server
    if server.sync_wait_seconds > server.sync_wait_max_seconds:
        paths = ("server.sync_wait_seconds", "server.sync_wait_max_seconds")
        lengths = f"{server.sync_wait_seconds:g} s is longer than {server.sync_wait_max_seconds:g} s"
        message = f"`{paths[0]}` must not be longer than `{paths[1]}`, and {lengths}"
        yield SettingsProblem(paths=paths, message=message)
    if server.mcp.enabled and server.mcp.path == server.base_path:
        message = f"`server.mcp.path` is `{server.mcp.path}`, and so is `server.base_path`"
        yield SettingsProblem(
            paths=("server.mcp.path", "server.base_path"), message=message, hint="give each a path of its own"
        )
    if server.openwop.seam and not is_loopback(server.host):
        message = f"`server.openwop.seam` lets tests add workflows, and `server.host` is `{server.host}`"
        yield SettingsProblem(
            paths=("server.openwop.seam", "server.host"),
            message=message,
            hint="listen on 127.0.0.1, or leave the seam off",
        )
    yield from _server_key_problems(settings)
    yield from _backup_problems(settings)
    yield from _approval_problems(settings)
    yield from _issuer_problems(settings)
    yield from _server_problems(settings)
    yield from _api_problems(settings)
    yield from _import_problems(settings)
    yield from _agent_problems(settings)
    yield from _model_problems(settings)
    yield from _secret_problems(settings)
    if settings.graph.schema is not None and settings.graphs:
        message = "`graph` declares the only graph of a server, and `graphs` declares others"
        yield SettingsProblem(
            paths=("graphs", "graph.schema"), message=message, hint="move the block `graph` below `graphs`, with a name"
        )
    if settings.graph.schema is None and settings.graph.queries:
        message = "`graph.queries` needs `graph.schema`: queries are checked against it"
        yield SettingsProblem(paths=("graph.queries",), message=message, hint="name the file with the schema")


def _secret_problems(settings: Settings) -> Iterator[SettingsProblem]:
    """Check that a bound secret is used only where requests go to its hosts.

    What names no address of its own is checked when a request is made: the document of an API may name one.
    """
    for table, name, texts, addresses in _secret_places(settings) if settings.secret_hosts else ():
        for member, text in texts:
            for secret in SECRET_REFERENCE.findall(text) if isinstance(text, str) else ():
                bound = settings.secret_hosts.get(secret)
                if not bound:
                    continue
                place = f"`{table}.{name}.{'.'.join(member)}`"
                hosts = [urlsplit(address).hostname or "" for address in addresses]
                other = next((host for host in hosts if not fits_host(host, bound)), None)
                if member[0] != _ENV and other is None:
                    continue
                where = "a program names no host" if other is None else f"{place} goes to {other}"
                yield SettingsProblem(
                    paths=(table,),
                    below=(name, *member),
                    message=f"{place} uses the secret `{secret}`, which is bound to {', '.join(bound)}, and {where}",
                    hint=f"add the host to `secret_hosts.{secret}`, or use another secret",
                )


_ENV = "env"
_Texts: TypeAlias = list[tuple[tuple[str, str], str | SecretReference]]


def _secret_places(settings: Settings) -> Iterator[tuple[str, str, _Texts, tuple[str, ...]]]:
    """Yield every entry that may name secrets: its table and name, the texts, and the addresses that they go to."""
    for name, server in settings.mcp_servers.items():
        if not server.disabled:
            yield "mcp_servers", name, _texts_of(server, "headers", _ENV), _known(server.url)
    for name, api in settings.apis.items():
        if not api.disabled:
            yield "apis", name, _texts_of(api, "headers", "query"), _known(api.base_url)
    for name, model in settings.models.items():
        yield "models", name, _texts_of(model, "headers"), _known(model.base_url)
    for name, agent in settings.agents.items():
        yield "agents", name, _texts_of(agent, "headers"), (*_known(agent.url), *agent.trusted_origins)


def _texts_of(item: Struct, *members: str) -> _Texts:
    return [((member, key), text) for member in members for key, text in getattr(item, member).items()]


def _known(address: str | None) -> tuple[str, ...]:
    return () if address is None else (address,)


def _server_key_problems(settings: Settings) -> Iterator[SettingsProblem]:
    """Check that the server's own keys come from one source each, which no document can name."""
    if settings.server.secret is not None and settings.auth.pepper_file is not None:
        message = "`server.secret` and `auth.pepper_file` both say where the server's secret is"
        paths = ("server.secret", "auth.pepper_file")
        yield SettingsProblem(paths=paths, message=message, hint="keep one of them")
    for member, source in (("secret", settings.server.secret), ("audit_key", settings.server.audit_key)):
        is_readable = isinstance(source, EnvironmentReference) and source.name.startswith(SECRET_PREFIX)
        if source is not None and (is_readable or source in settings.secrets.values()):
            message = f"documents can read the source of `server.{member}` as `${{secret:NAME}}`"
            hint = f"name a source that is not in `secrets`, and no variable that begins with {SECRET_PREFIX}"
            yield SettingsProblem(paths=(f"server.{member}",), message=message, hint=hint)


def _backup_problems(settings: Settings) -> Iterator[SettingsProblem]:
    """Check that scheduled backups have a place, and that the folder can hold those that stay."""
    chosen, every = settings.storage.backups, "storage.backups.every"
    if chosen.every is None:
        return
    if settings.storage.backup_folder is None:
        message = f"`{every}` needs `storage.backup_folder`: the server does not choose a folder"
        yield SettingsProblem(
            paths=(every, "storage.backup_folder"), message=message, hint="name a folder, best on another disk"
        )
    most = limits.BACKUPS_SCHEDULED_MAX // 2
    if chosen.keep_for is not None and chosen.keep_for / chosen.every > most:
        message = f"`storage.backups.keep_for` keeps more than {most:,} backups with one each {chosen.every}"
        yield SettingsProblem(
            paths=("storage.backups.keep_for", every),
            message=message,
            hint="make them less often, or keep them shorter",
        )


def _approval_problems(settings: Settings) -> Iterator[SettingsProblem]:
    """Check that an escalation says when and to whom, and can happen."""
    wanted = settings.governance.approvals
    paths = ("governance.approvals.escalate_after", "governance.approvals.escalate_to")
    if (wanted.escalate_after is None) != (not wanted.escalate_to):
        yield SettingsProblem(
            paths=paths, message=f"`{paths[0]}` and `{paths[1]}` belong together", hint="set both, or neither"
        )
    if wanted.escalate_after is not None and wanted.escalate_after >= wanted.timeout:
        message = f"`{paths[0]}` must be shorter than `governance.approvals.timeout`, or the escalation never happens"
        yield SettingsProblem(paths=(paths[0], "governance.approvals.timeout"), message=message)


def _issuer_problems(settings: Settings) -> Iterator[SettingsProblem]:
    """Check that tokens can be meant for this server, and that no two issuers could be taken for each other."""
    issuers, public_url = settings.auth.oauth.issuers, settings.server.public_url
    if issuers and (public_url is None or not SECURE_URL.fits(public_url)):
        message = "`auth.oauth.issuers` needs `server.public_url`: the audience of tokens, and where clients sign in"
        hint = "set it to the address that clients use; https:// unless only this machine reaches it"
        yield SettingsProblem(paths=("auth.oauth.issuers", "server.public_url"), message=message, hint=hint)
    taken: dict[str, str] = {}
    for name, issuer in issuers.items():
        known = taken.setdefault(issuer.issuer, name)
        if known != name:
            yield SettingsProblem(
                paths=("auth.oauth.issuers",),
                below=(name, "issuer"),
                message=f"`{known}` and `{name}` in `auth.oauth.issuers` are the same issuer `{issuer.issuer}`",
                hint="make it one entry",
            )


def _server_problems(settings: Settings) -> Iterator[SettingsProblem]:
    for name, server in settings.mcp_servers.items():
        if name == CLIENT:
            message = f"`mcp_servers.{name}` has a name that is reserved for the caller of a workflow"
            yield SettingsProblem(paths=("mcp_servers",), below=(name,), message=message, hint="give it another name")
        elif name == OWN_SERVER:
            message = f"`mcp_servers.{name}` has a name that is reserved for this server itself"
            yield SettingsProblem(paths=("mcp_servers",), below=(name,), message=message, hint="give it another name")
        if server.command is None or server.disabled:
            continue
        program = command_name(server.command)
        if program not in settings.mcp_allow_commands:
            yield SettingsProblem(
                paths=("mcp_servers",),
                below=(name, "command"),
                message=f"`mcp_servers.{name}.command` starts `{program}`, which is not allowed",
                hint=f"add {program} to `mcp_allow_commands`",
            )


def _api_problems(settings: Settings) -> Iterator[SettingsProblem]:
    for name in settings.apis:
        taken = {CLIENT: "is reserved for the caller of a workflow", OWN_SERVER: "is reserved for this server itself"}
        taken |= dict.fromkeys(settings.mcp_servers, "a server has")
        if name in taken:
            message = f"`apis.{name}` has a name that {taken[name]}"
            yield SettingsProblem(paths=("apis",), below=(name,), message=message, hint="give it another name")


def _import_problems(settings: Settings) -> Iterator[SettingsProblem]:
    """Check that each name in the catalogue comes from one server or API only."""
    taken: dict[str, str] = {}
    for name, server in settings.tool_sources.items():
        if server.import_ is None:
            continue
        table = "apis" if name in settings.apis else "mcp_servers"
        if "/" in name:
            yield SettingsProblem(
                paths=(table,),
                below=(name, "import"),
                message=f"the tools of `{table}.{name}` cannot be called over REST: there is a slash in its name",
                hint="give it a name without one",
            )
        prefix = server.import_.prefix or name
        if not TOOL_PREFIX.fits(prefix):
            yield SettingsProblem(
                paths=(table,),
                below=(name, "import"),
                message=f"`{table}.{name}.import` needs a `prefix`, because the name cannot be one",
                hint=f"a prefix is {TOOL_PREFIX.expected}",
            )
        if prefix in taken:
            yield SettingsProblem(
                paths=(table,),
                below=(name, "import"),
                message=f"the tools of `{name}` and `{taken[prefix]}` have the same prefix `{prefix}`",
                hint="give each a `prefix` of its own",
            )
        taken[prefix] = name


def _agent_problems(settings: Settings) -> Iterator[SettingsProblem]:
    known = [name for name, server in settings.mcp_servers.items() if not server.disabled]
    for name, agent in settings.agents.items():
        if agent.server is not None and agent.server not in known:
            yield SettingsProblem(
                paths=("agents",),
                below=(name, "server"),
                message=f"`agents.{name}.server` names `{agent.server}`, which is not in `mcp_servers`",
                hint=suggestion(agent.server, known),
            )


def _model_problems(settings: Settings) -> Iterator[SettingsProblem]:
    """Check that fallbacks exist and do not lead back."""
    fallbacks = {name: model.fallbacks for name, model in settings.models.items()}
    for name, others in fallbacks.items():
        for other in others:
            if other not in fallbacks:
                message = f"`models.{name}.fallbacks` names `{other}`, which is not in `models`"
                hint = suggestion(other, fallbacks) or "name models of the settings"
                yield SettingsProblem(paths=("models",), below=(name, "fallbacks"), message=message, hint=hint)
        cycle = fallback_cycle(name, fallbacks)
        if cycle is not None and name == min(cycle):  # once for all models that are part of it
            message = f"the fallbacks of `models.{name}` lead back to it: {' → '.join(cycle)}"
            yield SettingsProblem(
                paths=("models",), below=(name, "fallbacks"), message=message, hint="leave one of them out"
            )
