"""`http`: sends an HTTP request."""

from __future__ import annotations

from penstock.base.json import JsonObject
from penstock.definitions.model import NodeType
from penstock.definitions.node_parts.activity import activity_builder, activity_jq
from penstock.definitions.node_parts.captions import text_or_empty
from penstock.definitions.node_parts.changes import Comparison
from penstock.definitions.node_parts.kind import Activity, Category, NodeKind, Pace
from penstock.definitions.shapes.fields import BOOLEAN, STRING, Shape, array_of, choice, optional, ref, required

__all__ = ["KIND"]

_ACTIVITY = Activity(arguments=("url", "headers", "query", "body"), implied_by="url")
_STATUS_CODES = array_of({"type": "integer", "minimum": 100, "maximum": 599}, items_min=1)


def _caption(fields: JsonObject) -> str:
    return f"{text_or_empty(fields.get('method')) or 'GET'} {text_or_empty(fields.get('url'))}"


KIND = NodeKind(
    type=NodeType.HTTP,
    shape=Shape(
        name="http",
        title="http",
        description="Sends an HTTP request.",
        fields=(
            optional(
                "method",
                {**choice("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"), "default": "GET"},
                "The method.",
            ),
            required("url", {**STRING, "examples": ["https://api.example.com/orders/${ .input.id }"]}, "The address."),
            optional("headers", ref("template_object"), "The request's headers."),
            optional("query", ref("template_object"), "The query to append to the address."),
            optional("body", ref("template"), "The body; anything but text is sent as JSON."),
            optional("retry_on_status", _STATUS_CODES, "Statuses that are retried as failures."),
            optional("expect_status", _STATUS_CODES, "Statuses that count as success; by default, 200 to 299."),
            optional("follow_redirects", {**BOOLEAN, "default": False}, "Follow redirects; each hop is checked."),
        ),
        hints={
            "with": "write `body` or `query`",
            "json": "write `body`",
            "data": "write `body`",
            "params": "write `query`",
        },
    ),
    other_words=("request", "fetch", "rest", "api"),
    gives="the response: `status`, `headers` and `body`",
    build=activity_builder(_ACTIVITY),
    category=Category.WORK,
    caption=_caption,
    pace=Pace.WAITS,
    activity=_ACTIVITY,
    jq=activity_jq(_ACTIVITY),
    comparison=Comparison(defaults={"method": "GET"}),
)
