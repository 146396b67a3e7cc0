"""The routes of the console, and what its pages have in common: who visits, what is refused, and how errors look.

A request without a session is sent to the page to sign in, and back afterwards. A form is refused if it was not sent by
a page of ours for the same session. What the gate refuses is a page that says why and what to do.

Above it: `app`. Below it: `sessions`, `pages`, the gate.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from secrets import token_urlsafe
from typing import TypeAlias, assert_never
from urllib.parse import quote

from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from penstock.asgi import AUDITED, CODE, HttpOrigin, header, remote_of, request_id_of, send_body
from penstock.asgi.refusals import note_refusal, page_status
from penstock.base.errors import Denied, PenstockError, Rejected
from penstock.console import pages
from penstock.console.assets import assets_version, send_asset
from penstock.console.events import refused_stream, send_changes
from penstock.console.forms import Fields, query_of, read_form, refuse_foreign_form
from penstock.console.rendering import html_headers, render
from penstock.console.sessions import Session, Sessions
from penstock.console.visits import Page, Redirect, Shown, Text, Visit
from penstock.operations.gate.context import Credentials, Principal
from penstock.operations.gate.pipeline import Gate

__all__ = ["console_routes"]

PATH = "/console"
_SIGN_IN = f"{PATH}/sign-in"
_TEXT_HEADERS = (
    (b"content-type", b"text/plain; charset=utf-8"),
    (b"content-security-policy", b"default-src 'none'; sandbox"),
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
)


def console_routes(gate: Gate) -> list[BaseRoute]:
    """Return the routes of the console."""
    console = _Console(gate)
    routes: list[BaseRoute] = [
        Route(f"{PATH}/static/{{version}}/{{name}}", _Endpoint(send_asset)),
        Route(f"{PATH}/events", _Endpoint(console.events)),
        Route(_SIGN_IN, _Endpoint(console.sign_in)),
        Route(f"{PATH}/sign-out", _Endpoint(console.sign_out)),
    ]
    served = {path: _Endpoint(console.serving(handler)) for path, handler in pages.HANDLERS.items()}
    return [*routes, *(Route(PATH + path, endpoint) for path, endpoint in served.items())]


Handler: TypeAlias = Callable[[Visit], Awaitable[Shown]]
Serve: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class _Endpoint:
    """An ASGI application: Starlette would call a plain function with its own request object."""

    serve: Serve

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        return self.serve(scope, receive, send)


@dataclass(slots=True)
class _Console:
    gate: Gate
    sessions: Sessions = field(init=False)

    def __post_init__(self) -> None:
        self.sessions = Sessions(self.gate)

    # --- pages for those who are signed in ---------------------------------------------------------------------------

    def serving(self, handler: Handler) -> Serve:
        """Return the application that serves a page."""

        async def serve(scope: Scope, receive: Receive, send: Send) -> None:
            now = self.gate.services.clock.now_ms()
            session = self.sessions.read(header(scope, b"cookie"), now)
            principal = None if session is None else await self.sessions.principal(session)
            if session is None or principal is None:
                await self._ask_to_sign_in(scope, send, expired=session is not None)
                return
            scope.setdefault("state", {})["principal"] = principal
            renewed = self.sessions.renewed(session, now)
            cookie = None if renewed is None else self.sessions.cookie(renewed, secure=_is_secure(scope))
            shown, status = await self._shown(handler, scope, receive, (session, principal))
            await _send(send, shown, status, scope["method"], self._common(principal, session), cookie)

        return serve

    async def events(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Say which runs move, as long as the browser listens."""
        session = self.sessions.read(header(scope, b"cookie"), self.gate.services.clock.now_ms())
        principal = None if session is None else await self.sessions.principal(session)
        if session is None or principal is None:
            await refused_stream(send, Denied("SIGNED_OUT", "you are signed out"))
            return
        scope.setdefault("state", {}).update({"principal": principal, "stream": True})
        try:
            visit = await self._visit(scope, receive, session, principal)
            after = visit.query.text("after") or header(scope, b"last-event-id")
            stream = await visit.stream("execution.changes", last_event_id=after)
        except PenstockError as error:
            await refused_stream(send, error)
            return
        await send_changes(stream, receive, send)

    async def _shown(
        self, handler: Handler, scope: Scope, receive: Receive, who: tuple[Session, Principal]
    ) -> tuple[Shown, int]:
        session, principal = who
        try:
            visit = await self._visit(scope, receive, session, principal)
            shown = await handler(visit)
        except PenstockError as error:
            return _error_page(scope, error)
        return shown, shown.status if isinstance(shown, Page) else 200

    async def _visit(self, scope: Scope, receive: Receive, session: Session, principal: Principal) -> Visit:
        form: Fields | None = None
        if scope["method"] == "POST":
            refuse_foreign_form(scope)
            form = await read_form(scope, receive)
            if not self.sessions.is_form_token(session, form.text("form_token")):
                message = "the form was made for another session"
                raise Denied("FORM_OUTDATED", message, "go back, copy what you wrote, and open the page again")
        elif scope["method"] not in ("GET", "HEAD"):
            raise Rejected("METHOD_NOT_ALLOWED", f"a page cannot be asked with {scope['method'][:20]}")
        return Visit(
            gate=self.gate,
            principal=principal,
            path={name: str(value) for name, value in scope.get("path_params", {}).items()},
            query=query_of(scope),
            form=form,
            form_token=self.sessions.form_token(session),
            request_id=request_id_of(scope),
            remote=remote_of(scope),
            origin=HttpOrigin(scope),
            address=f"{scope.get('scheme', 'http')}://{header(scope, b'host') or ''}",
        )

    def _common(self, principal: Principal | None, session: Session | None) -> dict[str, object]:
        """What the frame of every page shows."""
        return {
            "principal": principal,
            "form_token": "" if session is None else self.sessions.form_token(session),
            "root": PATH,
        }

    # --- signing in and out ------------------------------------------------------------------------------------------

    async def _ask_to_sign_in(self, scope: Scope, send: Send, *, expired: bool) -> None:
        if scope["method"] == "GET" and header(scope, b"sec-fetch-site") == "cross-site":
            # The browser kept the cookie back because a link of another site led here. Our own page may ask again.
            await _send(send, Page("again.html", {}), 200, "GET", self._common(None, None), None)
            return
        if scope["method"] == "POST":  # what was written would be lost with a redirect
            error = Denied(
                "SIGNED_OUT", "you are signed out, and nothing was sent", "sign in in another tab, and send it again"
            )
            shown, status = _error_page(scope, error)
            await _send(send, shown, status, "POST", self._common(None, None), None)
            return
        query = scope.get("query_string", b"").decode("latin-1")
        wanted = scope["path"] + (f"?{query}" if query else "")
        reason = "&expired=1" if expired else ""
        location = f"{_SIGN_IN}?to={quote(wanted, safe='')}{reason}"
        await _send(send, Redirect(location), 303, scope["method"], {}, None)

    async def sign_in(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Show the form, or take the key."""
        query = query_of(scope)
        wanted = _own_page(query.text("to"))
        problem: str | None = "Your session has expired. Sign in again." if query.text("expired") else None
        status = 200
        if scope["method"] == "POST":
            try:
                refuse_foreign_form(scope)
                form = await read_form(scope, receive)
                session = await self._authenticated(scope, form.text("key"))
            except PenstockError as error:
                scope["state"].update({CODE: error.code, AUDITED: error.on_record or isinstance(error, Denied)})
                problem, status = error.message, page_status(error)
            else:
                cookie = self.sessions.cookie(session, secure=_is_secure(scope))
                await _send(send, Redirect(wanted), 303, "POST", {}, cookie)
                return
        given = {"problem": problem, "wanted": wanted}
        await _send(send, Page("sign_in.html", given), status, scope["method"], self._common(None, None), None)

    async def _authenticated(self, scope: Scope, key: str) -> Session:
        principal = await self.gate.authenticate(
            Credentials(bearer=key),
            surface="console",
            request_id=request_id_of(scope),
            remote=remote_of(scope),
            origin=HttpOrigin(scope),
        )
        session = self.sessions.begin(principal, self.gate.services.clock.now_ms())
        if session is None:
            raise Denied("KEY_NEEDED", "the console takes API keys only", "sign in with a key of this server")
        return session

    async def sign_out(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forget the session of this browser."""
        session = self.sessions.read(header(scope, b"cookie"), self.gate.services.clock.now_ms())
        if scope["method"] == "POST" and session is not None:
            try:
                refuse_foreign_form(scope)
                form = await read_form(scope, receive)
            except PenstockError as error:
                shown, status = _error_page(scope, error)
                await _send(send, shown, status, "POST", self._common(None, None), None)
                return
            if not self.sessions.is_form_token(session, form.text("form_token")):
                await _send(send, Redirect(PATH), 303, "POST", {}, None)
                return
        cookie = self.sessions.no_cookie(secure=_is_secure(scope)) if scope["method"] == "POST" else None
        await _send(send, Redirect(_SIGN_IN), 303, scope["method"], {}, cookie)


def _is_secure(scope: Scope) -> bool:
    """Whether the browser reached us over TLS, as the server or a trusted proxy says."""
    return bool(scope.get("scheme") == "https")


def _own_page(wanted: str) -> str:
    """Return a page of the console; nothing else is redirected to after signing in."""
    is_own = wanted == PATH or wanted.startswith((f"{PATH}/", f"{PATH}?"))
    return wanted if is_own and wanted.isprintable() and "\\" not in wanted else PATH


def _error_page(scope: Scope, error: PenstockError) -> tuple[Page, int]:
    """Return the page that says what was refused, and why."""
    note_refusal(scope, error)
    given = {"code": error.code, "message": error.message, "hint": error.hint, "request_id": request_id_of(scope)}
    return Page("error.html", given), page_status(error)


async def _send(
    send: Send, shown: Shown, status: int, method: str, common: dict[str, object], cookie: str | None
) -> None:
    headers: list[tuple[bytes, bytes]]
    match shown:
        case Page(template, given):
            nonce = token_urlsafe(18)
            body = render(template, nonce=nonce, static=f"{PATH}/static/{assets_version()}", **common, **given)
            headers = html_headers(nonce)
        case Redirect(location):
            status, body = 303, b""
            headers = [(b"location", location.encode("latin-1", "replace")), (b"cache-control", b"no-store")]
        case Text(text, file_name):
            body, headers = text.encode(), [*_TEXT_HEADERS]
            if file_name is not None:
                headers.append((b"content-disposition", f'attachment; filename="{file_name}"'.encode("ascii")))
        case _:
            assert_never(shown)
    if cookie is not None:
        headers.append((b"set-cookie", cookie.encode()))
    headers.append((b"content-length", str(len(body)).encode()))
    await send_body(send, status, headers, b"" if method == "HEAD" else body)
