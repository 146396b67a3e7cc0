"""Keyed digests (HMAC-SHA256), fast for many texts under few keys.

Preparing a key takes as long as digesting a short text, so each key is prepared once and copied for each text.

Above it: code that seals or compares values with the server's secret. Below it: the standard library.
"""

from __future__ import annotations

import hmac
from functools import lru_cache

__all__ = ["keyed_digest"]

# Enough for the server's secret and those of other servers in the same process.
_KEYS_PREPARED = 8


def keyed_digest(key: bytes, text: bytes) -> str:
    """Return the digest of a text under a key, in hexadecimal."""
    digest = _prepared(key).copy()
    digest.update(text)
    return digest.hexdigest()


@lru_cache(maxsize=_KEYS_PREPARED)
def _prepared(key: bytes) -> hmac.HMAC:
    return hmac.new(key, digestmod="sha256")
