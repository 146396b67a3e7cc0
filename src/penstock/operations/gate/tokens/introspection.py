"""Tokens that say nothing themselves: their issuer is asked (RFC 7662).

An opaque token does not name its issuer, so every issuer that can be asked is, until one knows it. Answers are believed
for a short time only, and the number of questions is limited: anybody can send texts that might be tokens.

Above it: `authenticator`. Below it: the port to issuers, `governance.tokens`.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass

from penstock.base import limits
from penstock.base.clock import Clock
from penstock.base.errors import LimitExceeded, Unavailable
from penstock.base.json import JsonObject
from penstock.governance.tokens.rules import TokenRefusal
from penstock.runtime.ports.issuers import Fetched, IntrospectionRequest, IssuerClient

__all__ = ["Introspection", "Introspector"]

_LOGGER = logging.getLogger("penstock.gate")
_MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Introspection:
    """Where an issuer is asked about tokens, and as whom. The secret is looked up for each question."""

    url: str
    client_id: str
    client_secret: Callable[[], str]


class Introspector:
    """Asks issuers about opaque tokens."""

    def __init__(self, client: IssuerClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._minute: int | None = None
        self._asked = 0

    async def claims(self, asked: Introspection, token: str, issuer: str) -> JsonObject | TokenRefusal:
        """Return what an issuer says about a token that is active."""
        self._count()
        try:
            secret = asked.client_secret()
        except Unavailable as error:
            _LOGGER.warning("the issuer %s cannot be asked about tokens: %s", issuer, error.message)
            raise
        request = IntrospectionRequest(url=asked.url, token=token, client_id=asked.client_id, client_secret=secret)
        answer = await self._client.introspect(request)
        if not isinstance(answer, Fetched):
            _LOGGER.warning("the issuer %s cannot be asked about tokens: %s", issuer, answer.reason)
            raise Unavailable(
                "ISSUER_UNAVAILABLE", "the issuer does not respond, so the token cannot be checked", "try again later"
            )
        try:
            found = json.loads(answer.body)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict) or found.get("active") is not True:
            return TokenRefusal("the issuer does not know the token, or it is no longer active")
        # The issuer that was asked answers for its own tokens, and may leave its name out.
        return {"iss": issuer, **found}

    def _count(self) -> None:
        minute = self._clock.elapsed_ms() // _MINUTE_MS
        if minute != self._minute:
            self._minute, self._asked = minute, 0
        self._asked += 1
        if self._asked > limits.OPAQUE_TOKENS_PER_MINUTE:
            message = "too many tokens that only their issuer can read were sent in a minute"
            raise LimitExceeded("RATE_LIMITED", message, "try again in a minute", {"retry_after_seconds": 60})
