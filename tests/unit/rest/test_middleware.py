"""The log of requests, and what happens when there is a bug."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.operations.conftest import change_services
from tests.unit.rest.conftest import Client

Run = Callable[..., None]


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[str, dict[str, Any]]]:
    """Level and fields of each line about a request."""
    return [(item.levelname, item.fields) for item in caplog.records if item.name == "penstock.access"]  # type: ignore[attr-defined]


def test_a_request_has_one_line_with_who_what_and_how_long(with_client: Run, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "penstock.access")

    async def test(client: Client) -> None:
        caplog.clear()
        answer = await client("POST", "workflows/hello/executions", {"input": {"card": "card-of-ada"}})
        await client("GET", "workflows/secret-name?hash=hash-of-ada")
        (level, fields), (_, refused) = lines(caplog)
        assert level == "INFO"
        assert fields["request_id"] == answer.headers["x-request-id"]
        assert fields["principal"].startswith("key:")
        assert (fields["operation"], fields["status"], fields["method"]) == ("workflow.execute", 202, "POST")
        assert fields["route"] == "/api/v0/workflows/{workflow_id}/executions"
        assert fields["ms"] >= 0
        assert (refused["status"], refused["code"]) == (404, "WORKFLOW_NOT_FOUND")
        written = str(lines(caplog))
        assert client.key not in written
        for hidden in ("card-of-ada", "secret-name", "hash-of-ada"):
            assert hidden not in written

    with_client(test)


def test_reads_that_go_well_are_for_debugging(with_client: Run, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "penstock.access")

    async def test(client: Client) -> None:
        caplog.clear()
        await client("GET", "info")
        await client("GET", "/healthz")
        assert lines(caplog) == []
        await client("GET", "info", key="pen_wrong")
        [(level, fields)] = lines(caplog)
        assert (level, fields["status"], fields["principal"]) == ("INFO", 401, "anonymous")

    with_client(test)


def test_a_bug_is_answered_with_nothing_but_its_request_id(with_client: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def test(client: Client) -> None:
        async def broken() -> dict[str, str]:
            raise RuntimeError("the password is 1234")

        change_services(client.gate, checks=broken)
        answer = await client("GET", "health")
        assert (answer.status, answer.json()["code"]) == (500, "INTERNAL_ERROR")
        assert b"1234" not in answer.body
        assert answer.json()["request_id"] in answer.json()["hint"]
        [(level, fields)] = [line for line in lines(caplog) if line[1]["status"] == 500]
        assert (level, fields["code"]) == ("WARNING", "INTERNAL_ERROR")

    with_client(test)
