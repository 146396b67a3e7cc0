"""Whether a history can store a value that comes from outside, and how it stores an answer of this program.

A stored value must read back unchanged: a NaN would be read back as null and the key 1 as "1", and the run would take
another path after a restart than before it.

Above it: `decide`, `questions`, `activities`, operations that runs call. Below it: `base.json`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from penstock.base import limits
from penstock.base.json import JsonValue, json_problem
from penstock.engine.outcomes import Refused

__all__ = ["NOT_JSON", "plain_json", "refuse_unfit"]

NOT_JSON = "VALUE_NOT_JSON"


def refuse_unfit(value: object, what: str, *, code: str) -> Refused | None:
    """Return a refusal if no history can store the value; `code` is used if it is nested too deeply."""
    problem = json_problem(value, limits.JSON_DEPTH_MAX)
    if problem is None:
        return None
    if problem.is_depth:
        return Refused(code, f"{what} cannot be kept: {problem.message}")
    place = f" at {problem.path}" if problem.path else ""
    hint = "give null, true, false, finite numbers, texts, lists, and objects whose keys are texts"
    return Refused(NOT_JSON, f"{what} is not JSON{place}: {problem.message}", hint, {"path": problem.path})


def plain_json(value: Any) -> JsonValue:
    """Return a copy of an answer as a history stores it. `msgspec.to_builtins` alone leaves tuples in it.

    It is not encoded: half of a surrogate pair stays as it is, and what is not JSON is left for `refuse_unfit`.
    """
    top: list[Any] = [msgspec.to_builtins(value)]
    waiting: list[Any] = [top]
    while waiting:
        holder = waiting.pop()
        for place, item in list(holder.items()) if isinstance(holder, dict) else enumerate(holder):
            if isinstance(item, tuple):
                holder[place] = item = list(item)  # noqa: PLW2901  # the copy is walked, too
            if isinstance(item, list | dict):
                waiting.append(item)
    return top[0]  # type: ignore[no-any-return]  # JSON, by construction
