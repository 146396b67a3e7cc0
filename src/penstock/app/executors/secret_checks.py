"""Finds secrets that the settings refer to and that cannot be read.

Above it: `penstock config validate --secrets`. Below it: `executors.secret_sources`. Values are read and discarded.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from penstock.app.executors.configured import secrets_of
from penstock.app.executors.secret_sources import fill_text, resolve_secret
from penstock.app.settings.model import Settings
from penstock.app.settings.secrets import SecretReference
from penstock.app.settings.upstream_auth import OAuthSettings
from penstock.base.errors import Unavailable
from penstock.base.json import JsonObject

__all__ = ["SecretProblem", "secret_problems"]


class SecretProblem(Struct, frozen=True):
    """A problem with a secret, and the key that needs it. With a warning the secret can still be read."""

    name: str
    message: str
    is_warning: bool = False

    def to_json(self) -> JsonObject:
        """The problem as a JSON object."""
        severity = "warning" if self.is_warning else "error"
        return {"name": self.name, "message": self.message, "severity": severity}


def secret_problems(settings: Settings) -> Iterator[SecretProblem]:
    """Return problems: secrets that cannot be read, and secret files that everybody can read."""
    secrets = secrets_of(settings)
    for name, needed in _needed(settings):
        warnings: list[str] = []
        try:
            if isinstance(needed, str):
                fill_text(needed, secrets)
            else:
                resolve_secret(needed, warn=warnings.append)
        except Unavailable as error:
            yield SecretProblem(name, f"{error.message}; {error.hint}" if error.hint else error.message)
        yield from (SecretProblem(name, warning, is_warning=True) for warning in warnings)


def _oauth_secrets(name: str, auth: OAuthSettings | None) -> Iterator[tuple[str, SecretReference]]:
    for member in ("client_secret", "private_key"):
        reference: SecretReference | None = None if auth is None else getattr(auth, member)
        if reference is not None:
            yield f"mcp_servers.{name}.auth.{member}", reference


def _needed(settings: Settings) -> Iterator[tuple[str, str | SecretReference]]:
    own = (("server.secret", settings.server.secret), ("server.audit_key", settings.server.audit_key))
    yield from ((name, reference) for name, reference in own if reference is not None)
    for name, reference in settings.secrets.items():
        yield f"secrets.{name}", reference
    for name, server in settings.mcp_servers.items():
        for member in ("env", "headers"):
            yield from ((f"mcp_servers.{name}.{member}.{key}", text) for key, text in getattr(server, member).items())
        yield from _oauth_secrets(name, server.auth)
    for name, api in settings.apis.items():
        for member in ("headers", "query"):
            yield from ((f"apis.{name}.{member}.{key}", text) for key, text in getattr(api, member).items())
    for section, items in (("models", settings.models), ("agents", settings.agents)):
        for name, item in items.items():
            if item.api_key is not None:
                yield f"{section}.{name}.api_key", item.api_key
            yield from ((f"{section}.{name}.headers.{key}", text) for key, text in item.headers.items())
