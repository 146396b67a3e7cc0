"""How much of what can be tried is tried: a part in every run of the suite, all of it in thorough ones.

    HYPOTHESIS_PROFILE=thorough scripts/test tests/conformance

The suite is to end within minutes. A test that tries every one of very many like cases tries a fixed part of them
there, the same in every run.
"""

from __future__ import annotations

import os
from typing import Final
from zlib import crc32

__all__ = ["IS_THOROUGH", "is_tried"]

IS_THOROUGH: Final = os.environ.get("HYPOTHESIS_PROFILE") == "thorough"


def is_tried(name: str, one_in: int, *, thorough: bool = IS_THOROUGH) -> bool:
    """Whether a case belongs to the part that is tried: one in so many, chosen by name."""
    return thorough or crc32(name.encode()) % one_in == 0
