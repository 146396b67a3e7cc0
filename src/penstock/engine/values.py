"""Values that others give to a run: whether a history can hold them.

What is stored must be what was given: a NaN would be read back as null, a key 1 as "1", and the run would go another
way after a restart than before it.

Above it: `decide`, `questions`, `activities`. Below it: `base.json`.
"""

from __future__ import annotations

from penstock.base import limits
from penstock.base.json import json_problem
from penstock.engine.outcomes import Refused

__all__ = ["NOT_JSON", "refuse_unfit"]

NOT_JSON = "VALUE_NOT_JSON"


def refuse_unfit(value: object, what: str, *, code: str) -> Refused | None:
    """The refusal of a value that no history can hold; `code` is for one that nests too deep."""
    problem = json_problem(value, limits.JSON_DEPTH_MAX)
    if problem is None:
        return None
    if problem.is_depth:
        return Refused(code, f"{what} cannot be kept: {problem.message}")
    place = f" at {problem.path}" if problem.path else ""
    hint = "give null, true, false, finite numbers, texts, lists, and objects whose keys are texts"
    return Refused(NOT_JSON, f"{what} is not JSON{place}: {problem.message}", hint, {"path": problem.path})
