"""The routes of the console, and what its pages have in common: who visits, what is refused, and how errors look.

A request without a session goes to the sign-in page, and back afterwards. A form must come from a page of ours for the
same session. A refusal of the gate becomes a page with the reason and the next step.

Above it: `app`. Below it: `sessions`, `pages`, the gate.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from secrets import token_urlsafe
from typing import TypeAlias, assert_never
from urllib.parse import quote

from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from penstock.asgi import HttpOrigin, header, remote_of, request_id_of, send_body
from penstock.asgi.forms import Fields, query_of, read_form, refuse_foreign_form
from penstock.asgi.refusals import note_refusal, page_status
from penstock.base.errors import Denied, NotFound, PenstockError, Rejected
from penstock.base.scopes import scope_allows
from penstock.console import pages
from penstock.console.assets import assets_version, send_asset
from penstock.console.downloads import send_download
from penstock.console.events import SIGNED_OUT, Standing, refused_stream, send_changes
from penstock.console.kept_forms import OutdatedForm, kept_form
from penstock.console.one_time_links import LINK_PATH, OneTimeLinks
from penstock.console.rendering import html_headers, render
from penstock.console.sessions.back_channel import BACK_CHANNEL
from penstock.console.sessions.sessions import Session, Sessions
from penstock.console.sign_in import SIGN_IN, SignIn, SignInAnswer
from penstock.console.visits import Download, Page, Redirect, Shown, Text, Visit
from penstock.operations.catalogue.reasons import hint_of
from penstock.operations.gate.pipeline import Gate

__all__ = ["console_routes"]

PATH = "/console"
# Refusals that are about who asks, and not about what was sent.
_CLOSED = ("SCOPE_REQUIRED", "POLICY_DENIED")
_TEXT_HEADERS = (
    (b"content-type", b"text/plain; charset=utf-8"),
    (b"content-security-policy", b"default-src 'none'; sandbox"),
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
)


def console_routes(gate: Gate, links: OneTimeLinks | None = None, trace_url: str | None = None) -> list[BaseRoute]:
    """Return the routes of the console.

    `links` are the one-time links of this process, if it makes any; `trace_url` is the page of a trace elsewhere.
    """
    console = _Console(gate, links, trace_url)
    routes: list[BaseRoute] = [
        Route(f"{PATH}/static/{{version}}/{{name}}", _Endpoint(send_asset)),
        Route(f"{PATH}/events", _Endpoint(console.events)),
        Route(SIGN_IN, _Endpoint(console.signing_in(console.entrance.with_key))),
        Route(f"{SIGN_IN}/callback", _Endpoint(console.signing_in(console.entrance.come_back))),
        Route(f"{SIGN_IN}/with/{{issuer}}", _Endpoint(console.signing_in(console.entrance.leave))),
        Route(f"{LINK_PATH}/{{token}}", _Endpoint(console.signing_in(console.entrance.with_link))),
        Route(f"{BACK_CHANNEL}/{{issuer}}", _Endpoint(console.sessions.back_channel.serve)),
        Route(f"{PATH}/sign-out", _Endpoint(console.sign_out)),
    ]
    handlers: dict[str, Handler] = {**pages.HANDLERS, "/{anything:path}": _missing}
    return [*routes, *(Route(PATH + path, _Endpoint(console.serving(handler))) for path, handler in handlers.items())]


Handler: TypeAlias = Callable[[Visit], Awaitable[Shown]]
Way: TypeAlias = Callable[[Scope, Receive], Awaitable[SignInAnswer]]
Serve: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

# The sections of the console: the address, the words, the letter that follows `g` to get there, and the scopes of which
# one opens it.
_SECTIONS: tuple[tuple[str, str, str, tuple[str, ...]], ...] = (
    ("runs", "Runs", "r", ("execution:read",)),
    ("approvals", "Approvals", "a", ("draft:read",)),
    ("workflows", "Workflows", "w", ("workflow:read",)),
    ("agents", "Agents", "n", ("agent:read",)),
    ("tools", "Tools", "t", ("policy:read", "upstream:read", "key:read")),
    ("graphs", "Graphs", "g", ("graph:read",)),
    ("schedules", "Schedules", "s", ("schedule:read",)),
    ("webhooks", "Webhooks", "b", ("webhook:read",)),
    ("policies", "Policies", "p", ("policy:read",)),
    ("audit", "Audit", "u", ("audit:read",)),
    ("system", "System", "y", ("system:read",)),
)


@dataclass(frozen=True, slots=True)
class _Endpoint:
    """An ASGI application: Starlette would call a plain function with its own request object."""

    serve: Serve

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        return self.serve(scope, receive, send)


@dataclass(slots=True)
class _Console:
    gate: Gate
    links: OneTimeLinks | None = None
    trace_url: str | None = None
    sessions: Sessions = field(init=False)
    entrance: SignIn = field(init=False)

    def __post_init__(self) -> None:
        self.sessions = Sessions(self.gate, self.links)
        self.entrance = SignIn(self.gate, self.sessions, self.links)

    # --- pages for signed-in visitors -------------------------------------------------------------------------------

    def serving(self, handler: Handler) -> Serve:
        """Return the application that serves a page."""

        async def serve(scope: Scope, receive: Receive, send: Send) -> None:
            try:
                session = await self.sessions.find(scope)
            except PenstockError as error:
                shown, status = await _not_now(scope, receive, error)
                await _send(send, shown, status, scope["method"], self._common(None), ())
                return
            if session is None:
                await self._ask_to_sign_in(scope, receive, send)
                return
            scope.setdefault("state", {})["principal"] = session.principal
            cookies = () if session.next_cookie is None else (session.next_cookie,)
            shown, status = await self._shown(handler, scope, receive, session)
            if isinstance(shown, Download):
                await send_download(shown, scope["method"], receive, send, [*_TEXT_HEADERS, *_set_cookies(cookies)])
                return
            await _send(send, shown, status, scope["method"], self._common(session), cookies)

        return serve

    async def events(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Say which runs move, as long as the browser listens."""
        try:
            session = await self.sessions.find(scope)
        except PenstockError as error:
            await refused_stream(send, error)
            return
        if session is None:
            await refused_stream(send, SIGNED_OUT)
            return
        scope.setdefault("state", {}).update({"principal": session.principal, "stream": True})
        try:
            visit = await self._visit(scope, receive, session)
            after = visit.query.text("after") or header(scope, b"last-event-id")
            stream = await visit.stream("execution.changes", last_event_id=after)
        except PenstockError as error:
            await refused_stream(send, error)
            return
        opened: Session = session

        async def look() -> Standing:
            try:
                now = await self.sessions.goes_on(opened)
            except PenstockError:
                return "outdated"  # the next stream says what is wrong
            if now is None:
                return "signed out"
            return "open" if now.principal == opened.principal else "outdated"

        await send_changes(stream, receive, send, look)

    async def _shown(self, handler: Handler, scope: Scope, receive: Receive, session: Session) -> tuple[Shown, int]:
        try:
            visit = await self._visit(scope, receive, session)
            shown = await handler(visit)
        except OutdatedForm as error:
            note_refusal(scope, error)
            return kept_form(scope, error.form), page_status(error)
        except PenstockError as error:
            return _error_page(scope, error)
        return shown, shown.status if isinstance(shown, Page) else 200

    async def _visit(self, scope: Scope, receive: Receive, session: Session) -> Visit:
        form: Fields | None = None
        if scope["method"] == "POST":
            refuse_foreign_form(scope)
            form = await read_form(scope, receive)
            if not self.sessions.is_form_token(session, form.text("form_token")):
                raise OutdatedForm(form)
        elif scope["method"] not in ("GET", "HEAD"):
            raise Rejected("METHOD_NOT_ALLOWED", f"a page does not support the method {scope['method'][:20]}")
        return Visit(
            gate=self.gate,
            principal=session.principal,
            path={name: str(value) for name, value in scope.get("path_params", {}).items()},
            query=query_of(scope),
            form=form,
            form_token=self.sessions.form_token(session),
            session_id=session.kept.session_id,
            request_id=request_id_of(scope),
            remote=remote_of(scope),
            origin=HttpOrigin(scope),
            address=f"{scope.get('scheme', 'http')}://{header(scope, b'host') or ''}",
            trace_url=self.trace_url,
        )

    def _common(self, session: Session | None) -> dict[str, object]:
        """What the frame of every page shows. Sections appear only for visitors who may read something in them."""
        may = partial(scope_allows, frozenset() if session is None else session.principal.scopes)
        return {
            "principal": None if session is None else session.principal,
            "form_token": "" if session is None else self.sessions.form_token(session),
            "root": PATH,
            "may": may,
            "sections": [shown[:3] for shown in _SECTIONS if any(map(may, shown[3]))],
        }

    # --- signing in and out ------------------------------------------------------------------------------------------

    async def _ask_to_sign_in(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] == "GET" and header(scope, b"sec-fetch-site") == "cross-site":
            # The browser kept the cookie back because a link of another site led here. Our own page may ask again.
            await _send(send, Page("again.html", {}), 200, "GET", self._common(None), ())
            return
        if scope["method"] == "POST":  # what was written would be lost with a redirect
            shown, status = await _kept(scope, receive)
            await _send(send, shown, status, "POST", self._common(None), ())
            return
        query = scope.get("query_string", b"").decode("latin-1")
        wanted = scope["path"] + (f"?{query}" if query else "")
        location = f"{SIGN_IN}?to={quote(wanted, safe='')}"
        await _send(send, Redirect(location), 303, scope["method"], {}, ())

    def signing_in(self, way: Way) -> Serve:
        """Return the application of one way to sign in."""

        async def serve(scope: Scope, receive: Receive, send: Send) -> None:
            scope.setdefault("state", {})
            shown, cookies = await way(scope, receive)
            status = shown.status if isinstance(shown, Page) else 303
            await _send(send, shown, status, scope["method"], self._common(None), cookies)

        return serve

    async def sign_out(self, scope: Scope, receive: Receive, send: Send) -> None:
        """End the session of this browser; with `everywhere`, all sessions of the person who signs out."""
        if scope["method"] != "POST":
            await _send(send, Redirect(SIGN_IN), 303, scope["method"], {}, ())
            return
        shown, status, session = await self._signed_out(scope, receive)
        cookies = (self.sessions.no_cookie(scope),) if session is None else ()
        await _send(send, shown, status, "POST", self._common(session), cookies)

    async def _signed_out(self, scope: Scope, receive: Receive) -> tuple[Shown, int, Session | None]:
        """Sign somebody out; return the session if it stays open because the form was refused."""
        try:
            session = await self.sessions.find(scope)
        except PenstockError as error:
            return *_error_page(scope, error), None
        if session is None:
            return Redirect(SIGN_IN), 303, None
        opened: Session = session

        async def end(visit: Visit) -> Shown:
            place = await self.sessions.issuer_exit(opened)
            if visit.form is not None and visit.form.text("everywhere"):
                ending = await self.sessions.all_of(opened.principal)
                await visit.call("key.sign_out")
                self.sessions.have_ended(ending)
            else:
                await self.sessions.end(scope, opened)
            if place is None:
                return Redirect(SIGN_IN)
            return Page("signed_out.html", {"address": place.address, "label": place.label})

        scope.setdefault("state", {})["principal"] = opened.principal
        shown, status = await self._shown(end, scope, receive, opened)
        return shown, status, None if await self.sessions.is_over(opened) else opened


async def _missing(visit: Visit) -> Shown:
    raise NotFound("ROUTE_NOT_FOUND", "the console has no such page", "choose a page from the menu")


async def _kept(scope: Scope, receive: Receive, problem: PenstockError | None = None) -> tuple[Shown, int]:
    """Return the page for somebody who sends a form and is signed out: nothing was done, and nothing is lost.

    `problem` says why the session cannot be renewed now, if it has not ended.
    """
    try:
        refuse_foreign_form(scope)
        form = await read_form(scope, receive)
    except PenstockError as error:
        return _error_page(scope, error)
    refusal = problem or Denied("SIGNED_OUT", "you are signed out, so nothing was sent")
    note_refusal(scope, refusal)
    return kept_form(scope, form, problem), page_status(refusal)


async def _not_now(scope: Scope, receive: Receive, error: PenstockError) -> tuple[Shown, int]:
    """Return the page for a visitor whose session cannot be renewed now."""
    return await _kept(scope, receive, error) if scope["method"] == "POST" else _error_page(scope, error)


def _error_page(scope: Scope, error: PenstockError) -> tuple[Page, int]:
    """Return the page that says what was refused, and why."""
    note_refusal(scope, error)
    kind = "missing" if isinstance(error, NotFound) else "closed" if error.code in _CLOSED else "wrong"
    told = {"code": error.code, "message": error.message, "hint": hint_of(error)}
    return Page("error.html", {**told, "kind": kind, "request_id": request_id_of(scope)}), page_status(error)


def _set_cookies(cookies: Sequence[str]) -> list[tuple[bytes, bytes]]:
    return [(b"set-cookie", cookie.encode()) for cookie in cookies]


async def _send(
    send: Send,
    shown: Shown,
    status: int,
    method: str,
    common: dict[str, object],
    cookies: Sequence[str],
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
        case Download(_, file_name):
            raise TypeError(f"{file_name} is sent only to signed-in visitors, by `serving`")
        case _:
            assert_never(shown)
    headers.extend(_set_cookies(cookies))
    headers.append((b"content-length", str(len(body)).encode()))
    await send_body(send, status, headers, b"" if method == "HEAD" else body)
