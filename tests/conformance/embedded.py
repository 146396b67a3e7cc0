"""A bench of the embedded host in particular, for tests of what only it has: its memory, its driver, its store."""

from __future__ import annotations

from typing import TypeAlias

from penstock.runtime.host.embedded import EmbeddedHost
from tests.conformance.hosts import HostBench

__all__ = ["Bench"]

Bench: TypeAlias = HostBench[EmbeddedHost]
