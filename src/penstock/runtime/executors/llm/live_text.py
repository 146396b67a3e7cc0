"""The text of a model while it is being written, for readers that follow the run.

Secrets of the call are masked, also those that arrive in several pieces: a piece that ends with the beginning of a
secret is held back until it is clear what follows. An answer that has to fit a schema is JSON, so a secret is masked as
JSON writes it, too. The pieces are not stored; the complete answer is.

Above it: `attempts`. Below it: the readers that a call has.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.base.masking import written_forms
from penstock.runtime.activities.performing import ActivityCall
from penstock.runtime.executors.llm.answers import PreparedRequest

__all__ = ["LiveText", "is_read"]


def is_read(call: ActivityCall, prepared: PreparedRequest) -> bool:
    """Whether to stream the model's text: it has readers, or the node asks for it.

    Summaries are never streamed, because only the model reads them.
    """
    summarizes = prepared.turn is not None and prepared.turn.summarizing is not None
    if call.readers is None or summarizes:
        return False
    return call.activity.config.get("stream") is True or call.readers.is_heard(call)


@dataclass(slots=True)
class LiveText:
    """The text of one model. If another model takes over, the text restarts, and readers see that."""

    call: ActivityCall
    given: int = 0
    """How many characters were delivered."""
    held: str = ""
    """What may be the beginning of a secret."""

    @classmethod
    def of(cls, call: ActivityCall) -> LiveText:
        """Return the empty text of a call."""
        return cls(call)

    def begin(self) -> None:
        """Restart: the text so far was not the answer."""
        self.given, self.held = 0, ""

    def say(self, piece: str) -> None:
        """Deliver a piece, except for an end that may be part of a secret."""
        text = self.call.masked(self.held + piece)
        kept = _beginning_of_secret(text.lower(), written_forms(self.call.hidden)) if self.call.hidden else 0
        self.held = text[len(text) - kept :]
        self._give(text[: len(text) - kept])

    def finish(self) -> None:
        """Deliver the rest: the text is complete."""
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
