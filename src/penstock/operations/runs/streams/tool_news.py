"""Which tools a model has called and which calls have ended, for callers who wait for its run and look at its state.

A stream reads the same from the history, call by call. A caller who waits sees states of the run, and hears of a call
when the model has chosen it and when the results of its turn are known.

Above it: `results`. Below it: the state of a run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from penstock.base.json import JsonObject, object_or_empty
from penstock.engine.state import RunState

__all__ = ["ToolNews"]


@dataclass(slots=True)
class ToolNews:
    """What of a conversation was sent already."""

    told: int | None = None

    def of(self, state: RunState) -> Iterator[JsonObject]:
        """Yield what is new: `{phase, name, call_id}`, with an `error` if the call failed."""
        said = object_or_empty(state.values).get("conversation")
        entries = [entry if isinstance(entry, dict) else {} for entry in said] if isinstance(said, list) else []
        if self.told is None:
            # A session begins with what was said before.
            self.told = max((place for place, entry in enumerate(entries) if entry.get("message") is True), default=0)
        for entry in entries[self.told :]:
            calls = entry.get("tool_calls")
            for call in calls if entry.get("role") == "assistant" and isinstance(calls, list) else ():
                if isinstance(call, dict):
                    yield {"phase": "begun", "name": call.get("name"), "call_id": call.get("id")}
            if entry.get("role") == "tool":
                ended: JsonObject = {"phase": "done", "name": entry.get("name"), "call_id": entry.get("id")}
                yield ended if entry.get("error") is None else {**ended, "phase": "failed", "error": entry["error"]}
        self.told = max(self.told, len(entries))
