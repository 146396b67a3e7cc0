"""What the name of a database says: the path of a file, or an address such as `postgresql://host/name`.

Above it: `drivers`, the settings. Below it: nothing.
"""

from __future__ import annotations

import re
from pathlib import Path

__all__ = ["scheme_of"]

# Two letters at least: `C:/` is a drive. One slash is enough: a path of an address has only one left.
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")


def scheme_of(name: str | Path) -> str | None:
    """Return the scheme of an address, in small letters; None for the path of a file."""
    found = _SCHEME.match(str(name))
    return None if found is None else found[1].lower()
