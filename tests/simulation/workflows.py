"""Random workflows: valid native documents from a seed, as wild as the format allows.

`native_document` writes one document; `family` writes a main workflow with the child workflows it may call. The
documents of the published format are made in `published_workflows`. Nothing here runs anything.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from penstock.base.json import JsonObject, JsonValue
from tests.simulation.published_workflows import published_document

__all__ = ["ANSWER_SCHEMA", "ERROR_CODES", "SIGNALS", "Family", "family", "native_document"]

SIGNALS = ("go", "paid", "news")
ERROR_CODES = ("E_BUSY", "E_TEMPORARY", "FATAL", "E_ODD")
ANSWER_SCHEMA: JsonObject = {
    "type": "object",
    "required": ["approve"],
    "properties": {"approve": {"type": "boolean"}, "note": {"type": "string"}},
}
_OUTPUT_SCHEMA: JsonObject = {"type": "object", "required": ["value"], "properties": {"value": {"type": "integer"}}}
_STATE_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "count": {"type": "integer"},
        "log": {"type": "array", "reducer": "append"},
        "facts": {"type": "object", "reducer": "merge"},
        "last": {},
    },
}
_DEPTH_MAX = 3


@dataclass(frozen=True, kw_only=True)
class Family:
    """A main workflow, the children it may start (by reference), and a run beside it that signals go to."""

    main: JsonObject
    children: dict[str, JsonObject]
    sibling: JsonObject


def family(rng: random.Random, *, timed_retries: bool = True) -> Family:
    """A main workflow with children; `timed_retries` allows policies that depend on how much time went by."""
    leaf = _document(rng, "leaf", (), small=True, timed_retries=timed_retries)
    children = {"leaf": leaf}
    if rng.random() < 0.5:
        children["middle"] = _document(rng, "middle", ("leaf",), small=True, timed_retries=timed_retries)
    names = tuple(children)
    main = _document(rng, "main", names, small=False, timed_retries=timed_retries)
    return Family(main=main, children=children, sibling=_sibling())


def _document(
    rng: random.Random, name: str, children: tuple[str, ...], *, small: bool, timed_retries: bool
) -> JsonObject:
    if rng.random() < 0.2:
        return published_document(rng, name, children)
    return native_document(rng, name, children, small=small, timed_retries=timed_retries)


def _sibling() -> JsonObject:
    return {
        "penstock": "v1",
        "name": "sibling",
        "nodes": [
            {"id": "first", "type": "wait", "signal": "news", "timeout": "10m", "on_timeout": "done"},
            {"id": "second", "type": "wait", "signal": "paid", "timeout": "10m", "on_timeout": "done"},
            {"id": "done", "type": "end", "output": {"first": "${ .first }", "second": "${ .second }"}},
        ],
    }


def native_document(
    rng: random.Random, name: str, children: tuple[str, ...], *, small: bool = False, timed_retries: bool = True
) -> JsonObject:
    """A valid native document."""
    return _Writer(rng=rng, children=children, timed_retries=timed_retries).document(name, small=small)


@dataclass(kw_only=True)
class _Place:
    """Where a node is written: what it may refer to, and what lies ahead of it."""

    depth: int
    visible: tuple[str, ...]
    ahead: tuple[str, ...]
    in_items: bool = False
    in_loop: bool = False
    at_root: bool = False

    @property
    def targets(self) -> tuple[str, ...]:
        """Where a node may lead; mostly not far, so that much of a document is walked."""
        return self.ahead[:2] if self.at_root else (*self.ahead[:2], "$exit")


@dataclass(kw_only=True)
class _Writer:
    rng: random.Random
    children: tuple[str, ...]
    timed_retries: bool
    count: int = 0
    uses_secret: bool = False
    kinds: tuple[tuple[str, float], ...] = field(init=False)

    def __post_init__(self) -> None:
        weights = {
            "step": 4.0,
            "tool_call": 2.0,
            "other_activity": 1.0,
            "set_state": 2.0,
            "switch": 1.2,
            "wait_duration": 1.2,
            "wait_signal": 1.0,
            "interrupt": 1.0,
            "emit": 0.7,
            "parallel": 1.5,
            "race": 0.8,
            "for_each": 1.5,
            "loop": 1.0,
        }
        if self.children:
            weights["subworkflow"] = 2.0
        self.kinds = tuple(weights.items())

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def new_id(self) -> str:
        self.count += 1
        return f"n{self.count}"

    def document(self, name: str, *, small: bool) -> JsonObject:
        ids = [self.new_id() for _ in range(self.rng.randint(2, 4) if small else self.rng.randint(4, 10))]
        end, handler, second_end = "finish", "handle", "finish_badly"
        gated, again = self.chance(0.2), self.chance(0.3)
        ahead = ("gate",) * gated + ("more",) * again + (end,)
        nodes = self._nodes(ids, _Place(depth=0, visible=(), ahead=ahead, at_root=True))
        if gated:
            nodes.append({"id": "gate", "type": "switch", "cases": [self._case(ahead[1])], "default": "give_up"})
        if again:
            nodes.extend(self._again(end))
        output: JsonValue = {"state": "${ .state }", "last": f"${{ .{ids[-1]} }}"}
        nodes.append({"id": end, "type": "end", "output": output})
        document: JsonObject = {
            "penstock": "v1",
            "name": name,
            "version": "1.0.0",
            "input": {"type": "object", "properties": {"n": {"type": "integer"}, "items": {"type": "array"}}},
            "state": _STATE_SCHEMA,
            "nodes": nodes,
        }
        if gated:
            nodes.append({"id": "give_up", "type": "fail", "code": "GAVE_UP", "message": "after all that"})
        if self.chance(0.35):
            document["on_error"] = [self._workflow_route(nodes, handler, second_end)]
        if self.chance(0.12):
            document["timeout"] = self.rng.choice(["40s", "5m", "1h"])
        if self.chance(0.2):
            policies: list[JsonObject] = [{"strategy": "after_each_node"}, {"strategy": "every_n_nodes", "n": 2}]
            document["checkpointing"] = self.rng.choice(policies)
        if self.chance(0.2):
            document["defaults"] = {"retry": {"max_attempts": 2, "initial_interval": "100ms"}, "timeout": "30s"}
        if self.uses_secret:
            document["secrets"] = ["API_KEY"]
        return document

    def _again(self, end: str) -> list[JsonValue]:
        """Two nodes that lead to the next run of a chain, which is not endless."""
        last = self.rng.randint(2, 4)
        given: JsonObject = {"n": "${ (.input.n // 0) + 1 }", "items": "${ .input.items // [] }", "odd": "${ .state }"}
        if self.chance(0.1):
            given["n"] = "${ [.run.id] }"  # the input schema refuses it
        return [
            {
                "id": "more",
                "type": "switch",
                "cases": [{"when": f".run.generation >= {last}", "next": end}],
                "default": "again",
            },
            {"id": "again", "type": "continue_as_new", "input": given},
        ]

    def _case(self, target: str) -> JsonObject:
        return {"when": self.rng.choice(["(.input.n // 0) > 2", "false"]), "next": target}

    def _workflow_route(self, nodes: list[JsonValue], handler: str, second_end: str) -> JsonObject:
        if self.chance(0.3):
            return {"fallback": {"recovered": True}}
        nodes.append({"id": handler, "type": "step", "handler": "clean.up", "with": {"why": "${ .error.code }"}})
        if self.chance(0.5):
            nodes.append({"id": second_end, "type": "end", "output": {"failed": "${ .error.node }"}})
        else:
            nodes.append({"id": second_end, "type": "fail", "code": "GAVE_UP", "message": "after ${ .error.code }"})
        return {"next": handler}

    # --- bodies ----------------------------------------------------------------------------------

    def _nodes(self, ids: list[str], place: _Place) -> list[JsonValue]:
        nodes: list[JsonValue] = []
        visible = place.visible
        for position, node_id in enumerate(ids):
            here = _Place(
                depth=place.depth,
                visible=visible,
                ahead=(*ids[position + 1 :], *place.ahead),
                in_items=place.in_items,
                in_loop=place.in_loop,
                at_root=place.at_root,
            )
            nodes.append(self._node(node_id, here))
            visible = (*visible, node_id)
        return nodes

    def _body(self, place: _Place, *, in_items: bool = False, in_loop: bool = False) -> list[JsonValue]:
        ids = [self.new_id() for _ in range(self.rng.randint(1, 3))]
        inner = _Place(
            depth=place.depth + 1,
            visible=place.visible,
            ahead=(),
            in_items=in_items or place.in_items,
            in_loop=in_loop or place.in_loop,
        )
        nodes = self._nodes(ids, inner)
        if self.chance(0.12):
            self._end_in_failure(nodes, inner)
        return nodes

    def _end_in_failure(self, nodes: list[JsonValue], place: _Place) -> None:
        """A deliberate failure at the end of a body, reached by a switch at its beginning."""
        target, first = self.new_id(), nodes[0]
        last = nodes[-1]
        if not isinstance(first, dict) or not isinstance(last, dict) or last["type"] == "switch" or "next" in last:
            return
        gate: JsonObject = {
            "id": self.new_id(),
            "type": "switch",
            "cases": [{"when": self._condition(place), "next": target}],
            "default": first["id"],
        }
        last["next"] = "$exit"
        nodes.insert(0, gate)
        nodes.append({"id": target, "type": "fail", "code": self.rng.choice(ERROR_CODES), "message": "as asked"})

    def _node(self, node_id: str, place: _Place) -> JsonObject:
        kinds = self.kinds
        if place.depth >= _DEPTH_MAX:
            kinds = tuple(item for item in kinds if item[0] not in ("parallel", "race", "for_each", "loop"))
        names, weights = zip(*kinds, strict=True)
        kind: str = self.rng.choices(names, weights)[0]
        writers: dict[str, Callable[[_Place], JsonObject]] = {
            "step": self._step,
            "tool_call": self._tool_call,
            "other_activity": self._other_activity,
            "set_state": self._set_state,
            "switch": self._switch,
            "wait_duration": self._wait_duration,
            "wait_signal": self._wait_signal,
            "interrupt": self._interrupt,
            "emit": self._emit,
            "parallel": self._parallel,
            "race": self._race,
            "for_each": self._for_each,
            "loop": self._loop,
            "subworkflow": self._subworkflow,
        }
        node: JsonObject = {"id": node_id, **writers[kind](place)}
        if "on_error" not in node and kind != "switch" and self.chance(0.35):
            node["on_error"] = [self._error_route(place)]
        if kind not in ("switch",) and "next" not in node and self.chance(0.08):
            node["next"] = {"when": self._condition(place), "then": self.rng.choice(place.targets)}
        return node

    # --- values ----------------------------------------------------------------------------------

    def _value(self, place: _Place) -> str:
        choices = [".input.n", "(.state.count // 0) + 1", ".run.attempt", "[.state.log // [] | length]", "7"]
        choices.extend(f".{name}" for name in place.visible[-3:])
        if self.chance(0.04):
            return 'if (.input.n // 0) > 1 then error("odd") else 1 end'
        if place.in_items:
            choices.extend([".item", ".index"])
        if place.in_loop:
            choices.append(".loop.index")
        return self.rng.choice(choices)

    def _template(self, place: _Place) -> JsonValue:
        query = self._value(place)
        forms: list[JsonValue] = [
            f"${{ {query} }}",
            {"jq": query},
            {"literal": "${ kept }"},
            f"text ${{ {query} }}",
            3,
        ]
        return self.rng.choice(forms)

    def _condition(self, place: _Place) -> str:
        choices = ["(.input.n // 0) > 2", "(.state.count // 0) > 1", "(.state.count // 0) < 2", "false"]
        if place.in_items:
            choices.append(".index == 1")
        if place.in_loop:
            choices.append(".loop.index > 0")
        return self.rng.choice(choices)

    def _error_route(self, place: _Place) -> JsonObject:
        route: JsonObject = {}
        if self.chance(0.5):
            codes: list[JsonValue] = [self.rng.choice(ERROR_CODES), "TIMEOUT"]
            route["codes"] = codes
        if self.chance(0.5):
            route["next"] = self.rng.choice(place.targets)
        else:
            values: list[JsonValue] = ["${ .error.code }", {"fell_back": True}, {"value": 0}, 5]
            route["fallback"] = self.rng.choice(values)
        return route

    def _retry(self) -> JsonObject:
        retry: JsonObject = {"max_attempts": self.rng.randint(1, 4)}
        if self.chance(0.7):
            retry["initial_interval"] = self.rng.choice(["0ms", "50ms", "1s", "5s"])
        if self.chance(0.4):
            retry["backoff_coefficient"] = self.rng.choice([1, 1.5, 2])
        if self.chance(0.3):
            retry["jitter"] = True
        if self.chance(0.3):
            retry["max_interval"] = "3s"
        if self.chance(0.3):
            retry["non_retryable_errors"] = ["FATAL"]
        if self.timed_retries and self.chance(0.1):
            retry["max_elapsed"] = "10s"
        return retry

    def _timeout(self, node: JsonObject, share: float = 0.25) -> None:
        if self.chance(share):
            node["timeout"] = self.rng.choice(["1s", "5s", "1m", "10m"])

    # --- activities ------------------------------------------------------------------------------

    def _as_activity(self, node: JsonObject, place: _Place) -> JsonObject:
        if self.chance(0.5):
            node["retry"] = self._retry()
        self._timeout(node)
        if self.chance(0.4):
            node["compensate"] = self._compensation(place)
        if self.chance(0.2):
            node["effects"] = "at_most_once"
        if self.chance(0.1):
            node["idempotency_key"] = "order-${ .input.n }"
        if self.chance(0.15):
            node["output_schema"] = _OUTPUT_SCHEMA
        return node

    def _compensation(self, place: _Place) -> JsonObject:
        undo: JsonObject = {"handler": "undo.it", "with": {"what": self._template(place)}}
        if self.chance(0.3):
            undo = {"server": "shop", "tool": "undo", "arguments": {"what": self._template(place)}}
        if self.chance(0.5):
            undo["retry"] = self._retry()
        self._timeout(undo)
        return undo

    def _step(self, place: _Place) -> JsonObject:
        arguments: JsonObject = {"a": self._template(place), "b": [self._template(place)]}
        if self.chance(0.15):
            self.uses_secret = True
            arguments["token"] = "Bearer ${secret:API_KEY}"
        return self._as_activity({"type": "step", "handler": "do.it", "with": arguments}, place)

    def _tool_call(self, place: _Place) -> JsonObject:
        node: JsonObject = {"type": "tool_call", "server": "shop", "tool": "look"}
        if self.chance(0.7):
            node["arguments"] = {"query": self._template(place)}
        return self._as_activity(node, place)

    def _other_activity(self, place: _Place) -> JsonObject:
        query = self._value(place)
        nodes: list[JsonObject] = [
            {"type": "llm_call", "model": "small", "prompt": f"Say ${{ {query} }}"},
            {"type": "http", "url": f"https://api.example.com/${{ {query} }}"},
            {"type": "agent_delegate", "agent_id": "clerk", "input": {"task": f"${{ {query} }}"}},
        ]
        return self._as_activity(self.rng.choice(nodes), place)

    # --- state, choices, waits -------------------------------------------------------------------

    def _set_state(self, place: _Place) -> JsonObject:
        values: JsonObject = {}
        if self.chance(0.7):
            values["count"] = "${ (.state.count // 0) + 1 }"
        if self.chance(0.6):
            values["log"] = self._template(place)
        if self.chance(0.4):
            values["facts"] = {self.rng.choice("abc"): {self.rng.choice("xy"): self._template(place)}}
        if not values:
            values["last"] = self._template(place)
        if self.chance(0.03):
            values["count"] = '${ if (.state.count // 0) > 0 then error("odd") else 1 end }'
        return {"type": "set_state", "set": values}

    def _switch(self, place: _Place) -> JsonObject:
        targets = place.targets
        cases: list[JsonValue] = [
            {"when": self._condition(place), "next": self.rng.choice(targets)} for _ in range(self.rng.randint(1, 2))
        ]
        if self.chance(0.1):
            return {"type": "switch", "cases": [*cases, {"when": "(.input.n // 0) > 0", "next": targets[0]}]}
        # The node after a switch stays reachable: it is the default.
        return {"type": "switch", "cases": cases, "default": targets[0]}

    def _wait_duration(self, place: _Place) -> JsonObject:
        if self.chance(0.15):
            moments = ["2025-01-01T00:00:00Z", "${ .run.started_at }", "2025-10-09T09:00:00Z", "${ .input.odd }"]
            return {"type": "wait", "until": self.rng.choice(moments)}
        return {"type": "wait", "duration": self.rng.choice(["0ms", "10ms", "2s", "1m30s"])}

    def _wait_signal(self, place: _Place) -> JsonObject:
        node: JsonObject = {"type": "wait", "signal": self.rng.choice(SIGNALS)}
        self._timeout(node, 0.6)
        if "timeout" in node and self.chance(0.6):
            node["on_timeout"] = self.rng.choice(place.targets)
        return node

    def _interrupt(self, place: _Place) -> JsonObject:
        node: JsonObject = {"type": "interrupt", "message": f"What of ${{ {self._value(place)} }}?"}
        if self.chance(0.8):
            node["answer"] = ANSWER_SCHEMA
        self._timeout(node, 0.4)
        if "timeout" in node and self.chance(0.6):
            node["on_timeout"] = self.rng.choice(place.targets)
        return node

    def _emit(self, place: _Place) -> JsonObject:
        target = self.rng.choice(
            ["${ .run.id }", "${ .run.id }", "sibling", "sibling", "sibling", "nobody", "${ .input.odd }"]
        )
        node: JsonObject = {"type": "emit", "run": target, "signal": self.rng.choice(SIGNALS)}
        if self.chance(0.7):
            node["payload"] = {"from": self._template(place)}
        return node

    # --- nodes with bodies -----------------------------------------------------------------------

    def _branches(self, place: _Place) -> list[JsonValue]:
        return [{"name": f"b{index}", "nodes": self._body(place)} for index in range(self.rng.randint(1, 3))]

    def _parallel(self, place: _Place) -> JsonObject:
        branches = self._branches(place)
        node: JsonObject = {"type": "parallel", "branches": branches}
        join = self.rng.choice(["all", "any", "n_of_m", None])
        if join is not None:
            node["join"] = join
        if join == "n_of_m":
            node["n"] = self.rng.randint(1, len(branches))
        if self.chance(0.5):
            node["concurrency"] = self.rng.randint(1, len(branches))
        self._timeout(node, 0.12)
        return node

    def _race(self, place: _Place) -> JsonObject:
        node: JsonObject = {"type": "race", "branches": self._branches(place)}
        self._timeout(node, 0.15)
        return node

    def _for_each(self, place: _Place) -> JsonObject:
        lists: list[JsonValue] = [".input.items", "[range(3)]", "${ [1, 2, 3, 4] }", "[]", [{"a": 1}, "two"]]
        node: JsonObject = {
            "type": "for_each",
            "items": ".input.odd" if self.chance(0.05) else self.rng.choice(lists),
            "nodes": self._body(place, in_items=True),
        }
        if self.chance(0.6):
            node["concurrency"] = self.rng.randint(1, 4)
        if self.chance(0.6):
            node["on_item_error"] = self.rng.choice(["fail", "skip", "collect"])
        if self.chance(0.8):
            node["result"] = {"position": "${ .index }", "item": "${ .item }"}
        self._timeout(node, 0.1)
        return node

    def _loop(self, place: _Place) -> JsonObject:
        node: JsonObject = {"type": "loop", "nodes": self._body(place, in_loop=True)}
        node["max_iterations"] = self.rng.randint(1, 3)
        condition = self._condition(_Place(depth=place.depth, visible=place.visible, ahead=()))
        node[self.rng.choice(["while", "until"])] = condition
        if self.chance(0.6):
            node["on_exhausted"] = "continue"
        self._timeout(node, 0.1)
        return node

    def _subworkflow(self, place: _Place) -> JsonObject:
        node: JsonObject = {
            "type": "subworkflow",
            "workflow": self.rng.choice(self.children),
            "input": {"n": self._template(place) if self.chance(0.1) else 1, "items": "${ .input.items }"},
        }
        if self.chance(0.4):
            node["retry"] = self._retry()
        self._timeout(node, 0.2)
        return node
