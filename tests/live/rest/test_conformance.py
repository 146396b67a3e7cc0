"""The OpenAPI document is exact: whatever is sent, the live server answers as it says."""

from __future__ import annotations

from pathlib import Path

from schemathesis.specs.openapi.definitions import OPENAPI_31_VALIDATOR

from tests.live.rest.conformance import SETTINGS, check_conformance
from tests.live.rest.seeds import seed
from tests.live.rest.servers import LiveServer, serving
from tests.thorough import is_tried


def test_every_answer_is_as_the_document_says_and_nothing_makes_the_server_fail(tmp_path: Path) -> None:
    folder = tmp_path / "server"
    folder.mkdir()
    with serving(folder, **SETTINGS) as server:
        seeds = seed(server.call)
        # The same calls every time, at the edges of every schema. `scripts/fuzz-rest` makes random ones, and many.
        fitting = ["--phases=examples,coverage", "--mode=positive", *_chosen(server, 2)]
        # One place refuses what does not fit, by the schema of each operation.
        unfit = ["--phases=examples,coverage", "--mode=negative", *_chosen(server, 8)]
        for options, cases_min in ((fitting, 2_000), (unfit, 500)):
            report = check_conformance(server, seeds, tmp_path, *options, examples=1)
            assert report.failures == [], report.output
            assert (report.exit_code, report.untested) == (0, 0), report.output
            assert report.cases > cases_min
        assert server.call("GET", "health")["ready"] is True
        metrics = server.call("GET", "metrics")["metrics"]
        failed = {name: count for name, count in metrics.items() if "http_requests" in name and 'status="5' in name}
        assert failed == {}


def _chosen(server: LiveServer, one_in: int) -> list[str]:
    """Return options that choose a part of the operations; `scripts/fuzz-rest` tries all."""
    document = server.request("GET", "/openapi.json", key="").json()
    methods = ("get", "put", "post", "patch", "delete")
    names = [
        f"{method.upper()} {path}" for path, item in document["paths"].items() for method in item if method in methods
    ]
    return [f"--include-name={name}" for name in names if is_tried(name, one_in)]


def test_the_document_is_openapi_3_1(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        document = server.request("GET", "/openapi.json", key="").json()
    assert [str(error) for error in OPENAPI_31_VALIDATOR.iter_errors(document)] == []
