"""The keyboard of a terminal, read key by key, and the terminal put back as it was.

Above it: `command`. Below it: `termios`. On a system without it, `penstock runs top` takes `--json` only.
"""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from penstock.cli.terminal.values import UsageError

try:
    import termios
    import tty
except ImportError:  # pragma: no cover  # Windows
    HAS_TERMIOS = False
else:
    HAS_TERMIOS = True

__all__ = ["read_key", "single_keys"]

_ESCAPE = "\x1b"
_SEQUENCE_SECONDS = 0.05


@contextmanager
def single_keys() -> Iterator[None]:
    """Read keys without waiting for Return, until the block ends."""
    if not HAS_TERMIOS or not sys.stdin.isatty():
        raise UsageError("penstock runs top needs a terminal; --json prints one snapshot")
    before = termios.tcgetattr(sys.stdin)
    try:
        tty.setcbreak(sys.stdin)
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def read_key(seconds: float) -> str | None:
    """Return the next key; None if none is pressed in that time. Arrow keys are `j` and `k`, an end of input is `q`."""
    ready, _, _ = select.select([sys.stdin], [], [], seconds)
    if not ready:
        return None
    data = os.read(sys.stdin.fileno(), 1)
    if not data:
        return "q"
    # A character may have several bytes.
    while (text := data.decode("utf-8", "ignore")) == "" and len(data) < 4:  # noqa: PLR2004  # the longest in UTF-8
        data += os.read(sys.stdin.fileno(), 1)
    if text != _ESCAPE:
        return text
    rest = b""
    while select.select([sys.stdin], [], [], _SEQUENCE_SECONDS)[0]:
        rest += os.read(sys.stdin.fileno(), 1)
    return {b"[A": "k", b"[B": "j", b"OA": "k", b"OB": "j"}.get(rest, _ESCAPE)
