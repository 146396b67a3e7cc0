"""Texts of prompts: `{{name}}` is where an argument is shown. Nothing is evaluated.

What an argument says is text, whatever it looks like: placeholders and expressions inside it stay what they are.

Above it: `checks.exposure`, `operations.exposed_contents`. Below it: nothing but text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

__all__ = ["filled_text", "placeholders"]

_PLACEHOLDER = re.compile(r"\{\{\s*([A-Za-z_][A-Za-z0-9_]*)\s*\}\}")


def placeholders(text: str) -> tuple[str, ...]:
    """The names that a text shows, each once."""
    return tuple(dict.fromkeys(_PLACEHOLDER.findall(text)))


def filled_text(text: str, given: Mapping[str, str]) -> str:
    """The text with its arguments; nothing in place of one that was not given."""
    return _PLACEHOLDER.sub(lambda found: given.get(found[1], ""), text)
