"""Workflows that the tests of MCP call as tools."""

from __future__ import annotations

from typing import Any

__all__ = ["ALL", "ASK", "BIG", "FAIL", "GREET", "LEARN", "NAP", "TALK", "TALKING_STEPS"]

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
LEARN: dict[str, Any] = {
    "penstock": "v1",
    "name": "learn",
    "expose": {"tool": True},
    "nodes": [
        {
            "id": "both",
            "type": "parallel",
            "branches": [
                {
                    "name": "model",
                    "nodes": [
                        {
                            "id": "thought",
                            "type": "llm_call",
                            "provider": "client",
                            "model": "any",
                            "prompt": "What is the capital of France?",
                        }
                    ],
                },
                {
                    "name": "client",
                    "nodes": [{"id": "folders", "type": "tool_call", "server": "client", "tool": "roots/list"}],
                },
            ],
        },
        {"id": "done", "type": "end", "output": {"what": "${ .thought.text }", "where": "${ .folders.roots[0].uri }"}},
    ],
}
ALL = (GREET, ASK, NAP, FAIL, BIG)

TALKING_STEPS = """
import asyncio
import pathlib
import penstock

@penstock.step(name="halfway")
async def halfway(*, context: penstock.StepContext) -> str:
    while not pathlib.Path("heard").exists():
        context.progress(0.5, "half of it")
        await asyncio.sleep(0.01)
    return "done"

@penstock.step(name="talk")
async def talk(token: str, *, context: penstock.StepContext) -> str:
    context.logger.debug("looking")
    context.logger.info("found %d of %s", 3, "them")
    context.logger.warning("the token is %s", token)
    return "done"

@penstock.step(name="talk_in_thread")
def talk_in_thread(*, context: penstock.StepContext) -> str:
    context.logger.error("badly %s")
    try:
        raise ValueError("inside")
    except ValueError:
        context.logger.exception("it went wrong")
    return "done"
"""
TALK: dict[str, Any] = {
    "penstock": "v1",
    "name": "talk",
    "secrets": ["TOKEN"],
    "expose": {"tool": True},
    "nodes": [
        {"id": "first", "type": "step", "handler": "talk", "with": {"token": "${secret:TOKEN}"}},
        {"id": "second", "type": "step", "handler": "talk_in_thread"},
        {"id": "done", "type": "end"},
    ],
}
