"""Checks whether a history can store a value that comes from outside.

A stored value must read back unchanged: a NaN would be read back as null and the key 1 as "1", and the run would take
another path after a restart than before it.

Above it: `decide`, `questions`, `activities`. Below it: `base.json`.
"""

from __future__ import annotations

from penstock.base import limits
from penstock.base.json import json_problem
from penstock.engine.outcomes import Refused

__all__ = ["NOT_JSON", "refuse_unfit"]

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
