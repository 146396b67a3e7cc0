"""Route activities to executors, after filling in their secrets.

Above it: `app` fills the table. Below it: executors. An activity whose type has no executor fails with a code that says
so; nothing succeeds by default. Secrets are resolved here, for one call, and never enter a history.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from penstock.base.errors import Unavailable
from penstock.base.ids import AUTHOR_LABEL
from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.jq.templates import ANSWER_REFERENCE, SECRET_REFERENCE, as_text
from penstock.definitions.secret_answers import with_values
from penstock.governance.secret_hosts import NOT_BOUND, NOT_FOR_HOST, allowed_hosts, unbound_secret
from penstock.runtime.activities.performing import (
    ActivityAsks,
    ActivityCall,
    ActivityError,
    ActivityOutcome,
    AsyncPerformer,
)
from penstock.runtime.activities.progress import text_without, value_without
from penstock.runtime.secrets import Sealer, secret_name

__all__ = ["Router", "SecretResolver", "fill_secrets", "hosts_of", "without_secrets"]

# Returns the value of a secret by name, or None. A resolver whose attribute `may_block` is true is called in a thread.
SecretResolver = Callable[[str], str | None]
_REFERENCE = re.compile(f"{SECRET_REFERENCE.pattern}|{ANSWER_REFERENCE.pattern}")


# The type of nodes whose requests go to a host that is known.
_SENDS = "http"


def hosts_of(secrets: SecretResolver, name: str) -> tuple[str, ...]:
    """Return the hosts that a secret is bound to, by its server-wide name; none if it is bound to none."""
    bound: Mapping[str, tuple[str, ...]] = getattr(secrets, "hosts", {})
    return bound.get(name, ())


def _no_secrets(name: str) -> str | None:
    return None


@dataclass(slots=True, kw_only=True)
class Router:
    """Finds the executor of an activity by its node type."""

    executors: Mapping[str, AsyncPerformer] = field(default_factory=dict)
    secrets: SecretResolver = _no_secrets
    seals: Sealer | None = None  # open secret answers; without them, activities that need one fail

    def perform(self, call: ActivityCall) -> Coroutine[Any, Any, ActivityOutcome]:
        """Pass the activity to its executor, with its secrets filled in. Most have none and go on directly."""
        activity = call.activity
        executor = self.executors.get(activity.node_type)
        if executor is None or activity.secrets or activity.answer_secrets:
            return self._prepared(executor, call)
        return executor.perform(call)

    async def _prepared(self, executor: AsyncPerformer | None, call: ActivityCall) -> ActivityOutcome:
        activity = call.activity
        if executor is None:
            message = f"no executor is configured for {activity.node_type} (node {activity.node_id})"
            return ActivityError(message, "COMPOSITE_EXECUTOR_NOT_CONFIGURED", retryable=False)
        hosts = self._hosts(call)
        if isinstance(hosts, ActivityError):
            return hosts
        filled = await self._filled(activity.arguments, activity.secrets or {}, call.tenant)
        if isinstance(filled, ActivityError):
            return filled
        answer = await self._filled(activity.answer, activity.answer_secrets or {}, call.tenant)
        if isinstance(answer, ActivityError):
            return answer
        given = replace(activity, arguments=filled.value, secrets=None, answer=answer.value, answer_secrets=None)
        hidden = tuple(dict.fromkeys((*filled.secrets, *answer.secrets)))
        call = replace(call, activity=given, hidden=hidden, secret_hosts=hosts)
        await call.confirm()  # a source of secrets may be slow
        outcome = await executor.perform(call)
        return without_secrets(outcome, call.hidden) if call.hidden else outcome

    def _hosts(self, call: ActivityCall) -> tuple[str, ...] | ActivityError | None:
        """Return the hosts that the secrets of an activity may be sent to; the error if they may not be used in it."""
        activity = call.activity
        texts = (*(activity.secrets or {}).values(), *(activity.answer_secrets or {}).values())
        names = [name for text in texts for name in SECRET_REFERENCE.findall(text)]
        if not names:
            return None
        bound = {name: hosts_of(self.secrets, secret_name(call.tenant, name)) for name in names}
        unbound = unbound_secret(names, bound)
        if unbound is not None and AUTHOR_LABEL in call.labels:
            message = f"an agent wrote {call.workflow_name}, and the secret {unbound} is bound to no host"
            hint = f"an operator can bind it: secret_hosts.{unbound}, or a person stores the same version"
            return ActivityError(f"{message}; {hint}", NOT_BOUND, retryable=False)
        hosts = allowed_hosts(names, bound)
        if hosts is not None and activity.node_type != _SENDS:
            message = (
                f"the secrets of {activity.node_id} are bound to hosts, and a {activity.node_type} node names none"
            )
            return ActivityError(f"{message}; send them with an http node", NOT_FOR_HOST, retryable=False)
        return hosts

    async def _filled(self, arguments: JsonValue, places: Mapping[str, str], tenant: str) -> Filled | ActivityError:
        def resolve(name: str) -> str | None:
            return self.secrets(secret_name(tenant, name))

        try:
            answers = await self._answers(places, tenant)
            if isinstance(answers, ActivityError):
                return answers
            # A source that starts a program must not block the event loop.
            if getattr(self.secrets, "may_block", False):
                return await asyncio.to_thread(fill_secrets, arguments, places, resolve, answers)
            return fill_secrets(arguments, places, resolve, answers)
        except Unavailable as error:
            return ActivityError(f"{error.message}; {error.hint}" if error.hint else error.message, error.code)

    async def _answers(self, places: Mapping[str, str], tenant: str) -> dict[str, JsonValue] | ActivityError:
        """Return the secret answers that the places refer to, by their seals."""
        answers: dict[str, JsonValue] = {}
        for seal in (seal for text in places.values() for seal in ANSWER_REFERENCE.findall(text)):
            if not seal or self.seals is None:
                message = "a secret answer was given where none is kept; ask again in a run of a server"
                return ActivityError(message, "SECRET_ANSWER_NOT_KEPT", retryable=False)
            answers[seal] = await self.seals.open(tenant, seal)
        return answers


def without_secrets(outcome: ActivityOutcome, hidden: tuple[str, ...]) -> ActivityOutcome:
    """Return an outcome whose texts, which go into the history and to people, do not contain the activity's secrets.

    The result itself stays unchanged, because the caller wants it; only an executor's messages are masked.
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
    """Arguments with their secrets filled in: must not be logged or stored."""

    value: JsonValue
    secrets: tuple[str, ...] = ()
    """The secret values."""


def fill_secrets(
    arguments: JsonValue,
    places: Mapping[str, str],
    resolve: SecretResolver,
    answers: Mapping[str, JsonValue] | None = None,
) -> Filled | ActivityError:
    """Fill secrets into the listed places of the arguments. The places come from the document, never from data.

    `answers` are the secret answers that the places refer to, by their seals.
    """
    filled: dict[str, JsonValue] = {}
    used: list[str] = []
    for pointer, text in places.items():
        whole = ANSWER_REFERENCE.fullmatch(text)
        if whole is not None:
            filled[pointer] = answer = (answers or {})[whole[1]]
            used.extend(_texts_of(answer))
            continue
        composed = _composed(text, resolve, answers or {}, used)
        if isinstance(composed, ActivityError):
            return composed
        filled[pointer] = composed
    return Filled(with_values(arguments, filled), tuple(dict.fromkeys(used)))


def _composed(
    text: str, resolve: SecretResolver, answers: Mapping[str, JsonValue], used: list[str]
) -> str | ActivityError:
    """Replace the references in a text, each once. The value of a secret is not searched for further references."""
    values: dict[str, str] = {}
    for name in SECRET_REFERENCE.findall(text):
        value = resolve(name)
        if value is None:
            message = f"the secret {name} is not set; give it to the process that runs activities"
            return ActivityError(message, "SECRET_NOT_SET", retryable=False)
        values[f"${{secret:{name}}}"] = value
        used.append(value)
    for seal in ANSWER_REFERENCE.findall(text):
        values[f"${{answer:{seal}}}"] = as_text(answers[seal])
        used.extend(_texts_of(answers[seal]))
    return _REFERENCE.sub(lambda found: values[found[0]], text)


def _texts_of(answer: JsonValue) -> Iterator[str]:
    """Yield the texts by which a secret answer could appear in messages: the whole answer and each of its parts."""
    remaining: list[JsonValue] = [answer]
    while remaining:
        item = remaining.pop()
        if isinstance(item, dict):
            remaining.extend(item.values())
        elif isinstance(item, list):
            remaining.extend(item)
        elif not isinstance(item, bool):
            yield as_text(item)  # empty for null, which needs no masking
