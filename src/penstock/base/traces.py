"""Trace ids, as W3C Trace Context carries them in the header `traceparent`.

Below it: nothing. It makes no spans: a caller's trace id only connects our records with the caller's own.
"""

from __future__ import annotations

import re

__all__ = ["trace_id_of"]

# Version, trace id, parent id, flags. Later versions may append more, after another hyphen.
_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?:-.*)?")
# Version 00 has exactly this length.
_CHARACTERS = 55


def trace_id_of(traceparent: str | None) -> str | None:
    """Return the trace id in a `traceparent`; None if there is none, or if it is not valid."""
    if traceparent is None:
        return None
    found = _TRACEPARENT.fullmatch(traceparent)
    if found is None or (traceparent.startswith("00") and len(traceparent) != _CHARACTERS):
        return None
    return found[1]
