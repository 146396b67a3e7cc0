"""`penstock tool upstream sign-in`: signs a person in to an MCP server that wants OAuth.

It listens on this machine, sends the person to the authorization server, and hands over what they come back with. The
tokens stay where the operations work: on the server, or in the file.

Above it: `tree.commands`, by name. Below it: the operations `upstream.begin_sign_in` and `upstream.complete_sign_in`.
"""

from __future__ import annotations

import hmac
import sys
import time
import webbrowser
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Annotated, Any, Final
from urllib.parse import parse_qs, urlsplit

from penstock.base.errors import Unavailable
from penstock.base.json import JsonObject
from penstock.cli.declaration import Argument, Option
from penstock.cli.targets.clients import open_client
from penstock.cli.targets.selection import ProfileOption, ServerOption, TargetFileOption, choose_target
from penstock.cli.terminal.answers import print_answer
from penstock.cli.terminal.exits import JsonOption, exit_with, print_json
from penstock.client.operations import find_operation

__all__ = ["sign_in_command"]

_HOST: Final = "127.0.0.1"
_PATH: Final = "/callback"
_PATIENCE_SECONDS: Final = 600.0
_LOOK_SECONDS: Final = 0.5
_PAGE: Final = b"<!doctype html><title>Penstock</title><p>Done here. You can close this window.</p>"
_REFUSED_PAGE: Final = b"<!doctype html><title>Penstock</title><p>This is not the answer that was waited for.</p>"


@dataclass(slots=True)
class _Awaited:
    """What came back, once something has."""

    state: str
    answer: JsonObject = field(default_factory=dict)


def sign_in_command(  # noqa: PLR0913  # every option is one the user can give
    server: Annotated[str, Argument(metavar="NAME", help="The MCP server, by its name in the settings.")],
    *,
    scopes: Annotated[
        list[str] | None, Option("--scopes", metavar="SCOPE", help="A further scope to ask for. Repeatable.")
    ] = None,
    port: Annotated[
        int, Option("--port", min=0, max=65_535, help="The port to listen on; 0 takes one that is free.")
    ] = 0,
    browser: Annotated[
        bool, Option("--browser/--no-browser", help="Open the address in a browser, or only print it.")
    ] = True,
    timeout_seconds: Annotated[
        float, Option("--timeout", metavar="SECONDS", min=0.1, help="How long to wait for the person.")
    ] = _PATIENCE_SECONDS,
    target_server: ServerOption = None,
    target_profile: ProfileOption = None,
    target_file: TargetFileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Sign in to an MCP server that wants OAuth.

    Prints the address at which you sign in, opens it in a browser, and waits until you come back from there to this
    machine. The tokens are stored encrypted; nobody is shown them. Exit codes: 0 signed in, otherwise the refusal.
    """

    def work() -> int:
        begin = find_operation("upstream.begin_sign_in")
        target = choose_target(target_server, target_profile, target_file)
        with HTTPServer((_HOST, port), _Handler) as listener, open_client(target, begin) as surface:
            redirect_uri = f"http://{_HOST}:{listener.server_port}{_PATH}"
            given: JsonObject = {"server": server, "redirect_uri": redirect_uri, "scopes": list(scopes or ())}
            begun = surface.call(begin.name, given)
            assert isinstance(begun, dict)
            answer = _wait(listener, str(begun["authorization_url"]), browser=browser, seconds=timeout_seconds)
            status = surface.call("upstream.complete_sign_in", {"server": server, **answer})
        if as_json:
            print_json(status)
        else:
            print_answer(status)
        return 0

    exit_with(work, as_json=as_json)


def _wait(listener: HTTPServer, address: str, *, browser: bool, seconds: float) -> JsonObject:
    """Send the person away, and wait for what they come back with."""
    awaited = _Awaited(parse_qs(urlsplit(address).query)["state"][0])
    listener.RequestHandlerClass = lambda *arguments: _Handler(*arguments, awaited=awaited)
    print(f"sign in at  {address}", file=sys.stderr, flush=True)
    if browser:
        webbrowser.open(address)
    listener.timeout = _LOOK_SECONDS
    until = time.monotonic() + seconds
    while not awaited.answer:
        if time.monotonic() > until:
            raise Unavailable("TIMEOUT", "nobody came back from the sign-in in time", "run the command again")
        listener.handle_request()
    return awaited.answer


class _Handler(BaseHTTPRequestHandler):
    """Takes the one request that is waited for. Anything else on this machine may send others."""

    timeout = 10

    def __init__(self, *arguments: Any, awaited: _Awaited | None = None) -> None:
        self._awaited = awaited
        super().__init__(*arguments)

    def do_GET(self) -> None:
        """Take the answer, if it belongs to the sign-in that was begun here."""
        parts, awaited = urlsplit(self.path), self._awaited
        query = parse_qs(parts.query)
        given: JsonObject = {
            name: query[name][0] for name in ("state", "code", "iss", "error") if len(query.get(name, ())) == 1
        }
        state = str(given.get("state", ""))
        fits = awaited is not None and hmac.compare_digest(state.encode(), awaited.state.encode())
        if awaited is not None and parts.path == _PATH and fits:
            awaited.answer = given
            self._reply(200, _PAGE)
        else:
            self._reply(404, _REFUSED_PAGE)

    def _reply(self, status: int, page: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", "text/html; charset=utf-8")
        self.send_header("content-length", str(len(page)))
        self.send_header("cache-control", "no-store")
        self.send_header("referrer-policy", "no-referrer")
        self.end_headers()
        self.wfile.write(page)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Log nothing: the address has the code in it."""
