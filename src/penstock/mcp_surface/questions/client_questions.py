"""Questions of a run as MCP asks them, by kind, and the answers that come back.

    form      a flat object of texts, numbers, booleans and choices, which the client shows to a person
    url       a page of this server, for secrets and for answers that are not flat
    sampling  a request to the client's own model
    roots     the folders and files that the client offers

A client declares with each request which kinds it supports. It is not asked questions of other kinds; those can be
answered with a tool, over REST or from the command line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias, assert_never

from penstock.base.json import JsonObject, JsonValue
from penstock.mcp_surface.content.results import plain_text
from penstock.operations.executions.answers import is_secret
from penstock.operations.runs.waits import QuestionView, answer_fits

__all__ = [
    "CLIENT_KINDS",
    "Action",
    "ClientQuestion",
    "Kind",
    "client_question",
    "declared_kinds",
    "form_of",
    "identity_of",
    "input_requests",
    "with_whole_key",
]

Kind: TypeAlias = Literal["form", "url", "sampling", "roots"]
Action: TypeAlias = Literal["accept", "decline", "cancel"]

CLIENT_KINDS: frozenset[Kind] = frozenset({"sampling", "roots"})
"""Questions that the client itself answers, without a person."""

_PRIMITIVES = ("string", "number", "integer", "boolean")
_KEPT = (
    "type",
    "title",
    "description",
    "enum",
    "default",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "format",
    "enumNames",
    "oneOf",
)
_KEPT_OF_LISTS = ("type", "title", "description", "default", "minItems", "maxItems", "items")
_FORMATS = ("email", "uri", "date", "date-time")
# The form field of a question whose answer is not an object.
_ONLY = "answer"
# What somebody approves or declines is a choice without a default: a check box that was left empty would decline.
_DECISIONS: dict[JsonValue, bool] = {"Approve": True, "Decline": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientQuestion:
    """A question as a client is asked it.

    `wrapped` means that the answer is the only field of the form, not the whole object.
    """

    interrupt_id: str
    message: str
    execution_id: str | None = None
    """The child run that asks, if it is one."""
    key: str = ""
    """The name of the question on the wire; never reused for another question of the run."""
    kind: Kind = "form"
    schema: JsonObject = field(default_factory=dict)
    """The schema of a form."""
    wrapped: bool = False
    request: JsonObject = field(default_factory=dict)
    """The request to a model, in the protocol's form."""
    url: str = ""
    decline: JsonValue = None
    """The answer that means to decline; None if it does not exist."""
    answer_schema: JsonValue = None
    """The schema that the run requires of the answer."""
    approval: bool = False
    """Whether only a person who was asked may answer."""
    decides: str | None = None
    """The field of the form in which somebody approves or declines; None if it does not exist."""

    @property
    def identity(self) -> str:
        """The identity of the question among those of the run and its child runs."""
        return identity_of(self)

    @property
    def answered_by(self) -> str:
        """The kind of answer that belongs to it."""
        return self.kind if self.kind in CLIENT_KINDS else "elicitation"

    def answer(self, content: JsonObject) -> JsonValue:
        """Return the answer that a filled form gives."""
        if self.decides is not None and self.decides in content:
            said = content[self.decides]
            content = {**content, self.decides: _DECISIONS.get(said, said) if isinstance(said, str) else said}
        return content.get(_ONLY) if self.wrapped else content

    def refusal(self, action: Action) -> JsonValue:
        """Return the answer for declining or closing the form; None if it does not exist, so that the question stays
        open.

        Closing a form is an answer only if a member `action` of the schema may be `cancel`.
        """
        if action == "decline":
            return self.decline
        schema = self.answer_schema if isinstance(self.answer_schema, dict) else {}
        members = schema.get("properties")
        closed: JsonObject = {"action": action}
        fits = isinstance(members, dict) and "action" in members and answer_fits(schema, closed)
        return closed if fits else None


def identity_of(asked: ClientQuestion | QuestionView) -> str:
    """Return the identity of a question among those of a run and its child runs."""
    own, child = asked.interrupt_id, asked.execution_id
    return own if child is None else f"{child}/{own}"


def with_whole_key(ask: ClientQuestion, execution_id: str) -> ClientQuestion:
    """Return a question under a key that no question of any other run has."""
    return replace(ask, key=f"{ask.execution_id or execution_id}/{ask.interrupt_id}")


def declared_kinds(capabilities: Mapping[str, JsonValue]) -> frozenset[Kind]:
    """Return the kinds of questions that a client with these capabilities (in wire form) supports."""
    found: set[Kind] = set()
    elicitation = capabilities.get("elicitation")
    if isinstance(elicitation, dict):
        if elicitation.get("url") is not None:
            found.add("url")
        if elicitation.get("form") is not None or elicitation.get("url") is None:
            found.add("form")
    if isinstance(capabilities.get("sampling"), dict):
        found.add("sampling")
    if isinstance(capabilities.get("roots"), dict):
        found.add("roots")
    return frozenset(found)


def client_question(
    question: QuestionView, kinds: Set[Kind], link: Callable[[QuestionView], str | None]
) -> ClientQuestion | None:
    """Return the question for a client that supports some kinds; None if it cannot be asked.

    `link` returns the address of the page that answers a question, if there is one.
    """
    if question.ask is not None:
        return _client_ask(question, question.ask, kinds)
    form = form_of(question) if "form" in kinds else None
    if form is not None:
        return form
    url = link(question) if "url" in kinds else None
    if url is None:
        return None
    return replace(_for_person(question), kind="url", url=url, answer_schema=question.answer_schema)


def _for_person(question: QuestionView) -> ClientQuestion:
    """Build the parts that every question for a person has."""
    return replace(_base(question), decline=question.decline, approval=question.approvers is not None)


def _base(question: QuestionView) -> ClientQuestion:
    """Build the parts that every question has."""
    return ClientQuestion(
        interrupt_id=question.interrupt_id,
        execution_id=question.execution_id,
        key=_key(question),
        message=plain_text(question.prompt),
    )


def _client_ask(question: QuestionView, asked: JsonObject, kinds: Set[Kind]) -> ClientQuestion | None:
    named, request = asked.get("kind"), asked.get("request")
    kind = next((kind for kind in CLIENT_KINDS & kinds if kind == named), None)
    if kind is None:
        return None
    return replace(_base(question), kind=kind, request=request if isinstance(request, dict) else {})


def form_of(question: QuestionView) -> ClientQuestion | None:
    """Return the form of a question; None if a form cannot ask it."""
    given: JsonValue = question.answer_schema
    schema: JsonValue = {"type": "string"} if given is None or given == {} or given is True else given
    if not isinstance(schema, dict):
        return None
    wrapped = schema.get("type") in _PRIMITIVES
    if wrapped:
        only = _field(schema)
        flat: JsonObject | None = {"type": "object", "required": [_ONLY], "properties": {_ONLY: only}}
        flat = flat if only is not None else None
    else:
        flat = _flat(schema)
    if flat is None:
        return None
    decides = None if question.decides is None else question.decides or _ONLY
    if decides is not None:
        flat = _with_choice(flat, decides)
    return replace(_for_person(question), schema=flat, wrapped=wrapped, answer_schema=schema, decides=decides)


def _with_choice(form: JsonObject, decides: str) -> JsonObject:
    """Return a form in which somebody chooses Approve or Decline."""
    fields, required = form["properties"], form["required"]
    assert isinstance(fields, dict)
    assert isinstance(required, list)
    member = fields[decides]
    told = member if isinstance(member, dict) else {}
    kept: JsonObject = {name: told[name] for name in ("title", "description") if name in told}
    choice: JsonObject = {"type": "string", "title": "Your decision", **kept, "enum": list(_DECISIONS)}
    names = required if decides in required else [decides, *required]
    return {**form, "properties": {**fields, decides: choice}, "required": names}


def _key(question: QuestionView) -> str:
    """Return the node id for the node's first question, and the whole id for later ones and for those of child runs."""
    node = question.node_id
    if question.execution_id is not None:
        return f"{question.execution_id}/{question.interrupt_id}"
    first = question.visit == 1 and question.interrupt_id in (f"{node}:1", f"{node}:1:1")
    return node if first else question.interrupt_id


def input_requests(asks: Iterable[ClientQuestion]) -> JsonObject:
    """Return questions as a result asks them, by key."""
    return {ask.key: _request(ask) for ask in asks}


def _request(ask: ClientQuestion) -> JsonObject:
    match ask.kind:
        case "form":
            form: JsonObject = {"mode": "form", "message": ask.message, "requestedSchema": ask.schema}
            return {"method": "elicitation/create", "params": form}
        case "url":
            page: JsonObject = {"mode": "url", "message": ask.message, "url": ask.url}
            return {"method": "elicitation/create", "params": page}
        case "sampling":
            return {"method": "sampling/createMessage", "params": ask.request}
        case "roots":
            return {"method": "roots/list", "params": {}}
        case _ as never:
            assert_never(never)


def _flat(schema: JsonObject) -> JsonObject | None:
    """Return the schema of a form, if this is the schema of an object with simple members."""
    properties = schema.get("properties")
    if schema.get("type", "object") != "object" or not isinstance(properties, dict) or not properties:
        return None
    fields: JsonObject = {}
    for name, member in properties.items():
        if isinstance(member, dict) and member.get("x-refusal") is True:
            continue  # clients have buttons for refusing
        field = _field(member)
        if field is None:
            return None
        fields[name] = field
    required = schema.get("required", _needed_otherwise(schema))
    names: list[JsonValue] = [name for name in required if name in fields] if isinstance(required, list) else []
    return {"type": "object", "properties": fields, "required": names}


def _needed_otherwise(schema: JsonObject) -> JsonValue:
    """Return what is required of somebody who does not refuse."""
    otherwise = schema.get("else")
    return otherwise.get("required") if isinstance(otherwise, dict) else None


def _field(member: JsonValue) -> JsonObject | None:
    if not isinstance(member, dict) or is_secret(member):
        return None
    if member.get("type") == "array":
        return _several(member)
    choices = member.get("enum")
    if isinstance(choices, list) and not all(isinstance(choice, str) for choice in choices):
        return None
    kind = member.get("type") or ("string" if isinstance(choices, list) else None)
    if kind not in _PRIMITIVES:
        return None
    if "oneOf" in member and not _are_choices(member["oneOf"]):
        return None
    kept = {name: member[name] for name in _KEPT if name in member}
    if kept.get("format") not in _FORMATS:
        kept.pop("format", None)
    return {**kept, "type": kind}


def _several(member: JsonObject) -> JsonObject | None:
    """Return a multiple-choice field; None for any other list."""
    items = member.get("items")
    if not isinstance(items, dict):
        return None
    choices = items.get("enum")
    plain = isinstance(choices, list) and all(isinstance(choice, str) for choice in choices)
    if not plain and not _are_choices(items.get("anyOf")):
        return None
    return {name: member[name] for name in _KEPT_OF_LISTS if name in member}


def _are_choices(listed: JsonValue) -> bool:
    """Return whether these are texts with titles to choose from."""
    return isinstance(listed, list) and all(
        isinstance(item, dict) and isinstance(item.get("const"), str) and item.keys() <= {"const", "title"}
        for item in listed
    )
