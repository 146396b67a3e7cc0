"""Lines of a history for people, as `penstock workflow simulate`, `run` and `runs history` print them.

Above it: those commands. Below it: `runtime.simulation` chooses the words of a line; this is how it looks.
"""

from __future__ import annotations

from penstock.base.text import clean
from penstock.cli.terminal.styled_text import Text
from penstock.definitions.durations import format_duration
from penstock.runtime.simulation.tracing import TraceLine

__all__ = ["trace_text"]

_MARKS = {"done": ("✓", "green"), "wait": ("◌", "yellow"), "retry": ("↻", "yellow"), "fail": ("✗", "red")}
_NODE_COLUMN_MAX = 24


def trace_text(line: TraceLine, began_at: int, node_width: int, *, depth_from: int = 0) -> Text:
    """One line: its mark, its node, what happened, and how long after the beginning."""
    mark, style = _MARKS.get(line.mark, ("·", "dim"))
    text = Text("  " * (line.depth - depth_from + 1))
    text.append(f"{mark} ", style)
    node = clean(line.node_id)
    text.append(node.ljust(min(node_width, _NODE_COLUMN_MAX)) + "  ", "bold" if node else "")
    text.append(clean(line.text))
    if line.at > began_at:
        text.append(f"  +{format_duration(line.at - began_at)}", "dim")
    return text
