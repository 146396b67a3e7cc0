"""Turn the result of a step into the outcome of its activity. Pure: the caller logs.

Above it: the step executor, in every process where it runs steps. Below it: `registry`, `binding`.
"""

from __future__ import annotations

from typing import Any

from penstock.base import limits
from penstock.base.json import JsonValue
from penstock.engine.values import NOT_JSON
from penstock.runtime.activities.performing import ActivityDone, ActivityError, ActivityOutcome
from penstock.runtime.steps.binding import NotJson, to_json
from penstock.runtime.steps.registry import RegisteredStep, StepCancelled, StepFailed

__all__ = ["bad_arguments", "failed", "finished"]


def finished(step: RegisteredStep, value: Any) -> ActivityOutcome:
    """Return the outcome of a step that returned."""
    try:
        result: JsonValue = to_json(value)
    except NotJson as error:
        message = f"{step.name} returned a {type(value).__name__} that is not JSON: {error}"
        return ActivityError(_bounded(message), NOT_JSON, retryable=False)
    return ActivityDone(result)


def failed(error: BaseException) -> ActivityError:
    """Return the outcome of a step that raised: type and message, never a traceback."""
    match error:
        case StepFailed():
            return ActivityError(_bounded(error.message), error.code, retryable=error.retryable)
        case StepCancelled():
            return ActivityError(str(error), "ACTIVITY_CANCELLED", retryable=False)
        case _:
            message = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            return ActivityError(_bounded(message), "HANDLER_ERROR")


def bad_arguments(message: str) -> ActivityError:
    """Return the outcome of a step that could not be called."""
    return ActivityError(_bounded(message), "STEP_CONFIG_INVALID", retryable=False)


def _bounded(text: str) -> str:
    longest = limits.ERROR_TEXT_CHARACTERS_MAX
    return text if len(text) <= longest else text[: longest - 1] + "…"
