"""Resource URIs: normalizing them and matching them against templates.

Addresses are compared only in their normal form. An address that could point elsewhere than it appears to (dots as
segments, escaped slashes, invisible characters) is refused. So is one that gets such a form when a server decodes it
again: escapes of escapes, and characters that Unicode folds to `.`, slashes or `%`. A template has variables in braces,
for example `notes://{day}/{name}`; each variable matches one path segment.

Above it: checks of documents, exposed workflows, the MCP surface. Below it: nothing; it works on text only.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field
from urllib.parse import quote, unquote

from penstock.base import limits

__all__ = [
    "OWN_SCHEME",
    "AddressTemplate",
    "leads_straight",
    "normalised_address",
    "own_address",
    "read_template",
    "stays_in_place",
    "unescape_unreserved",
]

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
# Some servers read `%u002e` as a dot.
_CODE_UNIT = re.compile(r"%u([0-9A-Fa-f]{4})")
_ANY_ESCAPE = re.compile(r"%(?:[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4})")
_SLASHES = re.compile(r"[/\\]")
# Unicode itself folds compatibility forms, such as full-width ones; code pages make slashes of these, too.
_LOOK_ALIKES = str.maketrans("\u2044\u2215\u29f8\u2216\u29f5", "///\\\\")
# How often a value is decoded before it is refused because it does not come to rest.
_DECODED_MAX = 6


def normalised_address(text: str) -> str | None:
    """Return the normal form of an address; None if it is invalid or could point elsewhere than it appears to."""
    if len(text) > limits.RESOURCE_URI_CHARACTERS_MAX:
        return None
    shape = _SHAPE.fullmatch(text)
    if shape is None or "@" in text.partition("://")[2].partition("/")[0]:
        return None
    scheme = shape[1].lower()
    rest = unescape_unreserved(text[len(shape[1]) :])
    path, _, query = rest.partition("?")
    pieces = path.lstrip(":").split("/")
    if scheme in _REFUSED_SCHEMES or not all(map(_is_harmless, pieces)) or not stays_in_place(query):
        return None
    return scheme + rest


def leads_straight(text: str) -> bool:
    """Return whether an address names what it appears to, also for a server that decodes it more than once."""
    rest = text.partition(":")[2]
    path = re.split(r"[?#]", rest, maxsplit=1)[0]
    return bool(path) and all(map(_is_harmless, path.split("/"))) and stays_in_place(rest)


def stays_in_place(value: str) -> bool:
    """Return whether a value stays where it is put in a path: no part of it is dots alone, however it is read.

    It may contain slashes. A value that cannot be decoded, or that differs each time it is decoded, does not stay.
    """
    for _ in range(_DECODED_MAX):
        if any(_is_dots(piece) for piece in _SLASHES.split(value)):
            return False
        plain = _decode_once(value)
        if plain is None or plain == value:
            return plain is not None
        value = plain
    return False


def unescape_unreserved(text: str) -> str:
    """Return an address without needless escapes, and the others in upper case."""
    return _ESCAPE.sub(_decode_escape, text)


def _decode_escape(escape: re.Match[str]) -> str:
    character = chr(int(escape[0][1:], 16))
    return character if character in _UNRESERVED else escape[0].upper()


def _is_harmless(piece: str) -> bool:
    """Return whether a path segment names something below the preceding path, and nothing else."""
    try:
        shown = unquote(piece, errors="strict")
    except UnicodeDecodeError:
        return False
    plain = _decode_once(piece)
    if plain is None or not shown.isprintable() or _ANY_ESCAPE.search(plain):
        return False
    return not _is_dots(plain) and _SLASHES.search(plain) is None


def _decode_once(text: str) -> str | None:
    """Return a text with its escapes and its compatibility characters decoded; None if it is not UTF-8."""
    try:
        plain = unquote(_CODE_UNIT.sub(lambda found: chr(int(found[1], 16)), text), errors="strict")
    except UnicodeDecodeError:
        return None
    return plain if plain.isascii() else unicodedata.normalize("NFKC", plain.translate(_LOOK_ALIKES))


def _is_dots(piece: str) -> bool:
    """Return whether a segment is dots alone, for readers that drop parameters, white space and what is not seen."""
    name = piece.partition(";")[0]
    return "." in name and all(sign == "." or _is_dropped(sign) for sign in name)


def _is_dropped(sign: str) -> bool:
    return sign.isspace() or not sign.isprintable() or unicodedata.category(sign).startswith("M")


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
            return f"{{{name}}} is not a variable: write a name of letters, digits and underscores"
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
    fixed = [unescape_unreserved(part) for part in (f"{scheme.lower()}:{rest}", *literals[1:])]
    return AddressTemplate(text, variables, re.compile(_PIECE.join(re.escape(part) for part in fixed)))
