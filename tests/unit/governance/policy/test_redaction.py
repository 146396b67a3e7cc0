"""Fields that policies hide: named by declared paths, and replaced by what still fits the schema."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.governance.policy.redaction import HIDDEN_TEXT, read_redactions, why_not_hidden, without_fields
from penstock.governance.policy.schema import ActionShape
from penstock.governance.policy.source import parse_policies
from penstock.governance.policy.validation import validate

SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["card", "amount", "note", "status", "tags", "customer", "items"],
    "properties": {
        "card": {"type": "string"},
        "amount": {"type": "number"},
        "fee": {"type": "number"},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "status": {"type": "string", "enum": ["paid", "open"]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "customer": {"$ref": "#/$defs/customer"},
        "items": {"type": "array", "items": {"type": "object", "properties": {"serial": {"type": "string"}}}},
    },
    "$defs": {"customer": {"type": "object", "required": ["email"], "properties": {"email": {"type": "string"}}}},
}
VALUE: dict[str, Any] = {
    "card": "4111",
    "amount": 5,
    "fee": 1,
    "note": "secret",
    "status": "paid",
    "tags": ["a"],
    "customer": {"email": "a@b"},
    "items": [{"serial": "1"}, {"serial": "2", "more": 1}],
}


@pytest.mark.parametrize(
    ("path", "changed"),
    [
        (("card",), {"card": HIDDEN_TEXT}),
        (("note",), {"note": None}),
        (("tags",), {"tags": []}),
        (("customer", "email"), {"customer": {"email": HIDDEN_TEXT}}),
        (("items", "serial"), {"items": [{}, {"more": 1}]}),
    ],
)
def test_what_stands_for_a_hidden_field_fits_the_schema(path: tuple[str, ...], changed: dict[str, Any]) -> None:
    assert why_not_hidden(SCHEMA, path) is None
    assert without_fields(VALUE, [path], SCHEMA) == {**VALUE, **changed}


def test_an_optional_field_is_left_out_and_so_is_one_that_no_schema_declares() -> None:
    assert without_fields(VALUE, [("fee",)], SCHEMA) == {name: VALUE[name] for name in VALUE if name != "fee"}
    assert without_fields({"a": {"b": 1, "c": 2}}, [("a", "b")], None) == {"a": {"c": 2}}
    assert without_fields([{"a": 1}, 3, None], [("a",)], None) == [{}, 3, None]
    assert without_fields("text", [("a",)], SCHEMA) == "text"
    assert VALUE["fee"] == 1


@pytest.mark.parametrize(
    ("schema", "path", "told"),
    [
        (SCHEMA, ("amount",), "nothing fits in its place"),
        (SCHEMA, ("status",), "nothing fits in its place"),
        (SCHEMA, ("gone",), "output.gone is not declared"),
        (SCHEMA, ("customer", "gone"), "output.customer.gone is not declared"),
        (SCHEMA, ("card", "digits"), "is not declared"),
        (None, ("card",), "no declared fields"),
        ({"type": "object"}, ("card",), "is not declared"),
        ({"anyOf": [{"type": "string"}, {"type": "object"}]}, ("card",), "is not declared"),
    ],
)
def test_what_cannot_be_hidden_is_named(schema: dict[str, Any] | None, path: tuple[str, ...], told: str) -> None:
    assert told in (why_not_hidden(schema, path) or "")


def test_fields_are_read_and_mistakes_named() -> None:
    assert read_redactions("output.a, output.b.c,output.a") == ((("a",), ("b", "c")), [])
    for text in ("", "card", "input.card", "output", "output..a"):
        assert read_redactions(text)[1], text


REFUND = ActionShape(name="workflow:refund", groups=("call", "write"), resource_type="Workflow", answer=lambda: SCHEMA)
IMPORTED = ActionShape(name="upstream:shop.pay", groups=("call", "write"), resource_type="Upstream")
ALL = '@id("all") permit (principal, action, resource);'


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('forbid (principal is Agent, action == Action::"workflow:refund", resource);', None),
        ('forbid (principal, action in [Action::"workflow:refund"], resource) when { context.by_model };', None),
        ("forbid (principal, action, resource);", "name the operations"),
        ('forbid (principal, action in Action::"call", resource);', "name the operations"),
        ('forbid (principal, action == Action::"upstream:shop.pay", resource);', "answers with text"),
        (
            'forbid (principal, action == Action::"workflow:refund", resource) when { context.has_idempotency_key };',
            "cannot depend on arguments",
        ),
    ],
)
def test_a_policy_that_could_not_hide_everywhere_is_refused(text: str, told: str | None) -> None:
    parsed = parse_policies(f'{ALL} @id("x") @redact("output.card") {text}')
    assert parsed.problems == ()
    found = validate(parsed.policies, {item.name: item for item in (REFUND, IMPORTED)})
    assert [told in item.message for item in found if told is not None][:1] == ([] if told is None else [True])
    assert told is not None or found == ()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('@id("x") @redact("output.a") permit (principal, action, resource);', "belongs on a forbid"),
        (
            '@id("x") @redact("output.a") @outcome("approval") @approvers("a") forbid (principal, action, resource);',
            "exclude each other",
        ),
        ('@id("x") @redact("output.a") @mode("shadow") forbid (principal, action, resource);', "in shadow mode"),
        ('@id("x") @redact("card") forbid (principal, action, resource);', "output.name"),
    ],
)
def test_where_fields_are_hidden_is_a_forbid_of_its_own(text: str, told: str) -> None:
    assert any(told in item.message for item in parse_policies(text).problems)
