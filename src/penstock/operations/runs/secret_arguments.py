"""The secret parts of arguments that only a workflow's schema marks: the input of a start, the answer to a question.

The schema of an operation such as `workflow.execute` says nothing about them. A call that waits for approval is stored,
so it must know them: it keeps them sealed, and shows `***`.

Above it: operations that take an input or an answer declare these functions (`Capability.secrets`). Below it: the
store, `definitions.secret_answers`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from penstock.base.errors import Rejected
from penstock.base.ids import id_in_tenant
from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.agents.schemas import input_schema_of
from penstock.definitions.schemas.compiled import CompiledSchema, load_schema
from penstock.definitions.secret_answers import secret_paths, secrets_in
from penstock.engine.walk.questions import open_questions
from penstock.operations.gate.context import Context
from penstock.runtime.tables.schedules import list_schedules

__all__ = ["refuse_secret_input", "secret_answers", "secret_inputs"]


async def secret_inputs(context: Context, arguments: JsonObject) -> dict[str, JsonValue]:
    """Return the secret parts of `input` by their JSON pointers, as any version of the workflow marks them."""
    found: dict[str, JsonValue] = {}
    async for document in _documents(context, arguments):
        found.update(_marked(input_schema_of(document), arguments.get("input"), "/input"))
    return found


async def secret_answers(context: Context, arguments: JsonObject) -> dict[str, JsonValue]:
    """Return the secret parts of an answer by their JSON pointers, as any open question of the run marks them."""
    named = arguments.get("execution_id")
    member = "answer" if "answer" in arguments else "resume_payload"
    state = await context.services.host.read(id_in_tenant(context.tenant, named)) if isinstance(named, str) else None
    found: dict[str, JsonValue] = {}
    if state is not None and state.tenant == context.tenant:
        for question in open_questions(state):
            found.update(_marked(question.answer_schema, arguments.get(member), f"/{member}"))
    return found


def refuse_secret_input(schema: CompiledSchema | None, value: JsonValue) -> None:
    """Refuse an input with secrets where it would be stored as it is."""
    if schema is not None and (secrets := secrets_in(schema, value)):
        message = f"a schedule does not keep secrets, and its input has one at {next(iter(secrets)) or '/'}"
        hint = "let the step read it from the server's secrets (`${secret:NAME}`), and leave it out of the input"
        raise Rejected("SECRET_INPUT_NOT_KEPT", message, hint)


async def _documents(context: Context, arguments: JsonObject) -> AsyncIterator[JsonObject]:
    """Yield the documents that a call may be about: sent along, by name, by hash, of a schedule."""
    store, tenant = context.services.store, context.tenant
    if isinstance(sent := arguments.get("definition"), dict):
        yield sent
    name, version, schedule = (arguments.get(member) for member in ("workflow_id", "hash", "schedule_id"))
    if isinstance(schedule, str) and not isinstance(name, str):
        rows = await list_schedules(store.database, tenant=tenant)
        stored_id = id_in_tenant(tenant, schedule)
        name = next((row.workflow_name for row in rows if row.schedule_id == stored_id), None)
    newest = await store.definitions.find_named(name, tenant=tenant) if isinstance(name, str) else None
    if newest is not None:
        yield newest.document
    chosen = await store.definitions.find(version) if isinstance(version, str) else None
    if chosen is not None:
        yield chosen.document


def _marked(schema: JsonValue, value: JsonValue, place: str) -> dict[str, JsonValue]:
    """Return the secret parts of a value; all of it if they cannot be found."""
    if not isinstance(schema, dict) or value is None or not secret_paths(schema):
        return {}
    compiled = load_schema(schema)
    try:
        if isinstance(compiled, CompiledSchema):
            return {f"{place}{pointer}": part for pointer, part in secrets_in(compiled, value).items()}
    except Rejected:
        pass
    return {place: value}
