"""Workflows that the tests of operations use."""

from __future__ import annotations

from typing import Any

__all__ = ["ASK", "BOTH_ASK", "DOUBLE", "DOUBLE_STEP", "PARENT", "WAIT", "workflow"]

DOUBLE_STEP = "tests.unit.operations.conftest:double"


def workflow(name: str, *nodes: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A native document."""
    return {"penstock": "v1", "name": name, "nodes": list(nodes), **more}


DOUBLE = workflow(
    "double",
    {
        "id": "twice",
        "type": "step",
        "handler": DOUBLE_STEP,
        "with": {"number": "${ .input.number }"},
    },
    {"id": "done", "type": "end", "output": "${ .twice }"},
    input={
        "type": "object",
        "required": ["number"],
        "properties": {"number": {"type": "integer"}, "unit": {"type": "string", "default": "m"}},
    },
)
ANSWER = {"type": "object", "required": ["ok"], "properties": {"ok": {"type": "boolean"}}}
ASK = workflow(
    "ask",
    {"id": "question", "type": "interrupt", "message": "May I?", "answer": ANSWER, "timeout": "1h"},
    {"id": "done", "type": "end", "output": "${ .question }"},
)
BOTH_ASK = workflow(
    "both",
    {
        "id": "each",
        "type": "for_each",
        "items": "[1, 2]",
        "concurrency": 2,
        "nodes": [{"id": "question", "type": "interrupt", "message": "May I?", "answer": ANSWER}],
    },
    {"id": "done", "type": "end", "output": "${ .each }"},
)
WAIT = workflow(
    "wait",
    {"id": "pause", "type": "wait", "signal": "go"},
    {"id": "note", "type": "set_state", "set": {"heard": "${ .pause }"}},
    {"id": "more", "type": "wait", "signal": "end"},
    {"id": "done", "type": "end", "output": "${ .state.heard }"},
)
PARENT = workflow(
    "parent",
    {"id": "child", "type": "subworkflow", "workflow": "ask", "input": {}},
    {"id": "done", "type": "end", "output": "${ .child }"},
)
