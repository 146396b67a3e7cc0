"""Links to pages that answer a question: signed, for one question of one run, valid for an hour or two.

The holder of the link answers on behalf of the caller who received it, as long as the caller's key is valid. So only
callers who may answer by themselves receive one. The program of an agent is given the address of the page that asks
for a key: a person opens it and answers with their own. A question keeps the same link for a while, so that asking
twice does not give two links.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from urllib.parse import urlencode

from penstock.base import limits
from penstock.mcp_surface.callers import Caller
from penstock.mcp_surface.questions.client_questions import ClientQuestion, Kind, client_question, with_whole_key
from penstock.mcp_surface.questions.signing import AnswerLink, link_signer
from penstock.operations.gate.context import Principal, Services
from penstock.operations.permissions.answering import may_ask_caller
from penstock.operations.runs.waits import QuestionView

__all__ = ["AnswerLinks", "may_answer_alone"]

_WINDOW_MS = limits.MCP_QUESTION_SECONDS_MAX * 1000


def may_answer_alone(principal: Principal, question: QuestionView) -> bool:
    """Whether a principal may answer a question by a call of its own, without a person in front of it."""
    return principal.kind != "agent" or question.answered_by == "anyone"


class AnswerLinks:
    """Creates and reads the addresses of answer pages."""

    def __init__(self, services: Services, path: str) -> None:
        self._services = services
        self._path = path
        self._signer = link_signer(services.pepper)

    def address(self, caller: Caller, execution_id: str, question: QuestionView) -> str | None:
        """Return the address at which a caller's question is answered: a link, or for an agent the page that asks who.

        None if the caller cannot reach the server with a browser, or has no key in whose name to answer.
        """
        if caller.address is not None and not may_answer_alone(caller.principal, question):
            named = urlencode({"execution": execution_id, "question": question.interrupt_id}, safe=":")
            return f"{caller.address.rstrip('/')}{self._path}?{named}"
        return self.link(caller, execution_id, question.interrupt_id)

    def link(self, caller: Caller, execution_id: str, interrupt_id: str) -> str | None:
        """Return a link with which a caller answers."""
        key_id = caller.principal.key_id
        if caller.address is None or key_id is None:
            return None
        link = AnswerLink(
            key_id=key_id,
            tenant=caller.principal.tenant,
            execution_id=execution_id,
            interrupt_id=interrupt_id,
            until_ms=(self._services.clock.now_ms() // _WINDOW_MS + 2) * _WINDOW_MS,
        )
        return f"{caller.address.rstrip('/')}{self._path}/{self._signer.sign(link).rstrip('=')}"

    def askable(
        self, caller: Caller, execution_id: str, questions: Iterable[QuestionView], kinds: Set[Kind]
    ) -> list[ClientQuestion]:
        """Return the questions of a run and its child runs that a client of these kinds can be asked."""

        def link(question: QuestionView) -> str | None:
            if question.sign_in:
                return None
            return self.address(caller, question.execution_id or execution_id, question)

        own = (item for item in questions if may_ask_caller(caller.principal, item.approvers))
        asked = [found for item in own if (found := client_question(item, kinds, link)) is not None]
        return [with_whole_key(item, execution_id) for item in asked] if caller.whole_keys else asked

    def read(self, token: str) -> AnswerLink | None:
        """Read the link in an address; None if it is not ours or has expired."""
        # Restore the padding: chats and terminals leave it out of what can be clicked.
        padded = token.rstrip("=") + "=" * (-len(token.rstrip("=")) % 4)
        return self._signer.verify(padded, now_ms=self._services.clock.now_ms())
