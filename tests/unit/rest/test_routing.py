"""Which route serves a path."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, unquote

from hypothesis import given
from hypothesis import strategies as st
from starlette.routing import Match, Mount, Route
from starlette.types import Receive, Scope, Send

from penstock.rest.routing import PathRouter

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
PATHS = PathRouter(ROUTES, Nothing())


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
    match = PathRouter([*ROUTES, mounted], Nothing()).find(scope_of("/mounted/below"))
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


def written(raw: str) -> tuple[str, dict[str, object]] | None:
    """What is found for a path as it stands on the wire; servers hand it over decoded, too."""
    match = PATHS.find({**scope_of(unquote(raw)), "raw_path": raw.encode()})
    return None if match is None else (match[0].path, match[1])  # type: ignore[attr-defined]


def test_a_written_slash_belongs_to_its_parameter() -> None:
    assert written("/runs/a%2Fevents") == ("/runs/{run_id}", {"run_id": "a/events"})
    assert written("/runs/a%2fb:pause") == ("/runs/{run_id}:pause", {"run_id": "a/b"})
    assert written("/workflows/a%2Fb/tasks/c%2fd") == (
        "/workflows/{workflow_id}/tasks/{task_id}",
        {"workflow_id": "a/b", "task_id": "c/d"},
    )
    assert written("/workflows/a%252Fb") == ("/workflows/{workflow_id}", {"workflow_id": "a%2Fb"})
    assert written("/workflows/a%252Fb%2Fc") == ("/workflows/{workflow_id}", {"workflow_id": "a%2Fb/c"})
    assert written("/other/a%2Fb/c") == ("/other/{rest:path}", {"rest": "a%2Fb/c"})


def test_a_written_slash_selects_no_other_route() -> None:
    for raw in ("%2Fhealthz", "/workflows%2Fexport", "/runs%2fa", "/runs/a/events%2Fpoll", "/other%2Fa"):
        assert written(raw) is None, raw


@given(st.lists(st.sampled_from(["runs", "workflows", "a", "events", "export", "tasks", "x/y", "/", "%2F", "é"])))
def test_a_path_has_as_many_parts_as_slashes_stand_in_it(parts: list[str]) -> None:
    match = written("/" + "/".join(quote(part, safe="") for part in parts))
    if match is None or match[0].startswith("/other"):
        return
    pattern, values = match
    assert "/" + "/".join(parts) == pattern.format(**values)
    assert pattern.count("/") == len(parts)


def test_a_path_that_is_asked_for_again_has_parameters_of_its_own() -> None:
    first, second = PATHS.find(scope_of("/runs/again")), PATHS.find(scope_of("/runs/again"))
    assert first is not None
    assert second is not None
    assert first == second
    first[1]["run_id"] = "changed"
    assert found("/runs/again") == ("/runs/{run_id}", {"run_id": "again"})


def test_no_more_paths_are_kept_than_a_bounded_number() -> None:
    paths = PathRouter(ROUTES, Nothing())
    for number in range(3_000):
        assert paths.find(scope_of(f"/runs/{number}")) is not None
    assert paths.find(scope_of(f"/runs/{'x' * 1_000}")) is not None
    assert len(paths._walked) <= 1_024
    assert all(len(path) <= 200 for path in paths._walked)
