"""One server for all tests of the protocol's streams; each worker of the tests has its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.live.mcp.workflows import ALL, TALK, TALKING_STEPS
from tests.live.rest.servers import LiveServer, serving

# Streams of calls are closed soon, clients come back soon, and calls answer a little later.
_SETTINGS = {
    "PENSTOCK_SERVER_MCP_TRANSPORT": "sse",
    "PENSTOCK_SERVER_MCP_SSE_CLOSE_AFTER": "400ms",
    "PENSTOCK_SERVER_MCP_SSE_RETRY_INTERVAL": "50ms",
    "PENSTOCK_SERVER_MCP_SSE_HEARTBEAT_INTERVAL": "100ms",
    "PENSTOCK_SERVER_MCP_REQUEST_TIMEOUT": "1s",
    "PENSTOCK_SECRET_TOKEN": "s3cr3t-t0ken",
}


@pytest.fixture(scope="session")
def streaming_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """A server with the workflows, and with steps that talk."""
    folder = tmp_path_factory.mktemp("streaming")
    (folder / "steps.py").write_text(TALKING_STEPS, encoding="utf-8")
    with serving(folder, "--steps", "steps.py", **_SETTINGS) as running:
        for document in (*ALL, TALK):
            running.call("POST", "workflows", {"document": document})
        yield running


@pytest.fixture(scope="session")
def plain_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """A server with the workflows and the usual settings, for tests that leave it as it was."""
    with serving(tmp_path_factory.mktemp("plain")) as running:
        for document in ALL:
            running.call("POST", "workflows", {"document": document})
        yield running
