"""Checks of the `agent` block beyond its shape and the nodes it stands for.

Above it: `validate`. Below it: `agents`. What is wrong with its expressions and schemas is found in the nodes.
"""

from __future__ import annotations

from collections.abc import Iterator

from penstock.base.json import JsonObject, list_or_empty, object_or_empty
from penstock.definitions.agents.schemas import is_agent
from penstock.definitions.agents.summaries import summarizes
from penstock.definitions.source.findings import Finding

__all__ = ["agent_findings"]

_NOT_WITH_AGENT = ("state", "edges", "on_error")
_CLIENT = "client"


def agent_findings(document: JsonObject) -> Iterator[Finding]:
    """Yield what is wrong with an agent, or with the tests of a document that is not an agent."""
    if not is_agent(document):
        if _is_for_a2a(document):
            yield Finding(
                code="A2A_WITHOUT_AGENT",
                message="only agents can be offered over A2A, and this document has no `agent`",
                path="/expose/a2a",
                hint="remove it, or write an agent that calls the workflow",
            )
        for index, test in enumerate(list_or_empty(document.get("tests"))):
            if isinstance(test, dict) and "model" in test:
                yield Finding(
                    code="TEST_WITHOUT_AGENT",
                    message="`model` is the script of an agent, and this document has no `agent`",
                    path=f"/tests/{index}/model",
                    hint="mock the nodes of type llm_call in `mock`",
                )
        return
    agent = object_or_empty(document["agent"])
    for name in _NOT_WITH_AGENT:
        if name in document:
            yield Finding(
                code="NOT_WITH_AGENT",
                message=f"an agent cannot have `{name}`: its state and its nodes are generated",
                path=f"/{name}",
                hint="remove it, or write a workflow that calls the agent",
            )
    declared = object_or_empty(object_or_empty(document.get("input")).get("properties"))
    if "input" in document and "prompt" not in agent and "prompt" not in declared:
        yield Finding(
            code="AGENT_PROMPT_MISSING",
            message="the input has no `prompt`, so `agent.prompt` must contain the task",
            path="/agent",
            hint='write `prompt: "… ${ .input.NAME }"`, or give the input a text `prompt`',
        )
    elif "input" in document and "prompt" not in declared and _is_for_a2a(document):
        yield Finding(
            code="A2A_PROMPT_UNSUITED",
            message="over A2A an agent gets a text, so its input must have a text `prompt`",
            path="/expose/a2a",
            hint="give the input a text `prompt`, or offer the agent as a tool",
        )
    if agent.get("provider") == _CLIENT:
        yield Finding(
            code="AGENT_PROVIDER_UNSUITED",
            message="the model of a client cannot use tools",
            path="/agent/provider",
            hint="name a model that is configured on the server",
        )
    yield from _summary_findings(agent)
    yield from _tool_findings(agent)


def _is_for_a2a(document: JsonObject) -> bool:
    return object_or_empty(document.get("expose")).get("a2a") is True


def _summary_findings(agent: JsonObject) -> Iterator[Finding]:
    conversation = object_or_empty(agent.get("conversation"))
    if "model" in conversation and not summarizes(agent):
        yield Finding(
            code="AGENT_SUMMARY_UNUSED",
            message="`model` is the model that summarizes, but `summarize` is off",
            path="/agent/conversation/model",
            hint="add `summarize: true`, or remove it",
        )


def _tool_findings(agent: JsonObject) -> Iterator[Finding]:
    seen: dict[str, int] = {}
    for index, item in enumerate(list_or_empty(agent.get("tools"))):
        entry = item if isinstance(item, dict) else {"tool": item}
        name, path = entry.get("tool"), f"/agent/tools/{index}"
        if not isinstance(name, str):
            continue
        if name in seen:
            yield Finding(
                code="DUPLICATE_TOOL",
                message=f"`{name}` is listed already, as entry {seen[name] + 1}",
                path=path,
                hint="keep one of them",
            )
        seen.setdefault(name, index)
