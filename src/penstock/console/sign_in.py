"""Signing in: with a key, at an issuer (OpenID Connect), or with the one-time link of this process.

A browser that leaves for an issuer carries a signed cookie to check the answer against. The answer is exchanged for
tokens. The gate authenticates the access token like any other; the session stores the result and the refresh token.
Failed attempts are limited. Nothing here decides what somebody may do.

Above it: `surface`, which sends what is returned here. Below it: `sessions`, the gate.
"""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import urlsplit

import msgspec
from starlette.types import Receive, Scope

from penstock.asgi import HttpOrigin, header, remote_of, request_id_of
from penstock.asgi.forms import query_of, read_form, refuse_foreign_form
from penstock.asgi.refusals import note_refusal, page_status
from penstock.base import limits
from penstock.base.errors import Denied, NotFound, PenstockError
from penstock.console.one_time_links import OneTimeLinks
from penstock.console.sessions.cookies import cookie_text, cookie_value
from penstock.console.sessions.sessions import Sessions, is_secure
from penstock.console.visits import Page, Redirect, Shown
from penstock.operations.gate.context import Credentials, Principal
from penstock.operations.gate.pipeline import Gate
from penstock.operations.gate.rates.sign_ins import SignInLimits
from penstock.operations.gate.tokens.browser_sign_ins import FinishedSignIn, Leaving, ReturnedQuery
from penstock.operations.signed_texts import Signer

__all__ = ["SIGN_IN", "SignIn", "SignInAnswer", "own_page"]

_ROOT = "/console"
SIGN_IN = f"{_ROOT}/sign-in"
_LEAVING_COOKIE = "penstock_console_leaving"
_PURPOSE = b"penstock console leaving 1"
_EXPIRED = "Your session has expired. Sign in again."
_THIS_MACHINE = ("localhost", "127.0.0.1", "::1")


class _Left(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """What the browser carries while it is at the issuer."""

    issuer: str
    state: str
    nonce: str
    verifier: str
    wanted: str
    until_ms: int


class SignInAnswer(NamedTuple):
    """What is shown, and the cookies that are set."""

    shown: Shown
    cookies: tuple[str, ...] = ()


class SignIn:
    """The ways to sign in."""

    def __init__(self, gate: Gate, sessions: Sessions, links: OneTimeLinks | None) -> None:
        self._gate = gate
        self._sessions = sessions
        self._links = links
        self._limits = SignInLimits(gate.services.clock)
        self._leaving = Signer(gate.services.pepper, _PURPOSE, _Left)

    # --- with a key --------------------------------------------------------------------------------------------------

    async def with_key(self, scope: Scope, receive: Receive) -> SignInAnswer:
        """Show the form, or take the key."""
        query = query_of(scope)
        wanted = own_page(query.text("to"))
        if scope["method"] != "POST":
            return self._page(wanted, _EXPIRED if await self._has_expired(scope) else None)
        key = ""
        try:
            refuse_foreign_form(scope)
            key = (await read_form(scope, receive)).text("key")
            self._limits.check(remote_of(scope), key)
            cookie = await self._begun(scope, await self._authenticated(scope, key))
        except PenstockError as error:
            return self._refused(scope, wanted, error, key)
        return SignInAnswer(Redirect(wanted), (cookie,))

    async def _has_expired(self, scope: Scope) -> bool:
        """Whether the browser brings the cookie of a session that has ended; a link cannot claim so."""
        if not self._sessions.is_carried(scope):
            return False
        try:
            return await self._sessions.find(scope) is None
        except PenstockError:  # whether it has ended cannot be found out now
            return False

    async def _authenticated(self, scope: Scope, bearer: str) -> Principal:
        return await self._gate.authenticate(
            Credentials(bearer=bearer),
            surface="console",
            request_id=request_id_of(scope),
            remote=remote_of(scope),
            origin=HttpOrigin(scope),
        )

    # --- at an issuer ------------------------------------------------------------------------------------------------

    async def leave(self, scope: Scope, receive: Receive) -> SignInAnswer:
        """Send the browser to an issuer."""
        wanted = own_page(query_of(scope).text("to"))
        name = str(scope.get("path_params", {}).get("issuer", ""))
        flow = self._gate.authenticator.code_flows.get(name)
        try:
            if flow is None:
                raise NotFound(
                    "ISSUER_UNKNOWN", "this way to sign in does not exist", "choose one of the ways on the page"
                )
            self._limits.check(remote_of(scope))
            leaving = await flow.begin()
        except PenstockError as error:
            return self._refused(scope, wanted, error)
        left = _Left(
            issuer=name,
            state=leaving.state,
            nonce=leaving.nonce,
            verifier=leaving.verifier,
            wanted=wanted,
            until_ms=self._now() + limits.CONSOLE_SIGN_IN_MS,
        )
        cookie = self._leaving_cookie(scope, self._leaving.sign(left), limits.CONSOLE_SIGN_IN_MS // 1000)
        return SignInAnswer(Redirect(leaving.address), (cookie,))

    async def come_back(self, scope: Scope, receive: Receive) -> SignInAnswer:
        """Take what the browser brings back from the issuer. Whatever comes of it, it counts once."""
        carried = cookie_value(header(scope, b"cookie"), _LEAVING_COOKIE)
        left = None if carried is None else self._leaving.verify(carried, now_ms=self._now())
        over = self._leaving_cookie(scope, "", 0)
        try:
            self._limits.check(remote_of(scope))
            if left is None:
                message = "this browser did not start the sign-in, or took too long"
                raise Denied("SIGN_IN_REFUSED", message, "sign in again")
            finished = await self._returned(scope, left)
            cookie = await self._begun(scope, await self._person(scope, left, finished), finished)
        except PenstockError as error:
            wanted = _ROOT if left is None else left.wanted
            return self._refused(scope, wanted, error)._replace(cookies=(over,))
        return SignInAnswer(Redirect(left.wanted), (cookie, over))

    async def _returned(self, scope: Scope, left: _Left) -> FinishedSignIn:
        query = query_of(scope)
        flow = self._gate.authenticator.code_flows.get(left.issuer)
        if flow is None:
            raise Denied("SIGN_IN_REFUSED", "this way to sign in was removed", "choose another way to sign in")
        returned = ReturnedQuery(
            code=query.text("code"), state=query.text("state"), issuer=query.text("iss"), error=query.text("error")
        )
        return await flow.finish(returned, Leaving("", left.state, left.nonce, left.verifier))

    async def _person(self, scope: Scope, left: _Left, finished: FinishedSignIn) -> Principal:
        principal = await self._authenticated(scope, finished.tokens.access_token)
        token = principal.token
        if token is None or token.issuer != left.issuer or finished.subject not in (None, token.subject):
            message = "the tokens of the issuer do not belong to the same person"
            raise Denied("SIGN_IN_REFUSED", message, "sign in again")
        return principal

    def _leaving_cookie(self, scope: Scope, value: str, seconds: int) -> str:
        # Lax, because the issuer's page leads back here; it is sent with that and never with a form.
        return cookie_text(_LEAVING_COOKIE, value, secure=is_secure(scope), seconds=seconds, path=SIGN_IN, site="Lax")

    # --- with a link -------------------------------------------------------------------------------------------------

    async def with_link(self, scope: Scope, receive: Receive) -> SignInAnswer:
        """Take a one-time link, on this machine."""
        token = str(scope.get("path_params", {}).get("token", ""))
        now = self._now()
        host = urlsplit(f"//{header(scope, b'host') or ''}").hostname or ""
        try:
            self._limits.check(remote_of(scope))
            if scope["method"] != "GET" or self._links is None or host not in _THIS_MACHINE:
                raise Denied("LINK_INVALID", "this server has no such link", "sign in with a key")
            if not self._links.redeem(token, now):
                message = "the link was already used, or has expired"
                raise Denied("LINK_INVALID", message, "restart the server for a new one, or sign in with a key")
            cookie = await self._sessions.begin(scope, self._links.principal, process=self._links.process)
            assert cookie is not None  # it is bound to the process
        except PenstockError as error:
            return self._refused(scope, _ROOT, error)
        return SignInAnswer(Redirect(_ROOT), (cookie,))

    # --- what they share ---------------------------------------------------------------------------------------------

    async def _begun(self, scope: Scope, principal: Principal, finished: FinishedSignIn | None = None) -> str:
        """Begin a session, and return its cookie."""
        cookie = await self._sessions.begin(scope, principal, finished=finished)
        if cookie is None:
            raise Denied("KEY_NEEDED", "the console accepts only keys and tokens", "sign in with a key of this server")
        return cookie

    def _refused(self, scope: Scope, wanted: str, error: PenstockError, key: str = "") -> SignInAnswer:
        note_refusal(scope, error)
        if isinstance(error, Denied):
            self._limits.failed(remote_of(scope), key)
        return self._page(wanted, error.message, page_status(error))

    def _page(self, wanted: str, problem: str | None, status: int = 200) -> SignInAnswer:
        issuers = [{"name": name, "label": flow.label} for name, flow in self._gate.authenticator.code_flows.items()]
        return SignInAnswer(Page("sign_in.html", {"problem": problem, "wanted": wanted, "issuers": issuers}, status))

    def _now(self) -> int:
        return self._gate.services.clock.now_ms()


def own_page(wanted: str) -> str:
    """Return a page of the console; nothing else is redirected to after signing in."""
    is_own = wanted == _ROOT or wanted.startswith((f"{_ROOT}/", f"{_ROOT}?"))
    return wanted if is_own and wanted.isprintable() and "\\" not in wanted else _ROOT
