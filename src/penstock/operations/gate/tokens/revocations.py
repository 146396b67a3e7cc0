"""Which tokens and subjects are revoked: looked up in the store, again after every revocation.

A revocation is stored in the tenant that it applies to, under a digest of what it names, so that a lookup is one read.

Above it: `authenticator`, the operations on tokens. Below it: the resources of the platform store.
"""

from __future__ import annotations

from functools import partial
from hashlib import sha256

from penstock.base import limits
from penstock.base.encoding import encode_bytes
from penstock.base.lru_cache import CurrentValues
from penstock.governance.principals import TokenReference
from penstock.runtime.ports.database import Database
from penstock.runtime.ports.topics import Topic
from penstock.runtime.tables.resources import read_resource

__all__ = ["REVOCATION_KIND", "Revocations", "subject_revocation_id", "token_revocation_id"]

REVOCATION_KIND = "token_revocation"


def _digest(*parts: str) -> str:
    return sha256(encode_bytes(parts)).hexdigest()[:32]


def subject_revocation_id(issuer: str, subject: str) -> str:
    """Return the id under which the revocation of all tokens of a subject is stored."""
    return "subject-" + _digest(issuer, subject)


def token_revocation_id(issuer: str, token_id: str) -> str:
    """Return the id under which the revocation of one token is stored."""
    return "token-" + _digest(issuer, token_id)


class Revocations:
    """Answers whether a token is revoked."""

    def __init__(self, platform: Database) -> None:
        self._platform = platform
        self._unrevoked: CurrentValues[TokenReference, TokenReference] = CurrentValues(
            partial(platform.changed, Topic.TOKENS), limits.TOKENS_PROVEN_KEPT
        )
        """The tokens that were not revoked at the last revocation of any token."""

    def is_known_valid(self, token: TokenReference) -> bool:
        """Whether a token was looked up since the last revocation, and was not revoked."""
        return self._unrevoked.at_hand().get(token) is not None

    async def is_revoked(self, token: TokenReference) -> bool:
        """Whether a token, or its subject, is revoked."""
        unrevoked = self._unrevoked.at_hand()
        if unrevoked.get(token) is not None:
            return False
        if await self.is_subject_revoked(token.tenant, token.issuer, token.subject):
            return True
        if token.token_id is not None and await self._exists(
            token.tenant, token_revocation_id(token.issuer, token.token_id)
        ):
            return True
        unrevoked.put(token, token)
        return False

    async def is_subject_revoked(self, tenant: str, issuer: str, subject: str) -> bool:
        """Whether all tokens of a subject are revoked."""
        return await self._exists(tenant, subject_revocation_id(issuer, subject))

    async def _exists(self, tenant: str, resource_id: str) -> bool:
        return await read_resource(self._platform, tenant, REVOCATION_KIND, resource_id) is not None
