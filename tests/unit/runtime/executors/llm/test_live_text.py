"""What a model writes is read while it is written, over every wire; half an answer is none, and secrets stay hidden."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from penstock.base.json import JsonObject
from penstock.runtime.activities.performing import ActivityCall, ActivityOutcome
from penstock.runtime.executors.llm.executor import LlmExecutor
from penstock.runtime.executors.llm.live_text import LiveText
from penstock.runtime.executors.llm.mock import MockFailure, MockProvider
from penstock.runtime.executors.llm.pydantic_ai import LlmProviderConfig, PydanticProvider
from penstock.runtime.ports.models import ModelRules
from tests.fixtures.model_server import Breaks, Fails, ModelServer, Reply, Says, model_server
from tests.unit.runtime.executors.calls import bounded, call_of, done, error
from tests.unit.runtime.executors.llm.test_pydantic_ai import KINDS, PRICES
from tests.waiting import SECONDS_MAX, until

TEXT = "Your order A-1042 was sent yesterday."
FIND: JsonObject = {"name": "find", "description": "Finds.", "input_schema": {"type": "object"}}


@dataclass
class Readers:
    """Somebody who reads along."""

    pieces: list[tuple[str, int]] = field(default_factory=list)
    ended: int = 0
    heard: bool = True

    @property
    def text(self) -> str:
        """What they have read since the text last began."""
        found = ""
        for piece, offset in self.pieces:
            found = found[:offset] if offset else ""
            assert len(found) == offset
            found += piece
        return found

    def is_heard(self, call: ActivityCall) -> bool:
        return self.heard

    def write(self, call: ActivityCall, text: str, offset: int) -> None:
        self.pieces.append((text, offset))

    def written(self, call: ActivityCall) -> None:
        self.ended += 1


def call_with(readers: Readers, hidden: tuple[str, ...] = (), **config: Any) -> ActivityCall:
    node: JsonObject = {"provider": "local", "model": "tiny-1", "prompt": "?", "max_tokens": 50, **config}
    call = call_of("llm_call", node, timeout_ms=round(SECONDS_MAX * 1000))
    return replace(call, readers=readers, hidden=hidden)


def provider(kind: str, server: ModelServer) -> PydanticProvider:
    address = server.anthropic_url if kind == "anthropic" else server.url
    return PydanticProvider("local", LlmProviderConfig(kind=kind, base_url=address, api_key="sk-test", prices=PRICES))


def read(kind: str, server: ModelServer, readers: Readers, **more: Any) -> ActivityOutcome:
    """One call that somebody reads along."""

    async def work() -> ActivityOutcome:
        executor = LlmExecutor({"local": provider(kind, server)})
        try:
            return await executor.perform(call_with(readers, **more))
        finally:
            await executor.close()

    return bounded(work())


@pytest.mark.parametrize("kind", KINDS)
def test_a_text_is_read_piece_by_piece_and_counted_as_a_whole(kind: str) -> None:
    readers = Readers()
    with model_server(key="sk-test") as server:
        server.script.append(Says(TEXT, input_tokens=20, output_tokens=5))
        outcome = read(kind, server, readers)
    assert done(outcome) == {"text": TEXT}
    assert readers.text == TEXT
    assert len(readers.pieces) > 3
    assert readers.ended == 1
    usage = (getattr(outcome, "extra", None) or {})["usage"]
    assert (usage["input_tokens"], usage["output_tokens"]) == (20, 5)
    assert usage["cost"] == {"amount": "0.03", "currency": "USD"}
    [seen] = server.asked
    assert seen.body["stream"] is True


@pytest.mark.parametrize("kind", KINDS)
def test_calls_of_tools_come_out_of_a_stream_as_a_whole(kind: str) -> None:
    readers = Readers()
    with model_server() as server:
        server.script.append(Says("I look.", calls=(("find", {"id": "A-1042", "deep": {"n": [1, 2]}}),)))
        found: Any = done(read(kind, server, readers, tools=[FIND]))
    assert found["text"] == readers.text == "I look."
    [call] = found["tool_calls"]
    assert (call["name"], call["arguments"]) == ("find", {"id": "A-1042", "deep": {"n": [1, 2]}})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", ["error", "lost", "ends"])
def test_half_an_answer_is_an_error_that_can_be_tried_again(kind: str, how: Any) -> None:
    readers = Readers()
    with model_server() as server:
        server.script.append(Breaks(TEXT, how))
        failed = error(read(kind, server, readers))
    assert (failed.code, failed.retryable, len(server.asked)) == ("LLM_PROVIDER_ERROR", True, 1)
    assert TEXT not in failed.error
    assert readers.text == TEXT
    assert readers.ended == 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("reply", [Fails(429, "slow down"), Fails(500, "oh")], ids=["429", "500"])
def test_a_refused_stream_fails_as_any_request_does(kind: str, reply: Reply) -> None:
    readers = Readers()
    with model_server() as server:
        server.script.append(reply)
        failed = error(read(kind, server, readers))
    assert (failed.code, failed.retryable, len(server.asked)) == ("LLM_PROVIDER_ERROR", True, 1)
    assert readers.pieces == []


@pytest.mark.parametrize("kind", KINDS)
def test_whoever_stops_listening_to_the_model_closes_its_connection(kind: str) -> None:
    async def work() -> None:
        executor = LlmExecutor({"local": provider(kind, server)})
        task = asyncio.ensure_future(executor.perform(call_with(readers)))
        await until(lambda: readers.text == TEXT)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until(server.left.is_set)
        await executor.close()

    readers = Readers()
    with model_server() as server:
        server.script.append(Breaks(TEXT, "waits"))
        bounded(work())
    assert readers.ended == 1


def test_the_first_piece_is_read_before_the_last_is_written() -> None:
    async def work() -> ActivityOutcome:
        executor = LlmExecutor({"local": provider("openai-compatible", server)})
        task = asyncio.ensure_future(executor.perform(call_with(readers)))
        await until(lambda: readers.text == TEXT)
        assert not task.done()
        server.go_on.set()
        outcome = await task
        await executor.close()
        return outcome

    readers = Readers()
    with model_server() as server:
        server.script.append(Breaks(TEXT, "waits"))
        assert done(bounded(work())) == {"text": TEXT}


CITY: JsonObject = {"type": "object", "required": ["city"], "properties": {"city": {"type": "string"}}}
PARIS: dict[str, Any] = {"city": "Paris, \u00cele-de-France"}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("before", ["", "Let me see. "], ids=["at once", "after a text"])
def test_an_answer_that_fits_a_schema_is_read_as_the_json_that_the_model_writes(kind: str, before: str) -> None:
    readers = Readers()
    with model_server() as server:
        server.script.append(Says(before, calls=(("answer", PARIS),)))
        outcome = read(kind, server, readers, output_schema=CITY)
    assert done(outcome) == PARIS
    assert json.loads(readers.text) == PARIS
    assert len(readers.pieces) > 3
    assert [offset for _, offset in readers.pieces].count(0) == (2 if before else 1), "the answer begins the text anew"
    [seen] = server.asked
    assert seen.body["stream"] is True


@pytest.mark.parametrize("kind", KINDS)
def test_a_structured_answer_is_read_before_it_is_complete(kind: str) -> None:
    async def work() -> ActivityOutcome:
        executor = LlmExecutor({"local": provider(kind, server)})
        task = asyncio.ensure_future(executor.perform(call_with(readers, answer_schema=CITY, tools=[FIND])))
        await until(lambda: "Paris" in readers.text)
        assert not task.done()
        server.go_on.set()
        outcome = await task
        await executor.close()
        return outcome

    readers = Readers()
    with model_server() as server:
        server.script.append(Breaks("", "waits", calls=(("answer", PARIS),)))
        turn: Any = done(bounded(work()))
    assert (turn["answer"], turn["tool_calls"]) == (PARIS, [])
    assert turn["text"] == readers.text


def test_calls_before_an_answer_are_not_read_as_one() -> None:
    readers = Readers()
    with model_server() as server:
        server.script.append(Says("I look.", calls=(("find", {"id": "A-1042"}),)))
        turn: Any = done(read("openai-compatible", server, readers, answer_schema=CITY, tools=[FIND]))
    assert turn["text"] == readers.text == "I look."


def test_an_answer_in_words_that_has_to_be_json_is_read_and_its_repair_begins_anew() -> None:
    readers = Readers()
    with model_server() as server:
        server.script.extend([Says("In Paris."), Says('{"city": "Paris"}')])
        assert done(read("openai-compatible", server, readers, output_schema=CITY)) == {"city": "Paris"}
    assert [offset for _, offset in readers.pieces].count(0) == 2
    assert readers.text == '{"city": "Paris"}'
    assert [bool(seen.body.get("stream")) for seen in server.asked] == [True, True]


@pytest.mark.parametrize("secret", ['pa"ss\\word', "\u00fcber\ngeheim"])
def test_a_secret_is_masked_as_json_writes_it_too(secret: str) -> None:
    readers = Readers()
    with model_server() as server:
        server.script.append(Says("", calls=(("answer", {"city": f"It is {secret}."}),)))
        read("openai-compatible", server, readers, output_schema=CITY, hidden=(secret,))
    assert json.loads(readers.text) == {"city": "It is ***."}


def test_nobody_is_streamed_to_if_nobody_reads() -> None:
    with model_server() as server:
        server.script.extend([Says("a"), Says('{"city": "Paris"}'), Says("b")])
        read("openai-compatible", server, Readers(heard=False))
        read("openai-compatible", server, Readers(heard=False), output_schema=CITY)
        read("openai-compatible", server, Readers(heard=False), stream=True)
    assert [bool(seen.body.get("stream")) for seen in server.asked] == [False, False, True]


def test_a_model_that_does_not_say_what_a_stream_used_is_not_streamed_again() -> None:
    readers = Readers()

    async def work() -> list[ActivityOutcome]:
        executor = LlmExecutor({"local": provider("openai-compatible", server)})
        try:
            return [await executor.perform(call_with(readers)) for _ in range(2)]
        finally:
            await executor.close()

    with model_server() as server:
        server.script.extend([Says("One.", input_tokens=0, output_tokens=0), Says("Two.")])
        first, second = bounded(work())
    assert (getattr(first, "extra", None) or {})["usage"]["estimated"] is True
    assert (getattr(second, "extra", None) or {})["usage"]["input_tokens"] == 12
    assert [bool(seen.body.get("stream")) for seen in server.asked] == [True, False]
    assert readers.pieces[-1] == ("Two.", 0)


def test_a_fallback_begins_its_text_anew() -> None:
    readers = Readers()

    async def work() -> ActivityOutcome:
        second = MockProvider(["From the other model."], models={"spare": "spare"})
        first = PydanticProvider(
            "local",
            LlmProviderConfig(
                kind="openai-compatible", base_url=server.url, api_key="k", models={"main": "tiny-1"}, prices=PRICES
            ),
        )
        executor = LlmExecutor({"local": first, "mock": second}, rules={"main": ModelRules(fallbacks=("spare",))})
        try:
            call = call_with(readers, provider=None, model="main")
            return await executor.perform(call)
        finally:
            await executor.close()

    with model_server() as server:
        server.script.append(Breaks(TEXT, "lost"))
        outcome = bounded(work())
    assert done(outcome) == {"text": "From the other model."}
    assert [offset for _, offset in readers.pieces].count(0) == 2
    assert readers.text == "From the other model."


def test_a_scripted_model_is_read_along_too_and_its_failure_has_no_text() -> None:
    readers = Readers()
    executor = LlmExecutor({"local": MockProvider([" Two  words ", MockFailure("busy")])})
    assert done(bounded(executor.perform(call_with(readers)))) == {"text": " Two  words "}
    assert readers.text == " Two  words "
    readers.pieces.clear()
    assert error(bounded(executor.perform(call_with(readers)))).code == "LLM_PROVIDER_ERROR"
    assert readers.pieces == []


@given(
    st.lists(st.sampled_from(["a", "b", "ab", "sec", "ret", "secret", "s", "t", "hunter2", "hun", "ter2", " "])),
    st.sets(st.sampled_from(["secret", "hunter2", "abab", "tse"]), min_size=1),
)
def test_a_secret_in_several_pieces_is_never_given_out(pieces: list[str], secrets: set[str]) -> None:
    readers = Readers()
    call = call_with(readers, hidden=tuple(sorted(secrets)))
    live = LiveText(call)
    for piece in pieces:
        live.say(piece)
    live.finish()
    given_out = "".join(text for text, _ in readers.pieces)
    assert not any(secret in given_out for secret in secrets)
    if not any(secret in "".join(pieces) for secret in secrets):
        assert given_out == "".join(pieces)
