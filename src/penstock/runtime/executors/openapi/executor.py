"""`tool_call`: calls an operation of an API that an OpenAPI document describes.

    ApiExecutor({"shop": ApiConfig(document=Path("shop.yaml"))}, http=HttpExecutor())

The result is ``{"status", "body"}``, and `next` with the arguments of the following page if the API gives a link to it.
It is marked as untrusted in history. For imported operations a guard is asked before each call whether the operation is
still the one that somebody accepted: its texts, its schemas, and the request that it becomes.

Above it: `app` adds it to the router of `tool_call`. Below it: the executor of `http` nodes, `sources`.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from secrets import token_hex
from typing import Final
from urllib.parse import parse_qs, quote, urlsplit

from msgspec.structs import replace

from penstock.base import limits
from penstock.base.errors import PenstockError, Rejected, Unavailable
from penstock.base.json import JsonObject, JsonValue, object_or_empty
from penstock.definitions.source.findings import suggestion
from penstock.runtime.activities.performing import ActivityCall, ActivityDone, ActivityError, ActivityOutcome
from penstock.runtime.executors.http.executor import HttpExecutor
from penstock.runtime.executors.http.requests import RequestPlan, RequestRefused, plan_exchange
from penstock.runtime.executors.openapi.sources import ApiConfig, ApiSource
from penstock.runtime.upstreams.openapi.operations import ApiImport, ApiOperation
from penstock.runtime.upstreams.openapi.requests import RequestProblem, build_request
from penstock.runtime.upstreams.tools import ImportRules, NoGuard, ServerState, ToolGuard, UpstreamTool

__all__ = ["ApiExecutor", "ApiWatch"]

_LOGGER = logging.getLogger("penstock.openapi")
_ACCEPT: Final = "application/json, */*;q=0.5"


class ApiExecutor:
    """Performs `tool_call` nodes whose server is an API. Operations that `rules` import need acceptance."""

    def __init__(
        self,
        apis: Mapping[str, ApiConfig],
        *,
        http: HttpExecutor,
        guard: ToolGuard | None = None,
        rules: Mapping[str, ImportRules] | None = None,
    ) -> None:
        self._http = http
        self._guard: ToolGuard = guard or NoGuard()
        self._rules = rules or {}
        self._configs = apis  # read for every call: secrets are filled in when an API is first called
        self._sources = {name: ApiSource(name, config, http.transport) for name, config in apis.items()}

    async def perform(self, call: ActivityCall) -> ActivityOutcome:
        """Call the operation once."""
        config = call.activity.config
        server, tool, given = config.get("server"), config.get("tool"), call.activity.arguments
        arguments = config.get("arguments") or {} if given is None else given
        if not isinstance(server, str) or not isinstance(tool, str) or not isinstance(arguments, dict):
            message = f"{call.activity.node_id}: `server` and `tool` must be texts and `arguments` an object"
            return ActivityError(message, "INVALID_TOOL_CALL_CONFIG", retryable=False)
        try:
            found = await self._found(call, server, tool)
        except PenstockError as error:
            message = f"{error.message}; {error.hint}" if error.hint else error.message
            return ActivityError(message, error.code, retryable=isinstance(error, Unavailable))
        if isinstance(found, ActivityError):
            return found
        operation, base_url = found
        wrong = _wrong_arguments(operation, arguments)
        if wrong is not None:
            return ActivityError(f"{server}/{tool}: {wrong}", "INVALID_ARGUMENTS", retryable=False)
        api = self._configs[server]
        # The document may name the address, and its server may change that.
        call = replace(call, secret_hosts=api.secret_hosts)
        outcome = await self._http.send(call, lambda: _plan(call, api, operation, base_url, arguments))
        return _result(operation, call, arguments, outcome)

    async def look(self, server: str) -> None:
        """Read the document of an API now and inform the guard. Raises `PenstockError`."""
        imported, _ = await self._source(server).current(older_than_seconds=0)
        await self._inform(server, imported)

    def watch(self, server: str) -> ApiWatch:
        """The watch that reads the document of an API from time to time."""
        return ApiWatch(server=server, executor=self, guard=self._guard)

    async def close(self) -> None:
        """Close the connections."""
        await self._http.close()

    async def _found(self, call: ActivityCall, server: str, tool: str) -> tuple[ApiOperation, str] | ActivityError:
        source = self._source(server)
        refused = await self._guard.refusal(call.tenant, server, tool)
        if refused is not None and refused.code == "UPSTREAM_NOT_FOUND":
            return ActivityError(refused.message, refused.code, retryable=False)
        imported, fresh = await source.current(older_than_seconds=limits.UPSTREAM_LOOK_AGE_SECONDS_MAX)
        if fresh:
            await self._inform(server, imported)
        refused = await self._guard.refusal(call.tenant, server, tool)
        if refused is not None:
            return ActivityError(refused.message, refused.code, retryable=False)
        operation = imported.operations.get(tool)
        if operation is None:
            meant = suggestion(tool, imported.operations)
            message = f"{server} has no operation {tool}" + (f"; {meant}" if meant else "")
            return ActivityError(message, "OPENAPI_OPERATION_UNKNOWN", retryable=False)
        base_url = source.config.base_url or imported.server_url
        if base_url is None:
            message = f"the document of {server} names no full address; set `apis.{server}.base_url`"
            return ActivityError(message, "OPENAPI_NO_ADDRESS", retryable=False)
        return operation, base_url

    def _source(self, server: str) -> ApiSource:
        source = self._sources.get(server)
        if source is None:
            known = ", ".join(sorted(self._sources)) or "none"
            raise Rejected("MCP_SERVER_NOT_CONFIGURED", f"the API {server} is not configured (configured: {known})")
        return source

    async def _inform(self, server: str, imported: ApiImport) -> None:
        """Tell the guard which operations there are, of those that the settings import."""
        rules = self._rules.get(server)
        if rules is None:
            return
        admitted = [item for name, item in imported.operations.items() if rules.admits(name)]
        if len(admitted) > limits.UPSTREAM_TOOLS_MAX:
            message = "%s: the settings import %d operations; the first %d are taken"
            _LOGGER.warning(message, server, len(admitted), limits.UPSTREAM_TOOLS_MAX)
        tools = tuple(map(_tool, admitted[: limits.UPSTREAM_TOOLS_MAX]))
        await self._guard.tools_listed(server, tools)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiWatch:
    """Reads the document of one API from time to time."""

    server: str
    executor: ApiExecutor
    guard: ToolGuard

    async def run(self) -> None:
        """Watch until cancelled. Raises nothing else."""
        while True:
            try:
                await self.executor.look(self.server)
            except PenstockError as error:
                self.guard.state(self.server, ServerState(status="unavailable", error=error.message))
                _LOGGER.warning("%s: %s", self.server, error.message)
            else:
                self.guard.state(self.server, ServerState(status="connected", protocol="openapi"))
            await asyncio.sleep(limits.UPSTREAM_LOOK_SECONDS)


def _tool(operation: ApiOperation) -> UpstreamTool:
    return UpstreamTool(
        name=operation.name,
        title=operation.title,
        description=operation.description,
        input_schema=operation.input_schema,
        output_schema=operation.output_schema,
        request=operation.request(),
    )


def _wrong_arguments(operation: ApiOperation, arguments: JsonObject) -> str | None:
    """Return what is wrong with the names of arguments: a document's node was not checked before."""
    known = object_or_empty(operation.input_schema.get("properties"))
    unknown = next((name for name in arguments if name not in known), None)
    if unknown is not None:
        meant = suggestion(unknown, known)
        return f"there is no argument `{unknown}`" + (f"; {meant}" if meant else "")
    required = operation.input_schema.get("required")
    missing = [name for name in required if name not in arguments] if isinstance(required, list) else []
    return f"the argument `{missing[0]}` is missing" if missing else None


def _plan(
    call: ActivityCall, config: ApiConfig, operation: ApiOperation, base_url: str, arguments: JsonObject
) -> RequestPlan:
    try:
        request = build_request(operation, base_url, arguments, boundary=token_hex(16))
    except RequestProblem as problem:
        raise RequestRefused(str(problem)) from None
    url = request.url
    for name, value in config.query.items():
        url += f"{'&' if '?' in url else '?'}{quote(name, safe='')}={quote(_of_call(value, call), safe='')}"
    own = {name: _of_call(value, call) for name, value in config.headers.items()}
    # The operator's headers count last: no argument of a caller can replace a credential.
    taken = {name.lower() for name in own}
    sent = {name: value for name, value in request.headers.items() if name.lower() not in taken}
    headers = {"accept": _ACCEPT, **sent, **own}
    return plan_exchange(
        call.activity,
        request.method,
        url,
        headers,
        request.content,
        epoch=call.epoch,
        timeout_ms=config.timeout_ms,
    )


def _of_call(value: str, call: ActivityCall) -> str:
    """Fill in on whose behalf the call is made, where the operator's rule says so."""
    if "${" not in value:
        return value
    return value.replace("${principal}", quote(call.principal or "", safe=":@")).replace("${tenant}", call.tenant)


def _result(
    operation: ApiOperation, call: ActivityCall, arguments: JsonObject, outcome: ActivityOutcome
) -> ActivityOutcome:
    if not isinstance(outcome, ActivityDone):
        return outcome
    answer = object_or_empty(outcome.result)
    result: JsonObject = {"status": answer.get("status"), "body": answer.get("body")}
    following = _next_page(operation, call, arguments, object_or_empty(answer.get("headers")).get("link"))
    if following:
        result["next"] = following
    return ActivityDone(result, {"untrusted": True})


def _next_page(operation: ApiOperation, call: ActivityCall, arguments: JsonObject, link: JsonValue) -> JsonObject:
    """Return the arguments of a call for the following page, from the link to it (RFC 8288).

    They can be sent as they are: with the types that the operation takes, and with what the link does not say again,
    such as parts of the path. Nothing is returned if that cannot be done, or if it would show a secret.
    """
    query = _linked_query(link)
    places = {item.name: item for item in operation.parameters if item.location == "query"}
    known = object_or_empty(operation.input_schema.get("properties"))
    following: JsonObject = {}
    for name, values in query.items():
        place = places.get(name)
        if place is None or place.argument not in known:
            continue
        try:
            following[place.argument] = _typed(object_or_empty(known[place.argument]), values)
        except ValueError:
            return {}
    in_query = {item.argument for item in places.values()}
    kept = {name: value for name, value in arguments.items() if name not in in_query}
    text = json.dumps(kept, ensure_ascii=False)
    return {**kept, **following} if following and call.masked(text) == text else {}


def _linked_query(link: JsonValue) -> dict[str, list[str]]:
    for part in link.split(",") if isinstance(link, str) else ():
        target, _, parameters = part.strip().partition(">")
        if target.startswith("<") and 'rel="next"' in parameters.replace("rel=next", 'rel="next"'):
            return parse_qs(urlsplit(target[1:]).query, keep_blank_values=True)
    return {}


def _typed(schema: JsonObject, values: list[str]) -> JsonValue:
    """Return a value of a query with the type that its argument has; raise ValueError if it cannot have it."""
    declared = schema.get("type")
    types = declared if isinstance(declared, list) else [declared]
    if "array" in types:
        items = values if len(values) > 1 else values[0].split(",")
        return [_typed(object_or_empty(schema.get("items")), [item]) for item in items]
    text = values[-1]
    if "integer" in types:
        return int(text)
    if "number" in types:
        return float(text)
    if "boolean" in types:
        if text not in ("true", "false"):
            raise ValueError(text)
        return text == "true"
    return text
