"""The Cedar engine, imported on first use: a server without policies starts without it.

Above it: whatever parses or decides. Below it: `cedarpy`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.base.lazy_import import lazy_import

if TYPE_CHECKING:
    import cedarpy
else:
    cedarpy = lazy_import("cedarpy")

__all__ = ["cedarpy"]
