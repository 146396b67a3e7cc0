"""Texts of prompts: `{{name}}` marks where an argument is inserted. Nothing is evaluated.

An argument is plain text, whatever it looks like: placeholders and expressions inside it are not expanded.

Above it: `checks.exposure`, `operations.catalogue.exposure`. Below it: nothing but text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

__all__ = ["filled_text", "placeholders"]

_PLACEHOLDER = re.compile(r"\{\{\s*([A-Za-z_][A-Za-z0-9_]*)\s*\}\}")


def placeholders(text: str) -> tuple[str, ...]:
    """Return the names of the placeholders in a text, each once."""
    return tuple(dict.fromkeys(_PLACEHOLDER.findall(text)))


def filled_text(text: str, given: Mapping[str, str]) -> str:
    """Return the text with its arguments filled in; a missing argument becomes empty."""
    return _PLACEHOLDER.sub(lambda found: given.get(found[1], ""), text)
