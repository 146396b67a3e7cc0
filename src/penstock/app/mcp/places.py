"""Where an MCP server is: at an address, or behind the pipe of a program.

Above it: `client` connects, the command line chooses. Below it: nothing; the SDK is not needed to say where.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

__all__ = ["HttpPlace", "PipePlace", "Place"]


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpPlace:
    """A server at an address; the headers may have a key in them."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class PipePlace:
    """A program that speaks MCP over its standard input and output."""

    command: str
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] | None = field(default=None, repr=False)


Place: TypeAlias = HttpPlace | PipePlace
