"""The OpenAPI document is exact: whatever is sent, the live server answers as it says."""

from __future__ import annotations

from pathlib import Path

from schemathesis.specs.openapi.definitions import OPENAPI_31_VALIDATOR

from tests.live.rest.conformance import SETTINGS, check_conformance
from tests.live.rest.seeds import seed
from tests.live.rest.servers import serving


def test_every_answer_is_as_the_document_says_and_nothing_makes_the_server_fail(tmp_path: Path) -> None:
    folder = tmp_path / "server"
    folder.mkdir()
    with serving(folder, **SETTINGS) as server:
        seeds = seed(server.call)
        # The same calls every time, at the edges of every schema. `scripts/fuzz-rest` makes random ones, and many.
        report = check_conformance(server, seeds, tmp_path, "--phases=examples,coverage", examples=1)
        assert report.failures == [], report.output
        assert (report.exit_code, report.untested) == (0, 0), report.output
        assert report.cases > 4_000
        assert server.call("GET", "health")["ready"] is True
        metrics = server.call("GET", "metrics")["metrics"]
        failed = {name: count for name, count in metrics.items() if "http_requests" in name and 'status="5' in name}
        assert failed == {}


def test_the_document_is_openapi_3_1(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        document = server.request("GET", "/openapi.json", key="").json()
    assert [str(error) for error in OPENAPI_31_VALIDATOR.iter_errors(document)] == []
