"""Requests from clients of the OpenWOP mount to the server: ask a model, ask a person, list the roots.

MCP has these in the other direction. Here a client sends them, and a workflow whose document says `expose.sampling`,
`expose.elicitation` or `expose.roots` handles them as `{request: …}`; if there are several, the first by name. The
workflow runs with the sender's key, like any other run, and all of its input is untrusted. `project_result` puts
results into the form of the profile.

A question to a person is not answered while the client waits: the answer says `pending` and names the run. A client
that sends the same request again with the same idempotency key gets the outcome.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import msgspec

from penstock.base import limits
from penstock.base.encoding import encode_bytes
from penstock.base.errors import PenstockError
from penstock.base.json import JsonObject, JsonValue
from penstock.mcp_surface.callers import IDEMPOTENCY_META, Caller, ProtocolFault, call_operation
from penstock.mcp_surface.content.blocks import UNTRUSTED_META
from penstock.mcp_surface.options import McpOptions
from penstock.mcp_surface.questions.client_questions import form_of
from penstock.mcp_surface.wire.codes import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND
from penstock.operations.gate.pipeline import Gate
from penstock.operations.runs.waits import QuestionView, asks_for_approval

__all__ = ["Inbound", "idempotency_key", "project_result"]

_LOGGER = logging.getLogger("penstock.mcp")
_EXECUTION_META = "penstock/execution_id"
_TAG_META = "openwop/tag"
_ROLES = ("user", "assistant")
_ENDED = ("completed", "failed", "cancelled")
_LEFT = "mcp-request-cancelled"
_WAITING = {"waiting_input": "waiting-input", "waiting_approval": "waiting-approval"}


def idempotency_key(params: JsonObject) -> str | None:
    """Return the idempotency key in a request's metadata."""
    meta = params.get("_meta")
    key = meta.get(IDEMPOTENCY_META) if isinstance(meta, dict) else None
    return key if isinstance(key, str) else None


def project_result(result: JsonObject) -> JsonObject:
    """Return a tool's result in the form of the profile: anything but an outcome is an error with a tag.

    A question is never the answer to a call: the run waits, and is answered through the usual ways.
    """
    shown = {name: value for name, value in result.items() if name != "resultType"}
    structured = shown.get("structuredContent")
    status = structured.get("status") if isinstance(structured, dict) else None
    tag = "tool_canceled" if status == "cancelled" else _WAITING.get(str(status))
    if tag is not None and isinstance(structured, dict) and asks_for_approval(structured.get("questions")):
        tag = _WAITING["waiting_approval"]
    if tag is None:
        return shown
    content = shown.get("content")
    texts: list[JsonValue] = [{"type": "text", "text": tag}, *(content if isinstance(content, list) else [])]
    existing = shown.get("_meta")
    meta: JsonObject = {**(existing if isinstance(existing, dict) else {}), _TAG_META: tag}
    return {**shown, "content": texts, "isError": True, "_meta": meta}


def _result_meta(view: dict[str, Any]) -> JsonObject:
    """Return the metadata of an execution's result."""
    found: JsonObject = {_EXECUTION_META: view["execution_id"]}
    return {**found, UNTRUSTED_META: True} if view.get("untrusted") is True else found


class Inbound:
    """Handles requests of clients by running a workflow."""

    def __init__(self, gate: Gate, options: McpOptions, *, sampling: bool) -> None:
        self._gate = gate
        self._options = options
        self._sampling = sampling
        self._giving_up: set[asyncio.Future[None]] = set()

    async def sample(self, caller: Caller, params: JsonObject) -> JsonObject:
        """Let a workflow ask a model, and return its answer."""
        if not self._sampling:
            raise ProtocolFault(METHOD_NOT_FOUND, "Method not found: no language model is configured here")
        _refuse_unfit_messages(params)
        view = await self._run_to_end(caller, "sampling", params)
        output, where = view.get("output"), _result_meta(view)
        if view["status"] == "completed":
            return {**_sampled(output), "_meta": where}
        if view["status"] not in _ENDED and idempotency_key(params) is None:
            # Without an idempotency key nobody could fetch the answer later.
            await self._give_up(caller, str(view["execution_id"]))
        error = view.get("error")
        message = error["message"] if isinstance(error, dict) else f"the run is {view['status']}"
        data: JsonObject = {**where, "status": view["status"], "error": error}
        raise ProtocolFault(INTERNAL_ERROR, f"the model did not answer: {message}", data, on_record=True)

    async def elicit(self, caller: Caller, params: JsonObject) -> JsonObject:
        """Let a workflow ask a person; the answer is `pending` until somebody has answered."""
        message, schema = params.get("message"), params.get("requestedSchema")
        if not isinstance(message, str) or not message:
            raise ProtocolFault(INVALID_PARAMS, "message must be a text", {"message": "string"})
        if not isinstance(schema, dict) or not _is_form(message, schema):
            text = "requestedSchema must be the schema of a flat object of simple members"
            raise ProtocolFault(INVALID_PARAMS, text, {"requestedSchema": "object"})
        view = await self._start_run(caller, "elicitation", params, {})
        waited = await self._status_of(caller, str(view["execution_id"]))
        where = _result_meta({**view, **waited})
        match waited.get("status"):
            case "completed":
                return {**_elicited(waited.get("output")), "_meta": where}
            case "cancelled":
                return {"action": "cancel", "_meta": where}
            case "failed":
                failed: JsonObject = {**where, "error": waited.get("error")}
                raise ProtocolFault(INTERNAL_ERROR, "the question could not be asked", failed, on_record=True)
            case _:
                return {"action": "pending", "_meta": where}

    async def roots(self, caller: Caller, params: JsonObject) -> JsonObject:
        """Let a workflow list the roots."""
        view = await self._run_to_end(caller, "roots", params)
        output, where = view.get("output"), _result_meta(view)
        listed = output.get("roots") if isinstance(output, dict) else None
        if view["status"] != "completed" or not isinstance(listed, list):
            data: JsonObject = {**where, "error": view.get("error")}
            raise ProtocolFault(INTERNAL_ERROR, "the client's roots could not be read", data, on_record=True)
        return {"roots": [root for root in listed if isinstance(root, dict) and "uri" in root], "_meta": where}

    async def _handler(self, caller: Caller, kind: str) -> str:
        found = (await self._gate.exposed.of(caller.principal.tenant)).handlers.get(kind)
        if found is None:
            message = f"no workflow handles this; add `expose: {{{kind}: true}}` to one"
            raise ProtocolFault(METHOD_NOT_FOUND, f"Method not found: {message}", {"handler": kind})
        return found

    async def _start_run(self, caller: Caller, kind: str, params: JsonObject, more: JsonObject) -> dict[str, Any]:
        request: JsonObject = {name: value for name, value in params.items() if name != "_meta"}
        arguments: JsonObject = {"workflow_id": await self._handler(caller, kind), "input": {"request": request}}
        value = await call_operation(
            self._gate, caller, "workflow.execute", {**arguments, **more}, idempotency_key=idempotency_key(params)
        )
        found: dict[str, Any] = msgspec.to_builtins(value)
        return found

    async def _run_to_end(self, caller: Caller, kind: str, params: JsonObject) -> dict[str, Any]:
        """Run the handler and wait for its end.

        If the client disconnects, the operator's setting decides what happens.
        """
        more: JsonObject = {"sync": True, "wait_seconds": self._options.patience_seconds}
        chosen = None if idempotency_key(params) else self._gate.services.new_id()
        if chosen is not None:
            more["execution_id"] = chosen
        try:
            return await self._start_run(caller, kind, params, more)
        except asyncio.CancelledError:
            ends = self._options.on_disconnect == "cancel" and not self._gate.services.open_streams.ending
            if chosen is not None and ends:
                ending = asyncio.ensure_future(self._give_up(caller, chosen))
                self._giving_up.add(ending)
                ending.add_done_callback(self._giving_up.discard)
            raise

    async def _give_up(self, caller: Caller, execution_id: str) -> None:
        try:
            await call_operation(
                self._gate, caller, "execution.cancel", {"execution_id": execution_id, "reason": _LEFT}
            )
        except PenstockError as error:
            _LOGGER.info("the caller left execution %s, which continues: %s", execution_id, error.code)

    async def _status_of(self, caller: Caller, execution_id: str) -> dict[str, Any]:
        """Return the status of a run once it asks or has ended; empty for a caller who may not read it."""
        try:
            value = await call_operation(self._gate, caller, "execution.wait", {"execution_id": execution_id})
        except PenstockError as error:
            if error.code != "SCOPE_REQUIRED":
                raise
            return {}
        found: dict[str, Any] = msgspec.to_builtins(value)
        return found


def _refuse_unfit_messages(params: JsonObject) -> None:
    messages = params.get("messages")
    if not isinstance(messages, list) or not messages or not all(_is_message(item) for item in messages):
        message = "messages must be a list of {role, content}, with text as content"
        raise ProtocolFault(INVALID_PARAMS, message, {"messages": "array"})
    tokens, system = params.get("maxTokens"), params.get("systemPrompt", "")
    if tokens is not None and (not isinstance(tokens, int) or isinstance(tokens, bool) or tokens < 1):
        raise ProtocolFault(INVALID_PARAMS, "maxTokens must be a whole number", {"maxTokens": "integer"})
    if not isinstance(system, str):
        raise ProtocolFault(INVALID_PARAMS, "systemPrompt must be a text", {"systemPrompt": "string"})


def _is_message(item: JsonValue) -> bool:
    if not isinstance(item, dict) or item.get("role") not in _ROLES:
        return False
    content = item.get("content")
    blocks = content if isinstance(content, list) else [content]
    return bool(blocks) and all(
        isinstance(block, dict) and block.get("type") == "text" and isinstance(block.get("text"), str)
        for block in blocks
    )


def _is_form(message: str, schema: JsonObject) -> bool:
    """Return whether a form can be shown to a person. Larger or deeper schemas are not accepted for a question."""
    if schema.get("type") != "object" or len(encode_bytes(schema)) > limits.MCP_FORM_BYTES_MAX:
        return False
    question = QuestionView(interrupt_id="", node_id="", visit=1, prompt=message, answer_schema=schema)
    return form_of(question) is not None


def _sampled(output: JsonValue) -> JsonObject:
    """Turn a workflow's output into a model's message: `text`, `output` or `result` of an object, or all of it."""
    given: JsonObject = output if isinstance(output, dict) else {"text": output}
    found = next((given[name] for name in ("text", "output", "result") if given.get(name) is not None), output)
    text = found if isinstance(found, str) else encode_bytes(found).decode()
    model, reason = given.get("model"), given.get("stop_reason")
    return {
        "role": "assistant",
        "content": {"type": "text", "text": text},
        "model": model if isinstance(model, str) else "default",
        "stopReason": reason if isinstance(reason, str) else "endTurn",
    }


def _elicited(output: JsonValue) -> JsonObject:
    """Return the outcome of a question: from the workflow's `action`, or else the output is the answer."""
    if isinstance(output, dict) and output.get("action") in ("accept", "decline", "cancel"):
        content = output.get("content")
        message: JsonObject = {"action": output["action"]}
        return (
            {**message, "content": content} if isinstance(content, dict) and message["action"] == "accept" else message
        )
    return {"action": "accept", "content": output if isinstance(output, dict) else {"answer": output}}
