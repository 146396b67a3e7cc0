"""Documents for the tests of shapes and schemas, and ways to break them.

The native document uses every node type and nearly every field; the published one every published node type.
"""

import copy
import random
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import yaml
from hypothesis import settings

from penstock.base.json import JsonObject, JsonValue

__all__ = [
    "SHARED",
    "at",
    "changed",
    "everything_native",
    "everything_published",
    "minimal_native",
    "minimal_published",
    "mutations",
]

# Fixtures that some machines have beside the project; tests that need them are skipped elsewhere.
SHARED = Path(__file__).parents[4] / "shared"

_NATIVE = """
penstock: v1
name: everything
version: 1.0.0
title: Everything
description: Uses every node type.
labels: {team: orders}
metadata: {owner: {name: Ada}}
input: {type: object, required: [orders], properties: {orders: {type: array, items: {type: object}}}}
output: {type: object, properties: {count: {type: integer}}}
state:
  type: object
  properties: {log: {type: array, reducer: append}, total: {type: number}}
secrets: [SHOP_KEY]
timeout: 1d
defaults: {retry: {max_attempts: 2}, timeout: 30s}
on_error: {codes: [TIMEOUT], next: late}
checkpointing: {strategy: every_n_nodes, n: 5}
nodes:
  - {id: begin, type: start, input_schema: {type: object}}
  - id: charge
    type: step
    title: Charge
    handler: shop.payments:charge
    with: {amount: "${ .input.amount }"}
    retry: {max_attempts: 5, initial_interval: 1s, backoff_coefficient: 2, max_interval: 1m, max_elapsed: 1h30m,
            jitter: true, non_retryable_errors: [DECLINED]}
    effects: at_most_once
    idempotency_key: "${ .run.id }"
    output_schema: {type: object}
    compensate: {handler: shop.payments:refund, with: {all: true}, timeout: 10s}
    timeout: 2000
    on_error:
      - {code: DECLINED, next: late}
      - {fallback: {paid: false}}
    next: {when: .charge.paid, then: ask, else: late}
  - {id: old, type: step, code_ref: "urn:shop:old", compensate: {server: shop, tool: undo, arguments: {a: 1}}}
  - id: words
    type: llm_call
    model: small
    provider: local
    system_prompt: Be brief.
    prompt: "Summarise ${ .input.orders }"
    temperature: 0.2
    max_tokens: 200
    tools: [{name: search}, {name: look}]
    output_schema: {type: object, properties: {text: {type: string}}}
    top_p: 0.9
  - {id: stock, type: tool_call, server: shop, tool: stock, arguments: "${ .input }", next: call}
  - id: call
    type: http
    method: POST
    url: https://api.example.com/${ .input.id }
    headers: {authorization: "${secret:SHOP_KEY}"}
    query: {page: 1}
    body: {orders: "${ .input.orders }"}
    retry_on_status: [429, 503]
    expect_status: [200, 201]
    compensate: {type: http, url: https://api.example.com/undo, method: DELETE}
  - {id: other, type: agent_delegate, agent_id: helper, protocol: mcp, input: {task: "${ .words.text }"}}
  - id: route
    type: switch
    cases:
      - {when: .input.amount > 100, next: ask}
      - {when: .input.amount > 50, target: both}
    default: $exit
  - id: ask
    type: interrupt
    message: "Charge ${ .input.amount }?"
    answer: {type: object, properties: {approve: {type: boolean}}}
    approvers: {group: leads, not_requester: true, count: 1}
    timeout: 24h
    on_timeout: late
  - id: both
    type: parallel
    join: n_of_m
    n: 1
    concurrency: 2
    timeout: 5m
    branches:
      - {name: left, nodes: [{id: left_step, type: step, handler: a}]}
      - {name: right, entry: charge}
  - id: first
    type: race
    branches:
      - name: signal
        nodes: [{id: ping, type: wait, signal: ping, timeout: 1h, on_timeout: $exit}]
      - name: clock
        nodes: [{id: clock, type: wait, kind: duration, duration: 5m}, {id: day, type: wait, until: "2030-01-31"}]
  - {id: nap, type: wait, duration_ms: 0}
  - {id: note, type: set_state, set: {log: "charged ${ .input.amount }"}}
  - {id: sums, type: set_state, assignments: {total: {jq: .state.total + 1}, log: {literal: [x]}}}
  - {id: child, type: subworkflow, workflow: other_one, input: {a: 1}, version_pin: abc, retry: {max_attempts: 2}}
  - id: each
    type: for_each
    items: .input.orders
    as: order
    concurrency: 4
    on_item_error: collect
    result: "${ .ship }"
    nodes:
      - {id: ship, type: step, handler: ship}
      - id: until_done
        type: loop
        until: .check.done
        max_iterations: 10
        on_exhausted: continue
        nodes: [{id: check, type: tool_call, server: shop, tool: check}]
  - {id: tell, type: emit, run: "${ .input.parent }", signal: done, payload: {ok: true}}
  - {id: late, type: fail, code: TOO_LATE, message: "No answer for ${ .run.id }"}
  - {id: done, type: end, output: {count: "${ .each | length }"}, output_schema: {type: object}}
  - {id: done_too, type: end, output_mapping: .state}
  - {id: again, type: continue_as_new, input: {orders: []}, version: newest}
expose: {tool: {name: everything, annotations: {destructive: true}}, resource: true, prompt: {title: Everything}}
governance:
  risk: high
  scopes: [orders.charge]
  confirm: false
  draft: never
  data: [personal]
triggers:
  - {id: nightly, schedule: {cron: "0 2 * * *", timezone: Europe/Berlin, overlap: skip, catch_up: 1h, jitter: 5m}}
  - webhook: {path: /orders, method: POST, secret: "${secret:SHOP_KEY}", dedupe: .id, filter: .ok, action: signal,
              signal: paid, run: .body.order, schema: {type: object},
              verify: {strategy: stripe, header: X-Signature, skew: 10m}}
    input: {order: "${ .body }"}
    enabled: false
tests:
  - name: all goes well
    input: {orders: []}
    mock: {charge: {paid: true}, stock: {error: {code: GONE}}}
    answers: {ask: {approve: true}}
    signals: [{name: ping, payload: 1, after: ask}]
    expect: {status: completed, output: {count: 0}, path: [charge, done], state: {total: 1}}
  - {name: it fails, expect: {error: {code: TOO_LATE}}, skip: true}
  - {name: it goes on, expect: {continues_with: {orders: []}}}
signature: {alg: EdDSA, value: a.b.c, keyId: k1}
"""

_PUBLISHED = """
document: {schema: "https://example.com/format", name: everything, version: 1.0.0, description: All of it.}
state_schema: {type: object, properties: {log: {type: array, reducer: append}, ok: {type: boolean}}}
checkpointing: {strategy: every_n_nodes, n: 2, storage: {kind: any}}
nodes:
  - {id: begin, type: start, config: {input_schema: {type: object}}}
  - {id: work, type: step, config: {handler: "urn:work", size: 3}, timeout: 30s,
     retry: {max_attempts: 3, initial_interval: 10ms, backoff_coefficient: 2, max_interval: 1s,
             non_retryable_errors: [FATAL]}}
  - {id: words, type: llm_call, config: {model: small, user_prompt: Hello, output_schema: {type: object}}}
  - {id: stock, type: tool_call, config: {server: shop, tool: stock, arguments: {a: 1}}, metadata: {x: 400}}
  - {id: route, type: switch, config: {cases: [{when: .ok, target: fork}], default: ask}}
  - {id: ask, type: interrupt, config: {prompt: "Go on?", resume_schema: {type: object}, timeout: 24h}}
  - id: fork
    type: parallel
    config: {join: n_of_m, n: 1, branches: [{name: a, entry: nap}, {name: b, entry: note}], timeout: 5m}
  - {id: nap, type: wait, config: {kind: duration, duration_ms: 0}}
  - {id: note, type: set_state, config: {assignments: {ok: {jq: .ok}, log: {literal: null}}}}
  - {id: child, type: subworkflow, config: {workflow_ref: "urn:child", input_mapping: {}, version_pin: abc}}
  - {id: other, type: agent_delegate, config: {agent_id: helper, protocol: a2a, input_mapping: {task: "${ .ok }"}}}
  - {id: finish, type: end, config: {output_mapping: .log, output_schema: {type: array}}}
edges:
  - {source: __start__, target: begin}
  - {source: begin, target: work}
  - {source: fork, target: child}
"""

_STRANGE: tuple[JsonValue, ...] = (
    None,
    True,
    0,
    -1,
    1.5,
    "",
    "strange",
    "v1",
    [],
    ["a"],
    {},
    {"a": 1},
    "type",
    "5 parsecs",
)
_NEW_NAMES = ("strange", "id", "type", "config", "next", "timeout", "retry", "signal", "n", "jq", "handler", "until")


def everything_native() -> JsonObject:
    """A valid native document with every node type."""
    return cast(JsonObject, yaml.safe_load(_NATIVE))


def everything_published() -> JsonObject:
    """A valid published document with every published node type."""
    return cast(JsonObject, yaml.safe_load(_PUBLISHED))


def minimal_native(*nodes: JsonValue, **fields: JsonValue) -> JsonObject:
    """A small native document; `nodes` replace its nodes."""
    body: list[JsonValue] = list(nodes) or [{"id": "done", "type": "end"}]
    return {"penstock": "v1", "name": "small", "nodes": body, **fields}


def minimal_published(*nodes: JsonValue, **fields: JsonValue) -> JsonObject:
    """A small published document; `nodes` stand between its start and its end."""
    return {
        "document": {"schema": "https://example.com/format", "name": "small", "version": "1"},
        "state_schema": {"type": "object"},
        "nodes": [{"id": "begin", "type": "start"}, *nodes, {"id": "finish", "type": "end"}],
        "edges": [{"source": "__start__", "target": "begin"}, {"source": "begin", "target": "finish"}],
        **fields,
    }


def at(value: JsonValue, path: str) -> JsonValue:
    """The value at a JSON pointer."""
    for part in path.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        value = value[int(name)] if isinstance(value, list) else cast(JsonObject, value)[name]
    return value


def changed(document: JsonObject, path: str, value: JsonValue) -> JsonObject:
    """A copy of a document with one value put in at a JSON pointer."""
    result = copy.deepcopy(document)
    parent, _, name = path.rpartition("/")
    target = at(result, parent)
    if isinstance(target, list):
        target[int(name)] = value
    else:
        cast(JsonObject, target)[name] = value
    return result


def mutations(document: JsonObject, count: int, seed: int) -> Iterator[JsonObject]:
    """Copies of a document, each with one or two things deleted, added or changed; the same for the same seed.

    There are as many as that where Hypothesis draws its usual fifty examples, and more or fewer where it does.
    """
    chance = random.Random(seed)
    for _ in range(max(count * settings().max_examples // 50, 1)):
        mutant = copy.deepcopy(document)
        for _ in range(chance.choice((1, 1, 2))):
            _mutate(mutant, chance)
        yield mutant


def _mutate(document: JsonObject, chance: random.Random) -> None:
    places = list(_places(document))
    container, key = chance.choice(places)
    action = chance.choice(("delete", "add", "change", "swap", "repeat"))
    if isinstance(container, dict) and isinstance(key, str):
        if action == "delete":
            del container[key]
        elif action == "add":
            container[chance.choice(_NEW_NAMES)] = copy.deepcopy(chance.choice(_STRANGE))
        elif action == "swap":
            other, other_key = chance.choice(places)
            container[key] = copy.deepcopy(_get(other, other_key))
        else:
            container[key] = copy.deepcopy(chance.choice(_STRANGE))
    elif isinstance(container, list) and isinstance(key, int):
        if action == "delete":
            del container[key]
        elif action == "repeat":
            container.append(copy.deepcopy(container[key]))
        else:
            container[key] = copy.deepcopy(chance.choice(_STRANGE))


def _get(container: JsonValue, key: str | int) -> JsonValue:
    if isinstance(container, dict):
        return container[str(key)]
    return container[int(key)] if isinstance(container, list) else None


def _places(value: JsonValue) -> Iterator[tuple[JsonValue, str | int]]:
    if isinstance(value, dict):
        for name, member in value.items():
            yield value, name
            yield from _places(member)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield value, index
            yield from _places(item)
