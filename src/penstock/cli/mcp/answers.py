"""What an MCP server answers, for people: content as lines, errors with a hint, sizes.

Above it: `call`, `tools`, `doctor`. Below it: the terminal. It knows the protocol's JSON, not the SDK.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from penstock.base.errors import Conflict, PenstockError, Rejected, Unavailable
from penstock.base.json import JsonObject, JsonValue
from penstock.base.text import clean
from penstock.cli.terminal.console import console_for
from penstock.cli.terminal.styled_text import Text
from penstock.operations.catalogue.reasons import REASONS

__all__ = [
    "BYTES_PER_TOKEN",
    "content_lines",
    "invalid_answer",
    "print_content",
    "protocol_error",
    "silence_sdk_logs",
    "size_text",
    "token_estimate",
]

BYTES_PER_TOKEN = 4
"""About how many bytes of JSON make one token of a language model."""

_KIB = 1024
_ERROR_CHARACTERS_MAX = 500
_BASE64_GROUP = 4
_INVALID_PARAMS = -32602
_NOT_FOUND = -32601
_CONNECTION_CLOSED = -32000


def silence_sdk_logs() -> None:
    """Keep the SDK's own log off the terminal; the commands report what matters."""
    for name in ("mcp", "client"):
        logging.getLogger(name).setLevel(logging.CRITICAL)


def token_estimate(byte_count: int) -> int:
    """About how many tokens some JSON costs."""
    return -(-byte_count // BYTES_PER_TOKEN)


def size_text(byte_count: int) -> str:
    """A size for people."""
    return f"{byte_count} B" if byte_count < _KIB else f"{byte_count / _KIB:.1f} kB"


def print_content(content: list[JsonObject], structured: JsonValue, *, is_error: bool) -> None:
    """Print what a tool answered; an error goes to standard error."""
    console = console_for(sys.stderr if is_error else sys.stdout)
    lines = list(content_lines(content))
    if not lines and structured is not None:
        lines = json.dumps(structured, indent=2, ensure_ascii=False).splitlines()
    for number, line in enumerate(lines):
        if is_error and number == 0:
            console.print(Text.assemble(("error", "bold red"), f": {line}"))
        else:
            console.print(Text(line))


def content_lines(content: list[JsonObject]) -> Iterator[str]:
    """The lines of content; a block that is not text is named."""
    for block in content:
        match block.get("type"):
            case "text":
                yield from map(_line, str(block.get("text", "")).splitlines())
            case "image" | "audio":
                size = size_text(len(str(block.get("data", ""))) * 3 // _BASE64_GROUP)
                yield f"[{block['type']} {_line(str(block.get('mimeType')))}, {size}; --json has it]"
            case "resource_link":
                yield f"→ {_line(str(block.get('uri')))} ({_line(str(block.get('name')))})"
            case "resource":
                yield from _resource_lines(block.get("resource"))
            case _:
                yield _line(json.dumps(block, ensure_ascii=False))


def _resource_lines(resource: Any) -> Iterator[str]:
    found: Mapping[str, Any] = resource if isinstance(resource, dict) else {}
    yield f"→ {_line(str(found.get('uri')))}"
    yield from (f"  {_line(line)}" for line in str(found.get("text", "")).splitlines())


def _line(text: str) -> str:
    """One line without control characters; its indentation stays."""
    inner = text.lstrip()
    return " " * (len(text) - len(inner)) + clean(inner)


def invalid_answer(error: Exception) -> PenstockError:
    """The error for an answer that breaks the protocol, or the tool's own schema."""
    text = " ".join(str(error).split())
    return Conflict("MCP_ERROR", f"the server's answer is not valid: {text[:_ERROR_CHARACTERS_MAX]}")


def protocol_error(code: int, message: str, data: Any) -> PenstockError:
    """An error of the protocol as one of ours, so that commands end with the right code."""
    text: Mapping[str, Any] = data if isinstance(data, dict) else {}
    reason, hint = text.get("code"), text.get("hint")
    advice = hint if isinstance(hint, str) else None
    if isinstance(reason, str) and reason in REASONS:
        return REASONS[reason].kind(reason, message, advice)
    if code == _CONNECTION_CLOSED:
        return Unavailable("CONNECTION_FAILED", message, advice)
    if code == _NOT_FOUND and advice is None:
        advice = "is an MCP server there? `penstock mcp doctor` looks at it step by step"
    kind = Rejected if code in (_INVALID_PARAMS, _NOT_FOUND) else Conflict
    return kind("MCP_ERROR", f"{message} ({code})", advice)
