"""`penstock tool upstream sign-in` on a file: a real authorization server, and a person who follows the address."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest
from click.testing import CliRunner

from penstock.cli.main import app
from tests.fixtures.oauth_server import OAuthWorld, serving_oauth
from tests.waiting import SECONDS_MAX


@pytest.fixture
def world() -> Iterator[OAuthWorld]:
    found, ready, done = OAuthWorld(), threading.Event(), threading.Event()

    async def serve() -> None:
        async with serving_oauth(found):
            ready.set()
            await asyncio.to_thread(done.wait)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert ready.wait(SECONDS_MAX)
    yield found
    done.set()
    thread.join(SECONDS_MAX)


@pytest.fixture
def project(tmp_path: Path, world: OAuthWorld, monkeypatch: pytest.MonkeyPatch) -> Path:
    settings = {
        "storage": {"path": str(tmp_path / "store.db")},
        "mcpServers": {"shop": {"url": world.url, "auth": {"type": "oauth"}}},
    }
    (tmp_path / "penstock.yaml").write_text(json.dumps(settings), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def come_back(address: str) -> None:
    """Be the person: first something else on the machine knocks, then the answer comes."""
    callback = f"http://127.0.0.1:{urlsplit(address).query.partition('127.0.0.1%3A')[2].partition('%2F')[0]}"

    def follow() -> None:
        assert httpx2.get(f"{callback}/favicon.ico").status_code == 404
        assert httpx2.get(f"{callback}/callback?state=forged&code=planted").status_code == 404
        location = httpx2.get(address).headers["location"]
        assert httpx2.get(location).status_code == 200

    threading.Thread(target=follow).start()


def test_a_person_signs_in_and_out(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webbrowser.open", come_back)
    shown = CliRunner().invoke(app, ["tool", "upstream", "sign-in", "shop", "--json"])
    assert shown.exit_code == 0, shown.output
    assert "sign in at  http://127.0.0.1:" in shown.stderr
    assert json.loads(shown.stdout)["status"] == "signed_in"
    listed = CliRunner().invoke(app, ["tool", "upstream", "list", "--json"])
    assert json.loads(listed.stdout)["items"][0]["sign_in"]["status"] == "signed_in"
    assert "planted" not in shown.output + listed.output
    assert CliRunner().invoke(app, ["tool", "upstream", "sign-out", "shop"]).exit_code == 0


def test_nobody_is_waited_for_forever(project: Path) -> None:
    shown = CliRunner().invoke(
        app, ["tool", "upstream", "sign-in", "shop", "--no-browser", "--timeout", "0.1", "--json"]
    )
    assert shown.exit_code != 0
    assert "TIMEOUT" in shown.output


def test_a_server_that_is_not_configured_is_not_found(project: Path) -> None:
    shown = CliRunner().invoke(app, ["tool", "upstream", "sign-in", "other", "--no-browser", "--json"])
    assert shown.exit_code != 0
    assert "UPSTREAM_NOT_FOUND" in shown.output
