"""The page on which a person answers a question: for secrets, and for answers that no form of a client can hold.

There are two ways to reach it. `/answer?execution=…&question=…` may be shown to anybody, including models: it asks for
a key and answers in that key's name. The other way is a signed link, which itself grants the right to answer: one
question of one run, for an hour or two, while the key for which it was made is valid. The person who opens it answers
for the holder of that key. Neither lets an agent answer a question to people. A link that does not work gives no
reason. The page has no script and loads nothing.

`app` mounts it. It calls the gate, `questions.links` and `html_form`. This module does not import the SDK.
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from html import escape

from starlette.types import Receive, Scope, Send

from penstock.asgi import AUDITED, CODE, HttpOrigin, remote_of, request_id_of, send_body
from penstock.asgi.forms import query_of, read_form, refuse_foreign_form
from penstock.asgi.refusals import note_refusal, page_status, page_title
from penstock.base.errors import Denied, NotFound, PenstockError
from penstock.base.json import JsonObject
from penstock.base.visible_texts import visible_text
from penstock.html_form.decisions import APPROVE, DECISION, DECLINE, DecisionForm
from penstock.html_form.form import Given, UnreadableFields
from penstock.mcp_surface.callers import Caller, call_operation
from penstock.mcp_surface.content.results import plain_text
from penstock.mcp_surface.options import McpOptions
from penstock.mcp_surface.questions.clients import ALREADY_ANSWERED
from penstock.mcp_surface.questions.links import AnswerLinks, may_answer_alone
from penstock.mcp_surface.questions.signing import AnswerLink
from penstock.operations.catalogue.reasons import hint_of
from penstock.operations.executions.reads import Timeline
from penstock.operations.gate.context import Credentials
from penstock.operations.gate.pipeline import Gate
from penstock.operations.runs.decisions import DecisionView
from penstock.operations.runs.results import ExecutionResult
from penstock.operations.runs.views import ExecutionView
from penstock.operations.runs.waits import QuestionView

__all__ = ["AnswerPage"]

_STYLE = (
    ":root{color-scheme:light dark}"
    "body{font:16px/1.5 system-ui,sans-serif;max-width:36rem;margin:3rem auto;padding:0 1rem}"
    "label,legend{display:block;font-weight:600}.tick label,fieldset label{font-weight:400}"
    "fieldset p label{font-weight:600}label span,legend span{font-weight:400;opacity:.7}"
    "input:not([type=checkbox]):not([type=radio]),select,textarea{width:100%;font:inherit;padding:.45rem .6rem;"
    "box-sizing:border-box;border:1px solid #8889;border-radius:.35rem;background:field;color:fieldtext}"
    "fieldset{margin:1rem 0;border:1px solid #8886;border-radius:.35rem}"
    "textarea{font-family:ui-monospace,Consolas,monospace}small{display:block;opacity:.8;overflow-wrap:anywhere}"
    "button{font:inherit;padding:.45rem 1.4rem;margin-right:.5rem;border:1px solid #8889;border-radius:.35rem}"
    ".first{position:absolute;left:-99rem}.item{border-left:.2rem solid #8886;padding-left:.6rem;margin:.6rem 0}"
    ".option:not(:has(>label>input:checked))>.inner{display:none}"
    ".main{background:#1f5fbf;border-color:#1f5fbf;color:#fff}"
    ".wrong{border-left:.3rem solid #c62828;padding-left:.6rem;opacity:1}"
    ".question{white-space:pre-wrap;font-size:1.1em;border-left:.3rem solid #8886;padding-left:.8rem}"
)
_STYLE_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_HEADERS = (
    (b"content-type", b"text/html; charset=utf-8"),
    (
        b"content-security-policy",
        f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; form-action 'self'; base-uri 'none';"
        " frame-ancestors 'none'".encode(),
    ),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
)


@dataclass(frozen=True, slots=True)
class _Page:
    """A page to show."""

    status: int
    title: str
    body: str
    location: str | None = None
    """Where to redirect."""


# How long the page waits for what an answer leads to, before it says how things stand.
_OUTCOME_SECONDS = 3
_INVALID_LINK = _Page(404, "Nothing here", "<p>This address leads nowhere, or not any more. Ask for a new one.</p>")
_DONE = _Page(200, "Thank you", "<p>The answer was taken. You can close this page.</p>")
_KEY = (
    '<form method="post"><p><label for="key">Your key</label>'
    '<input id="key" name="key" type="password" required autocomplete="off">'
    "<small>It is used to find out whether you may answer, and not kept.</small></p>"
    '<p><button class="main">Go on</button></p></form>'
)
_KEY_FORM = _Page(200, "Who are you?", _KEY)
_CLOSE = "<p>You can close this page.</p>"
_VERBS = {"approved": "approved", "declined": "declined", "answered": "answered", "expired": "missed", None: "answered"}
_TITLES = {"approved": "Approved", "declined": "Declined"}
_TOO_LATE = _Page(409, "Answered", "<p>This question has been answered already. You can close this page.</p>")


@dataclass(frozen=True, slots=True)
class _OpenQuestion:
    """An open question, and on whose behalf it is answered."""

    caller: Caller
    view: ExecutionView
    question: QuestionView


def _error_page(error: PenstockError) -> _Page:
    """Build the page for somebody who is refused."""
    if isinstance(error, NotFound):
        return _INVALID_LINK
    advice = hint_of(error) or ""
    hint = f"<p>{escape(advice[:1].upper() + advice[1:])}.</p>" if advice else ""
    return _Page(page_status(error), page_title(error), f"<p>{escape(error.message)}.</p>{hint}")


class AnswerPage:
    """The ASGI application that serves the pages of all questions."""

    surface = "mcp"

    def __init__(self, gate: Gate, options: McpOptions) -> None:
        self._gate = gate
        self._links = AnswerLinks(gate.services, options.answer_path)
        self._body_bytes_max = options.max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        method = scope["method"]
        if method not in ("GET", "HEAD", "POST"):
            await _send(send, _Page(405, "Not this way", "<p>Open the page with a browser.</p>"), head=False)
            return
        token = str(scope.get("path_params", {}).get("token", ""))
        scope.setdefault("state", {})
        try:
            if method == "POST":
                refuse_foreign_form(scope, from_browser=False)
            asked = await self._find_question(token, scope) if token else None
            if asked is None:
                shown = await self._authenticate(scope, receive) if method == "POST" else _KEY_FORM
            elif isinstance(asked, _OpenQuestion):
                shown = await self._submit_answer(asked, scope, receive) if method == "POST" else _page(asked)
            else:
                shown = asked
        except PenstockError as error:
            note_refusal(scope, error)
            shown = _error_page(error)
        await _send(send, shown, head=method == "HEAD")

    async def _authenticate(self, scope: Scope, receive: Receive) -> _Page:
        """Redirect somebody with a key of their own to the page of the question that they name."""
        given = await read_form(scope, receive, self._body_bytes_max)
        wanted = query_of(scope)
        execution_id, named = wanted.text("execution"), wanted.text("question")
        credentials = Credentials(bearer=given.text("key"))
        request_id, remote = request_id_of(scope), remote_of(scope)
        try:
            principal = await self._gate.authenticate(
                credentials, surface="mcp", request_id=request_id, remote=remote, origin=HttpOrigin(scope)
            )
        except Denied as error:
            scope["state"].update({CODE: error.code, AUDITED: True})
            return replace(
                _KEY_FORM, status=403, body=f'<p class="wrong" role="alert">{escape(error.message)}.</p>{_KEY}'
            )
        caller = Caller(principal=principal, request_id=request_id, remote=remote, origin=HttpOrigin(scope), address="")
        view = await call_operation(self._gate, caller, "execution.status", {"execution_id": execution_id})
        assert isinstance(view, ExecutionView)
        found = [item for item in view.waiting_for.questions if named in ("", item.interrupt_id)]
        if not found:
            return await self._too_late(caller, view, named)
        _refuse_agent(caller, found[0])
        address = self._links.link(caller, execution_id, found[0].interrupt_id)
        if address is None:
            return _TOO_LATE
        # Relative to this page, because a proxy may add a prefix to its path.
        return replace(_KEY_FORM, status=303, location="/".join(address.rsplit("/", 2)[1:]))

    async def _find_question(self, token: str, scope: Scope) -> _OpenQuestion | _Page:
        link = self._links.read(token)
        caller = await self._caller(link, scope) if link is not None else None
        if link is None or caller is None:
            return _INVALID_LINK
        view = await call_operation(self._gate, caller, "execution.status", {"execution_id": link.execution_id})
        assert isinstance(view, ExecutionView)
        found = [item for item in view.waiting_for.questions if item.interrupt_id == link.interrupt_id]
        if not found:
            return await self._too_late(caller, view, link.interrupt_id)
        _refuse_agent(caller, found[0])
        return _OpenQuestion(caller, view, found[0])

    async def _caller(self, link: AnswerLink, scope: Scope) -> Caller | None:
        """Return the caller whose question it is; None if their key is no longer valid."""
        principal = await self._gate.authenticator.holder_of(link.key_id)
        if principal is None or principal.tenant != link.tenant:
            return None
        scope["state"]["principal"] = principal
        request_id, remote = request_id_of(scope), remote_of(scope)
        return Caller(principal=principal, request_id=request_id, remote=remote, origin=HttpOrigin(scope))

    async def _submit_answer(self, asked: _OpenQuestion, scope: Scope, receive: Receive) -> _Page:
        given = await read_form(scope, receive, self._body_bytes_max)
        decision = _decision_form(asked.question)
        form = decision.form
        if (edited := form.edited(given)) is not None:
            return _page(asked, edited)
        answer = decision.answer(given, given.text(DECISION), declines=bool(given.get("decline")))
        if isinstance(answer, UnreadableFields):
            return _page(asked, given, answer.wrong)
        arguments: JsonObject = {
            "execution_id": asked.view.execution_id,
            "interrupt_id": asked.question.interrupt_id,
            "answer": answer,
        }
        try:
            await call_operation(self._gate, asked.caller, "execution.answer", arguments, from_person=True)
        except PenstockError as error:
            note_refusal(scope, error)
            if error.code in ALREADY_ANSWERED:
                return await self._too_late(asked.caller, asked.view, asked.question.interrupt_id)
            if error.code not in ("ANSWER_INVALID", "VALUE_NOT_JSON"):
                raise
            return _page(asked, given, form.placed(error, "/answer", given))
        return await self._done(asked)

    async def _done(self, asked: _OpenQuestion) -> _Page:
        """Say what was decided, and what it led to as far as that is known by now."""
        execution_id = asked.view.execution_id
        decided = await self._find_decision(asked.caller, execution_id, asked.question.interrupt_id)
        if decided is None:  # the answer was taken; its holder may not look at the run
            return _DONE
        named: JsonObject = {
            "execution_id": execution_id,
            "wait_seconds": _OUTCOME_SECONDS if decided.final else 0,
        }
        try:
            found = await call_operation(self._gate, asked.caller, "execution.wait", named)
        except PenstockError:
            return _DONE
        assert isinstance(found, ExecutionResult)
        who = escape(visible_text(asked.caller.principal.name or asked.caller.principal.id))
        more = "" if decided.final else "<p>Others have to agree, too.</p>"
        said = f"<p>You {_VERBS[decided.decision]} it, as <strong>{who}</strong>.</p>{more}"
        return _Page(
            200, _TITLES.get(decided.decision or "", "Thank you"), f"{said}{_led_to(asked.view, found)}{_CLOSE}"
        )

    async def _too_late(self, caller: Caller, view: ExecutionView, interrupt_id: str) -> _Page:
        """Say who answered a question that is no longer open, how, and what it led to."""
        decided = await self._find_decision(caller, view.execution_id, interrupt_id)
        if decided is None:
            return _TOO_LATE
        at = f" on {_time_element(decided.at)}" if decided.at else ""
        name = escape(visible_text(decided.name or decided.by or "Somebody"))
        told = f"<strong>{name}</strong> {_VERBS[decided.decision]} it"
        told = "Nobody answered it in time" if decided.decision == "expired" else told
        body = f"<p>This question is not open any more. {told}{at}.</p>{_led_to(view, view)}{_CLOSE}"
        return replace(_TOO_LATE, body=body)

    async def _find_decision(self, caller: Caller, execution_id: str, interrupt_id: str) -> DecisionView | None:
        """Return the last decision about a question, as the run has it; None if it is not for the caller."""
        try:
            found = await call_operation(self._gate, caller, "execution.timeline", {"execution_id": execution_id})
        except PenstockError:
            return None
        assert isinstance(found, Timeline)
        return next((item for item in reversed(found.decisions) if item.interrupt_id == interrupt_id), None)


def _led_to(view: ExecutionView, now: ExecutionResult | ExecutionView) -> str:
    """Render the status of the run that asked."""
    error, state = now.error, escape(now.status.replace("_", " "))
    more = f" with <code>{escape(error.code)}</code>: {escape(visible_text(error.message))}" if error else ""
    return (
        f"<p>The run <code>{escape(view.execution_id)}</code> of {escape(visible_text(view.workflow_id))} "
        f"is <strong>{state}</strong>{more}.</p>"
    )


def _decision_form(question: QuestionView) -> DecisionForm:
    return DecisionForm(question.answer_schema, question.decides, question.decline)


def _refuse_agent(caller: Caller, question: QuestionView) -> None:
    """Refuse an agent's key for a question to people, as every other surface does."""
    if not may_answer_alone(caller.principal, question):
        message = f"{question.interrupt_id} is a question to a person, and the key belongs to an agent"
        raise Denied("PERSON_REQUIRED", message, "open the page again and answer with a key of your own")


def _page(asked: _OpenQuestion, given: Given | None = None, wrong: dict[str, list[str]] | None = None) -> _Page:
    question, form = asked.question, _decision_form(asked.question)
    first = '<button class="first" tabindex="-1" aria-hidden="true">Answer</button>'
    buttons = '<button class="main">Answer</button>'
    if question.decides is not None:
        # The return key decides nothing.
        first = f'<button class="first" name="{DECISION}" value="" tabindex="-1" aria-hidden="true">Look again</button>'
        buttons = (
            f'<button class="main" name="{DECISION}" value="{APPROVE}">Approve</button>'
            f'<button name="{DECISION}" value="{DECLINE}" formnovalidate>Decline</button>'
        )
    elif question.decline is not None:
        buttons += '<button name="decline" value="yes" formnovalidate>Decline</button>'
    until = f" It can be answered until {_time_element(question.expires_at)}." if question.expires_at else ""
    body = (
        f"<p>The workflow <strong>{escape(visible_text(asked.view.workflow_id))}</strong> asks:</p>"
        f'<p class="question">{escape(visible_text(plain_text(question.prompt)))}</p>{_alert(wrong or {})}'
        # The first button is the one that the return key presses: not one that changes a list.
        f'<form method="post">{first}{form.html(given or {}, wrong)}<p>{buttons}</p></form>'
        f"<p><small>Run <code>{escape(asked.view.execution_id)}</code>.{until}</small></p>"
    )
    return _Page(422 if wrong else 200, "A question", body)


def _alert(wrong: dict[str, list[str]]) -> str:
    """Render the message that the answer was not accepted, with the errors that belong to no field."""
    if not wrong:
        return ""
    more = "".join(f"<br>{escape(visible_text(message))}" for message in wrong.get("", ()))
    return f'<p class="wrong" role="alert">The answer does not fit yet, and was not taken.{more}</p>'


def _time_element(text: str) -> str:
    """Render a point in time for people, with a machine-readable form."""
    try:
        message = f"{datetime.fromisoformat(text).astimezone(UTC):%d %B %Y, %H:%M} UTC"
    except ValueError:
        message = text
    return f'<time datetime="{escape(text)}">{escape(message)}</time>'


async def _send(send: Send, shown: _Page, *, head: bool) -> None:
    title = escape(shown.title)
    page = (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title} · Penstock</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{_STYLE}</style></head>'
        f"<body><main><h1>{title}</h1>{shown.body}</main></body></html>"
    ).encode()
    headers = [*_HEADERS, (b"content-length", str(len(page)).encode())]
    if shown.status == 405:  # noqa: PLR2004
        headers.append((b"allow", b"GET, HEAD, POST"))
    if shown.location is not None:
        headers.append((b"location", shown.location.encode("ascii")))
    await send_body(send, shown.status, headers, b"" if head else page)
