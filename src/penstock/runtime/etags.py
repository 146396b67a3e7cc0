"""The ETag of something registered: a hash of its body, equal for equal bodies however they were written.

Above it: the registries, `deliveries.sending`. Below it: canonical JSON.
"""

from __future__ import annotations

import hashlib

from penstock.base.json import JsonObject
from penstock.definitions.canonical import canonical_json

__all__ = ["body_etag"]


def body_etag(body: JsonObject) -> str:
    """The ETag of a body."""
    return hashlib.sha256(canonical_json(body, exact_integers=True)).hexdigest()[:32]
