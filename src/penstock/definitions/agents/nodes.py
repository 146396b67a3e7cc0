"""Writes the nodes that an `agent` block stands for.

    tools     lists the tools that the caller may use, once: the run keeps what they said of themselves
    begin     puts the prompt and the tools into the state
    turns     a loop; each round is (with `summarize`, after what `summaries` adds)
        turn      the model is asked once
        count     what it said and what that cost joins the state
        decide    it has answered; or a limit is spent; or its answer has to be repaired; or it calls tools
        calls     one item for each call: `route` leads to the tool, to a question, or to an error for the model
        keep      the results join the conversation
    answer    the result

The ids of tools are their names without what stands before the last `:`, as far as those can be ids and are unique.

Above it: `expansion`. Below it: `memory`, `summaries`, plain JSON. It never fails: what it does not understand it
leaves out, and the checks of the shape report that.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field

from penstock.base import limits
from penstock.base.json import JsonObject, JsonValue, object_or_empty
from penstock.definitions.agents.memory import MEMORY_IDS, add_memory
from penstock.definitions.agents.schemas import answer_schema_of, input_schema_of
from penstock.definitions.agents.summaries import SUMMARY_IDS, SUMMARY_STATE, add_summaries, summarizes
from penstock.definitions.jq.agent_results import ASK_USER, KEEP_RESULTS
from penstock.definitions.shapes.fields import RESERVED_IDS

__all__ = ["ASK_USER", "OWN_IDS", "AgentNodes", "AgentTool", "agent_nodes", "agent_state", "agent_tools"]

_STATE: JsonObject = {
    "type": "object",
    "properties": {
        "conversation": {"type": "array", "reducer": "append", "default": []},
        "tools": {"type": "array", "default": []},
        "spent": {"type": "object", "default": {"tokens": 0, "cost": 0}},
        "repairs": {"type": "integer", "default": 0},
    },
}
OWN_IDS = (
    *("tools", "begin", "turns", "turn", "count", "decide", "calls", "route", "call", "keep", "answer", "repair"),
    *("tokens_spent", "cost_spent", "cost_unknown", "turns_spent", "time_spent", "unfit", "declined", "malformed"),
    *("unknown", ASK_USER),
)
"""The ids of nodes that are not tools, and the name of the current call."""
_NOT_IN_ID = re.compile(r"[^A-Za-z0-9_]+")
_ID_CHARACTERS_MAX = 64
_ANSWERED = ".turn.tool_calls == [] and .turn.problem == null"
_ASK: JsonObject = {
    "name": ASK_USER,
    "description": "Ask the user a question and wait for the answer. Use it for what you cannot find out yourself.",
    "input_schema": {
        "type": "object",
        "required": ["question"],
        "properties": {"question": {"type": "string", "description": "The question."}},
        "additionalProperties": False,
    },
    "trusted": True,
}
_APPROVED: JsonObject = {
    "type": "object",
    "required": ["approved"],
    "properties": {"approved": {"type": "boolean", "title": "Approve this call"}},
    "additionalProperties": False,
}
_SETTINGS = ("provider", "temperature", "max_tokens", "retry")
_CALL_RETRY: JsonObject = {"max_attempts": 3, "initial_interval": "1s", "backoff_coefficient": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentTool:
    """An entry of the list of tools. `pattern` is whether it stands for many."""

    name: str
    node_id: str
    path: str
    asks: bool = False
    approvers: JsonObject | None = None

    @property
    def pattern(self) -> bool:
        """Whether it stands for every tool that begins like it."""
        return self.name.endswith("*")

    @property
    def condition(self) -> str:
        """The jq expression that is true for calls of it."""
        if self.pattern:
            return f".call.name | startswith({json.dumps(self.name[:-1])})"
        return f".call.name == {json.dumps(self.name)}"


@dataclass(slots=True, kw_only=True)
class AgentNodes:
    """The nodes of an agent, and which part of the block each of them comes from: for the whole node under `""`."""

    nodes: list[JsonValue] = field(default_factory=list)
    sources: dict[str, dict[str, str]] = field(default_factory=dict)


def agent_tools(agent: JsonObject) -> tuple[AgentTool, ...]:
    """Return the tools that a block lists, names before patterns: what has an entry of its own follows that."""
    listed = agent.get("tools")
    taken = {*OWN_IDS, *RESERVED_IDS, *(MEMORY_IDS if "memory" in agent else ())}
    taken.update(SUMMARY_IDS if summarizes(agent) else ())
    found: dict[str, AgentTool] = {}
    for index, item in enumerate(listed if isinstance(listed, list) else []):
        entry = item if isinstance(item, dict) else {"tool": item}
        name, approvers = entry.get("tool"), entry.get("approvers")
        if isinstance(name, str) and name and name not in found:
            node_id = _node_id(name, index, taken)
            taken.update((node_id, f"approve_{node_id}", f"after_{node_id}"))
            found[name] = AgentTool(
                name=name,
                node_id=node_id,
                path=f"/agent/tools/{index}",
                asks=entry.get("approve") is True or isinstance(approvers, dict),
                approvers=approvers if isinstance(approvers, dict) else None,
            )
    return tuple(sorted(found.values(), key=lambda tool: (tool.pattern, -len(tool.name) if tool.pattern else 0)))


def _node_id(name: str, index: int, taken: set[str]) -> str:
    plain = _NOT_IN_ID.sub("_", name.rstrip("*").rpartition(":")[2] or name).strip("_")[: _ID_CHARACTERS_MAX - 9]
    for candidate in (plain, f"tool_{plain}"):
        others = (candidate, f"approve_{candidate}", f"after_{candidate}")
        if candidate and not candidate[0].isdigit() and taken.isdisjoint(others):
            return candidate
    return f"tool_{index + 1}"


def agent_nodes(document: JsonObject) -> AgentNodes:
    """Return the nodes that the block of an agent stands for."""
    agent = object_or_empty(document.get("agent"))
    made = _Writer(document=document, agent=agent).written()
    add_memory(made.nodes, made.sources, agent)
    add_summaries(made.nodes, made.sources, agent)
    return made


def agent_state(document: JsonObject) -> JsonObject:
    """Return the schema of the state of such a run."""
    if not summarizes(object_or_empty(document.get("agent"))):
        return _STATE
    return {**_STATE, "properties": {**object_or_empty(_STATE["properties"]), **SUMMARY_STATE}}


@dataclass(slots=True, kw_only=True)
class _Writer:
    document: JsonObject
    agent: JsonObject
    made: AgentNodes = field(default_factory=AgentNodes)

    def written(self) -> AgentNodes:
        tools = agent_tools(self.agent)
        nodes = self.made.nodes
        if tools:
            nodes.append(self._listing(tools))
        nodes += [self._begin(has_tools=bool(tools)), self._turns(tools), self._answer()]
        if self._limit("time") is not None:
            said = f"the agent has worked for longer than {self._limit('time')}"
            nodes.append(self._failing("time_spent", "AGENT_TIME_SPENT", said, "/agent/limits/time"))
        return self.made

    def _from(self, node_id: str, **fields: str) -> None:
        """Note where a node, or a field of it, comes from."""
        self.made.sources[node_id] = {name or "": path for name, path in fields.items()}

    def _limit(self, name: str) -> JsonValue:
        return object_or_empty(self.agent.get("limits")).get(name)

    def _count(self, name: str, default: int) -> int:
        found = self._limit(name)
        return found if isinstance(found, int) and not isinstance(found, bool) and found > 0 else default

    def _listing(self, tools: tuple[AgentTool, ...]) -> JsonObject:
        self._from("tools", node="/agent/tools")
        listed: list[JsonValue] = [tool.name for tool in tools]
        return {
            "id": "tools",
            "type": "tool_call",
            "server": "penstock",
            "tool": "tools/list",
            "allow": listed,
            "by_model": True,
            "retry": dict(_CALL_RETRY),
        }

    def _begin(self, *, has_tools: bool) -> JsonObject:
        listed = ".tools.tools" if has_tools else "[]"
        asks = f" + [{json.dumps(_ASK)}]" if self.agent.get(ASK_USER) is True else ""
        said = "[]"
        if "prompt" not in self.agent:
            said = '[{role: "user", text: .input.prompt}]'
            if "context" in object_or_empty(input_schema_of(self.document).get("properties")):
                data = '[{role: "user", data: .input.context, source: "context"}]'
                said += f" + (if .input.context == null then [] else {data} end)"
        self._from("begin", node="/agent")
        return {"id": "begin", "type": "set_state", "set": {"tools": _jq(f"{listed}{asks}"), "conversation": _jq(said)}}

    def _turns(self, tools: tuple[AgentTool, ...]) -> JsonObject:
        self._from("turns", node="/agent/limits", max_iterations="/agent/limits/turns", timeout="/agent/limits/time")
        loop: JsonObject = {
            "id": "turns",
            "type": "loop",
            "until": _ANSWERED,
            "max_iterations": self._count("turns", limits.AGENT_TURNS_DEFAULT),
            "nodes": [self._turn(), _COUNT, *self._decision(), self._calls(tools), _KEEP],
        }
        time = self._limit("time")
        if isinstance(time, str | int):
            loop |= {"timeout": time, "on_error": {"code": "TIMEOUT", "next": "time_spent"}}
        return loop

    def _turn(self) -> JsonObject:
        names = ("model", "output_schema", "prompt", *_SETTINGS)
        self._from(
            "turn",
            node="/agent",
            system_prompt="/agent/instructions",
            answer_schema="/agent/output_schema",
            conversation_characters="/agent/conversation/characters",
            **{name: f"/agent/{name}" for name in names},
        )
        node: JsonObject = {
            "id": "turn",
            "type": "llm_call",
            "model": self.agent.get("model", "default"),
            "system_prompt": self.agent.get("instructions", ""),
            "conversation": "conversation",
            "tools": "tools",
        }
        for name in ("prompt", *_SETTINGS):
            if name in self.agent:
                node[name] = self.agent[name]
        characters = object_or_empty(self.agent.get("conversation")).get("characters")
        if characters is not None:
            node["conversation_characters"] = characters
        schema = answer_schema_of(self.document)
        return node if schema is None else {**node, "answer_schema": schema}

    def _decision(self) -> list[JsonValue]:
        """What follows a turn, and the ends of an agent that may not go on. Nothing is called beyond a limit."""
        turns = self._count("turns", limits.AGENT_TURNS_DEFAULT)
        cases: list[JsonValue] = [{"when": _ANSWERED, "next": "$exit"}]
        nodes: list[JsonValue] = []
        tokens, cost = self._limit("tokens"), self._limit("cost")
        if tokens is not None:
            cases.append({"when": f".state.spent.tokens >= {json.dumps(tokens)}", "next": "tokens_spent"})
            said = f"the agent has used ${{ .state.spent.tokens }} of {tokens} tokens"
            nodes.append(self._failing("tokens_spent", "AGENT_TOKENS_SPENT", said, "/agent/limits/tokens"))
        if cost is not None:
            cases.append({"when": ".state.spent.cost == null", "next": "cost_unknown"})
            cases.append({"when": f".state.spent.cost >= {json.dumps(cost)}", "next": "cost_spent"})
            said = f"the agent has spent ${{ .state.spent.cost }} of {cost} US dollars"
            nodes.append(self._failing("cost_spent", "AGENT_COST_SPENT", said, "/agent/limits/cost"))
            said = "the agent has a limit of cost, and the price of its model is not known"
            nodes.append(self._failing("cost_unknown", "AGENT_COST_UNKNOWN", said, "/agent/limits/cost"))
        cases += [
            {"when": f".loop.index + 1 >= {turns}", "next": "turns_spent"},
            {
                "when": f".turn.problem != null and .state.repairs >= {limits.AGENT_REPAIRS_MAX}",
                "next": "unfit",
            },
            {"when": ".turn.problem != null", "next": "repair"},
        ]
        said = f"the agent has not answered within {turns} turns"
        nodes.append(self._failing("turns_spent", "AGENT_TURNS_SPENT", said, "/agent/limits/turns"))
        said = "the answer of the model does not fit, also after repairs: ${ .turn.problem }"
        nodes.append(self._failing("unfit", "OUTPUT_SCHEMA_VIOLATION", said, "/agent/output_schema"))
        return [{"id": "decide", "type": "switch", "cases": cases, "default": "calls"}, *nodes, _REPAIR]

    def _failing(self, node_id: str, code: str, message: str, path: str) -> JsonObject:
        self._from(node_id, node=path)
        return {"id": node_id, "type": "fail", "code": code, "message": message}

    def _calls(self, tools: tuple[AgentTool, ...]) -> JsonObject:
        self._from("calls", node="/agent/tools", concurrency="/agent/limits/parallel_tools")
        cases: list[JsonValue] = [{"when": ".call.problem != null", "next": "malformed"}]
        nodes: list[JsonValue] = []
        for tool in tools:
            cases.append({"when": tool.condition, "next": f"approve_{tool.node_id}" if tool.asks else tool.node_id})
            nodes += self._tool(tool)
        if self.agent.get(ASK_USER) is True:
            cases.append({"when": f".call.name == {json.dumps(ASK_USER)}", "next": ASK_USER})
            self._from(ASK_USER, node=f"/agent/{ASK_USER}")
            nodes.append(_QUESTION)
        if any(tool.asks for tool in tools):
            said = "somebody declined the call of ${ .call.name }"
            nodes.append(self._failing("declined", "TOOL_CALL_DECLINED", said, "/agent/tools"))
        said = "there is no tool ${ .call.name }"
        nodes.append(self._failing("unknown", "TOOL_UNKNOWN", said, "/agent/tools"))
        nodes.append(self._failing("malformed", "TOOL_ARGUMENTS_INVALID", "${ .call.problem }", "/agent/tools"))
        return {
            "id": "calls",
            "type": "for_each",
            "items": ".turn.tool_calls",
            "as": "call",
            "concurrency": self._count("parallel_tools", limits.AGENT_PARALLEL_TOOLS_DEFAULT),
            "on_item_error": "collect",
            "nodes": [{"id": "route", "type": "switch", "cases": cases, "default": "unknown"}, *nodes],
        }

    def _tool(self, tool: AgentTool) -> list[JsonValue]:
        node_id = tool.node_id
        self._from(node_id, node=tool.path)
        node: JsonObject = {
            "id": node_id,
            "type": "tool_call",
            "server": "penstock",
            "tool": tool.name,
            "arguments": "${ .call.arguments }",
            "by_model": True,
            "retry": dict(_CALL_RETRY),
            "next": "$exit",
        }
        if tool.pattern:
            arguments: JsonObject = {"name": "${ .call.name }", "arguments": "${ .call.arguments }"}
            node |= {"tool": "tools/call", "allow": [tool.name], "arguments": arguments}
        if not tool.asks:
            return [node]
        asking, after = f"approve_{node_id}", f"after_{node_id}"
        self._from(asking, node=tool.path, approvers=f"{tool.path}/approvers")
        self._from(after, node=tool.path)
        question: JsonObject = {
            "id": asking,
            "type": "interrupt",
            "message": "May the agent call ${ .call.name } with ${ .call.arguments | tojson }?",
            "answer": _APPROVED,
            "decline": {"approved": False},
            "next": after,
        }
        if tool.approvers is not None:
            question["approvers"] = tool.approvers
        cases: list[JsonValue] = [{"when": f".{asking}.approved", "next": node_id}]
        return [question, {"id": after, "type": "switch", "cases": cases, "default": "declined"}, node]

    def _answer(self) -> JsonObject:
        self._from("answer", node="/agent/output_schema")
        written = ".turn.answer" if answer_schema_of(self.document) is not None else "{text: .turn.answer}"
        return {"id": "answer", "type": "end", "output": _jq(written)}


def _jq(program: str) -> JsonObject:
    return {"jq": program}


_COUNT: JsonObject = {
    "id": "count",
    "type": "set_state",
    "set": {
        "conversation": _jq('[{role: "assistant", text: .turn.text, tool_calls: .turn.tool_calls}]'),
        "spent": _jq(
            "{tokens: (.state.spent.tokens + .turn.usage.input_tokens + .turn.usage.output_tokens), "
            "cost: (if .state.spent.cost == null or .turn.usage.cost == null then null "
            "else .state.spent.cost + .turn.usage.cost end)}"
        ),
    },
}
_REPAIR: JsonObject = {
    "id": "repair",
    "type": "set_state",
    "set": {"conversation": _jq('[{role: "user", text: .turn.problem}]'), "repairs": _jq(".state.repairs + 1")},
    "next": "$exit",
}
_QUESTION: JsonObject = {
    "id": ASK_USER,
    "type": "interrupt",
    "message": '${ (.call.arguments.question // "The agent asks for your help.") | tostring }',
    "answer": {
        "type": "object",
        "required": ["answer"],
        "properties": {"answer": {"type": "string", "title": "Your answer"}},
        "additionalProperties": False,
    },
    "next": "$exit",
}
_KEEP: JsonObject = {
    "id": "keep",
    "type": "set_state",
    "set": {"conversation": _jq(KEEP_RESULTS)},
}
