"""A real server process for the tests of a module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.live.rest.servers import LiveServer, serving


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """A server on a file of its own; `server.key` may do everything."""
    with serving(tmp_path_factory.mktemp("server")) as running:
        yield running
