"""Random workflows in the published format: edges, `config` blocks, one state, branches by entry in list order.

Below it: nothing but JSON. `workflows` mixes these documents with native ones.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from penstock.base.json import JsonObject, JsonValue

__all__ = ["published_document"]

_STATE: JsonObject = {
    "type": "object",
    "properties": {
        "n": {"type": "integer"},
        "items": {"type": "array"},
        "count": {"type": "integer"},
        "log": {"type": "array", "reducer": "append"},
        "facts": {"type": "object", "reducer": "merge"},
    },
}


def published_document(rng: random.Random, name: str, children: tuple[str, ...]) -> JsonObject:
    """A valid document of the published format."""
    return _Writer(rng=rng, children=children).document(name)


@dataclass(kw_only=True)
class _Writer:
    rng: random.Random
    children: tuple[str, ...]
    nodes: list[JsonValue] = field(default_factory=list)
    edges: list[JsonValue] = field(default_factory=list)
    count: int = 0

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def new_id(self) -> str:
        self.count += 1
        return f"p{self.count}"

    def document(self, name: str) -> JsonObject:
        self.nodes.append({"id": "begin", "type": "start"})
        self.edge("__start__", "begin")
        last = "begin"
        for _ in range(self.rng.randint(2, 6)):
            last = self._append(last)
        self.nodes.append({"id": "finish", "type": "end", "config": {"output_mapping": "{count, log, facts}"}})
        self.edge(last, "finish")
        document: JsonObject = {
            "document": {"schema": "https://example.com/workflow", "name": name, "version": "1.0.0"},
            "state_schema": _STATE,
            "nodes": self.nodes,
            "edges": self.edges,
        }
        if self.chance(0.3):
            policies: list[JsonObject] = [
                {"strategy": "every_n_nodes", "n": 2},
                {"strategy": "disabled"},
                {"strategy": "after_each_node"},
            ]
            document["checkpointing"] = self.rng.choice(policies)
        return document

    def edge(self, source: str, target: str) -> None:
        self.edges.append({"source": source, "target": target})

    def _append(self, last: str) -> str:
        """Write one node (or a small group) after another; the id that the next edge starts at."""
        kind = self.rng.choice(["simple", "simple", "simple", "interrupt", "signal", "parallel", "loop"])
        if kind == "parallel":
            return self._parallel(last)
        if kind == "loop":
            return self._loop(last)
        node_id = self.new_id()
        self.edge(last, node_id)
        if kind == "interrupt":
            config: JsonObject = {"prompt": "Go on?", "resume_schema": {"type": "object", "required": ["approve"]}}
            if self.chance(0.3):
                config["timeout"] = "20s"
            self.nodes.append({"id": node_id, "type": "interrupt", "config": config})
        elif kind == "signal":
            self.nodes.append({"id": node_id, "type": "wait", "config": {"kind": "signal", "signal": "go"}})
        else:
            self.nodes.append(self._simple(node_id))
        return node_id

    def _simple(self, node_id: str, *, in_loop: bool = False) -> JsonObject:
        nodes: list[JsonObject] = [
            {"type": "step", "config": {"handler": "urn:do:it"}},
            {"type": "tool_call", "config": {"server": "shop", "tool": "look", "arguments": {"n": "${ .n }"}}},
            {"type": "llm_call", "config": {"model": "small", "prompt": "Say it"}},
            {
                "type": "agent_delegate",
                "config": {"agent_id": "clerk", "protocol": "a2a", "input_mapping": {"n": "${ .n }"}},
            },
            {"type": "wait", "config": {"kind": "duration", "duration_ms": self.rng.choice([0, 10, 2000])}},
            {"type": "set_state", "config": {"assignments": self._assignments()}},
        ]
        if self.children and not in_loop:
            # A child's final state is merged into the parent's and would set back the counter of a loop.
            reference = self.rng.choice(self.children)
            config: JsonObject = {"workflow_ref": reference, "input_mapping": {"n": {"jq": ".n"}, "items": [1, 2]}}
            nodes.append({"type": "subworkflow", "config": config})
        node = self.rng.choice(nodes)
        if node["type"] in ("step", "tool_call", "llm_call", "agent_delegate"):
            if self.chance(0.6):
                node["retry"] = {"max_attempts": self.rng.randint(1, 4), "initial_interval": "100ms"}
            if self.chance(0.2):
                node["timeout"] = "2s"
        return {"id": node_id, **node}

    def _assignments(self) -> JsonObject:
        return self.rng.choice(
            [
                {"count": {"jq": "(.count // 0) + 1"}},
                {"log": {"jq": "[.count]"}, "facts": {"literal": {"a": {"b": 1}}}},
                {"facts": {"jq": "{a: {(.count // 0 | tostring): true}}"}, "log": {"literal": "one"}},
            ]
        )

    def _parallel(self, last: str) -> str:
        fork, join = self.new_id(), self.new_id()
        self.edge(last, fork)
        branches: list[JsonValue] = []
        for index in range(self.rng.randint(1, 3)):
            entry = self.new_id()
            self.nodes.append(self._simple(entry))
            tail = entry
            if self.chance(0.4):
                tail = self.new_id()
                self.nodes.append(self._simple(tail))
                self.edge(entry, tail)
            self.edge(tail, join)
            branches.append({"name": f"b{index}", "entry": entry})
        config: JsonObject = {"join": self.rng.choice(["all", "any", "n_of_m"]), "branches": branches}
        if config["join"] == "n_of_m":
            config["n"] = self.rng.randint(1, len(branches))
        self.nodes.append({"id": fork, "type": "parallel", "config": config})
        self.nodes.append({"id": join, "type": "set_state", "config": {"assignments": self._assignments()}})
        self.edge(fork, join)
        return join

    def _loop(self, last: str) -> str:
        """A loop as the published format writes it: a switch that leads back."""
        work, counter, gate, leave = self.new_id(), self.new_id(), self.new_id(), self.new_id()
        self.edge(last, work)
        self.nodes.append(self._simple(work, in_loop=True))
        self.edge(work, counter)
        self.nodes.append(
            {
                "id": counter,
                "type": "set_state",
                "config": {"assignments": {"count": {"jq": "(.count // 0) + 1"}, "log": {"jq": "[.count // 0]"}}},
            }
        )
        self.edge(counter, gate)
        cases: list[JsonValue] = [{"when": "(.count // 0) < 3", "target": work}]
        self.nodes.append({"id": gate, "type": "switch", "config": {"cases": cases, "default": leave}})
        self.edge(gate, leave)
        self.nodes.append({"id": leave, "type": "set_state", "config": {"assignments": {"log": {"literal": "left"}}}})
        return leave
