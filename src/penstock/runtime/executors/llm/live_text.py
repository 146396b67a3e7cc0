"""The text of a model while it is being written, for whoever follows the run.

Secrets of the call are masked, also those that arrive in several pieces: a piece that ends with the beginning of a
secret is held back until it is clear what follows. An answer that has to fit a schema is JSON, so a secret is masked as
JSON writes it, too. What is given out here is stored nowhere; the answer is, when it is complete.

Above it: `attempts`. Below it: the readers that a call has.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.base.masking import written_forms
from penstock.runtime.activities.performing import ActivityCall
from penstock.runtime.executors.llm.answers import PreparedRequest

__all__ = ["LiveText", "is_read"]


def is_read(call: ActivityCall, prepared: PreparedRequest) -> bool:
    """Whether a model is asked for its text piece by piece: somebody reads it, or the node says so.

    Nobody reads a summary: it is for the model.
    """
    summarizes = prepared.turn is not None and prepared.turn.summarizing is not None
    if call.readers is None or summarizes:
        return False
    return call.activity.config.get("stream") is True or call.readers.is_heard(call)


@dataclass(slots=True)
class LiveText:
    """The text of one model. Another one that is asked instead begins anew, which its readers see."""

    call: ActivityCall
    given: int = 0
    """How many characters were given out."""
    held: str = ""
    """What may be the beginning of a secret."""

    @classmethod
    def of(cls, call: ActivityCall) -> LiveText:
        """Return the text of a call before anything of it is written."""
        return cls(call)

    def begin(self) -> None:
        """Begin anew: the text so far was not the answer."""
        self.given, self.held = 0, ""

    def say(self, piece: str) -> None:
        """Give out a piece, as far as it cannot be part of a secret."""
        text = self.call.masked(self.held + piece)
        kept = _beginning_of_secret(text.lower(), written_forms(self.call.hidden)) if self.call.hidden else 0
        self.held = text[len(text) - kept :]
        self._give(text[: len(text) - kept])

    def finish(self) -> None:
        """Give out the rest: the text is complete."""
        text, self.held = self.held, ""
        self._give(text)

    def _give(self, text: str) -> None:
        if text and self.call.readers is not None:
            self.call.readers.write(self.call, text, self.given)
            self.given += len(text)


def _beginning_of_secret(text: str, hidden: tuple[str, ...]) -> int:
    """Return how many characters at the end of a text may be the beginning of a secret; both are in lower case."""
    longest = 0
    for secret in hidden:
        for size in range(min(len(secret) - 1, len(text)), longest, -1):
            if text.endswith(secret[:size]):
                longest = size
                break
    return longest
