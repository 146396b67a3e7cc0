"""The words of the command line for the texts of operations, which call a run an execution.

Above it: `commands`, `operations.options`. Below it: nothing.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["words_of"]

# Scopes and operations keep the name: `execution:read`, `execution.status`.
_EXECUTION: Final = r"(?<![`.:/_])\b(an )?execution(s?)\b(?![.:]\w|`)"


def words_of(text: str) -> str:
    """A text of an operation in the words of the command line."""
    return re.sub(_EXECUTION, _as_run, text, flags=re.IGNORECASE)


def _as_run(found: re.Match[str]) -> str:
    text = f"{'a ' if found[1] else ''}run{found[2]}"
    return text.capitalize() if found[0][0].isupper() else text
