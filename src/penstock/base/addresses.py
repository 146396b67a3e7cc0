"""Resource URIs: normalizing them and matching them against templates.

Addresses are compared only in their normal form. An address that could point elsewhere than it appears to (`.` and `..`
as segments, escaped slashes, invisible characters) is refused. A template has variables in braces, for example
`notes://{day}/{name}`; each variable matches one path segment.

Above it: checks of documents, exposed workflows, the MCP surface. Below it: nothing; it works on text only.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from urllib.parse import quote, unquote

from penstock.base import limits

__all__ = ["OWN_SCHEME", "AddressTemplate", "leads_straight", "normalised_address", "own_address", "read_template"]

OWN_SCHEME = "penstock"
"""The URI scheme of the server's own resources."""

_OWN_PREFIX = f"{OWN_SCHEME}://resources/"
# A client could take these for a local file or for code to execute.
_REFUSED_SCHEMES = frozenset({"file", "data", "javascript", "vbscript", "blob", "about", "view-source"})
_SHAPE = re.compile(r"([A-Za-z][A-Za-z0-9+.-]{0,63}):(?:[!$&-;=?-Z_a-z~]|%[0-9A-Fa-f]{2})+")
_TEMPLATE_PARTS = re.compile(r"\{([^{}]*)\}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_ESCAPE = re.compile(r"%[0-9A-Fa-f]{2}")
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_PIECE = r"([^/?#]+)"


def normalised_address(text: str) -> str | None:
    """Return the normal form of an address; None if it is no address or could point elsewhere than it appears to."""
    if len(text) > limits.RESOURCE_URI_CHARACTERS_MAX:
        return None
    shape = _SHAPE.fullmatch(text)
    if shape is None or "@" in text.partition("://")[2].partition("/")[0]:
        return None
    scheme = shape[1].lower()
    rest = _ESCAPE.sub(_unescaped, text[len(shape[1]) :])
    path = rest.partition("?")[0].lstrip(":")
    if scheme in _REFUSED_SCHEMES or not all(_is_harmless(piece) for piece in path.split("/")):
        return None
    return scheme + rest


def leads_straight(text: str) -> bool:
    """Return whether the path of an address names what it appears to: no dots as segments, no escaped slashes."""
    path = text.partition("?")[0].partition("#")[0].partition(":")[2]
    return bool(path) and all(_is_harmless(piece) for piece in path.split("/"))


def _unescaped(escape: re.Match[str]) -> str:
    character = chr(int(escape[0][1:], 16))
    return character if character in _UNRESERVED else escape[0].upper()


def _is_harmless(piece: str) -> bool:
    """Return whether a path segment names something below the preceding path, and nothing else."""
    try:
        plain = unquote(piece, errors="strict")
    except UnicodeDecodeError:
        return False
    return plain not in (".", "..") and not any(sign in "/\\" or not sign.isprintable() for sign in plain)


def own_address(workflow: str, variables: tuple[str, ...] = ()) -> str:
    """Return the default address, in the server's own scheme, for a workflow whose document does not give one."""
    return "/".join((f"{_OWN_PREFIX}{quote(workflow, safe='')}", *(f"{{{name}}}" for name in variables)))


@dataclass(frozen=True, slots=True)
class AddressTemplate:
    """An address, with or without variables."""

    text: str
    variables: tuple[str, ...]
    _pattern: re.Pattern[str] = field(repr=False)

    def values(self, address: str) -> dict[str, str] | None:
        """Return the variables' values in a normalized address, or None if the address does not match."""
        found = self._pattern.fullmatch(address)
        return None if found is None else dict(zip(self.variables, map(unquote, found.groups()), strict=True))


def read_template(text: str, workflow: str) -> AddressTemplate | str:
    """Parse a template, or say what is wrong with it.

    In the server's scheme a workflow may use only its own address.
    """
    variables = tuple(_TEMPLATE_PARTS.findall(text))
    for name in variables:
        if _VARIABLE.fullmatch(name) is None:
            return f"{{{name}}} is no variable: write a name of letters, digits and underscores"
    if len(set(variables)) != len(variables):
        return "a variable stands in it twice"
    example = normalised_address(_TEMPLATE_PARTS.sub("x", text))
    if example is None:
        return "it is not an address such as `notes://daily` or `notes://{day}/summary`"
    if example.startswith(f"{OWN_SCHEME}:") and not f"{text}/".startswith(f"{own_address(workflow)}/"):
        return f"addresses that begin with {OWN_SCHEME}: are the server's own"
    literals = _TEMPLATE_PARTS.split(text)[::2]
    if any("/" not in between for between in literals[1:-1]):
        return "between two variables there must be a slash"
    scheme, colon, rest = literals[0].partition(":")
    if not colon:
        return "the scheme cannot be a variable"
    fixed = [_ESCAPE.sub(_unescaped, part) for part in (f"{scheme.lower()}:{rest}", *literals[1:])]
    return AddressTemplate(text, variables, re.compile(_PIECE.join(re.escape(part) for part in fixed)))
