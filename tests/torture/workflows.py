"""The mixed workflows of the torture: everything a run can wait for or do twice."""

from __future__ import annotations

from penstock.base.json import JsonObject

__all__ = ["WORKFLOWS"]

_RETRY: JsonObject = {"max_attempts": 4, "initial_interval": "20ms", "backoff_coefficient": 1.5, "jitter": True}

ORDER: JsonObject = {
    "penstock": "v1",
    "name": "order",
    "nodes": [
        {"id": "reserve", "type": "step", "handler": "reserve", "with": {"n": "${ .input.n }"}, "retry": _RETRY},
        {
            "id": "spread",
            "type": "parallel",
            "branches": [
                {"name": "mail", "nodes": [{"id": "mail_it", "type": "step", "handler": "mail", "retry": _RETRY}]},
                {
                    "name": "nap",
                    "nodes": [
                        {"id": "nap_a_while", "type": "wait", "duration": "40ms"},
                        {"id": "log_it", "type": "step", "handler": "log", "retry": _RETRY},
                    ],
                },
            ],
        },
        {
            "id": "lines",
            "type": "for_each",
            "items": "[.input.n, .input.n + 1, .input.n + 2]",
            "as": "line",
            "concurrency": 2,
            "result": "${ .pick.picked }",
            "nodes": [
                {"id": "pick", "type": "step", "handler": "pick", "with": {"line": "${ .line }"}, "retry": _RETRY}
            ],
        },
        {"id": "charge", "type": "step", "handler": "charge", "effects": "at_most_once"},
        {"id": "done", "type": "end", "output": {"lines": "${ .lines }", "charged": "${ .charge.ok }"}},
    ],
}

APPROVAL: JsonObject = {
    "penstock": "v1",
    "name": "approval",
    "nodes": [
        {"id": "prepare", "type": "step", "handler": "prepare", "retry": _RETRY},
        {
            "id": "ask",
            "type": "interrupt",
            "message": "Go on with ${ .input.n }?",
            "answer": {
                "type": "object",
                "required": ["go", "token"],
                "properties": {"go": {"type": "boolean"}, "token": {"type": "string"}},
            },
        },
        {"id": "wait_for_it", "type": "wait", "signal": "released"},
        {"id": "finish", "type": "step", "handler": "finish", "retry": _RETRY},
        {"id": "done", "type": "end", "output": {"token": "${ .ask.token }", "released": "${ .wait_for_it.token }"}},
    ],
}

PARENT: JsonObject = {
    "penstock": "v1",
    "name": "parent",
    "nodes": [
        {"id": "first", "type": "step", "handler": "first", "retry": _RETRY},
        {"id": "child", "type": "subworkflow", "workflow": "order", "input": {"n": "${ .input.n }"}},
        {"id": "done", "type": "end", "output": "${ .child.lines }"},
    ],
}

SAGA: JsonObject = {
    "penstock": "v1",
    "name": "saga",
    "nodes": [
        {
            "id": "flight",
            "type": "step",
            "handler": "flight",
            "retry": _RETRY,
            "compensate": {"handler": "cancel_flight", "retry": _RETRY},
        },
        {
            "id": "hotel",
            "type": "step",
            "handler": "hotel",
            "retry": _RETRY,
            "compensate": {"handler": "cancel_hotel", "retry": _RETRY},
        },
        {"id": "pay", "type": "step", "handler": "always_fails"},
        {"id": "done", "type": "end", "output": {}},
    ],
}

RELAY: JsonObject = {
    "penstock": "v1",
    "name": "relay",
    "nodes": [
        {"id": "lap", "type": "step", "handler": "lap", "retry": _RETRY},
        {"id": "baton", "type": "wait", "signal": "released"},
        {
            "id": "home",
            "type": "switch",
            "cases": [{"when": ".run.generation >= 3", "next": "done"}],
            "default": "again",
        },
        {"id": "again", "type": "continue_as_new", "input": {"n": "${ .input.n }", "token": "${ .baton.token }"}},
        {"id": "done", "type": "end", "output": {"token": "${ .baton.token }"}},
    ],
}

COACH: JsonObject = {
    "penstock": "v1",
    "name": "coach",
    "nodes": [
        {"id": "team", "type": "subworkflow", "workflow": "relay", "input": {"n": "${ .input.n }"}},
        {"id": "done", "type": "end", "output": "${ .team.token }"},
    ],
}

WORKFLOWS: dict[str, JsonObject] = {
    "order": ORDER,
    "approval": APPROVAL,
    "parent": PARENT,
    "saga": SAGA,
    "relay": RELAY,
    "coach": COACH,
}
