"""Workflows that the tests of MCP call as tools."""

from __future__ import annotations

from typing import Any

__all__ = ["ALL", "ASK", "BIG", "FAIL", "GREET", "NAP"]

_TOOL = {"tool": {"annotations": {"read_only": True}}, "prompt": True}

GREET: dict[str, Any] = {
    "penstock": "v1",
    "name": "greet",
    "version": "1.2.0",
    "title": "Greet somebody",
    "description": "Says hello.",
    "input": {
        "type": "object",
        "required": ["name"],
        "properties": {
            "name": {"type": "string", "description": "Who is greeted."},
            "tone": {"type": "string", "enum": ["formal", "friendly"], "default": "friendly"},
        },
        "additionalProperties": False,
    },
    "output": {"type": "object", "required": ["text"], "properties": {"text": {"type": "string"}}},
    "expose": _TOOL,
    "nodes": [{"id": "greeting", "type": "end", "output": {"text": '${ "Hello, " + .input.name }'}}],
}
ASK: dict[str, Any] = {
    "penstock": "v1",
    "name": "refund",
    "title": "Refund an order",
    "input": {"type": "object", "properties": {"order": {"type": "string"}}},
    "expose": {"tool": {"name": "refund_order"}},
    "nodes": [
        {
            "id": "question",
            "type": "interrupt",
            "message": "May I refund this order?",
            "answer": {
                "type": "object",
                "required": ["approved"],
                "properties": {"approved": {"type": "boolean"}, "reason": {"type": "string"}},
            },
        },
        {"id": "done", "type": "end", "output": "${ .question }"},
    ],
}
NAP: dict[str, Any] = {
    "penstock": "v1",
    "name": "nap",
    "title": "Sleep for a while",
    "expose": {"tool": True},
    "nodes": [{"id": "sleep", "type": "wait", "duration": "1h"}, {"id": "done", "type": "end", "output": "awake"}],
}
FAIL: dict[str, Any] = {
    "penstock": "v1",
    "name": "stumble",
    "expose": {"tool": True},
    "nodes": [
        {"id": "way", "type": "switch", "cases": [{"when": "true", "next": "fall"}], "default": "done"},
        {"id": "fall", "type": "fail", "code": "FELL", "message": "it fell over"},
        {"id": "done", "type": "end"},
    ],
}
BIG: dict[str, Any] = {
    "penstock": "v1",
    "name": "big",
    "expose": {"tool": True},
    "nodes": [{"id": "much", "type": "end", "output": {"items": "${ [range(20000)] }"}}],
}
ALL = (GREET, ASK, NAP, FAIL, BIG)
