"""The insides of the MCP SDK are those that `sdk_internals` was written for."""

import hashlib
import importlib
import inspect
import re
import tomllib
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from sse_starlette import EventSourceResponse

from penstock.mcp_surface.eras import sdk_internals

ROOT = Path(__file__).parents[4]
TRANSPORT = "mcp.server.streamable_http:StreamableHTTPServerTransport"
MANAGER = "mcp.server.streamable_http_manager:StreamableHTTPSessionManager"
# What is used or overridden, with a digest of its source. If one differs: read what the SDK changed, adapt
# `sdk_internals`, run `scripts/conformance-mcp`, and only then put the new digest here.
USED = {
    f"{TRANSPORT}.__init__": "30f41bfc3918d340",
    f"{TRANSPORT}._handle_post_request": "cc4f2cd0c9e317a2",
    f"{TRANSPORT}._run_sse_writer": "886892073c4e09e1",
    f"{TRANSPORT}.handle_request": "6f39c89f48def0c0",
    f"{TRANSPORT}._handle_get_request": "4169e339c24ca1d7",
    f"{TRANSPORT}._replay_events": "fc5d049793525733",
    f"{TRANSPORT}._create_event_data": "89c55d1c9383d6c2",
    f"{TRANSPORT}._validate_request_headers": "586958c48539cecf",
    f"{TRANSPORT}._mint_priming_event": "8948b4de871b1035",
    f"{TRANSPORT}._create_error_response": "3df601e8b549a862",
    f"{TRANSPORT}.close_sse_stream": "9a229318d2008b8f",
    f"{MANAGER}._admit_session": "be70a49c7998add8",
    f"{MANAGER}._discard_session": "29912d64573817be",
    "mcp.shared._context_streams:ContextSendStream": "8b6926fe2604b01c",
    "mcp.shared._context_streams:create_context_streams": "a4805a0328c39320",
    "mcp.server.runner:_has_modern_envelope": "9fcc168bee62f308",
    "mcp.server.runner:_NoServerRequestsDispatchContext": "ff7a734d6eaf3d49",
    "mcp.server.session:ServerSession.__init__": "6d8e4a7dae65ce87",
}


def digest(place: str) -> str:
    """A digest of the source of something, comments included."""
    module, _, path = place.partition(":")
    found = importlib.import_module(module)
    for name in path.split("."):
        found = getattr(found, name)
    return hashlib.sha256(inspect.getsource(found).encode()).hexdigest()[:16]


@pytest.mark.parametrize("place", USED)
def test_what_is_used_of_the_sdk_is_as_it_was(place: str) -> None:
    assert digest(place) == USED[place], f"the SDK changed {place}: see the comment in this file"


def test_every_overridden_method_is_in_the_table() -> None:
    listed = {place.rpartition(".")[2] for place in USED}
    for own, base in (("ResumableTransport", TRANSPORT), ("SessionManager", MANAGER)):
        module, _, name = base.partition(":")
        inherited = vars(getattr(importlib.import_module(module), name))
        overridden = {name for name in vars(getattr(sdk_internals, own)) if name in inherited and name[:2] != "__"}
        assert overridden <= listed


def test_the_sdk_is_pinned_to_the_version_that_is_installed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    pins = [item for item in project["project"]["dependencies"] if re.match(r"mcp\b", item)]
    assert pins == [f"mcp=={version('mcp')}"]


def test_the_heartbeat_of_event_streams_is_where_it_is_set() -> None:
    modern: Any = importlib.import_module("mcp.server._streamable_http_modern")
    before = modern._SSE_PING_INTERVAL, EventSourceResponse.DEFAULT_PING_INTERVAL
    try:
        sdk_internals.set_ping_interval(7.5)
        assert (modern._SSE_PING_INTERVAL, EventSourceResponse.DEFAULT_PING_INTERVAL) == (7.5, 7.5)
        assert "move_on_after(_SSE_PING_INTERVAL)" in inspect.getsource(modern)
        assert "self.ping_interval = self.DEFAULT_PING_INTERVAL" in inspect.getsource(EventSourceResponse)
    finally:
        modern._SSE_PING_INTERVAL, EventSourceResponse.DEFAULT_PING_INTERVAL = before
