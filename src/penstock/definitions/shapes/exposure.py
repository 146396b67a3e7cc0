"""How a document exposes the workflow to assistants, as tables: as a tool, a resource, a prompt.

Read by `document`. `checks.exposure` checks what no schema can state.
"""

from penstock.base.json import JsonObject
from penstock.definitions.shapes.fields import (
    BOOLEAN,
    STRING,
    TEXT,
    Shape,
    array_of,
    choice,
    optional,
    pattern,
    ref,
    required,
)

__all__ = ["EXPOSURE_SHAPES"]

_WIRE_NAME = pattern("^[A-Za-z0-9_.-]{1,64}$", "refund_order")
# Addresses that clients can show without an unencrypted request to another server, or without any request.
_ICON_SOURCE = pattern(
    r"^(https://[!-~]{1,2000}|data:image/(png|jpeg|webp|svg\+xml);base64,[A-Za-z0-9+/=]{1,65000})$",
    "https://shop.example/refund.png",
)
_ICON = optional("icon", _ICON_SOURCE, "A picture for people: an https address, or the picture itself as `data:`.")
_ICONS = optional("icons", array_of(ref("icon")), "Pictures in several sizes, or for light and dark surfaces.")
_RESULT = {**choice("data", "content"), "default": "data"}


def _or_true(name: str) -> JsonObject:
    return {"anyOf": [{"const": True}, ref(name)]}


_ICON_SHAPE = Shape(
    name="icon",
    title="Icon",
    description="A picture for people.",
    fields=(
        required("src", _ICON_SOURCE, "An https address, or the picture itself as `data:`."),
        optional("mime_type", {**STRING, "examples": ["image/png"]}, "The kind of picture."),
        optional("sizes", array_of(pattern("^([0-9]+x[0-9]+|any)$", "48x48")), "The sizes that it has, or `any`."),
        optional("theme", choice("light", "dark"), "The surface that it is made for."),
    ),
)

_ANNOTATIONS = Shape(
    name="annotations",
    title="Tool annotations",
    description="What a client may assume about the tool.",
    fields=(
        optional("read_only", BOOLEAN, "The tool changes nothing."),
        optional("destructive", BOOLEAN, "The tool may change or delete what exists."),
        optional("idempotent", BOOLEAN, "Calling it again with the same arguments has no further effect."),
        optional("open_world", BOOLEAN, "The tool reaches systems outside this installation."),
    ),
)

_EXPOSE_TOOL = Shape(
    name="expose_tool",
    title="Tool",
    description="How the workflow appears as a tool.",
    fields=(
        optional("name", _WIRE_NAME, "The tool's name; the workflow's name if left out."),
        optional("title", TEXT, "A title for people."),
        optional("description", TEXT, "What the tool does, for the model that chooses it."),
        _ICON,
        _ICONS,
        optional("annotations", ref("annotations"), "What a client may assume about the tool."),
        optional(
            "result",
            _RESULT,
            "`data`: the output is the answer. `content`: the output is a block of MCP content, or a list of them.",
        ),
        optional(
            "task",
            {**choice("auto", "required", "after_questions"), "default": "auto"},
            "When a call becomes an MCP task: `auto` if it takes longer, `required` always, `after_questions` after "
            "questions.",
        ),
        optional(
            "requires",
            array_of(choice("elicitation", "sampling", "roots")),
            "The capabilities that a client needs; by default, those that the nodes require.",
        ),
    ),
    at_most_one=(("icon", "icons"),),
)

_EXPOSE_RESOURCE = Shape(
    name="expose_resource",
    title="Resource",
    description="How the workflow's result appears as a resource. Reading it starts a run.",
    fields=(
        optional(
            "uri",
            {**STRING, "examples": ["reports://daily", "reports://{day}/summary"]},
            "Its address; names in braces are members of the input. By default, `penstock://resources/` and its name.",
        ),
        optional("name", _WIRE_NAME, "The resource's name; the workflow's name if left out."),
        optional("title", TEXT, "A title for people."),
        optional("description", TEXT, "What the resource contains."),
        _ICON,
        _ICONS,
        optional(
            "mime_type",
            {**STRING, "examples": ["application/json"]},
            "The kind of content; `text/plain` or `application/json` if left out.",
        ),
        optional(
            "result",
            _RESULT,
            "`data`: the output itself. `content`: the output is `{text}` or `{blob}` with a `mimeType`, or a list.",
        ),
    ),
    at_most_one=(("icon", "icons"),),
)

_PROMPT_MESSAGE = Shape(
    name="prompt_message",
    title="Message",
    description="A message of a prompt.",
    fields=(
        optional("role", {**choice("user", "assistant"), "default": "user"}, "Who says it."),
        required("text", STRING, "The text. `{{name}}` inserts an argument as text; it is not evaluated."),
    ),
)

_EXPOSE_PROMPT = Shape(
    name="expose_prompt",
    title="Prompt",
    description="How the workflow appears as a prompt: as a request to run it, as messages, or by running it.",
    fields=(
        optional("name", _WIRE_NAME, "The prompt's name; the workflow's name if left out."),
        optional("title", TEXT, "A title for people."),
        optional("description", TEXT, "What the prompt is for."),
        _ICON,
        _ICONS,
        optional("messages", array_of(ref("prompt_message"), items_min=1), "What the prompt says."),
        optional(
            "run",
            {**BOOLEAN, "default": False},
            "Run the workflow; its output is the prompt: text, blocks of content, or `{role, content}`.",
        ),
    ),
    at_most_one=(("icon", "icons"), ("messages", "run")),
)

_EXPOSE = Shape(
    name="expose",
    title="Exposure",
    description="How assistants see the workflow; each entry may simply be `true`.",
    fields=(
        optional("tool", _or_true("expose_tool"), "List the workflow as a tool."),
        optional("resource", _or_true("expose_resource"), "List the workflow's result as a resource."),
        optional("prompt", _or_true("expose_prompt"), "List the workflow as a prompt."),
        optional("a2a", {"const": True}, "Offer the agent to clients of the A2A protocol, with a card of its own."),
        optional(
            "sampling",
            {"const": True},
            "Handle sampling requests of clients of the OpenWOP mount; `.input.request` is the request.",
        ),
        optional(
            "elicitation",
            {"const": True},
            "Handle elicitation requests of clients of the OpenWOP mount; `.input.request` is the request.",
        ),
        optional(
            "roots",
            {"const": True},
            "List the roots for clients of the OpenWOP mount; the output has them as `roots`.",
        ),
    ),
)

EXPOSURE_SHAPES: tuple[Shape, ...] = (
    _ANNOTATIONS,
    _EXPOSE_TOOL,
    _EXPOSE_RESOURCE,
    _EXPOSE_PROMPT,
    _EXPOSE,
    _ICON_SHAPE,
    _PROMPT_MESSAGE,
)
