"""Masks secrets in texts: as they are, and as other programs and our own code write them.

A secret that is sent somewhere comes back in another form: a host name is in lower case, an address has percent signs,
a log is JSON, a header is base64. So this module finds a secret in any case, with any of its other characters escaped
as in URLs, JSON, HTML and shells. It also finds one inside base64 of either alphabet, wherever it begins there.

Letters and digits are the same in all forms but base64. A text that has none of these runs of a secret is returned at
once, so that texts without secrets cost a search and no more.

Above it: everything that shows a text of an activity. It keeps the patterns of the secrets that were used last.
"""

from __future__ import annotations

import base64
import json
import re
from functools import lru_cache
from html import escape
from typing import Final
from urllib.parse import quote, quote_plus

__all__ = ["mask", "written_forms"]

# Shorter values are found as they are written only: in any case, or inside base64, they would be found everywhere.
_CHARACTERS_MIN: Final = 4
_BASE64_BYTES_MIN: Final = 6
_PATTERNS_KEPT: Final = 64
_RUN = re.compile(r"[A-Za-z0-9]+")
_HTML_NAMES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&apos;"}


def mask(text: str, hidden: tuple[str, ...], shown: str = "***") -> str:
    """Return a text with all secrets masked, in whatever form they are written."""
    if not hidden or not text:
        return text
    lowered = text.lower()
    if not any(anchor in lowered for anchor in _anchors_of(hidden)):
        return text
    return _expression_of(hidden).sub(lambda _: shown, text)


@lru_cache(maxsize=_PATTERNS_KEPT)
def _anchors_of(hidden: tuple[str, ...]) -> tuple[str, ...]:
    """Return texts of which a text with a secret has at least one, in lower case."""
    anchors = [_anchor_of(text) for secret in hidden if secret for text in (secret, *_base64_cores(secret))]
    return tuple(dict.fromkeys(anchors))


@lru_cache(maxsize=_PATTERNS_KEPT)
def _expression_of(hidden: tuple[str, ...]) -> re.Pattern[str]:
    parts: list[str] = []
    # The longest first: a secret may contain another.
    for secret in sorted({secret for secret in hidden if secret}, key=len, reverse=True):
        written = "".join(map(_any_escape, secret))
        parts.append(f"(?i:{written})" if len(secret) >= _CHARACTERS_MIN else written)
        for core in _base64_cores(secret):
            parts.append("".join(_BASE64_CLASSES.get(character, character) for character in core))
    return re.compile("|".join(parts))


_BASE64_CLASSES = {"+": "[+-]", "/": "[/_]"}


def _anchor_of(text: str) -> str:
    """Return the longest run of letters and digits, which no form changes; empty if it does not exist."""
    return max(_RUN.findall(text), key=len, default="").lower()


@lru_cache(maxsize=1_024)
def _any_escape(character: str) -> str:
    """Return an expression that finds a character in any form."""
    if character.isascii() and character.isalnum():
        return character
    code = ord(character)
    forms = [re.escape(character), re.escape(json.dumps(character)[1:-1]), f"&#0*{code};", f"&#x0*{code:x};"]
    forms.append(re.escape(quote(character, safe="", errors="replace")))
    if character.isascii():
        # Escaped for JSON by others, for a shell, and in single quotes of a shell.
        forms += [rf"\\u{code:04x}", re.escape("\\" + character), f"%{code:02x}", rf"\\x{code:02x}"]
    if character == "'":
        forms.append(re.escape("'\\''"))
        forms.append(re.escape("'\"'\"'"))
    if character == " ":
        forms.append(r"\+")
    if character in _HTML_NAMES:
        forms.append(re.escape(_HTML_NAMES[character]))
    # The longest first: `\"` and not only its second character.
    return f"(?:{'|'.join(sorted(dict.fromkeys(forms), key=len, reverse=True))})"


def _base64_cores(secret: str) -> list[str]:
    """Return what base64 writes of a secret, wherever it begins: without the ends, which share bits with neighbors."""
    content = secret.encode("utf-8", "surrogatepass")
    if len(content) < _BASE64_BYTES_MIN:
        return []
    found = []
    for before in range(3):
        encoded = base64.b64encode(b"\0" * before + content).decode()
        first, last = (before * 8 + 5) // 6, (before + len(content)) * 8 // 6
        found.append(encoded[first:last])
    return found


@lru_cache(maxsize=_PATTERNS_KEPT)
def written_forms(hidden: tuple[str, ...]) -> tuple[str, ...]:
    """Return the usual forms of secrets in lower case, for readers of pieces that may end in the middle of one."""
    forms: list[str] = []
    for secret in hidden:
        if not secret:
            continue
        forms += [secret, json.dumps(secret, ensure_ascii=False)[1:-1], json.dumps(secret)[1:-1], escape(secret)]
        forms += [quote(secret, safe="", errors="replace"), quote(secret, errors="replace")]
        forms.append(quote_plus(secret, errors="replace"))
        for core in _base64_cores(secret):
            forms += [core, core.replace("+", "-").replace("/", "_")]
    return tuple(dict.fromkeys(form.lower() for form in forms))
