"""A built-in agent that is a person: it asks the question in its task, with the schema in its task.

An `interrupt` node asks what its document says. If the question and its answer schema are known only at run time, a
node passes them to this agent: `{message, schema}`.

Above it: `app` lists it beside the configured agents. Below it: `port`.
"""

from __future__ import annotations

from penstock.base.ids import PERSON_AGENT
from penstock.base.json import JsonValue
from penstock.definitions.schemas.compiled import SchemaProblem, load_schema
from penstock.runtime.activities.performing import ActivityAsks
from penstock.runtime.executors.agents.port import AgentTask
from penstock.runtime.steps.registry import StepFailed

__all__ = ["PERSON_AGENT", "ask_person"]


async def ask_person(task: AgentTask) -> JsonValue | ActivityAsks:
    """Ask the person, and return the answer."""
    if task.round:
        return task.answer
    question = _question(task.input)
    if isinstance(question, str):
        raise StepFailed("PERSON_QUESTION_INVALID", question, retryable=False)
    return question


def _question(given: JsonValue) -> ActivityAsks | str:
    """The question to ask, or a text that says what is wrong with it."""
    asked = given if isinstance(given, dict) else {}
    message, schema = asked.get("message"), asked.get("schema", {})
    if not isinstance(message, str) or not message:
        return "`message` must be the question, as a text"
    if not isinstance(schema, dict):
        return "`schema` must be the JSON Schema of the answer"
    compiled = load_schema(schema)
    if isinstance(compiled, SchemaProblem):
        return f"`schema`{compiled.path}: {compiled.message}"
    return ActivityAsks(message, schema)
