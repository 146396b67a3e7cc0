"""Settings for signing in to an MCP server with OAuth.

Above it: `named`. Below it: `composite_types`, `secrets`. `executors.sign_ins` makes clients of them.
"""

# No `from __future__ import annotations`: the annotations are the declarations, and are read at run time.

import re
from collections.abc import Iterator
from typing import Annotated, Literal

from msgspec import Struct

from penstock.app.settings.composite_types import Field
from penstock.app.settings.formats import URL
from penstock.app.settings.secrets import CommandReference, EnvironmentReference, FileReference

__all__ = ["ItemProblem", "OAuthSettings", "may_have_tokens"]

# Patterns, because parsing addresses takes a library that reading settings needs for nothing else.
_SAFE = re.compile(r"https://[^/?#@]|http://(localhost|127\.0\.0\.1|\[::1\])(:\d+)?([/?]|$)", re.IGNORECASE)
_DOCUMENT = re.compile(r"https://[^/?#@]+/[^#]+", re.IGNORECASE)

# The references of `SecretReference`, spelt out where annotations are read at run time.
_References = EnvironmentReference | FileReference | CommandReference


class ItemProblem(Struct, frozen=True):
    """A problem between the members of an item."""

    member: str
    message: str
    hint: str | None = None


class OAuthSettings(Struct, frozen=True, kw_only=True):
    """How to get tokens for a server that wants OAuth."""

    type: Annotated[Literal["oauth"], Field("The kind of authentication; only `oauth` is supported.")] = "oauth"
    grant: Annotated[
        Literal["authorization_code", "client_credentials"],
        Field(
            "`authorization_code`: a person signs in with `penstock tool upstream sign-in`. `client_credentials`: the "
            "server signs in in its own name, with a secret or a private key."
        ),
    ] = "authorization_code"
    client_id: Annotated[
        str | None,
        Field("The client id of this server; unless set, it uses `client_metadata_url` or registers dynamically."),
    ] = None
    client_metadata_url: Annotated[
        str | None,
        Field(
            "The address of your client metadata document, which serves as client id where that is supported.",
            format=URL,
        ),
    ] = None
    client_secret: Annotated[_References | None, Field("The secret of `client_id`.")] = None
    private_key: Annotated[
        _References | None,
        Field("The private key of the client: PEM, RSA or EC (`private_key_jwt`)."),
    ] = None
    issuer: Annotated[
        str | None,
        Field(
            "The authorization server; tokens of others are not used. Required with a secret or a key, so that no "
            "server can redirect them.",
            format=URL,
        ),
    ] = None
    scopes: Annotated[
        tuple[str, ...], Field("The scopes to request; unless set, the scopes that the server asks for.")
    ] = ()

    def problems(self) -> Iterator[ItemProblem]:
        """Check that the members belong together."""
        has_proof = self.client_secret is not None or self.private_key is not None
        if self.client_secret is not None and self.private_key is not None:
            yield ItemProblem("private_key", "and `client_secret` prove the same; set only one of them")
        if self.client_secret is not None and self.client_id is None:
            yield ItemProblem("client_secret", "is the secret of a client: `client_id` is missing")
        if self.client_id is not None and self.client_metadata_url is not None:
            yield ItemProblem("client_metadata_url", "and `client_id` name the same client; set only one of them")
        if self.client_metadata_url is not None and _DOCUMENT.fullmatch(self.client_metadata_url) is None:
            yield ItemProblem("client_metadata_url", "must begin with https:// and have a path")
        if has_proof and self.issuer is None:
            message = "needs `issuer`: without it the server could name an authorization server of its own choice"
            yield ItemProblem("", message)
        if self.grant == "client_credentials" and (self.client_id is None or not has_proof):
            yield ItemProblem("", "with `client_credentials` needs `client_id`, and `client_secret` or `private_key`")
        for scope in self.scopes:
            if not scope or any(character.isspace() or not character.isprintable() for character in scope):
                yield ItemProblem("scopes", "must be a list of single scopes, without spaces in them")


def may_have_tokens(url: str) -> bool:
    """True if tokens may be sent to an address: over TLS, or on this machine."""
    return _SAFE.match(url) is not None
