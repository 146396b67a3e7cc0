"""One server and one browser for all tests of the console that a worker runs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.live.console.everyday import furnish
from tests.live.console.governed import World, furnished
from tests.live.console.shop import shop_keeping
from tests.live.console.visiting import ASKS, BREAKS, sign_in
from tests.live.mcp.browsers import Browser, browsing
from tests.live.rest.servers import LiveServer
from tests.scenarios.office import ERASE


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    with shop_keeping(tmp_path_factory.mktemp("server")) as running:
        for document in (ASKS, BREAKS, ERASE):
            running.call("POST", "workflows", {"document": document})
        furnish(running)
        yield running


@pytest.fixture(scope="session")
def world(server: LiveServer) -> World:
    """A graph, policies and keys on the server."""
    return furnished(server)


@pytest.fixture(scope="session")
def browser(server: LiveServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A browser that is signed in."""
    with browsing(tmp_path_factory.mktemp("profile"), whole=True) as running:
        sign_in(running, server, server.key)
        yield running
