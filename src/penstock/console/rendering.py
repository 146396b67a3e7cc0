"""Templates, the headers of every page, and how times, durations and values are shown.

Whatever a template is given is escaped, and characters that would change the order or hide parts of a text are written
out: what is approved is what is read. The content security policy lets in only scripts that carry the nonce of the
page, and no inline style; what a script makes of a text is a text.

Above it: `surface`, the pages. Below it: Jinja2.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from penstock.base import limits
from penstock.base.lazy_import import lazy_import
from penstock.base.visible_texts import visible_text
from penstock.operations.catalogue.reasons import hint_of

if TYPE_CHECKING:
    import jinja2
else:
    jinja2 = lazy_import("jinja2")

__all__ = [
    "Cut",
    "cut_value",
    "environment",
    "html_headers",
    "render",
    "short_value",
    "status_words",
    "tone_of",
    "value_pieces",
    "whole_value",
]

_POLICY = (
    "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'self'; img-src 'self'; connect-src 'self';"
    " form-action 'self'; frame-ancestors 'none'; base-uri 'none'; require-trusted-types-for 'script';"
    " trusted-types htmx"
)
_HEADERS: tuple[tuple[bytes, bytes], ...] = (
    (b"content-type", b"text/html; charset=utf-8"),
    (b"referrer-policy", b"same-origin"),
    (b"x-content-type-options", b"nosniff"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)
_SECONDS = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
# Statuses differ by word and by shape, which the stylesheet draws, not only by colour.
_TONES = {
    "running": "busy",
    "completed": "good",
    "executed": "good",
    "approved": "good",
    "passed": "good",
    "failed": "bad",
    "ambiguous": "bad",
    "retrying": "busy",
}


# Statuses of held calls that the buttons call something else.
_STATUS_WORDS = {"rejected": "declined", "canceled": "withdrawn", "drifted": "changed, not done"}


class Cut(NamedTuple):
    """A value as text, and whether some of it is missing."""

    text: str
    is_cut: bool


_WRITER = json.JSONEncoder(indent=2, ensure_ascii=False)


def html_headers(nonce: str) -> list[tuple[bytes, bytes]]:
    """Return the headers of a page whose scripts carry a nonce."""
    return [*_HEADERS, (b"content-security-policy", _POLICY.format(nonce=nonce).encode())]


def whole_value(value: object) -> str:
    """Return a JSON value as people read it."""
    return value if isinstance(value, str) else _WRITER.encode(value)


def value_pieces(value: object) -> Iterator[str]:
    """Yield a JSON value as people read it, piece by piece: one of megabytes need not be written to its end."""
    return iter((value,)) if isinstance(value, str) else _WRITER.iterencode(value)


def cut_value(value: object, most: int = limits.CONSOLE_VALUE_CHARACTERS_MAX) -> Cut:
    """Return a JSON value as people read it, as far as a page shows it."""
    pieces, length = [], 0
    for piece in value_pieces(value):
        pieces.append(piece)
        length += len(piece)
        if length > most:
            break
    return Cut("".join(pieces)[:most], length > most)


def short_value(value: object) -> str:
    """Return a JSON value on one line, as far as a cell of a table shows it."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    most = limits.CONSOLE_CELL_CHARACTERS_MAX
    return text if len(text) <= most else f"{text[:most]}… ({len(text)} characters)"


def _moment(text: str | None) -> str:
    if text is None:
        return ""
    try:
        return f"{datetime.fromisoformat(text).astimezone(UTC):%d %b %Y, %H:%M:%S} UTC"
    except ValueError:
        return text


def _took(began: str | None, ended: str | None) -> str:
    if began is None or ended is None:
        return ""
    try:
        seconds = (datetime.fromisoformat(ended) - datetime.fromisoformat(began)).total_seconds()
    except ValueError:
        return ""
    return _duration(seconds)


def _duration(seconds: float) -> str:
    milliseconds = seconds * 1000
    if seconds < 1:
        return f"{milliseconds:.0f} ms" if milliseconds >= 1 else "<1 ms"
    unit, size = next((unit, size) for unit, size in _SECONDS if seconds >= size)
    return f"{seconds / size:.1f} {unit}"


def tone_of(status: str) -> str:
    """Return the tone of a status: the style sheet has a color and a shape for it."""
    return _TONES.get(status, "wait" if status.startswith("waiting") else "plain")


def status_words(status: str) -> str:
    """Return a status as people read it."""
    text = str(status)
    return _STATUS_WORDS.get(text) or text.replace("waiting_", "waiting for ").replace("_", " ")


class _Typed:
    """What somebody typed, for the field that they typed it into: it is sent again, so nothing in it is changed."""

    def __init__(self, text: object) -> None:
        self._text = str(text)

    def __html__(self) -> str:
        return escape(self._text)


def _visible(value: object) -> object:
    return visible_text(value) if isinstance(value, str) else value


@cache
def environment() -> jinja2.Environment:
    """Return how templates are rendered. It is made with the first page: a server starts without it."""
    made = jinja2.Environment(
        loader=jinja2.PackageLoader("penstock.console"),
        autoescape=True,
        finalize=_visible,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters |= {
        "duration": _duration,
        "hint": hint_of,
        "moment": _moment,
        "tone": tone_of,
        "shown": cut_value,
        "short": short_value,
        "typed": _Typed,
        "segment": lambda text: quote(str(text), safe=""),
        "words": status_words,
    }
    made.globals["took"] = _took
    return made


def render(template: str, **given: Any) -> bytes:
    """Return a page. Templates are compiled once."""
    return environment().get_template(template).render(**given).encode()
