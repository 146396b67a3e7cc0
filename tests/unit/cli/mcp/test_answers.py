"""What an MCP server answers, as people see it, and arguments as they type them."""

from __future__ import annotations

import pytest

from penstock.base.errors import Conflict, Denied, NotFound, PenstockError, Rejected, Unavailable
from penstock.base.json import JsonObject
from penstock.cli.mcp.answers import (
    content_lines,
    print_content,
    protocol_error,
    size_text,
    token_estimate,
)


def test_content_is_lines_and_what_is_no_text_is_named() -> None:
    content: list[JsonObject] = [
        {"type": "text", "text": "one\n  two\x1b[31m red\u202e"},
        {"type": "image", "data": "AAAA" * 1024, "mimeType": "image/png"},
        {"type": "resource_link", "uri": "penstock://executions/r_1", "name": "r_1"},
        {"type": "resource", "resource": {"uri": "file:///a", "text": "inside\nit"}},
        {"type": "new", "what": 1},
    ]
    assert list(content_lines(content)) == [
        "one",
        "  two\ufffd[31m red",
        "[image image/png, 3.0 kB; --json has it]",
        "→ penstock://executions/r_1 (r_1)",
        "→ file:///a",
        "  inside",
        "  it",
        '{"type": "new", "what": 1}',
    ]


def test_an_error_goes_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    print_content([{"type": "text", "text": "it broke\nhere"}], None, is_error=True)
    print_content([], {"a": 1}, is_error=False)
    printed = capsys.readouterr()
    assert printed.err == "error: it broke\nhere\n"
    assert printed.out == '{\n  "a": 1\n}\n'


@pytest.mark.parametrize(
    ("code", "data", "kind", "reason"),
    [
        (-32000, {"code": "UNAUTHENTICATED", "hint": "send a key"}, Denied, "UNAUTHENTICATED"),
        (-32602, {"code": "WORKFLOW_NOT_FOUND"}, NotFound, "WORKFLOW_NOT_FOUND"),
        (-32000, None, Unavailable, "CONNECTION_FAILED"),
        (-32602, None, Rejected, "MCP_ERROR"),
        (-32601, ["strange"], Rejected, "MCP_ERROR"),
        (-32603, {"code": "NO_CODE_OF_OURS"}, Conflict, "MCP_ERROR"),
    ],
)
def test_an_error_of_the_protocol_ends_a_command_as_one_of_ours(
    code: int, data: object, kind: type[PenstockError], reason: str
) -> None:
    found = protocol_error(code, "no", data)
    assert (type(found), found.code) == (kind, reason)
    assert "penstock mcp doctor" in str(found.hint) or code != -32601


def test_sizes_are_told_in_bytes_and_tokens() -> None:
    assert (size_text(999), size_text(2048)) == ("999 B", "2.0 kB")
    assert (token_estimate(0), token_estimate(1), token_estimate(8)) == (0, 1, 2)
