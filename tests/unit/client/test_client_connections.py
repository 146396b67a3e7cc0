"""Retries, errors and streams of both kinds of client, against a transport that answers as the test says."""

import asyncio
import json
import logging
import pickle
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import httpx2
import pytest

from penstock.base.errors import Conflict, Denied, LimitExceeded, NotFound, PenstockError, Rejected, Unavailable
from penstock.client import (
    AsyncClient,
    CallFailed,
    CallLimited,
    CallNotFound,
    CallTimedOut,
    CallUnavailable,
    Client,
)
from penstock.client.options import ClientOptions
from penstock.client.retries import RetryPolicy
from penstock.client.transports import http_settings

SERVER = "http://127.0.0.1:5151"
INFO = {"name": "penstock", "version": "1", "tenant": "default", "principal": "key:x", "scopes": ["*"], "details": {}}


class Script(httpx2.BaseTransport, httpx2.AsyncBaseTransport):
    """Answers each request with the next of some answers, and remembers what was asked."""

    def __init__(self, *answers: httpx2.Response | Exception) -> None:
        self.answers = list(answers)
        self.requests: list[httpx2.Request] = []

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        return self.handle_request(request)


def problem(status: int, code: str, **headers: str) -> httpx2.Response:
    body = {"code": code, "detail": "no", "hint": "do", "request_id": "r1", "details": {"a": 1}, "status": status}
    return httpx2.Response(status, json=body, headers=headers)


def info() -> httpx2.Response:
    return httpx2.Response(200, json=INFO)


def call_waiting(script: Script, use: Callable[[Any], Any]) -> Any:
    with Client(SERVER, "pen_secret", transport=script) as client:
        return use(client)


def call_awaited(script: Script, use: Callable[[Any], Any]) -> Any:
    async def work() -> Any:
        async with AsyncClient(SERVER, "pen_secret", transport=script) as client:
            return await use(client)

    return asyncio.run(work())


either = pytest.mark.parametrize("call", [call_waiting, call_awaited], ids=["waiting", "awaited"])


@either
def test_a_typed_method_gives_a_typed_answer(call: Any) -> None:
    script = Script(info())
    answer = call(script, lambda client: client.system.info())
    assert (answer.name, answer.scopes) == ("penstock", ["*"])
    request = script.requests[0]
    assert (request.method, request.url.path) == ("GET", "/api/v0/info")
    assert request.headers["authorization"] == "Bearer pen_secret"


@either
@pytest.mark.parametrize(
    "trouble",
    [
        lambda: problem(503, "STORE_BUSY", **{"Retry-After": "0"}),
        lambda: problem(429, "RATE_LIMITED", **{"Retry-After": "0"}),
        lambda: problem(409, "IDEMPOTENCY_IN_FLIGHT", **{"Retry-After": "0"}),
        lambda: httpx2.ConnectError("refused"),
        lambda: httpx2.ReadError("reset"),
        lambda: httpx2.ReadTimeout("slow"),
    ],
    ids=["503", "429", "in_flight", "connect", "read", "timeout"],
)
def test_a_write_is_repeated_with_the_same_idempotency_key(
    call: Any, trouble: Callable[[], httpx2.Response | Exception]
) -> None:
    gone = httpx2.Response(200, json={"id": "w", "deleted": True})
    script = Script(trouble(), gone)
    assert call(script, lambda client: client.workflows.delete("w")).deleted
    first, second = (request.headers["idempotency-key"] for request in script.requests)
    assert first == second
    assert len(first) >= 16


@either
def test_a_key_of_the_caller_is_used_as_it_is(call: Any) -> None:
    script = Script(httpx2.Response(200, json={"id": "w", "deleted": True}))
    call(script, lambda client: client.workflows.delete("w", idempotency_key="mine"))
    assert script.requests[0].headers["idempotency-key"] == "mine"


@either
@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (401, "UNAUTHENTICATED", Denied),
        (403, "SCOPE_REQUIRED", Denied),
        (404, "WORKFLOW_NOT_FOUND", NotFound),
        (409, "WORKFLOW_EXISTS", Conflict),
        (412, "PRECONDITION_FAILED", Conflict),
        (413, "BODY_TOO_LARGE", LimitExceeded),
        (422, "INVALID_ARGUMENTS", Rejected),
        (501, "NOT_CONFIGURED", Unavailable),
        (500, "INTERNAL_ERROR", PenstockError),
    ],
)
def test_a_refusal_is_an_error_of_its_class_and_is_not_repeated(
    call: Any, status: int, code: str, kind: type[PenstockError]
) -> None:
    script = Script(problem(status, code))
    with pytest.raises(kind) as caught:
        call(script, lambda client: client.workflows.get("w"))
    error = caught.value
    assert isinstance(error, CallFailed)
    assert (error.code, error.status, error.request_id, error.hint) == (code, status, "r1", "do")
    assert error.details == {"a": 1}
    assert len(script.requests) == 1
    copied = pickle.loads(pickle.dumps(error))
    assert (copied.code, copied.request_id) == (code, "r1")


@either
def test_trouble_that_does_not_end_is_told_in_the_end(call: Any) -> None:
    script = Script(*(problem(503, "STORE_BUSY", **{"Retry-After": "0"}) for _ in range(5)))
    with pytest.raises(Unavailable, match="STORE_BUSY"):
        call(script, lambda client: client.system.info())
    assert len(script.requests) == 5


@either
def test_whoever_is_told_to_come_back_much_later_hears_of_it_at_once(call: Any) -> None:
    script = Script(problem(429, "RATE_LIMITED", **{"Retry-After": "3600"}))
    with pytest.raises(CallLimited) as caught:
        call(script, lambda client: client.system.info())
    assert caught.value.retry_after_seconds == 3600


@either
def test_an_answer_of_something_else_says_so(call: Any) -> None:
    script = Script(httpx2.Response(404, text="<html>no such page</html>", headers={"X-Request-ID": "p7"}))
    with pytest.raises(CallNotFound, match="no such page") as caught:
        call(script, lambda client: client.system.info())
    assert (caught.value.code, caught.value.request_id) == ("HTTP_ERROR", "p7")


@either
def test_a_redirect_is_not_followed_because_it_would_carry_the_key_away(call: Any) -> None:
    script = Script(httpx2.Response(302, headers={"Location": "http://elsewhere.example/"}))
    with pytest.raises(CallFailed, match="302"):
        call(script, lambda client: client.system.info())
    assert len(script.requests) == 1


def test_the_key_is_in_nothing_that_is_printed_or_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG), Client(SERVER, "pen_secret", transport=Script(info())) as client:
        client.system.info()
        shown = [repr(client), str(client), repr(client._options), caplog.text]
    assert [text for text in shown if "pen_secret" in text] == []
    with pytest.raises(CallFailed) as caught:
        call_waiting(Script(problem(401, "UNAUTHENTICATED")), lambda client: client.system.info())
    assert "pen_secret" not in str(caught.value) + repr(caught.value)


@either
def test_pages_are_asked_for_one_after_the_other(call: Any) -> None:
    def page(number: int, cursor: str | None) -> httpx2.Response:
        item = {"id": f"w{number}", "version": "1", "hash": "h", "created_at": "t"}
        item |= dict.fromkeys(("title", "description", "created_by"), "x")
        return httpx2.Response(200, json={"items": [item], "next_cursor": cursor})

    script = Script(page(1, "c1"), page(2, "c2"), page(3, None))

    def use(client: Any) -> Any:
        found = client.workflows.list_all(limit=1)
        return gathered(found) if hasattr(found, "__aiter__") else [item.id for item in found]

    assert call(script, use) == ["w1", "w2", "w3"]
    assert [request.url.params.get("cursor") for request in script.requests] == [None, "c1", "c2"]


async def gathered(found: AsyncIterator[Any]) -> list[Any]:
    return [item.id if hasattr(item, "id") and not hasattr(item, "event") else item async for item in found]


def sse(*events: tuple[str, int, str | None]) -> bytes:
    return b"".join(
        (f"id: {identity}\n" if identity else "").encode()
        + f"event: {name}\ndata: {json.dumps({'sequence': seq, 'status': name})}\n\n".encode()
        for name, seq, identity in events
    )


class Broken(httpx2.SyncByteStream, httpx2.AsyncByteStream):
    """A body that ends in an error."""

    def __init__(self, content: bytes) -> None:
        self.content = content

    def __iter__(self) -> Iterator[bytes]:
        yield self.content
        raise httpx2.ReadError("cut")

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self.content
        raise httpx2.ReadError("cut")


def names(client: Any) -> Any:
    found = client.executions.stream("e")
    if not hasattr(found, "__aiter__"):
        return [(event.event, event.data["sequence"]) for event in found]

    async def work() -> list[tuple[str, int]]:
        return [(event.event, event.data["sequence"]) async for event in found]

    return work()


@either
def test_a_stream_goes_on_where_it_was_cut_off(call: Any) -> None:
    retry = b"retry: 0\n\n"
    script = Script(
        httpx2.Response(200, stream=Broken(retry + sse(("status", 1, "1"), ("node", 2, None)))),
        httpx2.ConnectError("restarting"),
        problem(503, "STORE_BUSY", **{"Retry-After": "0"}),
        httpx2.Response(200, content=retry + sse(("node", 2, None), ("status", 2, "2"))),
        httpx2.Response(200, content=retry + sse(("complete", 3, "3"))),
    )
    assert call(script, names) == [("status", 1), ("node", 2), ("status", 2), ("complete", 3)]
    assert [request.headers.get("last-event-id") for request in script.requests] == [None, "1", "1", "1", "2"]


@either
@pytest.mark.parametrize("code", ["KEY_REVOKED", "EXECUTION_NOT_FOUND"])
def test_a_stream_that_the_server_closes_for_good_is_not_opened_again(call: Any, code: str) -> None:
    closed = f"event: closed\ndata: {json.dumps({'code': code, 'message': 'over'})}\n\n".encode()
    script = Script(httpx2.Response(200, content=sse(("status", 1, "1")) + closed))
    with pytest.raises(CallFailed, match=code):
        call(script, names)
    assert len(script.requests) == 1


@either
def test_waiting_ends_when_the_time_is_up(call: Any) -> None:
    script = Script(*(httpx2.ReadTimeout("silent") for _ in range(9)))
    with pytest.raises(CallTimedOut):
        call(script, lambda client: client.executions.wait_for_end("e", timeout_seconds=0.01))


def test_nothing_is_repeated_that_may_have_happened_without_a_key() -> None:
    rule = RetryPolicy(random=lambda: 1.0)
    lost = CallUnavailable("CONNECTION_FAILED", "lost")
    assert rule.delay_seconds(lost, 1, repeatable=False, sent=True) is None
    assert rule.delay_seconds(lost, 1, repeatable=False, sent=False) == 0.25
    assert rule.delay_seconds(lost, 1, repeatable=True) == 0.25
    assert rule.delay_seconds(lost, 3, repeatable=True) == 1.0
    assert rule.delay_seconds(lost, 5, repeatable=True) is None
    unreadable = CallFailed("ANSWER_UNREADABLE", "what is this?")
    assert rule.delay_seconds(unreadable, 1, repeatable=True) is None


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1:5151", "ftp://x", "http://", "https://user:word@host", "http://h/?a=1", "http://h/#a"],
)
def test_an_address_that_cannot_be_meant_is_refused(address: str) -> None:
    with pytest.raises(Rejected, match="SERVER_ADDRESS_INVALID"):
        ClientOptions.of(address)


def test_the_environment_fills_in_what_is_not_given() -> None:
    environment = {"PENSTOCK_SERVER": "https://penstock.example.com/", "PENSTOCK_API_KEY": "pen_env"}
    options = ClientOptions.of(environment=environment)
    assert (options.base_url, options.key) == ("https://penstock.example.com/api/v0", "pen_env")
    assert ClientOptions.of("http://h:1/base", "k", environment=environment).base_url == "http://h:1/base"
    assert ClientOptions.of(environment={}).server == "http://127.0.0.1:5151"


def test_certificates_are_verified_and_proxies_do_not_come_between_a_machine_and_itself() -> None:
    assert http_settings(ClientOptions.of("https://penstock.example.com"))["verify"] is True
    assert http_settings(ClientOptions.of("https://penstock.example.com"))["trust_env"] is True
    assert http_settings(ClientOptions.of("http://127.0.0.1:5151"))["trust_env"] is False
