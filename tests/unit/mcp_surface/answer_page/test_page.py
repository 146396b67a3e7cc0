"""The page that answers questions: who gets there, what it shows, and that an answer counts once."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.routing import Route

from penstock.mcp_surface.answer_page.page import AnswerPage
from penstock.mcp_surface.callers import ProtocolFault
from penstock.mcp_surface.questions.client_questions import ClientQuestion, Kind
from penstock.mcp_surface.questions.clients import ClientAnswer
from penstock.mcp_surface.questions.links import AnswerLinks
from penstock.mcp_surface.questions.signing import link_signer
from penstock.operations.gate.context import Credentials
from tests.unit.mcp_surface.assistants import Assistant, accept, assisted, exposed
from tests.unit.operations.conftest import Caller as GateCaller
from tests.waiting import SECONDS_MAX

SECRET: dict[str, Any] = {
    "type": "object",
    "required": ["token"],
    "properties": {"token": {"type": "string", "writeOnly": True, "minLength": 3}, "approved": {"type": "boolean"}},
}
NESTED = {"type": "object", "required": ["lines"], "properties": {"lines": {"type": "array", "items": {}}}}
BOTH: frozenset[Kind] = frozenset({"form", "url"})


def ask(name: str, schema: dict[str, Any], message: str = "What <is>\u202e it?") -> dict[str, Any]:
    question = {"id": "question", "type": "interrupt", "message": message, "answer": schema}
    return exposed(name, question, {"id": "done", "type": "end", "output": "${ .question }"})


WORKFLOWS = (
    ask("secret", SECRET),
    ask("nested", NESTED),
    ask("flat", {"type": "object", "properties": {"a": {"type": "string"}}}),
    ask("approval", {"type": "object", "required": ["approve"], "properties": {"approve": {"type": "boolean"}}}),
)


class Browser:
    """Opens pages of a gate."""

    def __init__(self, assistant: Assistant, headers: dict[str, str] | None = None) -> None:
        self.headers = headers or {}
        page = AnswerPage(assistant.caller.gate, assistant.options)
        app = Starlette(routes=[Route(f"{assistant.options.answer_path}/{{token}}", page)])
        self.http = httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://penstock.test")

    async def get(self, url: str) -> httpx2.Response:
        return await self.http.get(urlsplit(url).path)

    async def post(self, url: str, **fields: Any) -> httpx2.Response:
        body = urlencode(fields, doseq=True)
        kind = {"content-type": "application/x-www-form-urlencoded", **self.headers}
        return await self.http.post(urlsplit(url).path, content=body, headers=kind)


async def asked(assistant: Assistant, name: str, **client: Any) -> tuple[str, Any]:
    """The address of the page of the one question, and what it came with."""
    result = await assistant.call(name, kinds=BOTH, **client)
    [request] = result["inputRequests"].values()
    assert request["method"] == "elicitation/create"
    assert request["params"]["mode"] == "url"
    return request["params"]["url"], result


@pytest.mark.anyio
async def test_a_secret_is_asked_for_on_a_page_and_the_call_goes_on(tmp_path: Path) -> None:
    async with assisted(tmp_path, *WORKFLOWS) as assistant:
        url, result = await asked(assistant, "secret")
        browser = Browser(assistant)
        shown = await browser.get(url)
        assert shown.status_code == 200
        assert 'type="password"' in shown.text
        assert "What &lt;is&gt;[U+202E] it?" in shown.text
        assert "script" not in shown.text
        policy = shown.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; style-src 'sha256-")
        assert (shown.headers["cache-control"], shown.headers["referrer-policy"]) == ("no-store", "no-referrer")
        wrong = await browser.post(url, **{"field.token": "x"})
        assert (wrong.status_code, "does not fit" in wrong.text) == (422, True)
        assert 'id="field.token-wrong"' in wrong.text
        assert 'value="x"' not in wrong.text
        waiting = asyncio.ensure_future(
            assistant.call("secret", kinds=BOTH, state=result["requestState"], answers={"question": accept()})
        )
        done = await browser.post(url, **{"field.token": "s3cret", "field.approved": "true"})
        assert done.status_code == 200
        assert (await waiting)["structuredContent"]["output"] == {"token": "***", "approved": True}
        late = await browser.post(url, **{"field.token": "another"})
        assert (late.status_code, (await browser.get(url)).status_code) == (409, 409)
        # The state was not used up by the page: its holder still learns how it ended.
        again = await assistant.call("secret", kinds=BOTH, state=result["requestState"], answers={"question": accept()})
        assert again["structuredContent"]["status"] == "completed"
        assert len(await assistant.executions()) == 1


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"sec-fetch-site": "cross-site", "origin": "http://penstock.test"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"sec-fetch-site": "same-origin", "origin": "null"}, 200),
        ({"origin": "http://penstock.test"}, 200),
        ({}, 200),
    ],
)
async def test_an_answer_from_a_page_of_another_site_is_refused(
    tmp_path: Path, headers: dict[str, str], status: int
) -> None:
    async with assisted(tmp_path, *WORKFLOWS) as assistant:
        url, _ = await asked(assistant, "secret")
        answer = {"field.token": "s3cret", "field.approved": "true"}
        answered = await Browser(assistant, headers).post(url, **answer)
        assert answered.status_code == status, answered.text
        assert ("not sent by a page of this server" in answered.text) == (status == 403)


@pytest.mark.anyio
async def test_what_no_form_can_hold_is_json_and_a_decline_has_a_button_where_it_has_a_place(tmp_path: Path) -> None:
    async with assisted(tmp_path, *WORKFLOWS) as assistant:
        url, _ = await asked(assistant, "nested")
        browser = Browser(assistant)
        shown = await browser.get(url)
        assert "<textarea" in shown.text
        assert "Decline" not in shown.text
        assert (await browser.post(url, **{"field.lines": "[1,"})).status_code == 422
        assert (await browser.post(url, **{"field.lines": '[1, {"a": 2}]'})).status_code == 200
        [execution] = await assistant.executions()
        ended = await assistant.caller.call("execution.wait", execution_id=execution["execution_id"])
        assert ended["output"] == {"lines": [1, {"a": 2}]}


@pytest.mark.anyio
async def test_a_question_for_a_form_is_asked_with_a_form_unless_the_client_has_none(tmp_path: Path) -> None:
    async with assisted(tmp_path, *WORKFLOWS) as assistant:
        form = await assistant.call("flat", kinds=BOTH)
        assert form["inputRequests"]["question"]["params"]["mode"] == "form"
        page = await assistant.call("flat", kinds=frozenset({"url"}))
        assert page["inputRequests"]["question"]["params"]["mode"] == "url"
        text = await assistant.call("secret")
        assert text["resultType"] == "complete"
        assistant.address = None
        nowhere = await assistant.call("secret", kinds=BOTH)
        assert nowhere["resultType"] == "complete"


@pytest.mark.anyio
async def test_over_a_connection_the_call_waits_for_the_page(tmp_path: Path) -> None:
    told: list[str] = []
    async with assisted(tmp_path, *WORKFLOWS) as assistant:
        browser = Browser(assistant)

        async def agree(question: ClientQuestion) -> ClientAnswer:
            asyncio.get_running_loop().call_soon(opened.set_result, question.url)
            return accept()

        async def settled(question: ClientQuestion) -> None:
            told.append(question.url)

        opened: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        waiting = asyncio.ensure_future(assistant.call("secret", kinds=BOTH, ask=agree, settled=settled))
        url = await asyncio.wait_for(opened, SECONDS_MAX)
        assert (await browser.post(url, **{"field.token": "s3cret"})).status_code == 200
        assert (await waiting)["structuredContent"]["output"] == {"token": "***", "approved": False}
        assert told == [url]


@pytest.mark.anyio
async def test_a_task_is_answered_on_the_page(tmp_path: Path) -> None:
    async with assisted(tmp_path, *WORKFLOWS) as assistant:
        made = await assistant.call("secret", kinds=BOTH, tasks=True)
        first, second = [await assistant.task(made["taskId"], BOTH) for _ in range(2)]
        assert first["inputRequests"] == second["inputRequests"]
        url = first["inputRequests"]["question"]["params"]["url"]
        await assistant.update(made["taskId"], {"question": accept()}, BOTH)
        assert (await assistant.task(made["taskId"], BOTH))["status"] == "input_required"
        assert (await Browser(assistant).post(url, **{"field.token": "", "decline": "yes"})).status_code == 422
        assert (await Browser(assistant).post(url, **{"field.token": "s3cret"})).status_code == 200
        await assistant.caller.call("execution.wait", execution_id=made["taskId"])
        assert (await assistant.task(made["taskId"], BOTH))["status"] == "completed"


@pytest.mark.anyio
async def test_whatever_is_wrong_with_an_address_it_leads_nowhere(tmp_path: Path) -> None:
    async with assisted(tmp_path, *WORKFLOWS) as assistant:
        url, result = await asked(assistant, "secret")
        browser, services = Browser(assistant), assistant.caller.gate.services
        base, _, token = url.rpartition("/")
        link = AnswerLinks(services, "/answer").read(token)
        assert link is not None
        seal = link_signer(services.pepper)
        changed = type(link)
        fields = {name: getattr(link, name) for name in changed.__struct_fields__}
        wrong = [
            "x",
            token[:-4] + "AAAA",
            result["requestState"],
            seal.sign(changed(**{**fields, "until_ms": 1})),
            seal.sign(changed(**{**fields, "tenant": "other"})),
            seal.sign(changed(**{**fields, "key_id": "nobody"})),
            seal.sign(changed(**{**fields, "execution_id": "r_nothing"})),
            link_signer(b"another").sign(link),
        ]
        shown = [await browser.get(f"{base}/{one}") for one in wrong]
        sent = [await browser.post(f"{base}/{one}", **{"field.token": "s3cret"}) for one in wrong]
        assert {answer.status_code for answer in (*shown, *sent)} == {404}
        assert len({answer.text for answer in (*shown, *sent)}) == 1
        used = seal.sign(changed(**{**fields, "interrupt_id": "question:2"}))
        assert (await browser.get(f"{base}/{used}")).status_code == 409
        assert (await browser.http.post(urlsplit(url).path, json={"token": "s3cret"})).status_code == 415
        assert (await browser.http.delete(urlsplit(url).path)).status_code == 405
        owner = await assistant.caller.call("key.revoke", key_id=link.key_id)
        assert owner["revoked_at"]
        assert (await browser.get(url)).status_code == 404


@pytest.mark.anyio
async def test_a_key_that_may_not_answer_does_not_on_a_page_either(tmp_path: Path) -> None:
    async with assisted(tmp_path, *WORKFLOWS) as assistant:
        url, _ = await asked(assistant, "secret")
        services = assistant.caller.gate.services
        link = AnswerLinks(services, "/answer").read(url.rpartition("/")[2])
        assert link is not None
        watcher = (await (await assistant.other("execution:read")).who()).principal
        seal = link_signer(services.pepper)
        fields = {name: getattr(link, name) for name in type(link).__struct_fields__}
        theirs = seal.sign(type(link)(**{**fields, "key_id": watcher.key_id}))
        sent = await Browser(assistant).post(f"{url.rpartition('/')[0]}/{theirs}", **{"field.token": "s3cret"})
        assert sent.status_code == 403


@pytest.mark.anyio
async def test_a_token_of_an_address_is_no_state_of_a_call(tmp_path: Path) -> None:
    async with assisted(tmp_path, *WORKFLOWS) as assistant:
        url, _ = await asked(assistant, "secret")
        with pytest.raises(ProtocolFault):
            await assistant.call("secret", kinds=BOTH, state=url.rpartition("/")[2], answers={"question": accept()})


@pytest.mark.anyio
@pytest.mark.parametrize(("decision", "value"), [("approve", True), ("decline", False)])
async def test_an_approval_has_two_buttons_and_the_page_says_what_came_of_it(
    tmp_path: Path, decision: str, value: bool
) -> None:
    async with assisted(tmp_path, *WORKFLOWS) as assistant:
        result = await assistant.call("approval", kinds=frozenset({"url"}))
        url = result["inputRequests"]["question"]["params"]["url"]
        browser = Browser(assistant)
        shown = (await browser.get(url)).text
        assert ">Approve</button>" in shown
        assert ">Decline</button>" in shown
        assert "<input" not in shown
        unclear = await browser.post(url, decision="")
        assert (unclear.status_code, "Choose Approve or Decline" in unclear.text) == (422, True)
        told = await browser.post(url, decision=decision)
        assert told.status_code == 200
        assert f"You {decision}" in told.text
        assert "<strong>completed</strong>" in told.text
        [execution] = await assistant.executions()
        ended = await assistant.caller.call("execution.wait", execution_id=execution["execution_id"])
        assert ended["output"] == {"approve": value}


@pytest.mark.anyio
async def test_the_client_of_an_agent_gets_a_page_that_asks_for_a_key_and_an_agents_key_does_not_answer(
    tmp_path: Path,
) -> None:
    async with assisted(tmp_path, *WORKFLOWS) as owner:
        agent = replace(owner, caller=await owner.caller.new_caller("*", name="agent", kind="agent"))
        url, result = await asked(agent, "secret")
        assert urlsplit(url).path == owner.options.answer_path
        page = AnswerPage(owner.caller.gate, owner.options)
        routes = [Route(f"{owner.options.answer_path}{rest}", page) for rest in ("", "/{token}")]
        http = httpx2.AsyncClient(
            transport=httpx2.ASGITransport(app=Starlette(routes=routes)), base_url="http://penstock.test"
        )
        assert "Your key" in (await http.get(url)).text

        async def sign_in(caller: GateCaller) -> httpx2.Response:
            assert isinstance(caller.who, Credentials)
            form = {"content-type": "application/x-www-form-urlencoded"}
            return await http.post(url, content=urlencode({"key": caller.who.bearer or ""}), headers=form)

        refused = await sign_in(agent.caller)
        assert (refused.status_code, "location" in refused.headers) == (403, False)
        # A link for the agent's key, as an earlier release gave it out, does not answer either.
        who, [execution] = await agent.who(), await owner.executions()
        links = AnswerLinks(owner.caller.gate.services, owner.options.answer_path)
        old = links.link(who, execution["execution_id"], "question:1")
        assert old is not None
        browser = Browser(owner)
        assert (await browser.get(old)).status_code == 403
        assert (await browser.post(old, **{"field.token": "s3cret"})).status_code == 403
        let_in = await sign_in(owner.caller)
        assert let_in.status_code == 303
        token = let_in.headers["location"].rsplit("/", 1)[1]
        done = await browser.post(f"http://x{owner.options.answer_path}/{token}", **{"field.token": "s3cret"})
        assert done.status_code == 200
        assert result["inputRequests"]


@pytest.mark.anyio
async def test_somebody_who_comes_too_late_reads_who_decided_what_and_what_it_led_to(tmp_path: Path) -> None:
    async with assisted(tmp_path, *WORKFLOWS) as owner:
        result = await owner.call("approval", kinds=frozenset({"url"}))
        url = result["inputRequests"]["question"]["params"]["url"]
        other = await owner.caller.new_caller("execution:*", name="Ana Lima", kind="person")
        [execution] = await owner.executions()
        named = {"execution_id": execution["execution_id"]}
        await other.call("execution.answer", **named, answer={"approve": False})
        await owner.caller.call("execution.wait", **named)
        browser = Browser(owner)
        for late in (await browser.get(url), await browser.post(url, decision="approve")):
            assert late.status_code == 409
            assert "Ana Lima" in late.text
            assert "declined it" in late.text
            assert "You approved" not in late.text
            assert "<strong>completed</strong>" in late.text


@pytest.mark.anyio
async def test_a_vote_that_does_not_decide_is_not_told_as_a_decision(tmp_path: Path) -> None:
    schema = {"type": "object", "required": ["approve"], "properties": {"approve": {"type": "boolean"}}}
    workflow = ask("pair", schema)
    workflow["nodes"][0]["approvers"] = {"group": "leads", "count": 2}
    async with assisted(tmp_path, workflow) as owner:
        lead = replace(owner, caller=await owner.caller.new_caller("*", name="lead", kind="person"))
        result = await lead.call("pair", kinds=frozenset({"url"}))
        url = result["inputRequests"]["question"]["params"]["url"]
        told = await Browser(lead).post(url, decision="approve")
        assert told.status_code == 200
        assert "You approved it" in told.text
        assert "Others have to agree, too" in told.text
