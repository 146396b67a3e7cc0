"""Whether definitions are trusted: the operator's keys, and what happens to definitions without a good signature.

- `off`: signatures are not looked at.
- `warn`: a definition that is not signed with a trusted key is logged once, and marked where it is shown.
- `require`: it is neither stored nor started. One that is in the store already is checked when it is started, so that
  write access to the file is not enough to run arbitrary workflows.

Workflows that Penstock makes itself, such as the one for a call of an imported tool, are in no document. Their makers
vouch for them by hash, in the process that starts them.

Above it: `definitions` and `embedded` ask before they store and start; `app` reads the keys; operations show verdicts.
Below it: `definitions.signature`, loaded when there is something to check.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from penstock.base import limits
from penstock.base.errors import Rejected
from penstock.base.json import JsonObject
from penstock.base.lazy_import import lazy_import
from penstock.definitions.canonical import signature_of

if TYPE_CHECKING:
    from penstock.definitions import signature
else:
    signature = lazy_import("penstock.definitions.signature")

__all__ = ["SignatureMode", "SignatureTrust", "SignatureVerdict"]

SignatureMode: TypeAlias = Literal["off", "warn", "require"]

_LOGGER = logging.getLogger("penstock.signatures")
_CODES: Final = {"SIGNATURE_REQUIRED": "SIGNATURE_REQUIRED", "SIGNATURE_KEY_UNKNOWN": "SIGNER_NOT_TRUSTED"}
_INVALID: Final = "SIGNATURE_INVALID"
_HINTS: Final = {
    "SIGNATURE_REQUIRED": "sign it: penstock workflow sign FILE --key KEYFILE",
    "SIGNER_NOT_TRUSTED": "sign it with a trusted key, or add the key to workflows.signatures.trusted_keys",
    _INVALID: "review the change, and sign it again: penstock workflow sign FILE --key KEYFILE",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SignatureVerdict:
    """Whether a definition is signed with a trusted key. `code` and `message` say why it is not."""

    key_id: str | None = None
    code: str | None = None
    message: str = ""

    @property
    def is_good(self) -> bool:
        """True if it is."""
        return self.code is None

    @property
    def hint(self) -> str | None:
        """What to do about it."""
        return None if self.code is None else _HINTS[self.code]


@dataclass(slots=True, kw_only=True)
class SignatureTrust:
    """The keys that the operator trusts. `trusted_keys` has public keys (SPKI in base64url) by key id."""

    mode: SignatureMode = "off"
    trusted_keys: Mapping[str, str] = field(default_factory=dict)
    _vouched: set[str] = field(default_factory=set)
    _verdicts: dict[tuple[str, str], SignatureVerdict] = field(default_factory=dict)
    """By hash and signature: a signature is verified once."""

    def vouch(self, definition_hash: str) -> None:
        """Trust a workflow that this process has made itself."""
        if self.mode != "off":
            self._vouched.add(definition_hash)

    def verdict(self, document: JsonObject, definition_hash: str) -> SignatureVerdict:
        """Check a definition."""
        key = (definition_hash, repr(signature_of(document)))
        known = self._verdicts.get(key)
        if known is not None:
            return known
        found = signature.verify_signature(document, mode=signature.SigningMode.REQUIRE, public_keys=self.trusted_keys)
        verdict = _INVALID_VERDICT
        if isinstance(found, signature.Verified):
            verdict = SignatureVerdict(key_id=found.key_id)
        elif isinstance(found, signature.SignatureRefused):
            verdict = SignatureVerdict(code=_CODES.get(found.code, _INVALID), message=found.message)
        if len(self._verdicts) >= limits.SIGNATURES_KEPT:
            self._verdicts.clear()
        self._verdicts[key] = verdict
        return verdict

    def refusal(self, name: str, document: JsonObject, definition_hash: str) -> SignatureVerdict | None:
        """Why a definition must not be stored or started; None if it may be. In the mode `warn`, it is logged."""
        if self.mode == "off" or definition_hash in self._vouched:
            return None
        is_new = (definition_hash, repr(signature_of(document))) not in self._verdicts
        verdict = self.verdict(document, definition_hash)
        if verdict.is_good:
            return None
        if self.mode == "require":
            return verdict
        if is_new:
            _LOGGER.warning("%s (%s): %s: %s", name, definition_hash[:12], verdict.code, verdict.message)
        return None

    def refuse(self, name: str, document: JsonObject, definition_hash: str) -> None:
        """Raise `Rejected` if a definition must not be stored."""
        verdict = self.refusal(name, document, definition_hash)
        if verdict is not None:
            raise Rejected(verdict.code or _INVALID, f"{name}: {verdict.message}", verdict.hint)


_INVALID_VERDICT: Final = SignatureVerdict(code=_INVALID, message="the signature cannot be checked")
