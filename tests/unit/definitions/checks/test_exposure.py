"""What a document may expose, and what is told about what it may not."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.definitions.jq.prompt_texts import filled_text, placeholders
from penstock.definitions.validate import validate_document

INPUT = {
    "type": "object",
    "required": ["day"],
    "properties": {"day": {"type": "string"}, "tone": {"type": "string"}},
}


def told(expose: dict[str, Any], **more: Any) -> list[tuple[str, str]]:
    document = {
        "penstock": "v1",
        "name": "notes",
        "nodes": [{"id": "done", "type": "end", "output": "x"}],
        "expose": expose,
        **more,
    }
    return [(finding.code, finding.path) for finding in validate_document(document)]


@pytest.mark.parametrize(
    "resource",
    [
        True,
        {"uri": "notes://{day}"},
        {"uri": "notes://{day}/{tone}", "mime_type": "text/markdown", "result": "content", "name": "notes_of_a_day"},
        {"uri": "penstock://resources/notes/{day}"},
    ],
)
def test_a_resource_may_stand_where_its_input_can_be_read(resource: Any) -> None:
    assert told({"resource": resource}, input=INPUT) == []


@pytest.mark.parametrize(
    "uri", ["notes://daily", "notes://{day}/{month}", "file:///{day}", "penstock://workflows/{day}", "notes"]
)
def test_an_address_that_does_not_fit_is_told(uri: str) -> None:
    assert ("RESOURCE_ADDRESS", "/expose/resource/uri") in told({"resource": {"uri": uri}}, input=INPUT)


def test_a_text_shows_only_arguments_that_there_are() -> None:
    messages = [{"text": "Write about {{ day }}."}, {"role": "assistant", "text": "In which {{mood}}?"}]
    found = told({"prompt": {"messages": messages}}, input=INPUT)
    assert found == [("UNKNOWN_ARGUMENT", "/expose/prompt/messages/1/text")]


@pytest.mark.parametrize("source", ["http://shop.example/a.png", "file:///a.png", "data:text/html;base64,AA", "a.png"])
def test_an_icon_is_safe_to_show(source: str) -> None:
    assert told({"tool": {"icon": source}}) == [("INVALID_VALUE", "/expose/tool/icon")]
    assert told({"tool": {"icons": [{"src": source}]}}) != []


def test_icons_may_be_fetched_or_carried() -> None:
    icons = [
        {"src": "data:image/png;base64,iVBORw0KGgo=", "sizes": ["48x48"], "theme": "dark", "mime_type": "image/png"}
    ]
    assert told({"tool": {"icon": "https://shop.example/a.png"}, "prompt": {"icons": icons, "run": True}}) == []


def test_a_prompt_either_says_something_or_runs() -> None:
    assert told({"prompt": {"messages": [{"text": "hello"}], "run": True}}) != []


def test_arguments_are_text_whatever_they_look_like() -> None:
    text = "{{ a }} and {{b}}, not {b}, ${ .input.a } or {{ c-d }}"
    assert placeholders(text) == ("a", "b")
    shown = filled_text(text, {"a": "{{b}} ${ 1 + 1 }", "b": "\\1 {{a}}"})
    assert shown == "{{b}} ${ 1 + 1 } and \\1 {{a}}, not {b}, ${ .input.a } or {{ c-d }}"
    assert filled_text("{{a}}!", {}) == "!"
