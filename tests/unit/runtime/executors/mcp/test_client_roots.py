"""Activities that ask the program which started the run."""

from typing import Any

import pytest
from msgspec.structs import replace

from penstock.base import limits
from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.schemas.compiled import CompiledSchema, compile_schema, is_valid
from penstock.runtime.activities.performing import ActivityAsks, ActivityCall, ActivityDone, ActivityOutcome
from penstock.runtime.executors.llm.executor import LlmExecutor
from penstock.runtime.executors.llm.mock import MockProvider
from penstock.runtime.executors.mcp.client_roots import ClientRoots
from tests.unit.runtime.executors.calls import bounded, call_of, done, error

SAID: JsonObject = {
    "role": "assistant",
    "content": {"type": "text", "text": "Paris"},
    "model": "their-model",
    "stopReason": "endTurn",
}


def llm(**config: Any) -> ActivityCall:
    call = call_of("llm_call", {"provider": "client", "model": "default", "prompt": "What is it?", **config})
    return replace(call, client_kinds=("roots", "sampling"))


def answered(call: ActivityCall, answer: JsonValue, resume: JsonValue = None) -> ActivityCall:
    return replace(call, activity=replace(call.activity, round=1, answer=answer, resume=resume))


def performed(call: ActivityCall, **providers: Any) -> ActivityOutcome:
    return bounded(LlmExecutor(providers).perform(call))


def asked(outcome: ActivityOutcome) -> ActivityAsks:
    assert isinstance(outcome, ActivityAsks), outcome
    return outcome


def accepts(question: ActivityAsks, answer: JsonValue) -> bool:
    schema = compile_schema(question.answer_schema)
    assert isinstance(schema, CompiledSchema)
    return is_valid(schema, answer)


def test_the_client_is_asked_in_the_words_of_the_protocol() -> None:
    config = {"system_prompt": "Be brief.", "temperature": 0.5, "model": "small", "max_tokens": 100}
    question = asked(performed(llm(**config)))
    assert question.question == "What is it?"
    assert question.ask == {
        "kind": "sampling",
        "request": {
            "messages": [{"role": "user", "content": {"type": "text", "text": "What is it?"}}],
            "systemPrompt": "Be brief.",
            "maxTokens": 100,
            "temperature": 0.5,
            "modelPreferences": {"hints": [{"name": "small"}]},
        },
    }
    fitting: list[JsonValue] = [SAID, "Paris", {"refused": "no"}]
    unfit: list[JsonValue] = [{}, 7, {"text": "Paris"}]
    assert all(accepts(question, answer) for answer in fitting)
    assert not any(accepts(question, answer) for answer in unfit)


@pytest.mark.parametrize(
    ("wanted", "sent"), [(None, limits.CLIENT_TOKENS_DEFAULT), (9_999_999, limits.CLIENT_TOKENS_MAX)]
)
def test_what_the_clients_model_may_write_is_bounded(wanted: int | None, sent: int) -> None:
    question = asked(performed(llm(max_tokens=wanted)))
    assert question.ask is not None
    request = question.ask["request"]
    assert isinstance(request, dict)
    assert request["maxTokens"] == sent


@pytest.mark.parametrize("answer", [SAID, "Paris", {**SAID, "content": [SAID["content"]]}])
def test_the_answer_is_the_reply_untrusted_and_of_unknown_cost(answer: JsonValue) -> None:
    outcome = performed(answered(llm(), answer))
    assert done(outcome) == {"text": "Paris"}
    assert isinstance(outcome, ActivityDone)
    assert outcome.extra is not None
    assert outcome.extra["untrusted"] is True
    usage = outcome.extra["usage"]
    assert isinstance(usage, dict)
    assert (usage["tokens"], usage["requests"], usage["provider"]) == ("unknown", 1, "client")
    assert "input_tokens" not in usage
    assert "cost" not in usage


def test_an_answer_is_held_to_the_schema_and_repaired_once() -> None:
    call = llm(output_schema={"type": "object", "required": ["city"]})
    again = asked(performed(answered(call, "Paris")))
    assert again.ask is not None
    request = again.ask["request"]
    assert isinstance(request, dict)
    messages = request["messages"]
    assert isinstance(messages, list)
    assert [message["role"] for message in messages if isinstance(message, dict)] == ["user", "assistant", "user"]
    assert "JSON schema" in str(request["systemPrompt"])
    assert done(performed(answered(call, '{"city": "Paris"}', again.resume))) == {"city": "Paris"}
    assert error(performed(answered(call, "Paris!", again.resume))).code == "OUTPUT_SCHEMA_VIOLATION"


@pytest.mark.parametrize(
    "answer", [{"refused": "not now"}, {**SAID, "content": {"type": "image", "data": "", "mimeType": "image/png"}}]
)
def test_a_client_that_refuses_fails_the_node(answer: JsonValue) -> None:
    refused = error(performed(answered(llm(), answer)))
    assert (refused.code, refused.retryable) == ("SAMPLING_REFUSED", False)


def test_without_a_client_the_servers_model_answers_or_there_is_none() -> None:
    call = replace(llm(model="small"), client_kinds=())
    assert error(performed(call)).code == "CLIENT_CANNOT_SAMPLE"
    assert error(performed(call, mock=MockProvider({"*": "no"}, {"other": "other"}))).code == "CLIENT_CANNOT_SAMPLE"
    standing_in = MockProvider({"*": "mine"}, {"default": "big"})
    assert done(performed(call, mock=standing_in)) == {"text": "mine"}


def test_a_secret_is_not_sent_to_a_client() -> None:
    refused = error(performed(llm(prompt="Use ${secret:TOKEN}.")))
    assert (refused.code, "secret" in refused.error) == ("LLM_CONFIG_INVALID", True)


def test_roots_are_asked_for_and_what_comes_is_untrusted() -> None:
    call = replace(call_of("tool_call", {"server": "client", "tool": "roots/list"}), client_kinds=("roots",))
    question = asked(bounded(ClientRoots().perform(call)))
    assert question.ask == {"kind": "roots", "request": {}}
    told: JsonObject = {"roots": [{"uri": "file:///home/ada", "name": "home"}, {"uri": "file:///srv", "name": None}]}
    assert accepts(question, told)
    assert not accepts(question, {"roots": [{"name": "no address"}]})
    outcome = bounded(ClientRoots().perform(answered(call, told)))
    assert done(outcome) == {"roots": [{"uri": "file:///home/ada", "name": "home"}, {"uri": "file:///srv"}]}
    assert isinstance(outcome, ActivityDone)
    assert outcome.extra == {"untrusted": True}


@pytest.mark.parametrize(
    ("tool", "code"), [("roots/list", "CLIENT_CANNOT_LIST_ROOTS"), ("anything", "INVALID_TOOL_CALL_CONFIG")]
)
def test_a_client_without_roots_fails_the_node(tool: str, code: str) -> None:
    refused = error(bounded(ClientRoots().perform(call_of("tool_call", {"server": "client", "tool": tool}))))
    assert (refused.code, refused.retryable) == (code, False)
