"""The number of the current file format. A new step of `migrations` raises it.

Apart from `migrations`, so that a command can compare it without importing what the steps need.
"""

from __future__ import annotations

__all__ = ["SCHEMA_VERSION"]

SCHEMA_VERSION = 26
