"""`tool_call`: calls a tool of an MCP server that the operator configured.

    McpToolExecutor({"shop": McpServerConfig(command="uvx", args=("shop-mcp",))})

The result is the tool's structured content, else `{"text": …}`, else `{"content": [...]}`. It is marked as untrusted in
history. A tool that reports an error, a server that breaks the protocol and a connection that breaks have separate
error codes. A server that asks a question asks a person through the run. The server is notified when an activity is
cancelled or times out. For imported tools, a guard is asked before each call whether the tool is still the one that
somebody accepted.

Above it: `app` loads this module only when servers are configured (extra `mcp`). Below it: `session_pool`,
`questions`, `tool_listing`, `sdk_internals`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from secrets import token_hex
from typing import Any, Final, TypeAlias, cast

from mcp.client.client import Client
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CONNECTION_CLOSED,
    HEADER_MISMATCH,
    INTERNAL_ERROR,
    REQUEST_TIMEOUT,
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    InputRequiredResult,
    RequestParamsMeta,
)
from msgspec.structs import replace
from pydantic import ValidationError

from penstock.base import limits
from penstock.base.errors import PenstockError, Unavailable
from penstock.base.json import JsonObject
from penstock.base.traces import current_traceparent
from penstock.runtime.activities.performing import ActivityAsks, ActivityCall, ActivityError, ActivityOutcome
from penstock.runtime.executors.mcp.config import DEFAULT_ALLOWED_COMMANDS, McpServerConfig, command_name
from penstock.runtime.executors.mcp.lending import LentToCall, with_sampling
from penstock.runtime.executors.mcp.questions import (
    LiveCall,
    LiveQuestion,
    ResumeState,
    answers_from_lent,
    next_question,
    parked_question,
    resumed,
)
from penstock.runtime.executors.mcp.reading import listed_readings, listed_resources, read
from penstock.runtime.executors.mcp.results import TOOL_RESPONSE, check_result, outcome_of
from penstock.runtime.executors.mcp.sdk_internals import is_client_unusable, is_connection_closed, is_session_gone
from penstock.runtime.executors.mcp.server_logs import LogListener, log_wish, pass_on
from penstock.runtime.executors.mcp.session import UNAUTHORIZED, UNSENT, McpSession
from penstock.runtime.executors.mcp.session_pool import McpSessionPool
from penstock.runtime.executors.mcp.tool_listing import ServerWatch, listed_tools
from penstock.runtime.executors.outbound.bounded_body import TOO_LARGE
from penstock.runtime.executors.outbound.error_text import truncated
from penstock.runtime.upstreams.followed_resources import FollowedResources
from penstock.runtime.upstreams.lending import Lending, ModelLender
from penstock.runtime.upstreams.oauth.model import AUTHORIZATION_CODES
from penstock.runtime.upstreams.tools import ImportRules, NoGuard, ToolGuard, UpstreamTool

__all__ = ["McpToolExecutor", "ProgressListener", "ToolProgress"]

_IDEMPOTENCY_KEY: Final = "penstock/idempotencyKey"
_EPOCH: Final = "penstock/epoch"
_SERVER_ERRORS: Final = range(-32019, -31999)
# How often, and how soon, a server that only asks to be called again is called again.
_REPEATED_CALLS_MAX: Final = 20
_CALL_AGAIN_SECONDS: Final = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolProgress:
    """The progress that a tool reports. Many tools do not know the `total`."""

    progress: float
    total: float | None = None
    message: str | None = None


ProgressListener: TypeAlias = Callable[[ActivityCall, ToolProgress], None]


@dataclass(frozen=True, slots=True)
class _Wanted:
    server: str
    tool: str
    arguments: JsonObject

    @property
    def who(self) -> str:
        return f"{self.server}/{self.tool}"


@dataclass(frozen=True, slots=True)
class _SendAgain:
    """The server has not seen the request, so it may be sent over a new session."""

    error: ActivityError


class McpToolExecutor:
    """Performs `tool_call` nodes. Tools of servers with `imports` need acceptance before they may be called."""

    def __init__(  # noqa: PLR0913  # each is a choice of whoever composes the product
        self,
        servers: Mapping[str, McpServerConfig],
        *,
        allow_commands: tuple[str, ...] = DEFAULT_ALLOWED_COMMANDS,
        on_progress: ProgressListener | None = None,
        on_log: LogListener | None = None,
        idle_seconds: float = limits.MCP_IDLE_SECONDS_MAX,
        guard: ToolGuard | None = None,
        imports: Mapping[str, ImportRules] | None = None,
        run_ended: Callable[[str], Awaitable[object]] | None = None,
        lender: Callable[[], ModelLender | None] = lambda: None,
        followed: FollowedResources | None = None,
    ) -> None:
        self.servers = servers
        self._allowed = frozenset(allow_commands)
        self._on_progress = on_progress
        self._on_log = on_log
        self._guard: ToolGuard = guard or NoGuard()
        self._imports = {} if imports is None else imports
        self._connections = McpSessionPool(
            servers, idle_seconds=idle_seconds, looks={name: self._look for name in self._imports}
        )
        self._run_ended = run_ended
        self._lender = lender
        self._followed = followed or FollowedResources()
        self._parked: dict[str, LiveCall] = {}
        self._waiting: dict[str, asyncio.Task[None]] = {}
        """By the name of a parked call: the task that gives the call up if nobody resumes it."""
        self._giving_up: set[asyncio.Task[None]] = set()

    async def perform(self, call: ActivityCall) -> ActivityOutcome:
        """Call the tool once. A request that provably was not sent is sent again over a new session."""
        wanted = _wanted(call)
        if isinstance(wanted, ActivityError):
            return wanted
        refused = self._refusal(wanted)
        if refused is not None:
            return refused
        kept = resumed(call.activity.resume, call.activity.answer)
        if kept.open() is not None:
            return self._without_secrets(call, wanted, next_question(wanted.who, kept))
        live = self._resume_or_start(call, wanted, kept)
        if isinstance(live, ActivityError):
            return self._without_secrets(call, wanted, live)
        outcome = await self._wait_for_outcome(call, wanted, live)
        return self._without_secrets(call, wanted, with_sampling(outcome, live.lent))

    async def look(self, server: str) -> None:
        """List the tools of a server now and inform the guard. Raises what the server or the library raises."""
        refused = self._refusal(_Wanted(server, "", {}))
        if refused is not None:
            raise OSError(refused.error)
        async with self._connections.borrow(server) as (connection, client):
            connection.listed(await self._look(server, client))

    def watch(self, server: str) -> ServerWatch:
        """The watch that keeps the session of a server open, to be notified of changes."""
        return ServerWatch(
            server=server,
            connections=self._connections,
            guard=self._guard,
            refusal=self._watch_refusal,
            followed=self._followed,
        )

    def open_sessions(self, server: str) -> int:
        """The number of open sessions with a server."""
        return len(self._connections.sessions(server))

    async def close(self) -> None:
        """Close all sessions and stop the servers that were started."""
        for name in tuple(self._parked):
            self._give_up(name)
        if self._giving_up:
            await asyncio.wait(self._giving_up, timeout=limits.FAREWELL_SECONDS_MAX)
        await self._connections.close()

    async def _look(self, server: str, client: Client) -> tuple[UpstreamTool, ...]:
        tools, rules = await listed_tools(server, client), self._imports.get(server)
        if rules is not None and (rules.resources or rules.prompts):
            # These names mean what the settings say, also if the server has tools that are called like this.
            kept = [tool for tool in tools if not rules.is_reading(tool.name)]
            tools = (*kept, *await listed_readings(client, rules))
        await self._guard.tools_listed(server, tools)
        if rules is not None and rules.resources:
            self._guard.resources_listed(server, await listed_resources(client, rules))
        return tools

    def _without_secrets(self, call: ActivityCall, wanted: _Wanted, outcome: ActivityOutcome) -> ActivityOutcome:
        return _without_secrets(self._secrets(call, wanted), outcome)

    def _secrets(self, call: ActivityCall, wanted: _Wanted) -> tuple[str, ...]:
        bearer = self.servers[wanted.server].bearer
        return (*call.hidden, *(() if bearer is None else bearer.secrets()))

    def _watch_refusal(self, server: str) -> str | None:
        refused = self._refusal(_Wanted(server, "", {}))
        return None if refused is None else refused.error

    def _refusal(self, wanted: _Wanted) -> ActivityError | None:
        config = self.servers.get(wanted.server)
        if config is None:
            known = ", ".join(sorted(self.servers)) or "none"
            message = f"the MCP server {wanted.server} is not configured (configured: {known})"
            return ActivityError(message, "MCP_SERVER_NOT_CONFIGURED", retryable=False)
        if config.command is not None and command_name(config.command) not in self._allowed:
            allowed = ", ".join(sorted(self._allowed)) or "none"
            message = f"{wanted.server}: the command {command_name(config.command)} is not allowed (allowed: {allowed})"
            return ActivityError(message, "MCP_COMMAND_NOT_ALLOWED", retryable=False)
        return None

    # --- calls that may ask -----------------------------------------------------------------------

    def _resume_or_start(self, call: ActivityCall, wanted: _Wanted, kept: ResumeState) -> LiveCall | ActivityError:
        """The parked call, with its answer; or a new call that has the earlier answers."""
        parked = self._take_parked(kept.parked) if kept.parked is not None else None
        if parked is not None and parked.failure is not None:
            return parked.failure
        if parked is not None and parked.task is not None and not parked.task.done():
            parked.lent.call = call
            parked.answer(call.activity.answer)
            return parked
        if kept.parked is not None and call.activity.at_most_once:
            message = f"{wanted.who} asked something, and the connection on which it waited for the answer is gone"
            return ActivityError(message, "MCP_QUESTION_LOST", retryable=False)
        lent = LentToCall(
            server=wanted.server,
            lending=self.servers[wanted.server].lent_to(call.tenant) or Lending(),
            lend=self._lender(),
            call=call,
            hidden=self._secrets(call, wanted),
            used=[*kept.sampled],
        )
        live = LiveCall(lent=lent, spoken=pass_on(self._on_log, lent, lambda call: self._secrets(call, wanted)))
        live.given.extend(kept.answered)
        live.task = asyncio.create_task(self._attempts(call, wanted, kept, live), name=f"mcp call {wanted.who}")
        return live

    async def _wait_for_outcome(self, call: ActivityCall, wanted: _Wanted, live: LiveCall) -> ActivityOutcome:
        """The outcome of a call, or the question that it waits for."""
        timeout_ms = self._timeout_ms(call, wanted)
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                settled = await live.settled()
        except TimeoutError:
            await live.stop()
            return _timed_out(call, wanted, timeout_ms)
        except asyncio.CancelledError:
            await live.stop()
            raise
        if isinstance(settled, LiveQuestion):
            return self._park(call, wanted, live, settled)
        if live.failure is not None:
            await live.stop()
        return settled

    def _timeout_ms(self, call: ActivityCall, wanted: _Wanted) -> int:
        return call.activity.timeout_ms or self.servers[wanted.server].timeout_ms or limits.MCP_TIMEOUT_MS_DEFAULT

    def _park(self, call: ActivityCall, wanted: _Wanted, live: LiveCall, question: LiveQuestion) -> ActivityOutcome:
        name = token_hex(8)
        asks = parked_question(wanted.who, live, question, name)
        self._parked[name] = live
        if isinstance(asks, ActivityError):
            self._give_up(name)
            return asks
        self._waiting[name] = asyncio.create_task(self._expire_parked(name, call.run_id))
        while len(self._parked) > limits.MCP_PARKED_CALLS_MAX:
            self._give_up(next(iter(self._parked)))
        return asks

    def _take_parked(self, name: str) -> LiveCall | None:
        waiting = self._waiting.pop(name, None)
        if waiting is not None:
            waiting.cancel()
        return self._parked.pop(name, None)

    async def _expire_parked(self, name: str, run_id: str) -> None:
        """Give up a parked call when its run has ended, or when nobody has answered for too long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(limits.MCP_PARKED_SECONDS_MAX):
                await (asyncio.Event().wait() if self._run_ended is None else self._run_ended(run_id))
        self._waiting.pop(name, None)
        self._give_up(name)

    def _give_up(self, name: str) -> None:
        """Give up a call that nobody will resume."""
        live = self._take_parked(name)
        if live is not None:
            giving_up = asyncio.ensure_future(live.stop())
            self._giving_up.add(giving_up)
            giving_up.add_done_callback(self._giving_up.discard)

    # --- one call --------------------------------------------------------------------------------

    async def _attempts(
        self, call: ActivityCall, wanted: _Wanted, kept: ResumeState, live: LiveCall
    ) -> ActivityOutcome:
        outcome = await self._attempt(call, wanted, kept, live)
        if isinstance(outcome, _SendAgain):
            outcome = await self._attempt(call, wanted, kept, live)
        return outcome.error if isinstance(outcome, _SendAgain) else outcome

    async def _attempt(
        self, call: ActivityCall, wanted: _Wanted, kept: ResumeState, live: LiveCall
    ) -> ActivityOutcome | _SendAgain:
        connection: McpSession | None = None  # None: the handshake has not finished
        try:
            owner = (call.tenant, call.principal)
            # Checked twice: before anything is started for a tenant without access, and with the server's current
            # tools.
            refused = await self._guard.refusal(call.tenant, wanted.server, wanted.tool)
            if refused is not None and refused.code == "UPSTREAM_NOT_FOUND":
                return ActivityError(refused.message, refused.code, retryable=False)
            async with self._connections.borrow(wanted.server, owner) as (connection, client):
                await connection.look(client, older_than_seconds=limits.UPSTREAM_LOOK_AGE_SECONDS_MAX)
                refused = await self._guard.refusal(call.tenant, wanted.server, wanted.tool)
                if refused is not None:
                    return ActivityError(refused.message, refused.code, retryable=False)
                async with connection.elicitations.at_work(live):
                    await connection.tell_folders(client)
                    result = await self._request_tool(client, call, wanted, kept, live.lent)
                await asyncio.sleep(0)  # reading a large result took a while, and checking it does too
                if isinstance(result, CallToolResult):
                    await check_result(connection, client, wanted.tool, result)
                    await asyncio.sleep(0)
        except MCPError as error:
            return _mcp_failure(call, wanted, error, connection)
        except (ValidationError, RuntimeError) as error:
            if is_client_unusable(error):
                return _SendAgain(_failure(wanted, error, "MCP_CONNECTION_CLOSED", retryable=True))
            # The server's response violates the protocol or the tool's own schema.
            return _failure(wanted, error, "MCP_PROTOCOL_ERROR", retryable=False)
        except (FileNotFoundError, PermissionError, NotADirectoryError, ValueError) as error:
            return _failure(wanted, error, "MCP_CLIENT_ERROR", retryable=False)
        except (OSError, ExceptionGroup) as error:
            return _failure(wanted, error, "MCP_CLIENT_ERROR", retryable=True)
        except PenstockError as error:  # the guard could not decide whether the tool may be called
            return _failure(wanted, error, error.code, retryable=isinstance(error, Unavailable))
        return result if isinstance(result, ActivityOutcome) else outcome_of(wanted.server, wanted.tool, result)

    async def _request_tool(
        self, client: Client, call: ActivityCall, wanted: _Wanted, kept: ResumeState, lent: LentToCall
    ) -> CallToolResult | ActivityOutcome:
        """The result of a tool, or the first question of a server that has to be called again with the answers."""
        rules = self._imports.get(wanted.server)
        if rules is not None and rules.is_reading(wanted.tool):
            await call.confirm()  # connecting may have taken a while
            return await read(client, wanted.server, wanted.tool, wanted.arguments, rules)
        responses, state = kept.input_responses(), kept.state
        for _ in range(_REPEATED_CALLS_MAX):
            result = await self._call_tool(client, call, wanted, responses, state)
            if not isinstance(result, InputRequiredResult):
                return result
            if result.input_requests:
                asked: dict[str, JsonObject] = {
                    key: request.model_dump(mode="json", by_alias=True, exclude_none=True)
                    for key, request in result.input_requests.items()
                }
                answered = await answers_from_lent(wanted.who, lent, asked)
                if isinstance(answered, ActivityError):
                    return answered
                kept = ResumeState(
                    state=result.request_state, requests=asked, responses=answered, sampled=tuple(lent.used)
                )
                if kept.open() is not None:
                    return next_question(wanted.who, kept)
                responses, state = kept.input_responses(), kept.state
                continue
            responses, state = None, result.request_state
            await asyncio.sleep(_CALL_AGAIN_SECONDS)
        message = f"{wanted.who} wants to be called again and again, and nobody has to answer anything"
        return ActivityError(message, "MCP_PROTOCOL_ERROR", retryable=False)

    async def _call_tool(
        self, client: Client, call: ActivityCall, wanted: _Wanted, responses: dict[str, Any] | None, state: str | None
    ) -> CallToolResult | InputRequiredResult:
        listener = self._on_progress

        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            if listener is not None:
                listener(call, ToolProgress(progress=progress, total=total, message=message))

        async def send() -> CallToolResult | InputRequiredResult:
            await call.confirm()  # connecting may have taken a while
            params = CallToolRequestParams(
                name=wanted.tool,
                arguments=wanted.arguments,
                input_responses=responses,
                request_state=state,
                _meta=cast("RequestParamsMeta", {**log_wish(client.protocol_version), **_meta(call)}),
            )
            # Not `call_tool`, which validates results against the server's schema, however long that takes.
            return await client.session.send_request(
                CallToolRequest(params=params),
                TOOL_RESPONSE,
                # The duration of the call itself is limited elsewhere; a person may take longer to answer.
                request_read_timeout_seconds=limits.MCP_PARKED_SECONDS_MAX + self._timeout_ms(call, wanted) / 1000,
                progress_callback=on_progress if listener is not None else None,
            )

        try:
            return await send()
        except MCPError as error:
            if error.code != HEADER_MISMATCH:
                raise
            # Some arguments are sent as headers too, and only a client that has seen the tool's schema knows which.
            await listed_tools(wanted.server, client)
            return await send()


def _meta(call: ActivityCall) -> JsonObject:
    """Metadata by which the server can tell a repeated call, and a stale one, from a new call."""
    found: JsonObject = {_IDEMPOTENCY_KEY: call.activity.idempotency_key}
    if call.epoch:
        found[_EPOCH] = call.epoch
    traceparent = current_traceparent()
    if traceparent is not None:
        found["traceparent"] = traceparent
    return found


def _wanted(call: ActivityCall) -> _Wanted | ActivityError:
    config = call.activity.config
    server, tool = config.get("server"), config.get("tool")
    arguments = call.activity.arguments
    if arguments is None:
        arguments = config.get("arguments") or {}  # published documents: as written
    if not isinstance(server, str) or not isinstance(tool, str) or not isinstance(arguments, dict):
        message = f"{call.activity.node_id}: `server` and `tool` must be texts and `arguments` an object"
        return ActivityError(message, "INVALID_TOOL_CALL_CONFIG", retryable=False)
    return _Wanted(server, tool, arguments)


def _without_secrets(hidden: Sequence[str], outcome: ActivityOutcome) -> ActivityOutcome:
    """Mask the secrets that were sent in the server's texts, which are stored in history and shown to people."""
    for secret in hidden:
        if isinstance(outcome, ActivityAsks):
            outcome = replace(outcome, question=truncated(outcome.question, hidden=secret))
        elif isinstance(outcome, ActivityError):
            outcome = replace(outcome, error=truncated(outcome.error, hidden=secret))
    return outcome


def _mcp_failure(
    call: ActivityCall, wanted: _Wanted, error: MCPError, connection: McpSession | None
) -> ActivityError | _SendAgain:
    data = error.data if isinstance(error.data, dict) else {}
    refused = data.get(UNAUTHORIZED)
    if isinstance(refused, dict) and refused.get("code") in AUTHORIZATION_CODES:
        # The server has answered nothing but this, so the call took no effect.
        return _failure(wanted, error, str(refused.get("code")), retryable=refused.get("retryable") is True)
    if TOO_LARGE in data or TOO_LARGE in error.message or (connection is not None and connection.flooded):
        message = f"{wanted.who}: {TOO_LARGE}; at most {limits.MCP_CONTENT_BYTES_MAX} bytes of a result are taken"
        return ActivityError(message, "MCP_RESULT_TOO_LARGE", retryable=False)
    if connection is not None and is_session_gone(error.message):
        connection.retire()
        return _SendAgain(_failure(wanted, error, "MCP_CONNECTION_CLOSED", retryable=True))
    if error.code == CONNECTION_CLOSED and (
        connection is None or connection.retired or UNSENT in data or is_connection_closed(error.message)
    ):
        sent = connection is not None and data.get(UNSENT) is not True
        # A call that may have taken effect is not repeated if its node forbids that.
        retryable = not (sent and call.activity.at_most_once)
        return _failure(wanted, error, "MCP_CONNECTION_CLOSED", retryable=retryable)
    if error.code == REQUEST_TIMEOUT:
        return _failure(wanted, error, "ACTIVITY_TIMEOUT", retryable=not call.activity.at_most_once)
    retryable = error.code == INTERNAL_ERROR or error.code in _SERVER_ERRORS
    return _failure(wanted, error, "MCP_PROTOCOL_ERROR", retryable=retryable)


def _timed_out(call: ActivityCall, wanted: _Wanted, timeout_ms: int) -> ActivityError:
    message = f"{wanted.server}/{wanted.tool} did not answer within {timeout_ms} ms"
    return ActivityError(message, "ACTIVITY_TIMEOUT", retryable=not call.activity.at_most_once)


def _failure(wanted: _Wanted, error: Exception, code: str, *, retryable: bool) -> ActivityError:
    message = truncated(f"{wanted.server}/{wanted.tool}: {str(error) or type(error).__name__}")
    return ActivityError(message, code, retryable=retryable)
