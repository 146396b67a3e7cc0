"""Sessions as they are stored: a row for each, and the runs that answer its messages.

A session belongs to the principal that began it. Its row is stored under a digest of that principal, so that nobody
else finds it. The run of a message has an id that is made of the session's and of the number of the message. Of two
messages at once only one can start that run; so the runs are the truth, and the row only says where to begin looking.

Above it: `sessions`. Below it: `agents`, `definitions.agents`, the ports.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec.structs import replace

from penstock.base.errors import NotFound, Rejected
from penstock.base.ids import id_in_tenant
from penstock.base.json import JsonObject, JsonValue, object_or_empty
from penstock.base.lazy_import import lazy_import
from penstock.definitions.agents.schemas import is_agent
from penstock.definitions.agents.sessions import conversation_of, session_document, takes_messages
from penstock.definitions.model import Workflow
from penstock.engine.state import RunState
from penstock.governance.authorship import Author
from penstock.operations.gate.context import Context
from penstock.operations.permissions.authorship import refuse_proposed, refuse_proposed_version
from penstock.operations.registries.agents import AGENTS, document_of_agent
from penstock.operations.stored_resources import ResourceTable
from penstock.runtime.ports.platform import ResourceRow
from penstock.runtime.ports.runs import DefinitionRow, RunRow
from penstock.runtime.tables.resources import read_resource

if TYPE_CHECKING:
    from penstock.definitions.build import workflow as build
else:
    build = lazy_import("penstock.definitions.build.workflow")

__all__ = [
    "KEY_LABEL",
    "SESSIONS",
    "SESSION_LABEL",
    "SESSION_OWNER_LABEL",
    "FoundAgent",
    "Session",
    "find_agent",
    "find_session",
    "last_turn",
    "new_session",
    "owner_of",
    "run_of_turn",
    "session_of_row",
    "turn_of_run",
]

SESSIONS = ResourceTable(kind="session", noun="session", deleted_hint="start a new one with agent.message")
SESSION_LABEL = "penstock.session"
"""The label of a run that answers a message: the id of its session."""
SESSION_OWNER_LABEL = "penstock.session.owner"
"""Whose session it is, as a digest."""
KEY_LABEL = "penstock.session.key"
"""Which call sent the message, if that had an idempotency key."""
_OWNER_CHARACTERS = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundAgent:
    """An agent that can be talked to, and the workflow of a message to it."""

    agent_id: str
    document: JsonObject
    workflow: Workflow
    stored: DefinitionRow | None
    """The workflow that the agent is; None for an entry of the registry."""
    author: Author | None
    """Who wrote it."""

    def conversation(self, before: RunState | None) -> list[JsonValue]:
        """Return what the next run begins with: what was said up to the run before it, as far as it is read."""
        if before is None:
            return []
        values = object_or_empty(before.values)
        # If it ended before it had anything to say, what it was given still counts.
        given = object_or_empty(before.input)
        return list(conversation_of(self.document, values if values.get("conversation") else given))


async def find_agent(context: Context, agent_id: str) -> FoundAgent:
    """Return an agent of the tenant; raise if it does not exist, or if it cannot be talked to."""
    services = context.services
    row = await read_resource(services.platform, context.tenant, AGENTS.kind, agent_id)
    stored = None
    if row is not None:
        refuse_proposed(services, row.author, f"agent {agent_id}", row.etag)
        document = {**document_of_agent(agent_id, row.body), "name": f"agent:{agent_id}"}
    else:
        stored = await services.store.definitions.find_named(agent_id, tenant=context.tenant)
        if stored is None or not is_agent(stored.document):
            message = f"there is no agent {agent_id}"
            raise NotFound("AGENT_NOT_FOUND", message, "list them with agent.list, and workflows with workflow.list")
        document = stored.document
    if not takes_messages(document):
        message = f"the agent {agent_id} has an `input` or a `prompt` of its own, and cannot be talked to"
        raise Rejected("AGENT_TAKES_NO_MESSAGES", message, "start it with workflow.execute")
    workflow: Workflow = build.build_workflow(session_document(document))
    if stored is not None:
        refuse_proposed_version(services, stored)
        # What is made of a trusted document is as trusted as that is, and signed by nobody.
        services.signatures.refuse(stored.name, stored.document, stored.hash)
        services.signatures.vouch(workflow.hash)
    found = row or stored
    author = None if found is None else found.author
    return FoundAgent(agent_id=agent_id, document=document, workflow=workflow, stored=stored, author=author)


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A session. `row` is `None` if it is not stored yet."""

    session_id: str
    owner: str
    agent_id: str
    turns: int = 0
    ended_at: int | None = None
    row: ResourceRow | None = None

    @property
    def resource_id(self) -> str:
        """The id of its row."""
        return f"{self.owner}.{self.session_id}"

    def stored_as(self, context: Context, *, turns: int, ended_at: int | None = None) -> ResourceRow:
        """Return its row with other contents."""
        body: JsonObject = {"agent_id": self.agent_id, "turns": turns}
        if ended_at is not None:
            body["ended_at"] = ended_at
        made = SESSIONS.row(context, self.resource_id, body, was=self.row)
        return made if self.row is None else replace(made, updated_by=self.row.updated_by)


def owner_of(context: Context) -> str:
    """Return what the sessions of the caller are stored under."""
    return hashlib.sha256(context.principal.id.encode()).hexdigest()[:_OWNER_CHARACTERS]


def session_of_row(row: ResourceRow) -> Session:
    """Return the session that a row describes."""
    owner, _, session_id = row.resource_id.partition(".")
    turns, ended_at = row.body.get("turns"), row.body.get("ended_at")
    return Session(
        session_id=session_id,
        owner=owner,
        agent_id=str(row.body.get("agent_id")),
        turns=turns if isinstance(turns, int) else 0,
        ended_at=ended_at if isinstance(ended_at, int) else None,
        row=row,
    )


def new_session(context: Context, agent_id: str, session_id: str) -> Session:
    """Return a session of the caller that is not stored yet."""
    return Session(session_id=session_id, owner=owner_of(context), agent_id=agent_id)


async def find_session(context: Context, session_id: str) -> Session:
    """Return a session of the caller; raise NotFound if it does not exist, or if it is somebody else's."""
    row = await read_resource(
        context.services.platform, context.tenant, SESSIONS.kind, f"{owner_of(context)}.{session_id}"
    )
    if row is None:
        message = f"there is no session {session_id}"
        raise NotFound(
            SESSIONS.not_found_code, message, "list yours with session.list, or start one with agent.message"
        )
    return session_of_row(row)


def run_of_turn(context: Context, session_id: str, turn: int) -> str:
    """Return the stored id of the run that answers a message. No caller can choose such an id."""
    return id_in_tenant(context.tenant, f"{session_id}@{turn}")


def turn_of_run(execution_id: str) -> JsonObject:
    """Return the session and the number of a message, by the id of its run as callers write it."""
    session_id, _, turn = execution_id.rpartition("@")
    return {"session_id": session_id, "turn": int(turn)}


async def last_turn(context: Context, session: Session) -> tuple[int, RunRow | None]:
    """Return the number of the last message, and its run; None if it does not exist, or retention has deleted it."""
    store, turn = context.services.store, session.turns
    found = await store.row(run_of_turn(context, session.session_id, turn)) if turn else None
    while (later := await store.row(run_of_turn(context, session.session_id, turn + 1))) is not None:
        # The process died between the start of the run and the change of the row.
        found, turn = later, turn + 1
    return turn, found
