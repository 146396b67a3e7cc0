"""`penstock server doctor` asks the server that answers at the port how it is."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from penstock.cli.doctor.machine import loop_checks, port_checks


@contextmanager
def serving(readiness: Any, *, status: int = 200) -> Iterator[int]:
    """A server that is alive, and says of its readiness what it is told to."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            is_ready = self.path == "/readyz"
            body = json.dumps(readiness if is_ready else {"status": "ok"}).encode()
            self.send_response(status if is_ready else 200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    ("checks", "status", "found", "message"),
    [
        ({"store": "ok", "runs": "ok"}, 200, "ok", "runs, store: ok"),
        ({"store": "ok", "runs": "2 stuck"}, 200, "warn", "runs: 2 stuck"),
        ({"store": "STORE_CORRUPT", "runs": "ok"}, 503, "fail", "store: STORE_CORRUPT"),
        (None, 404, "warn", "it does not say how it is (status 404)"),
    ],
    ids=["well", "stuck_runs", "no_store", "another_program"],
)
def test_what_the_server_says_of_itself_is_a_check(
    checks: dict[str, str] | None, status: int, found: str, message: str
) -> None:
    with serving({"status": "?", "checks": checks} if checks else {"detail": "?"}, status=status) as port:
        port_check, server_check = port_checks("127.0.0.1", port)
    assert (port_check.name, port_check.status) == ("port", "ok")
    assert (server_check.name, server_check.status, server_check.message) == ("server", found, message)
    assert (server_check.hint is None) == (found == "ok")


def test_the_event_loop_is_named() -> None:
    [check] = loop_checks()
    assert (check.status, check.message, check.hint) == ("ok", "uvloop", None)


@pytest.mark.parametrize(("platform", "hint"), [("linux", "uvloop"), ("win32", None)])
def test_without_uvloop_it_says_what_uvloop_would_give_where_it_runs(
    platform: str, hint: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr(sys, "platform", platform)
    [check] = loop_checks()
    assert check.status == "skip"
    assert check.message.startswith("asyncio; ")
    assert check.hint is None if hint is None else hint in (check.hint or "")
