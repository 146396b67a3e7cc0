"""Thoughts of models go back to the model that had them, as Anthropic and OpenAI want them, and to nobody else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from pydantic_ai.messages import ModelResponse, TextPart, ThinkingPart, ToolCallPart

from penstock.base import limits
from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.agents.conversations import without_thoughts
from penstock.runtime.executors.llm.executor import LlmExecutor
from penstock.runtime.executors.llm.port import LlmMessage, LlmToolCall
from penstock.runtime.executors.llm.pydantic_ai import LlmProviderConfig, PydanticProvider
from penstock.runtime.executors.llm.thoughts import said_before, thoughts_of
from penstock.runtime.ports.models import ModelRules
from tests.fixtures.model_server import Fails, ModelServer, Says, model_server
from tests.scenarios.agents import FIND, agent, conversation, ended
from tests.scenarios.office import Office, in_office
from tests.unit.runtime.executors.calls import bounded, call_of, done

MODELS = {"anthropic": "claude-haiku-4-5", "openai": "gpt-5", "openai-compatible": "gemini-3-pro"}
THOUGHT = "The order is A-1; I have to look."
LOOKS = Says("I look.", calls=(("find_order", {"id": "A-1"}),), thought=THOUGHT)
TOOL: JsonObject = {"name": "workflow:find_order", "description": "Finds.", "trusted": True}
SIGNS = Says("I look.", calls=(("find_order", {"id": "A-1"}), ("find_order", {"id": "A-2"})), signs_calls=True)
kinds = pytest.mark.parametrize("kind", ["anthropic", "openai"])


def provider(kind: str, server: ModelServer, name: str = "own", key: str = "k") -> PydanticProvider:
    address = server.anthropic_url if kind == "anthropic" else server.url
    models = {"fast": MODELS[kind], "other": f"{MODELS[kind]}-mini"}
    return PydanticProvider(name, LlmProviderConfig(kind=kind, base_url=address, api_key=key, models=models))


def turn(served: PydanticProvider, talk: list[JsonValue], *, hidden: tuple[str, ...] = (), **config: Any) -> Any:
    """One turn of a conversation."""
    node: JsonObject = {"model": "fast", "conversation": "talk", "tools": "tools", "max_tokens": 4000, **config}
    call = call_of("llm_call", {"thinking": True, **node}, {})

    async def work() -> Any:
        executor = LlmExecutor({served.name: served})
        try:
            found = replace(call, values={"talk": talk, "tools": [TOOL]}, hidden=hidden)
            return done(await executor.perform(found))
        finally:
            await executor.close()

    return bounded(work())


def talk_after(said: Any) -> list[JsonValue]:
    """The conversation after a turn that called the tool."""
    entry: JsonValue = {"role": "assistant", "text": said["text"], "tool_calls": said["tool_calls"]}
    result = {"role": "tool", "id": said["tool_calls"][0]["id"], "name": "workflow:find_order", "content": "sent"}
    return [{"role": "user", "text": "Where?"}, entry, result]


def sent_thoughts(body: dict[str, Any]) -> list[Any]:
    """What of the thoughts is in a request."""
    if "input" in body:
        return [item for item in body["input"] if item.get("type") == "reasoning"]
    blocks = [block for message in body["messages"] for block in message["content"] if isinstance(block, dict)]
    return [block for block in blocks if block["type"] == "thinking"]


@kinds
@pytest.mark.parametrize("stream", [False, True])
def test_thoughts_go_back_word_for_word_with_the_call_that_they_led_to(kind: str, stream: bool) -> None:
    with model_server() as server:
        server.script.extend([LOOKS, Says("It was sent.")])
        said = turn(provider(kind, server), [{"role": "user", "text": "Where?"}], stream=stream)
        assert THOUGHT not in said["text"]
        again = turn(provider(kind, server), talk_after(said), stream=stream)
        assert again["answer"] == "It was sent."
    last = server.asked[-1].body
    [sent] = sent_thoughts(last)
    if kind == "anthropic":
        assert sent == {"type": "thinking", "thinking": THOUGHT, "signature": LOOKS.signature}
        assistant = next(message for message in last["messages"] if message["role"] == "assistant")
        assert [block["type"] for block in assistant["content"]] == ["thinking", "text", "tool_use"]
    else:
        assert (sent["id"], sent["encrypted_content"]) == ("rs_1", LOOKS.signature)
        assert sent["summary"] == [{"text": THOUGHT, "type": "summary_text"}]
        kinds_sent = [item.get("type", "message") for item in last["input"]]
        assert kinds_sent.index("reasoning") < kinds_sent.index("function_call")
        assert next(item for item in last["input"] if item.get("type") == "function_call")["id"] == "fc_1"


@kinds
def test_another_provider_or_model_is_told_nothing_of_them(kind: str) -> None:
    with model_server() as server:
        server.script.append(LOOKS)
        said = turn(provider(kind, server), [{"role": "user", "text": "Where?"}])
        for other, model in (("others", "fast"), ("own", "other")):
            turn(provider(kind, server, other), talk_after(said), model=model, thinking=None)
            assert sent_thoughts(server.asked[-1].body) == []
            assert THOUGHT not in str(server.asked[-1].body)


def test_more_than_is_kept_or_with_a_secret_in_them_they_are_left_out_as_a_whole() -> None:
    with model_server() as server:
        asked: list[JsonValue] = [{"role": "user", "text": "Where?"}]
        long = Says("", calls=LOOKS.calls, thought="x" * limits.LLM_THOUGHTS_CHARACTERS_MAX)
        server.script.extend([long, LOOKS])
        assert "thoughts" not in str(turn(provider("anthropic", server), asked))
        assert "thoughts" not in str(turn(provider("anthropic", server), asked, hidden=("order is A-1",)))


@pytest.mark.parametrize("fails", [False, True])
def test_an_agent_whose_model_thinks_calls_tools_and_a_stand_in_sees_no_thought(tmp_path: Path, fails: bool) -> None:
    with model_server() as server:
        server.script.extend([LOOKS, *([Fails(529, "Overloaded", "overloaded_error")] if fails else [])])
        server.otherwise = lambda asked: Says("It was sent.")
        thinking = ModelRules(parameters={"thinking": True, "max_tokens": 4000}, fallbacks=("other",))
        executor = LlmExecutor({"own": provider("anthropic", server)}, rules={"fast": thinking})

        async def test(office: Office) -> None:
            await office.call(office.owner, "workflow.create", document=FIND)
            run = await ended(office, agent("workflow:find_order"))
            assert run["output"] == {"text": "It was sent."}, run
            said = await conversation(office, run["execution_id"])
            assert said[1]["tool_calls"][0]["thoughts"]["parts"][0]["content"] == THOUGHT
            assert THOUGHT not in str(without_thoughts(said))
            await executor.close()

        in_office(tmp_path, test, executors={"llm_call": executor})
    # Anthropic refuses a call whose thoughts are missing while it thinks, and so does this server.
    assert len(sent_thoughts(server.asked[1].body)) == 1
    assert server.asked[1].body["thinking"]
    if fails:
        assert (len(server.asked), sent_thoughts(server.asked[2].body)) == (3, [])


def signatures(body: dict[str, Any]) -> list[Any]:
    """The signatures of calls in a request to chat completions."""
    calls = [call for message in body["messages"] for call in message.get("tool_calls") or []]
    return [call.get("extra_content") for call in calls]


@pytest.mark.parametrize("stream", [False, True])
def test_a_signature_on_a_call_goes_back_with_that_call_and_to_no_other_model(stream: bool) -> None:
    kind = "openai-compatible"
    with model_server() as server:
        server.script.append(SIGNS)
        said = turn(provider(kind, server), [{"role": "user", "text": "Where?"}], stream=stream, thinking=None)
        talk = talk_after(said)
        second = said["tool_calls"][1]["id"]
        talk.append({"role": "tool", "id": second, "name": "workflow:find_order", "content": "sent"})
        turn(provider(kind, server), talk, stream=stream, thinking=None)
        signed = {"google": {"thought_signature": SIGNS.signature}}
        assert signatures(server.asked[-1].body) == [signed, None]
        for other, model in (("others", "fast"), ("own", "other")):
            turn(provider(kind, server, other), talk, model=model, thinking=None)
            assert signatures(server.asked[-1].body) == [None, None]
        assert SIGNS.signature not in str(turn(provider(kind, server), talk, thinking=None)["text"])


def test_signatures_of_googles_own_wire_are_kept_with_their_parts() -> None:
    said = ModelResponse(
        parts=[
            ThinkingPart("Hm.", provider_name="google"),
            TextPart("I look.", provider_name="google", provider_details={"thought_signature": "dGV4dA=="}),
            ToolCallPart(
                "find", {"id": 1}, "c1", provider_name="google", provider_details={"thought_signature": "Y2FsbA=="}
            ),
            ToolCallPart("find", {"id": 2}, "c2"),
        ],
        provider_name="google",
    )
    kept = thoughts_of(said, "own", "gemini-3-pro")
    assert kept is not None
    assert "Hm." not in str(kept), "thoughts that nobody signed are not kept"
    calls = tuple(LlmToolCall(id=f"c{n}", name="find", arguments={"id": n}) for n in (1, 2))
    message = LlmMessage("assistant", "I look.", tool_calls=calls, thoughts=kept)
    again = said_before(message, "own", "gemini-3-pro")
    assert [(part.provider_name, part.provider_details) for part in again.parts] == [
        ("google", {"thought_signature": "dGV4dA=="}),
        ("google", {"thought_signature": "Y2FsbA=="}),
        (None, None),
    ]
    assert all(part.provider_details is None for part in said_before(message, "own", "gemini-3-flash").parts)
