"""Tools of MCP servers: real servers over stdio and HTTP, of both protocol eras, that answer, fail, wait and die."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from penstock.base.json import JsonObject, JsonValue
from penstock.base.traces import TRACEPARENT
from penstock.runtime.activities.performing import ActivityCall, ActivityDone, ActivityOutcome
from penstock.runtime.executors.mcp.config import McpServerConfig, ServerProblem, command_name, read_servers
from penstock.runtime.executors.mcp.executor import McpToolExecutor, ToolProgress
from penstock.runtime.executors.mcp.session_pool import McpSessionPool
from tests.fixtures.mcp_tools_server import make_server
from tests.unit.runtime.executors.asgi_server import serving_asgi, unused_port
from tests.unit.runtime.executors.calls import bounded, call_of, done, error
from tests.zygote import piped_script

FIXTURES = Path(__file__).parents[4] / "fixtures"
PYTHON = command_name(sys.executable)


def script(name: str) -> McpServerConfig:
    command, *arguments = piped_script(FIXTURES / name)
    return McpServerConfig(command=command, args=tuple(arguments))


MODERN, HANDSHAKE = "2026-07-28", "2025-11-25"


def tool(name: str, arguments: JsonObject | None = None, *, timeout_ms: int | None = 30_000) -> ActivityCall:
    return call_of("tool_call", {"server": "tools", "tool": name}, arguments or {}, timeout_ms=timeout_ms)


@asynccontextmanager
async def executor_of(config: McpServerConfig, **options: Any) -> AsyncIterator[McpToolExecutor]:
    executor = McpToolExecutor({"tools": config}, allow_commands=(PYTHON,), **options)
    try:
        yield executor
    finally:
        await executor.close()


@asynccontextmanager
async def http_server(protocol: str = "auto", port: int = 0) -> AsyncIterator[McpServerConfig]:
    async with serving_asgi(make_server().streamable_http_app(), port) as address:
        yield McpServerConfig(url=f"{address}/mcp", protocol=protocol)


@asynccontextmanager
async def transport(kind: str) -> AsyncIterator[McpServerConfig]:
    if kind == "stdio":
        yield script("mcp_tools_server.py")
        return
    async with http_server("legacy" if kind == "http_legacy" else "auto") as config:
        yield config


def extra(outcome: ActivityOutcome) -> JsonObject:
    assert isinstance(outcome, ActivityDone), outcome
    return outcome.extra or {}


def member(value: JsonValue, name: str) -> JsonValue:
    assert isinstance(value, dict)
    return value[name]


@pytest.mark.parametrize("kind", ["stdio", "http", "http_legacy"])
def test_a_tool_is_called_and_its_result_is_marked_untrusted(kind: str) -> None:
    async def work() -> None:
        async with transport(kind) as config, executor_of(config) as executor:
            added = await executor.perform(tool("add", {"a": 2, "b": 3}))
            assert member(done(added), "sum") == 5
            assert extra(added) == {"untrusted": True, "server": "tools", "tool": "add"}
            assert done(await executor.perform(tool("greet", {"name": "Ada"}))) == {"text": "Hello Ada"}
            drawn = done(await executor.perform(tool("draw")))
            assert member(drawn, "text") == "a dot"
            content = member(drawn, "content")
            assert isinstance(content, list)
            assert [member(block, "type") for block in content] == ["text", "image"]
            assert done(await executor.perform(tool("nothing"))) == {"content": []}

    bounded(work())


@pytest.mark.parametrize(
    ("kind", "protocol", "version"),
    [
        ("stdio", "auto", MODERN),
        ("stdio", "legacy", HANDSHAKE),
        ("http", "auto", MODERN),
        ("http_legacy", "legacy", HANDSHAKE),
        ("stdio", MODERN, MODERN),
    ],
)
def test_both_protocol_eras_are_spoken_and_the_server_is_told_the_idempotency_key(
    kind: str, protocol: str, version: str
) -> None:
    async def work() -> JsonValue:
        async with transport(kind) as config:
            named = McpServerConfig(command=config.command, args=config.args, url=config.url, protocol=protocol)
            async with executor_of(named) as executor:
                return done(await executor.perform(tool("about")))

    assert bounded(work()) == {"version": version, "key": "r_1/pay/1"}


def test_a_server_is_told_the_span_that_calls_it() -> None:
    span = f"00-{'1' * 32}-{'2' * 16}-01"

    async def work() -> JsonValue:
        async with executor_of(script("mcp_tools_server.py")) as executor:
            TRACEPARENT.set(span)
            return done(await executor.perform(tool("about")))

    assert member(bounded(work()), "trace") == span


def test_a_server_that_knows_only_the_handshake_is_understood() -> None:
    async def work() -> JsonValue:
        async with executor_of(script("mcp_handshake_server.py")) as executor:
            return done(await executor.perform(tool("era")))

    assert bounded(work()) == {"text": "handshake"}


def test_published_arguments_are_passed_as_they_are_written() -> None:
    async def work() -> JsonValue:
        config: JsonObject = {"server": "tools", "tool": "greet", "arguments": {"name": "${ .name }"}}
        async with executor_of(script("mcp_tools_server.py")) as executor:
            return done(await executor.perform(call_of("tool_call", config)))

    assert bounded(work()) == {"text": "Hello ${ .name }"}


def test_calls_share_one_session_and_may_run_at_once() -> None:
    async def work() -> list[JsonValue]:
        async with executor_of(script("mcp_tools_server.py")) as executor:
            calls = [executor.perform(tool("add", {"a": number, "b": 1})) for number in range(8)]
            return [done(outcome) for outcome in await asyncio.gather(*calls)]

    results = bounded(work())
    assert [member(result, "sum") for result in results] == list(range(1, 9))
    assert len({member(result, "process") for result in results}) == 1


@pytest.mark.parametrize("kind", ["stdio", "http", "http_legacy"])
def test_progress_is_forwarded(kind: str) -> None:
    heard: list[tuple[str, ToolProgress]] = []

    async def work() -> None:
        def listen(call: ActivityCall, progress: ToolProgress) -> None:
            heard.append((call.activity.node_id, progress))

        async with transport(kind) as config, executor_of(config, on_progress=listen) as executor:
            done(await executor.perform(tool("count", {"to": 3})))

    bounded(work())
    assert [item.progress for _, item in heard] == [1, 2, 3]
    assert heard[0] == ("pay", ToolProgress(progress=1, total=3, message="step 1"))


@pytest.mark.parametrize("kind", ["stdio", "http"])
def test_an_error_of_the_tool_has_its_own_code_and_text(kind: str) -> None:
    async def work() -> None:
        async with transport(kind) as config, executor_of(config) as executor:
            failed = error(await executor.perform(tool("refuse")))
            assert failed.code == "MCP_TOOL_EXECUTION_ERROR"
            assert "the order is locked" in failed.error
            assert failed.retryable

    bounded(work())


def test_an_unknown_tool_and_wrong_arguments_are_errors() -> None:
    async def work() -> None:
        async with executor_of(script("mcp_tools_server.py")) as executor:
            unknown = error(await executor.perform(tool("fly")))
            assert "fly" in unknown.error
            wrong = error(await executor.perform(tool("add", {"a": "two"})))
            assert wrong.code in ("MCP_TOOL_EXECUTION_ERROR", "MCP_PROTOCOL_ERROR")

    bounded(work())


@pytest.mark.parametrize("kind", ["stdio", "http", "http_legacy"])
def test_cancelling_an_activity_is_told_to_the_server(kind: str) -> None:
    async def work() -> JsonValue:
        waiting = asyncio.Event()

        def listen(call: ActivityCall, progress: ToolProgress) -> None:
            waiting.set()

        async with transport(kind) as config, executor_of(config, on_progress=listen) as executor:
            activity = asyncio.create_task(executor.perform(tool("wait")))
            await waiting.wait()
            activity.cancel()
            with pytest.raises(asyncio.CancelledError):
                await activity
            return done(await executor.perform(tool("was_cancelled")))

    assert bounded(work()) == {"cancelled": True}


@pytest.mark.parametrize("kind", ["stdio", "http"])
def test_a_tool_that_takes_too_long_is_given_up_and_told_so(kind: str) -> None:
    async def work() -> None:
        async with transport(kind) as config, executor_of(config) as executor:
            done(await executor.perform(tool("greet", {"name": "you"})))  # the session is open
            late = error(await executor.perform(tool("wait", timeout_ms=300)))
            assert late.code == "ACTIVITY_TIMEOUT"
            assert late.retryable
            assert done(await executor.perform(tool("was_cancelled"))) == {"cancelled": True}

    bounded(work())


def test_a_server_that_dies_in_a_call_costs_that_call_and_is_started_again() -> None:
    async def work() -> None:
        async with executor_of(script("mcp_tools_server.py")) as executor:
            before = member(done(await executor.perform(tool("add", {"a": 1, "b": 1}))), "process")
            broken = error(await executor.perform(tool("crash")))
            assert (broken.code, broken.retryable) == ("MCP_CONNECTION_CLOSED", True)
            after = member(done(await executor.perform(tool("add", {"a": 1, "b": 1}))), "process")
            assert after != before

    bounded(work())


def test_a_call_that_may_have_taken_effect_is_not_repeated_where_that_is_forbidden() -> None:
    async def work() -> None:
        async with executor_of(script("mcp_tools_server.py")) as executor:
            once = tool("crash")
            once = replace(once, activity=replace(once.activity, at_most_once=True))
            assert not error(await executor.perform(once)).retryable

    bounded(work())


def test_a_server_that_dies_between_calls_is_noticed_and_started_again() -> None:
    async def work() -> None:
        connections = McpSessionPool({"tools": script("mcp_tools_server.py")})
        async with connections.borrow("tools") as (first, client):
            process = (await client.call_tool("add", {"a": 1, "b": 1})).structured_content["process"]
        os.kill(process, signal.SIGKILL)
        assert await first.ended(20)
        async with connections.borrow("tools") as (second, client):
            assert second is not first
            assert (await client.call_tool("add", {"a": 1, "b": 1})).structured_content["sum"] == 2
        await connections.close()

    bounded(work())


def test_a_session_without_calls_is_closed_after_a_while() -> None:
    async def work() -> None:
        connections = McpSessionPool({"tools": script("mcp_tools_server.py")}, idle_seconds=0)
        async with connections.borrow("tools") as (connection, client):
            process = (await client.call_tool("add", {"a": 1, "b": 1})).structured_content["process"]
        assert await connection.ended(20)
        with pytest.raises(ProcessLookupError):
            os.kill(process, 0)

    bounded(work())


def test_an_address_that_does_not_answer_is_a_closed_connection_and_may_come_back() -> None:
    async def work() -> None:
        port = unused_port()
        async with executor_of(McpServerConfig(url=f"http://127.0.0.1:{port}/mcp")) as executor:
            down = error(await executor.perform(tool("greet", {"name": "you"})))
            assert (down.code, down.retryable) == ("MCP_CONNECTION_CLOSED", True)
            async with http_server(port=port):
                done(await executor.perform(tool("greet", {"name": "you"})))
            gone = error(await executor.perform(tool("greet", {"name": "you"})))
            assert (gone.code, gone.retryable) == ("MCP_CONNECTION_CLOSED", True)

    bounded(work())


def test_a_session_that_the_server_has_forgotten_is_opened_again_without_a_failure() -> None:
    async def work() -> None:
        port = unused_port()
        config = McpServerConfig(url=f"http://127.0.0.1:{port}/mcp", protocol="legacy")
        async with executor_of(config) as executor:
            async with http_server(port=port):
                done(await executor.perform(tool("greet", {"name": "you"})))
            async with http_server(port=port):
                assert done(await executor.perform(tool("greet", {"name": "again"}))) == {"text": "Hello again"}

    bounded(work())


def test_a_request_that_breaks_off_does_not_disturb_the_others() -> None:
    app = make_server().streamable_http_app()

    async def breaking(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and (b"mcp-name", b"refuse") in scope["headers"]:
            headers = [(b"content-type", b"application/json"), (b"content-length", b"100")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            raise ConnectionError("half an answer")
        await app(scope, receive, send)

    async def work() -> None:
        waiting = asyncio.Event()

        def listen(call: ActivityCall, progress: ToolProgress) -> None:
            waiting.set()

        async with (
            serving_asgi(breaking) as address,
            executor_of(McpServerConfig(url=f"{address}/mcp"), on_progress=listen) as executor,
        ):
            patient = asyncio.create_task(executor.perform(tool("wait")))
            await waiting.wait()
            broken = error(await executor.perform(tool("refuse")))
            assert (broken.code, broken.retryable) == ("MCP_CONNECTION_CLOSED", True)
            done(await executor.perform(tool("greet", {"name": "you"})))
            assert not patient.done()
            patient.cancel()
            await asyncio.wait([patient])

    bounded(work())


def test_a_command_that_is_not_on_the_list_is_not_started(tmp_path: Path) -> None:
    witness = tmp_path / "started"
    config = McpServerConfig(command="/bin/touch", args=(str(witness),))

    async def work() -> None:
        executor = McpToolExecutor({"tools": config})
        refused = error(await executor.perform(tool("greet")))
        assert (refused.code, refused.retryable) == ("MCP_COMMAND_NOT_ALLOWED", False)
        assert "touch" in refused.error

    bounded(work())
    assert not witness.exists()


def test_what_is_not_configured_fails_for_good() -> None:
    async def work() -> None:
        executor = McpToolExecutor({})
        unknown = error(await executor.perform(tool("greet")))
        assert (unknown.code, unknown.retryable) == ("MCP_SERVER_NOT_CONFIGURED", False)
        unnamed = error(await executor.perform(call_of("tool_call", {"server": "tools"})))
        assert (unnamed.code, unnamed.retryable) == ("INVALID_TOOL_CALL_CONFIG", False)

    bounded(work())


def test_a_command_that_does_not_exist_and_one_that_is_no_server_are_told_apart(tmp_path: Path) -> None:
    async def work() -> None:
        missing = McpServerConfig(command=str(tmp_path / PYTHON))
        async with executor_of(missing) as executor:
            failed = error(await executor.perform(tool("greet")))
            assert (failed.code, failed.retryable) == ("MCP_CLIENT_ERROR", False)
        mute = McpServerConfig(command=sys.executable, args=("-c", "raise SystemExit(1)"))
        async with executor_of(mute) as executor:
            failed = error(await executor.perform(tool("greet")))
            assert (failed.code, failed.retryable) == ("MCP_CONNECTION_CLOSED", True)

    bounded(work())


def test_the_error_output_of_a_server_goes_to_the_log(caplog: pytest.LogCaptureFixture) -> None:
    complaint = "import sys; sys.stderr.write('no licence found\\n'); sys.exit(1)"

    async def work() -> None:
        async with executor_of(McpServerConfig(command=sys.executable, args=("-c", complaint))) as executor:
            failed = error(await executor.perform(tool("greet")))
            assert "licence" not in failed.error

    with caplog.at_level("INFO", logger="penstock.mcp.tools"):
        bounded(work())
    assert [record.getMessage() for record in caplog.records if record.name == "penstock.mcp.tools"] == [
        "no licence found"
    ]


def test_servers_are_read_from_the_shape_that_clients_use() -> None:
    servers = read_servers(
        {
            "mcpServers": {
                "shop": {"command": "uvx", "args": ["shop-mcp"], "env": {"TOKEN": "t"}, "cwd": "shop"},
                "search": {"type": "http", "url": "https://mcp.example/mcp", "headers": {"x-key": "k"}},
                "off": {"command": "npx", "disabled": True},
            }
        }
    )
    assert servers == {
        "shop": McpServerConfig(command="uvx", args=("shop-mcp",), env={"TOKEN": "t"}, cwd="shop"),
        "search": McpServerConfig(url="https://mcp.example/mcp", headers={"x-key": "k"}),
    }
    assert "k" not in repr(McpServerConfig(url="https://mcp.example/mcp", headers={"a": "kkk"})).partition("mcp")[0]


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"command": "uvx", "url": "https://mcp.example"},
        {"command": ["uvx"]},
        {"command": "uvx", "args": "shop"},
        {"command": "uvx", "env": {"TOKEN": 1}},
        {"command": "uvx", "timeout_ms": "1s"},
        {"command": "uvx", "arguments": []},
    ],
)
def test_a_server_that_is_configured_wrongly_is_named(given: JsonObject) -> None:
    problem = read_servers({"mcpServers": {"shop": given}})
    assert isinstance(problem, ServerProblem)
    assert problem.server == "shop"


@pytest.mark.parametrize(
    ("command", "name"),
    [("npx", "npx"), ("/usr/bin/node", "node"), ("C:\\tools\\npx.cmd", "npx"), ("uvx.exe", "uvx")],
)
def test_an_allow_list_speaks_of_names_without_folders(command: str, name: str) -> None:
    assert command_name(command) == name
