"""Everything undocumented that the MCP client uses from the SDK, which may change with any release.

The SDK is pinned to an exact version for this. A test (`test_sdk_internals`) fails when one of these things changes.

- Processes: the SDK knows on each platform how to start a server, and how to end it with all its descendants. We need
  that without its transport, which keeps lines of any length in memory.
- Error texts: the SDK distinguishes a lost session, a broken connection and a closed client only by its messages.
- Contexts: a stream of the SDK knows in which context a message was sent; over HTTP that is the context of its call.

Above it: `stdio`, `checked_messages`, `executor`. Below it: the SDK.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from contextvars import Context
from typing import Any, Final, TextIO

import anyio
from anyio.abc import Process
from mcp.client.stdio import StdioServerParameters, get_default_environment
from mcp.os.posix.utilities import terminate_posix_process_tree
from mcp.os.win32.utilities import (
    close_process_job,
    create_windows_process,
    get_windows_executable_command,
    terminate_windows_process_tree,
)

__all__ = [
    "CLOSED_TEXTS",
    "GONE_TEXTS",
    "UNUSABLE_TEXT",
    "end_process_tree",
    "is_client_unusable",
    "is_connection_closed",
    "is_session_gone",
    "release_process",
    "sender_context",
    "start_process",
]

GONE_TEXTS: Final = ("session terminated", "session not found")
"""In the error if the server no longer knows the session. It has not processed the request."""
CLOSED_TEXTS: Final = ("Connection closed", "SSE stream")
"""How the SDK's errors about a broken connection start. Servers may use the same code for errors of their own."""
UNUSABLE_TEXT: Final = "Client must be used"
"""How the error starts if a session was closed between being acquired and being used."""


def is_session_gone(text: str) -> bool:
    """True if an error says that the server no longer knows the session."""
    return any(part in text.lower() for part in GONE_TEXTS)


def is_connection_closed(text: str) -> bool:
    """True if an error of the SDK says that the connection broke."""
    return text.startswith(CLOSED_TEXTS)


def is_client_unusable(error: Exception) -> bool:
    """True if the SDK refused a call because the client was closed."""
    return str(error).startswith(UNUSABLE_TEXT)


def sender_context(stream: Any) -> Context | None:
    """The context in which the last message of a stream was sent; None if the stream does not know."""
    context: Context | None = getattr(stream, "last_context", None)
    return context


async def start_process(parameters: StdioServerParameters, errors: TextIO) -> Any:
    """Start a server as the SDK does: in a session of its own, with the SDK's default environment."""
    environment = get_default_environment() | (parameters.env or {})
    if sys.platform == "win32":
        command = await anyio.to_thread.run_sync(get_windows_executable_command, parameters.command)
        return await create_windows_process(command, parameters.args, environment, errors, parameters.cwd)
    return await anyio.open_process(
        [parameters.command, *parameters.args],
        env=environment,
        stderr=errors,
        cwd=parameters.cwd,
        start_new_session=True,
    )


async def end_process_tree(process: Any, timeout_seconds: float) -> None:
    """End a server and all its descendants: gracefully first, then by force."""
    if sys.platform == "win32":
        await terminate_windows_process_tree(process)
    else:
        assert isinstance(process, Process)
        await terminate_posix_process_tree(process, timeout_seconds)


def release_process(process: Any) -> None:
    """Release the operating system's resources of a process that has ended."""
    close_process_job(process)
    # A descendant that holds a pipe would keep asyncio's transport open, and anyio offers no other way to close it.
    transport = getattr(getattr(process, "_process", None), "_transport", None)
    if transport is not None:
        with suppress(PermissionError):
            transport.close()
