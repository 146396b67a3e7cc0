"""Schemathesis against a live server: is the OpenAPI document exact, and does anything make the server fail?

    report = check_conformance(server, seeds, folder, examples=8)

Every operation is tried with data that fits its schema and with data that does not. A failure is a status of 500 or
more, a status, header, media type or body that is not described, data that fits and is refused as if it did not, and
data that does not fit and is accepted.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.live.rest.seeds import Seeds
from tests.live.rest.servers import LiveServer

__all__ = ["SETTINGS", "Report", "check_conformance"]

# A fuzzer calls more often than any client, and waits for nobody.
SETTINGS = {
    "PENSTOCK_LIMITS_READ_PER_MINUTE": "10000000",
    "PENSTOCK_LIMITS_WRITE_PER_MINUTE": "10000000",
    "PENSTOCK_LIMITS_ADMIN_PER_MINUTE": "10000000",
    "PENSTOCK_LIMITS_UNAUTHENTICATED_PER_MINUTE": "10000000",
    "PENSTOCK_LIMITS_FAILED_LOGINS_PER_MINUTE": "10000000",
    "PENSTOCK_SERVER_SYNC_WAIT_SECONDS": "0.1",
    "PENSTOCK_SERVER_SYNC_WAIT_MAX_SECONDS": "0.1",
}
# What a call may be answered with although it fits its schema: what it names is not there, or what it says makes no
# sense (a document with mistakes, a cron expression that is none). The codes of these are described.
_MAKES_NO_SENSE = ["2xx", "304", "404", "409", "412", "422"]
# What a call may be answered with that does not fit its schema; a text may be too long for a body as a whole.
_DOES_NOT_FIT = ["400", "401", "403", "404", "405", "406", "409", "413", "415", "422", "428", "429"]
# Whoever owns everything is refused only this: a draft is proposed again by whoever proposed it first, and a graph
# takes queries of callers only if it says so.
_NOT_THE_OWNERS = (
    "POST /drafts/{draft_id}/propose",
    "POST /graphs/{graph_id}/mutate",
    "POST /graphs/{graph_id}/query",
)
# Goes on for as long as somebody listens, with events only while runs move: the tool would wait until its time is up.
_ENDLESS = "GET /changes"


@dataclass(frozen=True, slots=True)
class Report:
    """What a run showed."""

    exit_code: int
    cases: int
    failures: list[dict[str, Any]]
    untested: int
    seconds: float
    output: str


def _configuration(server: LiveServer, seeds: Seeds, key: str | None) -> str:
    lines = [
        "continue-on-failure = true",
        "workers = 1",  # CPython 3.11 counts wrongly when two threads parse source at once, which the tool does
        "max-stream-events = 3",
        "request-timeout = 240",
        "[auth.openapi.bearer]",
        f'bearer = "{server.key if key is None else key}"',
        "[checks.positive_data_acceptance]",
        f"expected-statuses = {json.dumps(_MAKES_NO_SENSE)}",
        "[checks.negative_data_rejection]",
        f"expected-statuses = {json.dumps(_DOES_NOT_FIT)}",
        "[generation]",
        'database = ":memory:"',
        "[parameters]",
        *(f'{name} = {{dictionary = "{name}", probability = 0.7}}' for name in seeds),
        *(
            f'[[operations]]\ninclude-name = "{name}"\n'
            f"checks.positive_data_acceptance.expected-statuses = {json.dumps([*_MAKES_NO_SENSE, '403'])}"
            for name in _NOT_THE_OWNERS
        ),
        *(f"[dictionaries.{name}]\nvalues = {json.dumps(values)}" for name, values in seeds.items()),
    ]
    return "\n".join(lines) + "\n"


def check_conformance(
    server: LiveServer, seeds: Seeds, folder: Path, *options: str, examples: int, stranger: str | None = None
) -> Report:
    """Try every operation; `examples` is how many random calls each gets in each phase. `options` are the tool's.

    `stranger` is a key that is not valid: then all that counts is that the server does not fail.
    """
    chosen = folder / "schemathesis.toml"
    chosen.write_text(_configuration(server, seeds, stranger), encoding="utf-8")
    written = folder / "report.json"
    command = [
        str(Path(sys.executable).parent / "schemathesis"),
        "--config-file",
        str(chosen),
        "run",
        f"{server.url}/openapi.json",
        f"--max-examples={examples}",
        f"--report-json-path={written}",
        f"--exclude-name={_ENDLESS}",
        "--no-color",
        "--warnings=off",
        *options,
    ]
    if stranger is not None:
        command.append("--checks=not_a_server_error")
    ended = subprocess.run(
        command, cwd=folder, env={**os.environ, "COLUMNS": "120"}, capture_output=True, text=True, check=False
    )
    told = json.loads(written.read_text(encoding="utf-8")) if written.exists() else {}
    operations = told.get("operations", {"selected": 1, "tested": 0})
    return Report(
        exit_code=ended.returncode,
        cases=told.get("test_cases", {}).get("generated", 0),
        failures=[*told.get("failures", []), *told.get("errors", [])],
        untested=operations["selected"] - operations["tested"],
        seconds=told.get("running_time", 0.0),
        output=ended.stdout + ended.stderr,
    )
