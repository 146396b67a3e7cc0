"""A question that somebody approves or declines: two buttons in place of a check box, and the answer of each.

A form that is sent without either button (by the return key) decides nothing: the page asks again.

Above it: the pages with questions. Below it: `form`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from penstock.base.json import JsonValue
from penstock.html_form.form import AnswerForm, Given, UnreadableFields, answer_form

__all__ = ["APPROVE", "CHOOSE", "DECISION", "DECLINE", "DecisionForm"]

DECISION = "decision"
"""The name of the buttons."""
APPROVE, DECLINE = "approve", "decline"
CHOOSE = "Choose Approve or Decline."


@dataclass(frozen=True, slots=True)
class DecisionForm:
    """The form of a question. `decides` is the member of the answer that the buttons set; None without buttons."""

    schema: JsonValue
    decides: str | None
    decline: JsonValue

    @property
    def form(self) -> AnswerForm:
        """The fields beside the buttons."""
        whole = answer_form(self.schema)
        if self.decides is None:
            return whole
        return replace(whole, fields=tuple(item for item in whole.fields if self.decides and item.name != self.decides))

    def html(self, given: Given, wrong: dict[str, list[str]] | None = None) -> str:
        """Render the fields beside the buttons."""
        return self.form.html(given, wrong)

    def answer(self, given: Given, decision: str, *, declines: bool) -> JsonValue | UnreadableFields:
        """Return the answer that was sent, by a button or in fields; `declines` is the button of other questions."""
        if self.decides is None:
            return self.decline if declines and self.decline is not None else self.form.answer(given)
        if decision not in (APPROVE, DECLINE) and not declines:
            return UnreadableFields({"": [CHOOSE]})
        agrees = decision == APPROVE
        if self.decides == "":
            return agrees
        others = self.form.answer(given)
        if isinstance(others, UnreadableFields):
            return others if agrees else self.decline
        said = others if isinstance(others, dict) else {}
        if not agrees and isinstance(self.decline, dict):
            return {**said, **self.decline}  # the document may say more than no
        return {**said, self.decides: agrees}
