"""A secret is sent only to the hosts that the operator bound it to, and an agent's document sends no unbound one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.app.executors.configured import open_executors
from penstock.app.gate import open_gate
from penstock.app.penstock import Penstock
from penstock.app.settings.model import HttpSettings, Settings
from penstock.app.settings.named import ApiSettings
from penstock.runtime.executors.http.executor import HttpExecutor
from penstock.runtime.secrets import BoundSecrets
from tests.scenarios.office import Office, staff
from tests.unit.runtime.executors.web_server import Answer, Seen, WebServer, serving
from tests.waiting import SECONDS_MAX

SECRET = "s3cr3t-t0ken"


def answer(request: Seen) -> Answer:
    if request.target.startswith("/away"):
        port = request.headers["host"].rpartition(":")[2]
        return Answer(status=302, headers={"location": f"http://localhost:{port}/caught"})
    return Answer(body=b"{}", headers={"content-type": "application/json"})


def sending(name: str, url: str, **more: Any) -> dict[str, Any]:
    return {
        "penstock": "v1",
        "name": name,
        "secrets": ["KEY"],
        "nodes": [
            {"id": "ask", "type": "http", "url": url, "headers": {"accept": "${secret:KEY}"}, **more},
            {"id": "done", "type": "end"},
        ],
    }


def in_shop(
    path: Path, hosts: dict[str, tuple[str, ...]], body: Callable[[Office, WebServer], Awaitable[None]]
) -> None:
    async def test() -> None:
        async with serving(answer) as server:
            http = HttpExecutor(allow_private=True)
            secrets = BoundSecrets({"KEY": SECRET}.get, hosts)
            try:
                async with (
                    Penstock.open(path / "penstock.db", executors={"http": http}, secrets=secrets) as penstock,
                    open_gate(penstock) as gate,
                ):
                    office = Office(gate, penstock)
                    await staff(office)
                    await body(office, server)
            finally:
                await http.close()

    asyncio.run(asyncio.wait_for(test(), SECONDS_MAX))


async def run(office: Office, name: str) -> dict[str, Any]:
    done: dict[str, Any] = await office.call(office.owner, "workflow.execute", workflow_id=name, sync=True)
    return done


async def accepted(office: Office, operation: str, **arguments: Any) -> None:
    held = await office.call("robot", operation, **arguments)
    made = await office.call("ada", "draft.approve", draft_id=held["held"]["draft_id"])
    assert made["status"] == "executed", made


def test_a_bound_secret_goes_to_its_hosts_and_nowhere_else(tmp_path: Path) -> None:
    async def test(office: Office, server: WebServer) -> None:
        bound, other = server.url("/x"), server.url("/x").replace("127.0.0.1", "localhost")
        away = sending("away", server.url("/away"), follow_redirects=True)
        for document in (sending("bound", bound), sending("other", other), away):
            await office.call(office.owner, "workflow.create", document=document)
        assert (await run(office, "bound"))["status"] == "completed"
        for name in ("other", "away"):
            failed = await run(office, name)
            assert failed["error"]["code"] == "SECRET_NOT_FOR_HOST", failed
            assert SECRET not in str(failed)
        assert [seen.target for seen in server.seen] == ["/x", "/away"]

    in_shop(tmp_path, {"KEY": ("127.0.0.1",)}, test)


def test_a_document_of_an_agent_sends_no_secret_that_is_not_bound(tmp_path: Path) -> None:
    async def test(office: Office, server: WebServer) -> None:
        document = sending("theirs", server.url("/x"))
        await accepted(office, "workflow.create", document=document)
        tool = {"kind": "http", "secrets": ["KEY"], "http": {"url": server.url("/x")}}
        tool["http"] |= {"headers": {"accept": "${secret:KEY}"}}  # type: ignore[operator]  # a dict
        await accepted(office, "tool.create", id="leak", **tool)
        assert (await run(office, "theirs"))["error"]["code"] == "SECRET_NOT_BOUND"
        called = await office.call(office.owner, "tool.execute", tool_id="leak", arguments={})
        assert called["error"]["code"] == "SECRET_NOT_BOUND"
        assert not server.seen
        # A person who stores the same version answers for it.
        await office.call(office.owner, "workflow.update", workflow_id="theirs", document=document)
        assert (await run(office, "theirs"))["status"] == "completed"

    in_shop(tmp_path, {}, test)


def test_a_document_of_an_agent_sends_a_bound_secret_to_its_host(tmp_path: Path) -> None:
    async def test(office: Office, server: WebServer) -> None:
        await accepted(office, "workflow.create", document=sending("theirs", server.url("/x")))
        assert (await run(office, "theirs"))["status"] == "completed"

    in_shop(tmp_path, {"KEY": ("127.0.0.1",)}, test)


def test_the_secret_of_an_api_goes_to_its_hosts_wherever_the_document_says_that_the_api_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_SECRET_KEY", SECRET)
    nodes = [{"id": "ask", "type": "tool_call", "server": "shop", "tool": "look", "arguments": {}}]
    asks = {"penstock": "v1", "name": "asks", "nodes": [*nodes, {"id": "done", "type": "end"}]}

    async def test() -> None:
        async with serving(answer) as server:
            bound, other = server.url("/v1"), server.url("/v1").replace("127.0.0.1", "localhost")
            for number, (address, code) in enumerate(((bound, None), (other, "SECRET_NOT_FOR_HOST"))):
                paths = {"/x": {"get": {"operationId": "look"}}}
                described = {"openapi": "3.1.0", "info": {}, "servers": [{"url": address}], "paths": paths}
                (tmp_path / "shop.json").write_text(json.dumps(described), encoding="utf-8")
                settings = Settings(
                    apis={
                        "shop": ApiSettings(document=str(tmp_path / "shop.json"), headers={"x-key": "${secret:KEY}"})
                    },
                    http=HttpSettings(allow_private=True),
                    secret_hosts={"KEY": ("127.0.0.1",)},
                )
                async with (
                    open_executors(settings) as tools,
                    Penstock.open(
                        tmp_path / f"{number}.db",
                        executors=tools.executors,
                        upstream=tools.upstream,
                        secrets=tools.secrets,
                    ) as penstock,
                    open_gate(penstock) as gate,
                ):
                    office = Office(gate, penstock)
                    await office.call(office.owner, "workflow.create", document=asks)
                    done = await run(office, "asks")
                    assert (done["error"] or {}).get("code") == code, done
                    assert SECRET not in str(done)
            assert [(seen.target, seen.headers["x-key"]) for seen in server.seen] == [("/v1/x", SECRET)]

    asyncio.run(asyncio.wait_for(test(), SECONDS_MAX))
