"""Trace ids, as W3C Trace Context carries them in the header `traceparent`.

`current_traceparent` is what calls and requests that are made right now belong to. It is set where spans are made
(`app.observability`) and nowhere else: without that, it is `None` and nothing is sent.

Below it: nothing. It makes no spans: a caller's trace id only connects our records with the caller's own.
"""

from __future__ import annotations

import re
from contextvars import ContextVar

__all__ = ["TRACEPARENT", "TRACE_LABEL", "current_traceparent", "is_traceparent", "trace_id_of"]

TRACEPARENT: ContextVar[str | None] = ContextVar("traceparent", default=None)
"""The span that the current task works for, as W3C Trace Context writes it."""
TRACE_LABEL = "penstock.trace"
"""The label of a run with the span that it was started in, so that it belongs to the trace after a restart too."""

# Version, trace id, parent id, flags. Later versions may append more, after another hyphen.
_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?:-.*)?")
# Version 00 has exactly this length.
_CHARACTERS = 55


def trace_id_of(traceparent: str | None) -> str | None:
    """Return the trace id in a `traceparent`; None if it does not exist, or if it is not valid."""
    if traceparent is None:
        return None
    found = _TRACEPARENT.fullmatch(traceparent)
    if found is None or (traceparent.startswith("00") and len(traceparent) != _CHARACTERS):
        return None
    return found[1]


def is_traceparent(text: str | None) -> bool:
    """Whether a text is a valid `traceparent`."""
    return trace_id_of(text) is not None


def current_traceparent() -> str | None:
    """Return the span that the current task works for; None if nothing is traced."""
    return TRACEPARENT.get()
