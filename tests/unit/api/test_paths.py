"""Which route serves a path."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from starlette.routing import Match, Mount, Route
from starlette.types import Receive, Scope, Send

from penstock.api.paths import Paths

PATTERNS = (
    "/healthz",
    "/runs",
    "/runs:many",
    "/runs/{run_id}:pause",
    "/runs/{run_id}/events/poll",
    "/runs/{run_id}/events",
    "/runs/{run_id}",
    "/workflows",
    "/workflows/export",
    "/workflows/{workflow_id}",
    "/workflows/{workflow_id}/tasks/{task_id}",
    "/workflows/{workflow_id}/tasks",
    "/other/{rest:path}",
)


class Nothing:
    """An endpoint that is not called here."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        raise AssertionError


ROUTES = [Route(pattern, Nothing()) for pattern in PATTERNS]
PATHS = Paths(ROUTES, Nothing())


def scope_of(path: str) -> dict[str, Any]:
    return {"type": "http", "method": "GET", "path": path, "root_path": ""}


def found(path: str) -> tuple[str, dict[str, object]] | None:
    match = PATHS.find(scope_of(path))
    return None if match is None else (match[0].path, match[1])  # type: ignore[attr-defined]


def test_a_name_goes_before_a_parameter() -> None:
    assert found("/workflows/export") == ("/workflows/export", {})
    assert found("/workflows/exports") == ("/workflows/{workflow_id}", {"workflow_id": "exports"})
    # The name leads nowhere, so the parameter is tried after all.
    assert found("/workflows/export/tasks") == ("/workflows/{workflow_id}/tasks", {"workflow_id": "export"})


def test_a_pattern_inside_a_part_goes_before_a_whole_parameter() -> None:
    assert found("/runs/a:pause") == ("/runs/{run_id}:pause", {"run_id": "a"})
    assert found("/runs:many") == ("/runs:many", {})
    assert found("/runs/a:b") == ("/runs/{run_id}", {"run_id": "a:b"})


def test_nothing_is_found_where_nothing_is() -> None:
    for path in ("", "/", "/runs/", "/runs//events", "/nothing", "/workflows/a/b", "/runs/a/events/poll/b"):
        assert found(path) is None, path


def test_what_takes_the_rest_comes_last() -> None:
    assert found("/other/a/b") == ("/other/{rest:path}", {"rest": "a/b"})


def test_something_that_is_mounted_is_found() -> None:
    mounted = Mount("/mounted", app=Nothing())
    match = Paths([*ROUTES, mounted], Nothing()).find(scope_of("/mounted/below"))
    assert match is not None
    assert match[0] is mounted


PART = st.sampled_from(["runs", "workflows", "export", "tasks", "events", "poll", "other", "a", "a:pause", "é", ""])


@given(st.lists(PART, max_size=6))
def test_it_finds_what_the_library_would_find(parts: list[str]) -> None:
    path = "/" + "/".join(parts)
    match = PATHS.find(scope_of(path))
    matching = [route for route in ROUTES if route.matches(scope_of(path))[0] is Match.FULL]
    if match is None:
        assert matching == []
    else:
        assert match[0] in matching
