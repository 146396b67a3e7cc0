"""The capabilities of a request's client, from what it declared to the SDK: how it is notified and asked.

The result is a `questions.clients.Client`, which everything else uses without the SDK.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, assert_never

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError, NoBackChannelError
from mcp.shared.message import ServerMessageMetadata
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import TypeAdapter, ValidationError

from penstock.base.json import JsonObject
from penstock.mcp_surface.apps.views import declares_apps
from penstock.mcp_surface.callers import IDEMPOTENCY_META, INTENT_META, TASKS_EXTENSION
from penstock.mcp_surface.eras.log_messages import logging_to
from penstock.mcp_surface.eras.sdk_internals import is_cancelled, notify
from penstock.mcp_surface.questions.client_questions import ClientQuestion, Kind, declared_kinds
from penstock.mcp_surface.questions.clients import Client, ClientAnswer

__all__ = ["answers_of", "client_of", "kinds_of", "known_answers", "takes_apps", "takes_tasks"]

Context = ServerRequestContext[Any, Any]
_RESPONSE: TypeAdapter[types.InputResponse] = TypeAdapter(types.InputResponse)
# The error code of clients whose user did not allow the model to be asked.
_REFUSED = -1


def client_of(context: Context, params: types.InputResponseRequestParams) -> Client:
    """Return what the client of a request can do."""
    session, meta = context.session, context.meta or {}
    modern = context.protocol_version in MODERN_PROTOCOL_VERSIONS
    kinds = kinds_of(context)
    key = meta.get(IDEMPOTENCY_META)

    token = meta.get("progressToken", meta.get("progress_token"))

    async def report(progress: float, message: str, about: JsonObject) -> None:
        if not about:
            await session.report_progress(progress, message=message)
            return
        params = {"progressToken": token, "progress": progress, "message": message, "_meta": about}
        await notify(context, "notifications/progress", params)

    async def ask(question: ClientQuestion) -> ClientAnswer | None:
        return await _ask_now(context, question)

    async def settled(question: ClientQuestion) -> None:
        await session.send_elicit_complete(question.url.rpartition("/")[2], related_request_id=context.request_id)

    live = bool(kinds) and not modern and session.can_send_request
    return Client(
        report=report if token is not None else None,
        log=logging_to(context),
        kinds=kinds,
        ask=ask if live else None,
        settled=settled if live else None,
        completes=bool(kinds) and modern,
        tasks=modern and takes_tasks(context),
        apps=takes_apps(context),
        answers=answers_of(params.input_responses) if modern else {},
        state=params.request_state if modern else None,
        idempotency_key=key if isinstance(key, str) else None,
        said={name: meta.get(known) for name, known in INTENT_META.items() if known in meta},
        cancelled=lambda: is_cancelled(context),
    )


def kinds_of(context: Context) -> frozenset[Kind]:
    """Return the kinds of questions that the client of a request can be asked."""
    declared = context.session.client_capabilities
    return frozenset() if declared is None else declared_kinds(_wire(declared))


def takes_tasks(context: Context) -> bool:
    """Return whether the client of a request declares the tasks extension."""
    declared = context.session.client_capabilities
    return declared is not None and TASKS_EXTENSION in (declared.extensions or {})


def takes_apps(context: Context) -> bool:
    """Return whether the client of a request shows pages beside results of tools."""
    declared = context.session.client_capabilities
    return declared is not None and declares_apps(declared.extensions)


def _wire(model: Any) -> JsonObject:
    wire: JsonObject = model.model_dump(mode="json", by_alias=True, exclude_none=True)
    return wire


async def _ask_now(context: Context, question: ClientQuestion) -> ClientAnswer | None:
    """Ask over the open connection; None if that is not possible."""
    metadata = ServerMessageMetadata(related_request_id=context.request_id)
    session = context.session
    try:
        match question.kind:
            case "form":
                return _answer_of(await session.elicit_form(question.message, question.schema, context.request_id))
            case "url":
                token = question.url.rpartition("/")[2]
                return _answer_of(await session.elicit_url(question.message, question.url, token, context.request_id))
            case "sampling":
                asked = types.CreateMessageRequest(
                    params=types.CreateMessageRequestParams.model_validate(question.request)
                )
                return _answer_of(await session.send_request(asked, types.CreateMessageResult, metadata=metadata))
            case "roots":
                roots = types.ListRootsRequest()
                return _answer_of(await session.send_request(roots, types.ListRootsResult, metadata=metadata))
            case _ as never:
                assert_never(never)
    except MCPError as error:
        if question.kind == "sampling" and error.code == _REFUSED:
            return ClientAnswer(kind="sampling", result={"refused": error.message})
        return None
    except (NoBackChannelError, ValidationError):
        return None


def known_answers(responses: Mapping[str, Any] | None) -> types.InputResponses:
    """Return the responses whose shape is known."""
    found: types.InputResponses = {}
    for name, response in (responses or {}).items():
        with suppress(ValidationError):
            found[name] = _RESPONSE.validate_python(response)
    return found


def answers_of(responses: types.InputResponses | None) -> dict[str, ClientAnswer]:
    """Return the responses that came back with a call, by question key."""
    return {name: _answer_of(response) for name, response in (responses or {}).items()}


def _answer_of(answer: types.InputResponse) -> ClientAnswer:
    if isinstance(answer, types.ElicitResult):
        content: JsonObject = {
            name: [*value] if isinstance(value, list) else value for name, value in (answer.content or {}).items()
        }
        return ClientAnswer(action=answer.action, content=content)
    result = {name: value for name, value in _wire(answer).items() if name not in ("_meta", "resultType")}
    return ClientAnswer(kind="roots" if isinstance(answer, types.ListRootsResult) else "sampling", result=result)
