"""Who the client is, when there is a proxy in between."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.live.rest.servers import serving


@pytest.mark.parametrize(
    ("trusted", "believed"), [("", False), ("10.0.0.0/8", False), ("127.0.0.1", True), ("127.0.0.0/8", True)]
)
def test_the_word_of_a_trusted_proxy_is_believed(tmp_path: Path, trusted: str, believed: bool) -> None:
    settings = {"PENSTOCK_SERVER_TRUSTED_PROXIES": trusted} if trusted else {}
    with serving(tmp_path, "--verbose", **settings) as server:
        server.request("GET", "info", headers={"X-Forwarded-For": "203.0.113.7", "X-Forwarded-Proto": "https"})
        line = server.logged("request", operation="system.info")
        assert line["remote"] == ("203.0.113.7" if believed else "127.0.0.1")


def test_nothing_tells_what_serves(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        for path in ("/healthz", "/api/v0/info", "/nothing"):
            answer = server.request("GET", path)
            assert "server" not in answer.headers
            assert "x-powered-by" not in answer.headers
