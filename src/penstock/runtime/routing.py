"""Which executor does which activity, and the last step before it: putting secrets in their places.

Above it: `app` fills the table. Below it: executors. An activity whose type has no executor fails with a code that
says so; nothing succeeds by default. Secrets are resolved here, for one call, and never enter a history.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from msgspec.structs import replace

from penstock.base.errors import Unavailable
from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.templates import SECRET_REFERENCE
from penstock.runtime.performing import ActivityAsks, ActivityCall, ActivityError, ActivityOutcome, AsyncPerformer
from penstock.runtime.progress import text_without, value_without
from penstock.runtime.secrets import secret_name

__all__ = ["Router", "SecretResolver", "fill_secrets", "without_secrets"]

# Gives the value of a secret by name, or None when there is none. One whose attribute `may_block` is true is asked in a
# thread.
SecretResolver = Callable[[str], str | None]


def _no_secrets(name: str) -> str | None:
    return None


@dataclass(slots=True, kw_only=True)
class Router:
    """Finds the executor of an activity by its node type."""

    executors: Mapping[str, AsyncPerformer] = field(default_factory=dict)
    secrets: SecretResolver = _no_secrets

    async def perform(self, call: ActivityCall) -> ActivityOutcome:
        """Hand the activity to its executor, with its secrets in place."""
        activity = call.activity
        executor = self.executors.get(activity.node_type)
        if executor is None:
            told = f"no executor is configured for {activity.node_type} (node {activity.node_id})"
            return ActivityError(told, "COMPOSITE_EXECUTOR_NOT_CONFIGURED", retryable=False)
        if activity.secrets:
            filled = await self._filled(activity.arguments, activity.secrets, call.tenant)
            if isinstance(filled, ActivityError):
                return filled
            call = replace(
                call, activity=replace(activity, arguments=filled.value, secrets=None), hidden=filled.secrets
            )
            await call.confirm()  # a source of secrets may take its time
        outcome = await executor.perform(call)
        return without_secrets(outcome, call.hidden) if call.hidden else outcome

    async def _filled(self, arguments: JsonValue, places: Mapping[str, str], tenant: str) -> Filled | ActivityError:
        def resolve(name: str) -> str | None:
            return self.secrets(secret_name(tenant, name))

        try:
            # A source that starts a program must not hold up everything else.
            if getattr(self.secrets, "may_block", False):
                return await asyncio.to_thread(fill_secrets, arguments, places, resolve)
            return fill_secrets(arguments, places, resolve)
        except Unavailable as error:
            return ActivityError(f"{error.message}; {error.hint}" if error.hint else error.message, error.code)


def without_secrets(outcome: ActivityOutcome, hidden: tuple[str, ...]) -> ActivityOutcome:
    """An outcome whose words go into the history and to people, without the secrets that its activity was given.

    A result is what the activity was asked for and stays as it is; what an executor says about it in words does not.
    """
    match outcome:
        case ActivityError(error=error, extra=extra):
            return replace(outcome, error=text_without(error, hidden), extra=_object_without(extra, hidden))
        case ActivityAsks(question=question):
            return replace(outcome, question=text_without(question, hidden))
        case _:
            return outcome


def _object_without(value: JsonObject | None, hidden: tuple[str, ...]) -> JsonObject | None:
    found = None if value is None else value_without(value, hidden)
    return found if isinstance(found, dict) else None


@dataclass(frozen=True, slots=True)
class Filled:
    """Arguments with their secrets in place: not to be logged or stored."""

    value: JsonValue
    secrets: tuple[str, ...] = ()
    """The values that were put in."""


def fill_secrets(arguments: JsonValue, places: Mapping[str, str], resolve: SecretResolver) -> Filled | ActivityError:
    """Arguments with the listed places filled in; places come from the document, never from data."""
    filled, used = arguments, []
    for pointer, text in places.items():
        for name in SECRET_REFERENCE.findall(text):
            value = resolve(name)
            if value is None:
                told = f"the secret {name} is not set; give it to the process that runs activities"
                return ActivityError(told, "SECRET_NOT_SET", retryable=False)
            text = text.replace(f"${{secret:{name}}}", value)  # noqa: PLW2901  # several secrets in one text
            used.append(value)
        filled = _with(filled, pointer.split("/")[1:], text)
    return Filled(filled, tuple(dict.fromkeys(used)))


def _with(value: JsonValue, parts: list[str], text: str) -> JsonValue:
    if not parts:
        return text
    name = parts[0].replace("~1", "/").replace("~0", "~")
    if isinstance(value, list):
        index = int(name)
        return [*value[:index], _with(value[index], parts[1:], text), *value[index + 1 :]]
    members: JsonObject = dict(value) if isinstance(value, dict) else {}
    members[name] = _with(members.get(name), parts[1:], text)
    return members
