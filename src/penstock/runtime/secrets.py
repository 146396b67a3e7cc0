"""Where the values of secrets come from: the environment, a folder, or several sources in order.

A source is a function from a name to a value, or None if it has none. Documents name secrets; only the process that
performs activities knows their values. A source never shows a value when it is printed, logged or compared.

Above it: `app` passes a source to the router. Values are read each time, so a secret can be replaced while runs wait.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import os
import re
import secrets
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import msgspec

from penstock.base import limits
from penstock.base.encoding import encode_bytes
from penstock.base.errors import Unavailable
from penstock.base.ids import DEFAULT_TENANT
from penstock.base.json import JsonValue
from penstock.base.lazy_import import lazy_import
from penstock.runtime.file_trust import find_file_risk

__all__ = [
    "SECRET_PREFIX",
    "AnswerSeals",
    "BoundSecrets",
    "ChainSecrets",
    "EnvironmentSecrets",
    "FileSecrets",
    "Sealer",
    "secret_name",
]

SECRET_PREFIX = "PENSTOCK_SECRET_"

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_Source = Callable[[str], str | None]


def secret_name(tenant: str, name: str) -> str:
    """Return the server-wide name of a tenant's secret. A tenant can read only its own secrets.

    In the default tenant it is the name in the document; in `acme`, ``STRIPE_KEY`` is ``TENANT_ACME__STRIPE_KEY``. An
    underscore and a hyphen in a tenant's name become ``_U`` and ``_H``, so that no two combinations of tenant and name
    collide.
    """
    if tenant == DEFAULT_TENANT:
        return name
    return f"TENANT_{tenant.replace('_', '_u').replace('-', '_h').upper()}__{name}"


class EnvironmentSecrets:
    """``${secret:STRIPE_KEY}`` is the variable ``PENSTOCK_SECRET_STRIPE_KEY``.

    The prefix keeps a document from reading variables that are not meant for it.
    """

    def __init__(self, prefix: str = SECRET_PREFIX, environment: Mapping[str, str] | None = None) -> None:
        self._prefix = prefix
        self._environment = os.environ if environment is None else environment

    def __call__(self, name: str) -> str | None:
        """Return the value of a variable."""
        return self._environment.get(self._prefix + name) if _NAME.fullmatch(name) else None

    def __repr__(self) -> str:
        return f"EnvironmentSecrets(prefix={self._prefix!r})"


class FileSecrets:
    """``${secret:STRIPE_KEY}`` is the file ``STRIPE_KEY`` in a folder, without its final line break."""

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder)

    def __call__(self, name: str) -> str | None:
        """Return the content of a file; raise `Unavailable` if it exists and cannot be read."""
        # A name is one plain word, so it cannot lead out of the folder. Mounted secrets are symbolic links, which are
        # followed.
        if not _NAME.fullmatch(name):
            return None
        if (risk := find_file_risk(self._folder / name, secret=True)) is not None:
            raise _report_unreadable(name, risk.problem, risk.advice)
        try:
            with (self._folder / name).open("rb") as file:
                value = file.read(limits.SECRET_BYTES_MAX + 1)
            text = value.decode("utf-8")
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise _report_unreadable(name, error.strerror or type(error).__name__) from None
        except UnicodeDecodeError:
            raise _report_unreadable(name, "it is not text in UTF-8") from None
        if len(value) > limits.SECRET_BYTES_MAX:
            raise _report_unreadable(name, f"it has more than {limits.SECRET_BYTES_MAX} bytes")
        return text.removesuffix("\n").removesuffix("\r")

    def __repr__(self) -> str:
        return f"FileSecrets({str(self._folder)!r})"


class BoundSecrets:
    """A source, and the hosts that the operator bound its secrets to, by their server-wide names."""

    def __init__(self, source: _Source, hosts: Mapping[str, tuple[str, ...]]) -> None:
        self._source = source
        self.hosts = hosts

    @property
    def may_block(self) -> bool:
        """Whether asking the source may block."""
        return bool(getattr(self._source, "may_block", False))

    def __call__(self, name: str) -> str | None:
        """Return the value that the source has."""
        return self._source(name)

    def __repr__(self) -> str:
        return f"BoundSecrets({type(self._source).__name__})"


class ChainSecrets:
    """Asks several sources in order; the first value found counts."""

    def __init__(self, *sources: _Source) -> None:
        self._sources = sources

    @property
    def may_block(self) -> bool:
        """Whether asking one of the sources may block."""
        return any(getattr(source, "may_block", False) for source in self._sources)

    def __call__(self, name: str) -> str | None:
        """Return the first value found."""
        return next((value for source in self._sources if (value := source(name)) is not None), None)

    def __repr__(self) -> str:
        # A source may be any function, and its repr may show the secrets that it holds.
        return f"ChainSecrets({', '.join(type(source).__name__ for source in self._sources)})"


def _report_unreadable(name: str, why: str, hint: str = "look at the file's permissions") -> Unavailable:
    return Unavailable("SECRET_UNREADABLE", f"the secret {name} cannot be read: {why}", hint)


if TYPE_CHECKING:
    from cryptography import exceptions
    from cryptography.hazmat.primitives.ciphers import aead
else:
    exceptions = lazy_import("cryptography.exceptions")
    aead = lazy_import("cryptography.hazmat.primitives.ciphers.aead")


_PURPOSE = b"penstock secret answers"
_NONCE_BYTES = 12
_PADDED_TO_BYTES = 64
_PADDING = b" "  # JSON allows trailing spaces

KeySource = Callable[[], Awaitable[bytes]]


class Sealer(Protocol):
    """Seals secret answers, and opens them again."""

    async def seal(self, tenant: str, value: JsonValue) -> str:
        """Return a value in a form that only this server can read: letters, digits, hyphens and underscores."""

    async def open(self, tenant: str, seal: str) -> JsonValue:
        """Return the value in a seal; raise `Unavailable` if it cannot be opened here."""


class AnswerSeals:
    """Seals answers with the server's secret, which is loaded when the first answer needs it."""

    def __init__(self, secret: KeySource | None = None) -> None:
        self._secret = secret
        self._cipher: aead.AESGCM | None = None

    async def seal(self, tenant: str, value: JsonValue) -> str:
        """Return a value in a form that only this server can read."""
        text = encode_bytes(value)
        padded = text + _PADDING * (-len(text) % _PADDED_TO_BYTES)
        nonce = secrets.token_bytes(_NONCE_BYTES)
        sealed = (await self._get_cipher()).encrypt(nonce, padded, tenant.encode())
        return base64.urlsafe_b64encode(nonce + sealed).decode("ascii").rstrip("=")

    async def open(self, tenant: str, seal: str) -> JsonValue:
        """Return the value in a seal."""
        cipher = await self._get_cipher()
        try:
            sealed = base64.urlsafe_b64decode(seal + "=" * (-len(seal) % 4))
            text = cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], tenant.encode())
            value: JsonValue = msgspec.json.decode(text)
        except (exceptions.InvalidTag, ValueError, binascii.Error):
            message = "a secret answer cannot be read: another server encrypted it"
            raise Unavailable("SECRET_ANSWER_UNREADABLE", message, "ask again in a new run") from None
        return value

    async def _get_cipher(self) -> aead.AESGCM:
        if self._cipher is None:
            # Without a stored secret nothing outlives the process, so the key need not either.
            secret = secrets.token_bytes(32) if self._secret is None else await self._secret()
            self._cipher = aead.AESGCM(hmac.digest(secret, _PURPOSE, "sha256"))
        return self._cipher

    def __repr__(self) -> str:
        return "AnswerSeals()"
