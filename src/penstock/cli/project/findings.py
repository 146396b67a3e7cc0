"""Whether a document fits the project around it: schedules that can be kept, and names that resolve.

    loaded = load_workflow(text, file=label, extra_check=lambda document: project_findings(document, known))

A document may be valid by itself and still name a function, workflow, model, server or agent that the project lacks.
Findings about things that differ between machines, such as secrets, are warnings.

Above it: `files`. Below it: `context`, the outline of documents, cron expressions and time zones.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

from penstock.base.errors import Rejected
from penstock.base.ids import PERSON_AGENT
from penstock.base.json import JsonObject, JsonValue
from penstock.cli.project.context import ProjectContext
from penstock.cli.project.registered import registered_models
from penstock.definitions.checks.models import unknown_models
from penstock.definitions.jq.templates import LiteralTemplate, compile_template
from penstock.definitions.node_parts.kind import Reference, Resource
from penstock.definitions.outline.document import OutlineNode, outline_of, references_of
from penstock.definitions.source.findings import Finding, Severity, suggestion
from penstock.runtime.schedules.timetables import timetable_of
from penstock.runtime.steps.binding import BindingProblem
from penstock.runtime.steps.missing import handler_hint
from penstock.runtime.steps.registry import RegisteredStep

__all__ = ["PROJECT_CODES", "project_findings"]

PROJECT_CODES = frozenset(
    {
        "ARGUMENT_MISFIT",
        "MISSING_ARGUMENT",
        "SECRET_NOT_SET",
        "UNKNOWN_AGENT",
        "UNKNOWN_ARGUMENT",
        "UNKNOWN_HANDLER",
        "UNKNOWN_MODEL",
        "UNKNOWN_SERVER",
        "UNKNOWN_WORKFLOW",
    }
)
"""Codes for names that the project lacks: a run would reach the node and fail, or wait for another process."""

_DEFAULT_MODEL = "default"
_MODEL_TODO = "add it to `models` in the settings, register it on the server, or write `provider` beside it"


def project_findings(document: JsonObject, known: ProjectContext) -> Iterator[Finding]:
    """Everything that does not fit, each with its place in the document."""
    yield from _schedule_findings(document)
    outline = outline_of(document)
    for node in outline.nodes:
        yield from _node_findings(node, known, native=outline.native)
    yield from _model_findings(document, known)
    yield from _secret_findings(document, known)


def _schedule_findings(document: JsonObject) -> Iterator[Finding]:
    """Schedules that cannot work: an invalid expression, or an unknown time zone."""
    triggers = document.get("triggers")
    for number, trigger in enumerate(triggers if isinstance(triggers, list) else []):
        schedule = trigger.get("schedule") if isinstance(trigger, dict) else None
        if not isinstance(schedule, dict):
            continue
        try:
            timetable_of(schedule)
        except Rejected as error:
            member = _blamed(schedule)
            path = f"/triggers/{number}/schedule" + (f"/{member}" if member in schedule else "")
            yield Finding(code="SCHEDULE_INVALID", message=error.message, path=path, hint=error.hint)


def _blamed(schedule: JsonObject) -> str:
    """The first member that is invalid by itself."""
    for member in ("timezone", "overlap", "catch_up", "jitter"):
        if member in schedule:
            try:
                timetable_of({"cron": "* * * * *", member: schedule[member]})
            except Rejected:
                return member
    return "cron"


def _node_findings(node: OutlineNode, known: ProjectContext, *, native: bool) -> Iterator[Finding]:
    for reference in references_of(node):
        yield from _reference_findings(reference, node, known, native=native)
    undo = node.fields.get("compensate")
    if isinstance(undo, dict) and "handler" in undo:
        path = f"{node.field_path('compensate')}/handler"
        yield from _handler_findings(undo, path, known, native=native)


def _reference_findings(
    reference: Reference, node: OutlineNode, known: ProjectContext, *, native: bool
) -> Iterator[Finding]:
    wanted, path = reference.name, node.field_path(reference.field)
    match reference.resource:
        case Resource.STEP:
            yield from _handler_findings(node.fields, path, known, native=native)
        case Resource.WORKFLOW:
            # A `workflow_ref` is resolved by the host, which may know more workflows than the project has.
            if reference.field == "workflow":
                yield from _unknown("workflow", wanted, known.workflows, path)
        case Resource.SERVER:
            yield from _unknown("MCP server", wanted, known.settings.tool_sources, path)
        case Resource.AGENT:
            yield from _unknown("agent", wanted, (*known.settings.agents, *known.agents, PERSON_AGENT), path)
        case Resource.MODEL:
            pass  # see `_model_findings`


_KINDS = {
    "workflow": ("UNKNOWN_WORKFLOW", "put its file into the project (workflows.paths)"),
    "MCP server": ("UNKNOWN_SERVER", "add it to `mcp_servers` or `apis` in the settings"),
    "agent": ("UNKNOWN_AGENT", "add it to `agents` in the settings, or its file to the project"),
}


def _unknown(kind: str, wanted: JsonValue, names: Collection[str], path: str) -> Iterator[Finding]:
    if not isinstance(wanted, str) or wanted in names:
        return
    code, todo = _KINDS[kind]
    listed = f"; there is {', '.join(sorted(names))}" if names else ""
    hint = suggestion(wanted, names) or f"{todo}{listed}"
    yield Finding(code=code, message=f"this project has no {kind} `{wanted}`", path=path, hint=hint)


def _model_findings(document: JsonObject, known: ProjectContext) -> Iterator[Finding]:
    models = known.settings.models
    names = {*models, _DEFAULT_MODEL} if len(models) == 1 else set(models)
    providers = {model.provider for model in models.values()}
    if any(unknown_models(document, names, providers, todo=_MODEL_TODO)):
        names |= registered_models(Path(known.settings.storage.path))
        yield from unknown_models(document, names, providers, todo=_MODEL_TODO)


def _handler_findings(fields: JsonObject, path: str, known: ProjectContext, *, native: bool) -> Iterator[Finding]:
    wanted = fields.get("handler")
    if known.steps is None or not isinstance(wanted, str):
        return
    step = known.steps.resolve(wanted)
    if step is None:
        hint = handler_hint(wanted, known.steps.names(), Path.cwd())
        yield Finding(code="UNKNOWN_HANDLER", message=f"no step of this project is `{wanted}`", path=path, hint=hint)
    elif native:
        yield from _argument_findings(step, fields.get("with"), path.rpartition("/")[0], has_with="with" in fields)


def _argument_findings(step: RegisteredStep, given: JsonValue, path: str, *, has_with: bool) -> Iterator[Finding]:
    """Check arguments by name, and by value where they have no expressions."""
    place = f"{path}/with" if has_with else f"{path}/handler"
    arguments = {} if given is None else given
    if not isinstance(arguments, dict):
        return  # one expression gives all of them
    signature = step.signature
    for name in sorted(signature.required.difference(arguments)):
        message = f"{step.name} needs the argument `{name}`, which `with` does not give"
        yield Finding(code="MISSING_ARGUMENT", message=message, path=place, hint=f"add `{name}` to `with`")
    unknown = [] if signature.takes_more else [name for name in arguments if name not in signature.known]
    for name in unknown:
        takes = f"it takes {', '.join(signature.names)}" if signature.names else "it takes none"
        hint = suggestion(name, signature.names) or takes
        message = f"{step.name} has no parameter `{name}`"
        yield Finding(code="UNKNOWN_ARGUMENT", message=message, path=f"{place}/{name}", hint=hint)
    if unknown or signature.required.difference(arguments):
        return
    if isinstance(compile_template(arguments), LiteralTemplate):
        bound = signature.bind(arguments)
        if isinstance(bound, BindingProblem):
            yield Finding(code="ARGUMENT_MISFIT", message=bound.message, path=place)


def _secret_findings(document: JsonObject, known: ProjectContext) -> Iterator[Finding]:
    declared = document.get("secrets")
    for number, name in enumerate(declared if isinstance(declared, list) else []):
        todo = known.missing_secret(name) if isinstance(name, str) else None
        if todo is not None:
            yield Finding(
                code="SECRET_NOT_SET",
                message=f"the secret `{name}` is not set here",
                path=f"/secrets/{number}",
                hint=todo,
                severity=Severity.WARNING,
            )
