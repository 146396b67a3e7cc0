"""What a hostile MCP server sends is bounded before it is decoded: the call fails by name, and the loop goes on."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from penstock.base import limits
from penstock.base.json import JsonObject
from penstock.runtime.activities.performing import ActivityAsks, ActivityOutcome
from penstock.runtime.executors.mcp.config import McpServerConfig
from tests.scenarios.hostile_upstream import hostile_http
from tests.scenarios.loop_stalls import in_tries, watched_loop
from tests.scenarios.test_upstream_isolation import PIPE, answered, called, executor_of
from tests.unit.runtime.executors.calls import bounded, done, error


@asynccontextmanager
async def upstream(kind: str) -> AsyncIterator[McpServerConfig]:
    if kind == "pipe":
        yield PIPE
        return
    with hostile_http() as url:
        yield McpServerConfig(url=url)


async def outcome_of(kind: str, tool: str, arguments: JsonObject, timeout_ms: int = 240_000) -> ActivityOutcome:
    async def work() -> ActivityOutcome:
        async with upstream(kind) as config, executor_of(config) as executor:
            await executor.perform(called("pid"))
            async with watched_loop() as stalls:
                outcome = await executor.perform(called(tool, arguments, timeout_ms=timeout_ms))
            stalls.check(tool)
            # The server, or another one of it, is of use to others at once.
            assert done(await executor.perform(called("pid", by="bob")))
            return outcome

    return await in_tries(work)


@pytest.mark.parametrize(
    ("kind", "tool", "arguments"),
    [
        ("pipe", "text", {"count": 100_000_000}),
        ("pipe", "endless_line", {}),
        ("pipe", "lists", {"count": 1_000_000}),
        ("pipe", "blocks", {"count": 2_000}),
        ("http", "lists", {"count": 1_000_000}),
        ("http", "text", {"count": 20_000_000}),
        ("http", "text_in_event", {"count": 20_000_000}),
        ("http", "gzip_bomb", {"count": 1_000}),
        ("http", "endless_body", {}),
        ("http", "endless_event", {}),
    ],
)
def test_an_answer_that_is_too_large_is_refused_by_name(kind: str, tool: str, arguments: JsonObject) -> None:
    failed = error(bounded(outcome_of(kind, tool, arguments)))
    assert (failed.code, failed.retryable) == ("MCP_RESULT_TOO_LARGE", False)


@pytest.mark.parametrize(
    ("kind", "tool"), [("pipe", "text"), ("http", "text"), ("http", "text_in_event"), ("http", "gzip")]
)
def test_a_result_of_the_documented_size_is_taken_over_every_transport(kind: str, tool: str) -> None:
    size = limits.MCP_CONTENT_BYTES_MAX - 100
    taken = done(bounded(outcome_of(kind, tool, {"count": size})))
    assert isinstance(taken, dict)
    assert taken == {"text": "x" * size}


@pytest.mark.parametrize("kind", ["pipe", "http"])
def test_as_many_values_as_are_taken_do_not_hold_up_the_loop(kind: str) -> None:
    taken = done(bounded(outcome_of(kind, "lists", {"count": limits.UPSTREAM_ANSWER_TOKENS_MAX // 2 - 100})))
    assert isinstance(taken, dict)
    assert len(str(taken["lists"])) > limits.UPSTREAM_ANSWER_TOKENS_MAX


@pytest.mark.parametrize(
    ("kind", "tool", "letters"),
    [
        ("pipe", "text", 'x\n",'),
        ("http", "text", 'x\n",'),
        ("http", "gzip", 'x\n",'),
        ("http", "text_in_event", "x,"),  # nothing but escapes takes longer there: the library copies events often
    ],
)
def test_the_largest_message_that_is_decoded_does_not_hold_up_the_loop(kind: str, tool: str, letters: str) -> None:
    for letter in letters:
        count = (limits.UPSTREAM_ANSWER_BYTES_MAX - 1_000) // (len(json.dumps(letter)) - 2)
        failed = error(bounded(outcome_of(kind, tool, {"count": count, "letter": letter})))
        assert (failed.code, "the result has" in failed.error) == ("MCP_RESULT_TOO_LARGE", True)  # it was decoded


@pytest.mark.parametrize("tool", ["chatter", "endless_line"])
def test_who_called_a_server_that_floods_its_pipe_can_use_it_again_at_once(tool: str) -> None:
    async def body() -> None:
        async with executor_of(PIPE) as executor:
            before = done(await executor.perform(called("pid")))
            error(await executor.perform(called(tool, timeout_ms=1_500)))
            after = done(await executor.perform(called("pid")))
            assert before != after  # another process: nobody waits for the rest of what the first one says

    bounded(body())


@pytest.mark.parametrize("kind", ["pipe", "http"])
def test_messages_without_end_are_read_slowly_and_the_call_runs_out_of_time(kind: str) -> None:
    failed = error(bounded(outcome_of(kind, "chatter", {}, timeout_ms=1_500)))
    assert failed.code == "ACTIVITY_TIMEOUT"


def test_headers_without_end_break_the_call_and_nothing_else() -> None:
    many = error(bounded(outcome_of("http", "many_headers", {})))
    assert many.code == "MCP_CONNECTION_CLOSED"
    slow = error(bounded(outcome_of("http", "endless_headers", {}, timeout_ms=1_000)))
    assert slow.code == "ACTIVITY_TIMEOUT"


def test_an_encoding_that_nobody_asked_for_is_not_decoded() -> None:
    assert error(bounded(outcome_of("http", "brotli", {}))).code == "MCP_PROTOCOL_ERROR"


def test_ten_thousand_questions_are_too_many_for_one_call() -> None:
    async def work() -> None:
        async with executor_of(PIPE) as executor:
            call = called("ask_many", {"count": 10_000})
            first: ActivityOutcome = await executor.perform(call)
            # It is refused once the server has asked too much, whatever a person answered.
            asked, outcome = first, first
            for _ in range(limits.MCP_QUESTIONS_PER_CALL_MAX + 1):
                outcome = await executor.perform(answered(call, asked, "yes"))
                if not isinstance(outcome, ActivityAsks):
                    break
                asked = outcome
            assert error(outcome).code == "MCP_RESULT_TOO_LARGE"

    bounded(work())


def test_one_tool_that_is_described_wrongly_leaves_the_others_usable(tmp_path: Path) -> None:
    async def work() -> None:
        said = tmp_path / "said.json"
        said.write_text('{"tools": [{"name": "bad", "inputSchema": "nonsense"}, {"inputSchema": {}}, 7]}')
        for config in (McpServerConfig(command=PIPE.command, args=(*PIPE.args, str(said))),):
            async with executor_of(config) as executor:
                assert done(await executor.perform(called("pid")))

    bounded(work())
