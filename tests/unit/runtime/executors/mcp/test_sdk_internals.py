"""What the MCP client takes from inside the SDK is still there: a new release of the SDK that changes it fails here."""

import inspect
from collections.abc import Callable
from contextvars import Context
from typing import Any

import pytest
from mcp.client import client, session, streamable_http
from mcp.os.posix.utilities import terminate_posix_process_tree
from mcp.os.win32 import utilities as windows
from mcp.shared import _context_streams, jsonrpc_dispatcher

from penstock.runtime.executors.mcp.sdk_internals import (
    CLOSED_TEXTS,
    GONE_TEXTS,
    UNUSABLE_TEXT,
    is_client_unusable,
    is_connection_closed,
    is_session_gone,
    sender_context,
)

WINDOWS_PROCESS = ["command", "args", "env", "errlog", "cwd"]


@pytest.mark.parametrize(
    ("function", "parameters"),
    [
        (terminate_posix_process_tree, ["process", "timeout_seconds"]),
        (windows.close_process_job, ["process"]),
        (windows.create_windows_process, WINDOWS_PROCESS),
        (windows.get_windows_executable_command, ["command"]),
        (windows.terminate_windows_process_tree, ["process"]),
    ],
)
def test_the_sdk_starts_and_ends_processes_by_these_functions(
    function: Callable[..., Any], parameters: list[str]
) -> None:
    assert list(inspect.signature(function).parameters) == parameters


@pytest.mark.parametrize(
    ("module", "text"),
    [
        (streamable_http, GONE_TEXTS[0].capitalize()),
        (session, CLOSED_TEXTS[0]),
        (jsonrpc_dispatcher, CLOSED_TEXTS[0]),
        (streamable_http, f"{CLOSED_TEXTS[1]} failed"),
        (streamable_http, f"{CLOSED_TEXTS[1]} ended without a response"),
        (client, UNUSABLE_TEXT),
    ],
)
def test_the_sdk_says_in_these_words_what_happened(module: object, text: str) -> None:
    assert f'"{text}' in inspect.getsource(module)  # type: ignore[arg-type]  # modules of the SDK


def test_errors_are_told_apart_by_these_words() -> None:
    assert is_session_gone("Session terminated")
    assert is_session_gone("404: Session not found")
    assert not is_session_gone("the session is fine")
    assert is_connection_closed("Connection closed: ConnectError")
    assert not is_connection_closed("the tool closed its Connection")
    assert is_client_unusable(RuntimeError("Client must be used within an async context manager"))


def test_streams_of_the_sdk_know_the_context_of_the_sender() -> None:
    assert "last_context" in inspect.getsource(_context_streams)

    class Stream:
        last_context = Context()

    assert sender_context(Stream()) is Stream.last_context
    assert sender_context(object()) is None
