"""Lists say who wrote what is in them, what is only proposed, and which held calls would store something more."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from penstock.app.penstock import Penstock
from penstock.app.serving.server import ServerOptions, open_application
from penstock.operations.gate.context import HoldChoices
from tests.scenarios.authored import GRAPH, LATE, SCHEMA, query_source
from tests.scenarios.office import Office, in_office, open_office, staff
from tests.unit.rest.conftest import Client, opened
from tests.waiting import SECONDS_MAX

PLAIN = {"penstock": "v1", "name": "plain", "nodes": [{"id": "done", "type": "end"}]}
FORBID = '@id("p") forbid (principal, action == Action::"backup.create", resource);'
# What stores it, what lists it, and the name that is shown.
KINDS: dict[str, tuple[str, dict[str, Any], str, dict[str, Any], str | None]] = {
    "workflow": ("workflow.create", {"document": {**PLAIN, "name": "mine"}}, "workflow.list", {}, "mine"),
    "tool": ("tool.create", {"id": "mine", "kind": "step", "name": "shout"}, "tool.list", {}, "mine"),
    "model": (
        "model.create",
        {"id": "mine", "provider": "mock", "model": "m", "replies": {"*": "fine"}},
        "model.list",
        {},
        "mine",
    ),
    "agent": ("agent.create", {"id": "mine", "model": "fast"}, "agent.list", {}, "mine"),
    "schema": ("schema.create", {"id": "mine", "schema": {"type": "object"}}, "schema.list", {}, "mine"),
    "schedule": (
        "schedule.create",
        {"schedule_id": "mine", "workflow_id": "plain", "cron": LATE},
        "schedule.list",
        {},
        "plain",
    ),
    "webhook": ("webhook.create", {"url": "https://example.com/events"}, "webhook.list", {}, None),
    "query": (
        "graph.queries_put",
        {"graph_id": GRAPH, "name": "mine", "source": query_source("mine")},
        "graph.queries_list",
        {"graph_id": GRAPH},
        GRAPH,
    ),
    "policy": ("policy.put", {"policy_id": "mine", "text": FORBID}, "policy.list", {}, "mine"),
}


async def prepare(office: Office) -> None:
    await office.hire("boss", "person", "*")
    await office.call("boss", "graph.create", id=GRAPH, schema=SCHEMA)
    await office.call("boss", "workflow.create", document=PLAIN)


async def found_in(office: Office, who: Any, listing: str, given: dict[str, Any]) -> tuple[list[Any], list[Any]]:
    """The items and the proposals of a list."""
    page = await office.call(who, listing, **given)
    return page["queries"] if "queries" in page else page["items"], page["proposals"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_list_shows_what_is_proposed_with_its_draft_and_then_who_accepted_it(tmp_path: Path, kind: str) -> None:
    create, body, listing, given, name = KINDS[kind]

    async def test(office: Office) -> None:
        await prepare(office)
        items, proposals = await found_in(office, "boss", listing, given)
        assert proposals == []
        held = await office.call("robot", create, **body)
        draft_id = held["held"]["draft_id"]
        now, (proposal,) = await found_in(office, "boss", listing, given)
        assert len(now) == len(items)
        assert proposal["draft_id"] == draft_id
        assert (proposal["operation"], proposal["name"]) == (create, name)
        assert proposal["proposed_by"] == office.people["robot"].id
        assert proposal["look"] == f"/drafts/{draft_id}"
        assert proposal["proposed_at"] is not None
        await office.call("ada", "draft.approve", draft_id=draft_id)
        after, proposals = await found_in(office, "boss", listing, given)
        assert proposals == []
        (made,) = [item for item in after if item not in items]
        author = made["author"]
        assert (author["principal"], author["kind"]) == (office.people["robot"].id, "agent")
        assert (author["status"], author["draft_id"]) == ("accepted", draft_id)
        assert author["accepted_by"] == [office.people["ada"].id]
        assert author["look"] == f"/drafts/{draft_id}"

    in_office(tmp_path, test)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "policy"])
def test_a_list_says_that_what_nobody_accepted_is_proposed(tmp_path: Path, kind: str) -> None:
    create, body, listing, given, _ = KINDS[kind]

    async def test() -> None:
        async with open_office(tmp_path, HoldChoices(preset="open")) as office:
            await staff(office)
            await prepare(office)
            items, _ = await found_in(office, "boss", listing, given)
            await office.call("robot", create, **body)
            robot, boss = office.people["robot"], office.people["boss"]
        async with open_office(tmp_path) as office:
            after, _ = await found_in(office, boss, listing, given)
            (made,) = [item for item in after if item not in items]
            assert (made["author"]["principal"], made["author"]["status"]) == (robot.id, "proposed")

    asyncio.run(asyncio.wait_for(test(), SECONDS_MAX))


def test_proposals_are_shown_to_those_who_may_see_the_held_call(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        await prepare(office)
        blind = await office.hire("blind", "person", "workflow:*")
        other = await office.hire("other", "agent", "*")
        await office.call("robot", "workflow.create", document={**PLAIN, "name": "mine"})
        for who, seen in ((blind, 0), (other, 0), ("robot", 1), ("boss", 1)):
            assert len((await found_in(office, who, "workflow.list", {}))[1]) == seen, who
        # Only the first page has them, and only those of its prefix.
        assert len((await found_in(office, "boss", "workflow.list", {"prefix": "mi"}))[1]) == 1
        assert len((await found_in(office, "boss", "workflow.list", {"prefix": "x"}))[1]) == 0

    in_office(tmp_path, test)


def test_every_version_says_who_wrote_it(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        await prepare(office)
        changed = {**PLAIN, "title": "Another"}
        held = await office.call("robot", "workflow.update", workflow_id="plain", document=changed)
        await office.call("ada", "draft.approve", draft_id=held["held"]["draft_id"])
        page = await office.call("boss", "workflow.versions", workflow_id="plain")
        assert [item["author"]["status"] for item in page["items"]] == ["accepted", "trusted"]
        view = await office.call("boss", "workflow.get", workflow_id="plain")
        assert view["author"]["draft_id"] == held["held"]["draft_id"]

    in_office(tmp_path, test)


async def cookie_of(client: Client) -> str:
    """Sign the owner in to the console."""
    form = f"key={client.key}".encode()
    headers = {"content-type": "application/x-www-form-urlencoded", "host": "127.0.0.1", "origin": "http://127.0.0.1"}
    answer = await client("POST", "/console/sign-in", form, headers=headers, key="")
    return answer.headers["set-cookie"].partition(";")[0]


PAGES = {
    "workflow": "/console/workflows",
    "agent": "/console/agents",
    "schedule": "/console/schedules",
    "webhook": "/console/webhooks",
    "query": f"/console/graphs/{GRAPH}",
    "policy": "/console/policies",
}


def test_the_console_shows_what_is_proposed_with_a_link_to_the_held_call(tmp_path: Path) -> None:
    async def test() -> None:
        async with opened(tmp_path, ServerOptions()) as client:
            office = Office(client.gate, None)  # type: ignore[arg-type]  # only its gate is called
            await staff(office)
            await prepare(office)
            cookie = await cookie_of(client)

            async def shown(path: str) -> str:
                answer = await client("GET", path, headers={"cookie": cookie, "host": "127.0.0.1"}, key="")
                assert answer.status == 200, (path, answer)
                return answer.body.decode()

            for kind, path in PAGES.items():
                create, body, *_ = KINDS[kind]
                assert "Proposed" not in await shown(path)
                held = (await office.call("robot", create, **body))["held"]["draft_id"]
                text = await shown(path)
                assert "Proposed" in text, path
                assert f'href="/console/approvals/{held}"' in text, path
                assert office.people["robot"].id in text
                await office.call("ada", "draft.approve", draft_id=held)
                assert "accepted" in await shown(path), path
            changed = {**PLAIN, "title": "Another"}
            held = (await office.call("robot", "workflow.update", workflow_id="plain", document=changed))["held"]
            assert f'href="/console/approvals/{held["draft_id"]}"' in await shown("/console/workflows/plain")

    asyncio.run(asyncio.wait_for(test(), SECONDS_MAX))


def test_the_console_says_that_what_nobody_accepted_has_no_effect(tmp_path: Path) -> None:
    async def test() -> None:
        async with open_office(tmp_path, HoldChoices(preset="open")) as office:
            await staff(office)
            await office.call("robot", "workflow.create", document=PLAIN)
            await office.call("robot", "agent.create", id="mine", model="fast")
        async with (
            Penstock.open(tmp_path / "penstock.db") as penstock,
            open_application(penstock, ServerOptions()) as (app, gate),
        ):
            office = Office(gate, penstock)
            made = await office.call(office.owner, "key.create", name="boss", kind="person", scopes=["*"])
            client = Client(app, gate, made["secret"])
            cookie = await cookie_of(client)
            for path in (
                "/console/workflows",
                "/console/workflows/plain",
                "/console/workflows/plain/versions",
                "/console/agents",
                "/console/agents/mine",
            ):
                answer = await client("GET", path, headers={"cookie": cookie, "host": "127.0.0.1"}, key="")
                assert "it takes effect once a person accepts it" in answer.body.decode(), path

    asyncio.run(asyncio.wait_for(test(), SECONDS_MAX))
