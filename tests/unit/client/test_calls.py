"""Arguments go where the operation wants them, and answers become what they are."""

from typing import Any

import msgspec
import pytest

from penstock.base.errors import NotFound, Rejected
from penstock.client.calls import decoded, prepare
from penstock.client.errors import CallFailed
from penstock.client.generated.views.execution import ExecutionHandle, ExecutionView
from penstock.client.operations import find_operation, method_name, operation_table, resource_attribute

HANDLE = {
    "execution_id": "e",
    "workflow_id": "w",
    "workflow_version": "1",
    "definition_hash": "h",
    "status": "running",
    "sequence": 1,
    "url": "/e",
    "stream_url": "/e/stream",
}


def test_names_in_the_path_are_quoted() -> None:
    call = prepare(find_operation("workflow.get"), {"workflow_id": "a/b c", "hash": "x"})
    assert (call.method, call.path, call.query) == ("GET", "/workflows/a%2Fb%20c", {"hash": "x"})
    assert call.content is None


def test_what_is_not_given_is_not_sent() -> None:
    call = prepare(find_operation("execution.list"), {"status": None, "limit": 5, "label": None})
    assert call.query == {"limit": "5"}


def test_a_list_in_the_query_is_joined_and_a_single_text_is_a_list() -> None:
    operation = find_operation("execution.list")
    assert prepare(operation, {"status": ["failed", "cancelled"]}).query == {"status": "failed,cancelled"}
    assert prepare(operation, {"status": "failed"}).query == {"status": "failed"}


def test_a_single_text_in_a_body_is_a_list_too() -> None:
    call = prepare(find_operation("key.create"), {"name": "ci", "scopes": "workflow:read"})
    assert msgspec.json.decode(call.content or b"") == {"name": "ci", "scopes": ["workflow:read"]}


def test_a_header_argument_is_sent_as_its_header() -> None:
    call = prepare(find_operation("workflow.delete"), {"workflow_id": "w", "if_match": '"abc"'}, idempotency_key="k")
    assert call.headers == {"If-Match": '"abc"', "Idempotency-Key": "k"}


def test_null_is_sent_where_it_means_something() -> None:
    call = prepare(find_operation("schedule.update"), {"schedule_id": "s", "jitter": None, "catch_up": msgspec.UNSET})
    assert msgspec.json.decode(call.content or b"") == {"jitter": None}
    answer = prepare(find_operation("execution.answer"), {"execution_id": "e", "answer": None})
    assert msgspec.json.decode(answer.content or b"") == {"answer": None}


def test_a_read_never_carries_an_idempotency_key_and_is_repeatable() -> None:
    call = prepare(find_operation("workflow.validate"), {"source": "x"}, idempotency_key="k")
    assert "Idempotency-Key" not in call.headers
    assert call.repeatable


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"workflow_id": "w", "hsah": "x"}, "no argument hsah"),
        ({}, "needs workflow_id"),
        ({"workflow_id": ""}, "workflow_id is empty"),
    ],
)
def test_arguments_that_cannot_be_placed_are_refused_before_anything_is_sent(
    arguments: dict[str, Any], told: str
) -> None:
    with pytest.raises(Rejected, match=told):
        prepare(find_operation("workflow.get"), arguments)


def test_an_unknown_operation_is_named_with_a_suggestion() -> None:
    with pytest.raises(NotFound, match=r"workflow\.get"):
        find_operation("workflow.gett")


def test_an_answer_is_the_first_type_that_it_fits() -> None:
    operation = find_operation("workflow.execute")
    types = (ExecutionView, ExecutionHandle)
    assert isinstance(decoded(operation, msgspec.json.encode(HANDLE), types), ExecutionHandle)
    full = {
        **HANDLE,
        **dict.fromkeys(("created_at", "updated_at", "ended_at", "input", "output", "error", "state"), None),
        **dict.fromkeys(("parent_id", "forked_from", "continued_from", "continued_as", "usage"), None),
        "mode": "in_process",
        "untrusted": False,
        "nodes": [],
        "labels": {},
        "waiting_for": {"questions": [], "activities": [], "signals": [], "timers": [], "children": []},
        "something_new": 1,
    }
    assert isinstance(decoded(operation, msgspec.json.encode(full), types), ExecutionView)


@pytest.mark.parametrize("body", [b"<html>", b"{}", b"[1]", b"\xff"])
def test_an_answer_of_another_shape_is_an_error(body: bytes) -> None:
    with pytest.raises(CallFailed, match="ANSWER_UNREADABLE"):
        decoded(find_operation("workflow.get"), body, (ExecutionHandle,))


def test_waiting_for_an_answer_takes_as_long_as_the_server_was_asked_to_wait() -> None:
    execute = find_operation("workflow.execute")
    assert prepare(execute, {"workflow_id": "w", "wait_seconds": 7}).wait_seconds == 7
    assert prepare(execute, {"workflow_id": "w", "sync": True}).wait_seconds >= 30
    assert prepare(find_operation("workflow.get"), {"workflow_id": "w"}).wait_seconds == 0


def test_names_of_resources_and_methods_are_python() -> None:
    assert resource_attribute("delivery") == "deliveries"
    assert (resource_attribute("key"), resource_attribute("audit")) == ("keys", "audit")
    assert method_name("import") == "import_"
    for operation in operation_table().values():
        assert resource_attribute(operation.resource).isidentifier()
        assert method_name(operation.action).isidentifier()
