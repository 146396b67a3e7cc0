"""Secrets that callers and operators put anywhere appear nowhere: logs, audit, errors, metrics, histories, the file.

A real server gets a recognisable secret in every place that takes one. Then everything that can be read from outside,
and every byte that the server wrote, is searched for them. Keys and secrets of webhooks are shown once, in the answer
to the call that makes them; that answer is the only place.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.governed import oauth_world
from tests.live.rest.servers import LiveServer, serving
from tests.scenarios.planting import (
    Planting,
    key_server,
    plant_input,
    plant_keys,
    plant_link,
    plant_requests,
    plant_runs,
    plant_server_secrets,
    plant_sign_in,
    plant_tokens,
    settings,
)


def everything(plants: Planting) -> dict[str, bytes]:
    """Everything that can be read of the server while it runs."""
    server = plants.server
    found: dict[str, bytes] = {}
    for path in (
        "/metrics",
        "/openapi.json",
        "/api/v0/metrics",
        "/api/v0/health",
        "/api/v0/audit?limit=500",
        "/api/v0/audit?limit=500&strangers=true",
        "/api/v0/audit/export",
        "/api/v0/keys",
        "/api/v0/webhooks",
        "/api/v0/executions",
        "/api/v0/workflows",
        "/api/v0/upstreams",
        "/api/v0/drafts",
        "/api/v0/schedules",
        "/api/v0/audit/export?format=cloudevents",
        "/api/v0/audit/key",
        "/api/v0/audit/checkpoints",
        "/api/v0/tokens/revocations",
        "/api/v0/operations",
        "/api/v0/triggers",
    ):
        answer = server.request("GET", path)
        assert answer.status == 200, (path, answer)
        found[path] = answer.body
    for run in server.call("GET", "executions?limit=100")["items"]:
        name = run["execution_id"]
        for view in ("", "/history?limit=500", *(("/stream",) if run["status"] == "completed" else ())):
            found[f"executions/{name}{view}"] = server.request("GET", f"executions/{name}{view}").body
    found["tools"] = json.dumps(plants.mcp("tools/list")).encode()
    found["resources"] = json.dumps(plants.mcp("resources/list")).encode()
    return found


@pytest.fixture(scope="module")
def plants(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Planting]:
    folder = tmp_path_factory.mktemp("planted")
    plants = Planting(LiveServer(folder))
    with (
        oauth_world() as world,
        key_server() as issuer,
        serving(folder, "--verbose", **settings(folder, plants, issuer, world)) as server,
    ):
        plants.server = server
        plant_keys(plants)
        plant_runs(plants)
        plant_requests(plants)
        plant_tokens(plants, issuer)
        plant_sign_in(plants, world)
        plant_input(plants)
        plant_link(plants)
        plant_server_secrets(plants, folder)
        plants.read = everything(plants)
        # While it runs, the newest pages are in the write-ahead log.
        plants.read |= files(plants, folder, "running")
        assert "running penstock.db-wal" in plants.read
        server.stop()
        # The log tells the owner's key once, when the server starts for the first time and has nobody else to tell.
        lines = [line for line in server.rest_of_log() if line.get("event") != "server_started"]
        plants.read["log"] = json.dumps(lines, ensure_ascii=False).encode()
        plants.read |= files(plants, folder, "stopped")
        yield plants


def files(plants: Planting, folder: Path, when: str) -> dict[str, bytes]:
    """Every byte that the server wrote, but for the files of its own secrets."""
    found = [file for file in folder.glob("penstock.db*") if file.is_file() and file.name not in plants.server_files]
    return {f"{when} {file.name}": file.read_bytes() for file in found}


def forms(secret: str) -> Iterator[bytes]:
    """A secret as it stands, and as texts write it that quote or encode it."""
    yield secret.encode()
    yield secret.replace("/", "\\/").encode()
    yield re.sub(r"[^A-Za-z0-9_.~-]", lambda found: f"%{ord(found[0]):02X}", secret).encode()
    yield base64.b64encode(secret.encode()).rstrip(b"=")[:-1]


def shown(secrets: dict[str, str], read: dict[str, bytes]) -> list[tuple[str, str]]:
    """Which secret appears where."""
    return [
        (name, where)
        for name, secret in secrets.items()
        for where, content in read.items()
        if any(form in content for form in forms(secret))
    ]


def test_the_search_finds_what_is_there(plants: Planting) -> None:
    assert {"stopped penstock.db", "running penstock.db-wal", "log"} <= plants.read.keys()
    assert len(plants.read["log"]) > 1_000
    assert b'"level": "debug"' in plants.read["log"].replace(b'"level":"', b'"level": "').lower()
    assert len(plants.secrets) > 50
    seen = b"x" + plants.secrets["answer"].encode() + b"y"
    assert shown({"answer": plants.secrets["answer"]}, {"somewhere": seen}) == [("answer", "somewhere")]
    # The names of what was planted are there, so that a search for them would find them.
    assert b"signs_in" in plants.read["stopped penstock.db"]
    assert b"STEP_TOKEN" in plants.read["/api/v0/workflows"] + plants.read["stopped penstock.db"]


@pytest.mark.parametrize("where", ["read", "answers"])
def test_no_secret_appears_anywhere(plants: Planting, where: str) -> None:
    if where == "read":
        assert shown(plants.secrets, plants.read) == []
        for secret in plants.raw_secrets.values():
            assert [place for place, content in plants.read.items() if secret in content] == []
    else:
        answers: dict[str, bytes] = {}
        for path, content in plants.answers:
            answers[path] = answers.get(path, b"") + content
        # Whoever asks for a path is told which one it was; nobody else is.
        secrets = {name: secret for name, secret in plants.secrets.items() if name != "hook-path"}
        assert shown(secrets, answers) == []


def test_a_handle_of_a_preflight_is_known_to_its_owner_and_the_file_alone(plants: Planting) -> None:
    elsewhere = {place: content for place, content in plants.read.items() if "penstock.db" not in place}
    answers = {path: content for path, content in plants.answers if "preflights" not in path}
    assert shown(dict(enumerate(plants.handles)), elsewhere | answers) == []  # type: ignore[arg-type]  # only shown
