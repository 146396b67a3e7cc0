"""The configured APIs: which there are, what is said about their operations, and the executor that calls them.

Above it: `configured`, the command that imports a document. Below it: the executor for APIs, and that for HTTP.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.app.executors.lazy_executor import ClosableExecutor, LazyExecutor
from penstock.app.executors.secret_sources import bound_hosts, private_texts
from penstock.app.executors.upstreams import UpstreamLink
from penstock.app.settings.model import Settings
from penstock.app.settings.named import ApiSettings
from penstock.base.errors import Rejected
from penstock.base.lazy_import import lazy_import
from penstock.runtime.activities.performing import ActivityCall, ActivityError, ActivityOutcome, AsyncPerformer
from penstock.runtime.activities.routing import SecretResolver

if TYPE_CHECKING:
    from penstock.runtime.executors.http import executor as http
    from penstock.runtime.executors.openapi import executor, sources
    from penstock.runtime.upstreams.openapi import operations
    from penstock.runtime.upstreams.openapi import overrides as side_files
else:
    executor = lazy_import("penstock.runtime.executors.openapi.executor")
    http = lazy_import("penstock.runtime.executors.http.executor")
    operations = lazy_import("penstock.runtime.upstreams.openapi.operations")
    side_files = lazy_import("penstock.runtime.upstreams.openapi.overrides")
    sources = lazy_import("penstock.runtime.executors.openapi.sources")

__all__ = ["ApiRouter", "api_document", "api_executor", "api_names", "read_overrides"]

_MILLISECOND = timedelta(milliseconds=1)


@dataclass(slots=True, kw_only=True)
class ApiRouter:
    """Passes calls of APIs to their executor, and all others on."""

    names: frozenset[str]
    apis: AsyncPerformer
    others: AsyncPerformer | None

    async def perform(self, call: ActivityCall) -> ActivityOutcome:
        """Perform one attempt."""
        chosen = self.apis if call.activity.config.get("server") in self.names else self.others
        if chosen is None:
            known = ", ".join(sorted(self.names))
            message = f"{call.activity.config.get('server')} is not configured (configured: {known})"
            return ActivityError(message, "MCP_SERVER_NOT_CONFIGURED", retryable=False)
        return await chosen.perform(call)


def api_names(settings: Settings) -> frozenset[str]:
    """The APIs that are configured and not disabled."""
    return frozenset(name for name, api in settings.apis.items() if not api.disabled)


def api_executor(settings: Settings, secrets: SecretResolver, link: UpstreamLink) -> LazyExecutor | None:
    """The executor for the APIs of the settings; None if the settings have no APIs. Side files are read immediately."""
    listed = {name: api for name, api in settings.apis.items() if not api.disabled}
    if not listed:
        return None
    overrides = {name: read_overrides(api.overrides) for name, api in listed.items()}
    configs = {name: _config(api, overrides[name], None) for name, api in listed.items()}

    def preparation(name: str) -> Callable[[], None]:
        return lambda: configs.update({name: _config(listed[name], overrides[name], secrets)})

    def make() -> ClosableExecutor:
        reach = settings.http
        made: ClosableExecutor = executor.ApiExecutor(
            configs,
            http=http.HttpExecutor(allow_private=reach.allow_private, allow_hosts=reach.allow_hosts),
            guard=link,
            rules={name: rules for name, rules in link.rules.items() if name in listed},
        )
        return made

    return LazyExecutor(
        make=make,
        name_of=lambda call: call.activity.config.get("server"),
        prepare={name: preparation(name) for name, api in listed.items() if api.headers or api.query},
        status=link.executor_status,
    )


def _config(
    api: ApiSettings, overrides: Mapping[str, operations.OperationOverride], secrets: SecretResolver | None
) -> sources.ApiConfig:
    """The executor's configuration of an API. Without a resolver it omits everything that may contain secrets."""
    return sources.ApiConfig(
        document=Path(api.document) if api.document is not None else api.url or "",
        base_url=api.base_url,
        headers={} if secrets is None else private_texts(api.headers, secrets),
        query={} if secrets is None else private_texts(api.query, secrets),
        secret_hosts=None if secrets is None else bound_hosts((*api.headers.values(), *api.query.values()), secrets),
        overrides=overrides,
        timeout_ms=None if api.timeout is None else api.timeout // _MILLISECOND,
        output_schemas=api.output_schemas,
    )


async def api_document(settings: Settings, source: str) -> bytes:
    """Return the text of a document in a file or at an address, under the rules for `http` nodes."""
    reach = settings.http
    sender = http.HttpExecutor(allow_private=reach.allow_private, allow_hosts=reach.allow_hosts)
    try:
        place = source if source.startswith(("http://", "https://")) else Path(source)
        text: bytes = await sources.document_text(source, place, sender.transport)
        return text
    finally:
        await sender.close()


def read_overrides(path: str | None) -> Mapping[str, operations.OperationOverride]:
    """Read the side file of an API. Raises `Rejected`."""
    if path is None:
        return {}
    file = Path(path)
    try:
        text = file.read_bytes()
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise Rejected("OPENAPI_OVERRIDES_INVALID", f"{file.name} cannot be read: {why}", "check the path") from None
    found: Mapping[str, operations.OperationOverride] = side_files.parse_overrides(text, name=file.name)
    return found
