"""How requests become calls and outcomes become answers."""

from __future__ import annotations

from collections.abc import Callable

from penstock.operations.gate.context import GateLimits
from tests.unit.rest.conftest import HELLO, WAITS, Client

Run = Callable[..., None]


def test_options_lists_the_methods_and_needs_no_key(with_client: Run) -> None:
    async def test(client: Client) -> None:
        answer = await client("OPTIONS", "workflows", key="")
        assert (answer.status, answer.body) == (204, b"")
        assert answer.headers["allow"] == "GET, HEAD, OPTIONS, POST"
        page = await client("OPTIONS", "/healthz", key="")
        assert (page.status, page.headers["allow"]) == (204, "GET, HEAD, OPTIONS")

    with_client(test)


def test_a_method_that_is_not_possible_is_refused_with_those_that_are(with_client: Run) -> None:
    async def test(client: Client) -> None:
        for path in ("info", "/healthz", "/openapi.json", "/metrics"):
            answer = await client("DELETE", path)
            assert (answer.status, answer.json()["code"]) == (405, "METHOD_NOT_ALLOWED")
            assert answer.headers["allow"] == "GET, HEAD, OPTIONS"

    with_client(test)


def test_head_is_like_get(with_client: Run) -> None:
    async def test(client: Client) -> None:
        asked = await client("HEAD", "workflows/hello")
        got = await client("GET", "workflows/hello")
        assert asked.status == got.status == 200
        assert asked.headers["etag"] == got.headers["etag"]
        assert asked.headers["content-length"] == got.headers["content-length"]

    with_client(test)


def test_head_of_a_stream_does_not_open_it(with_client: Run) -> None:
    async def test(client: Client) -> None:
        await client("POST", "workflows/waits/executions", {"execution_id": "one"})
        answer = await client("HEAD", "executions/one/stream")
        assert (answer.status, answer.body) == (200, b"")
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert client.gate.services.open_streams.count == 0

    with_client(test, workflows=[WAITS])


def test_a_slash_too_many_is_named(with_client: Run) -> None:
    async def test(client: Client) -> None:
        answer = await client("GET", "workflows/")
        assert (answer.status, answer.json()["code"]) == (404, "ROUTE_NOT_FOUND")
        assert answer.json()["hint"] == "leave out the slash at the end: /api/v0/workflows"
        assert "openapi.json" in (await client("GET", "workflow")).json()["hint"]

    with_client(test)


def test_what_is_known_already_is_not_sent_again(with_client: Run) -> None:
    async def test(client: Client) -> None:
        first = await client("GET", "workflows/hello")
        etag = first.headers["etag"]
        assert first.headers["cache-control"] == "private, no-cache"
        for known in (etag, f"W/{etag}", f'"other", {etag}', "*"):
            again = await client("GET", "workflows/hello", headers={"If-None-Match": known})
            assert (again.status, again.body, again.headers["etag"]) == (304, b"", etag)
        other = await client("GET", "workflows/hello", headers={"If-None-Match": f'"x{etag[1:]}'})
        assert other.status == 200

    with_client(test)


def test_every_answer_has_the_common_headers(with_client: Run) -> None:
    async def test(client: Client) -> None:
        for path, status in (("info", 200), ("workflows/none", 404), ("/healthz", 200), ("/nowhere", 404)):
            answer = await client("GET", path)
            assert answer.status == status
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["cache-control"] == "no-store"
            assert answer.headers["x-request-id"]
            assert "server" not in answer.headers

    with_client(test)


def test_a_request_id_is_taken_over_if_it_is_plain(with_client: Run) -> None:
    async def test(client: Client) -> None:
        kept = await client("GET", "info", headers={"X-Request-ID": "abc-1"})
        assert kept.headers["x-request-id"] == "abc-1"
        replaced = await client("GET", "info", headers={"X-Request-ID": "a b\n"})
        assert replaced.headers["x-request-id"] != "a b"

    with_client(test)


def test_other_origins_are_refused_unless_they_are_listed(with_client: Run) -> None:
    asked = {"Origin": "https://app.example", "Access-Control-Request-Method": "POST"}

    async def off(client: Client) -> None:
        for answer in (
            await client("GET", "info", headers={"Origin": "https://app.example"}),
            await client("OPTIONS", "info", headers=asked),
        ):
            assert not [name for name in answer.headers if name.startswith("access-control")]

    with_client(off)


def test_listed_origins_may_call(with_client: Run) -> None:
    asked = {"Origin": "https://app.example", "Access-Control-Request-Method": "POST"}

    async def on(client: Client) -> None:
        preflight = await client("OPTIONS", "info", headers=asked)
        assert preflight.status == 200
        assert preflight.headers["access-control-allow-origin"] == "https://app.example"
        other = await client("OPTIONS", "info", headers={**asked, "Origin": "https://evil.example"})
        assert "access-control-allow-origin" not in other.headers

    with_client(on, cors_origins=("https://app.example",))


def test_a_header_that_counts_once_is_refused_twice(with_client: Run) -> None:
    async def test(client: Client) -> None:
        answer = await client("GET", "info", more=[("authorization", "Bearer other")])
        assert (answer.status, answer.json()["code"]) == (400, "CREDENTIALS_AMBIGUOUS")
        answer = await client("GET", "info", more=[("if-match", '"a"'), ("if-match", '"b"')])
        assert (answer.status, answer.json()["code"]) == (400, "MALFORMED_REQUEST")

    with_client(test)


def test_a_server_that_is_busy_says_when_to_come_back(with_client: Run) -> None:
    async def test(client: Client) -> None:
        answer = await client("GET", "info")
        assert (answer.status, answer.json()["code"]) == (503, "TOO_MANY_REQUESTS_IN_FLIGHT")
        assert answer.headers["retry-after"] == "1"
        assert (await client("GET", "/healthz")).status == 200

    with_client(test, workflows=(), max_concurrent_requests=0)


def test_too_many_calls_are_told_when_to_go_on(with_client: Run) -> None:
    async def test(client: Client) -> None:
        answers = [await client("GET", "info") for _ in range(3)]
        answer = answers[-1]
        assert (answer.status, answer.json()["code"]) == (429, "RATE_LIMITED")
        assert int(answer.headers["retry-after"]) > 0

    with_client(test, limits=GateLimits(read_per_minute=6))


def test_a_new_thing_has_its_address_and_version(with_client: Run) -> None:
    async def test(client: Client) -> None:
        made = await client("POST", "workflows", {"document": {**HELLO, "name": "other"}})
        assert made.status == 201
        assert made.headers["location"] == "/api/v0/workflows/other"
        assert (await client("GET", made.headers["location"])).headers["etag"] == made.headers["etag"]

    with_client(test)


def test_a_repeated_call_is_marked(with_client: Run) -> None:
    async def test(client: Client) -> None:
        key = {"Idempotency-Key": "once"}
        first = await client("POST", "workflows/hello/executions", {}, headers=key)
        again = await client("POST", "workflows/hello/executions", {}, headers=key)
        assert first.json() == again.json()
        assert "idempotency-replayed" not in first.headers
        assert again.headers["idempotency-replayed"] == "true"
        other = await client("POST", "workflows/hello/executions", {"labels": {"a": "b"}}, headers=key)
        assert (other.status, other.json()["code"]) == (422, "IDEMPOTENCY_KEY_REUSED")

    with_client(test)


def test_waiting_for_the_end_may_be_preferred(with_client: Run) -> None:
    async def test(client: Client) -> None:
        done = await client("POST", "workflows/hello/executions", {}, headers={"Prefer": "respond-async, wait=5"})
        assert (done.status, done.json()["output"]) == (200, "hello")
        started = await client("POST", "workflows/hello/executions", {}, headers={"Prefer": "handling=strict"})
        assert started.status == 202
        assert set(started.json()) >= {"execution_id", "url", "stream_url"}

    with_client(test)


def test_yaml_is_taken_where_documents_are(with_client: Run) -> None:
    async def test(client: Client) -> None:
        text = b"penstock: v1\nname: written\nnodes: [{id: done, type: end}]\n"
        made = await client("POST", "workflows", text, headers={"Content-Type": "application/yaml"})
        assert (made.status, made.json()["id"]) == (201, "written")
        refused = await client("POST", "schedules", text, headers={"Content-Type": "application/yaml"})
        assert (refused.status, refused.json()["code"]) == (415, "UNSUPPORTED_MEDIA_TYPE")

    with_client(test)


def test_a_large_answer_is_compressed_for_those_who_can(with_client: Run) -> None:
    async def test(client: Client) -> None:
        plain = await client("GET", "operations")
        packed = await client("GET", "operations", headers={"Accept-Encoding": "gzip"})
        assert "content-encoding" not in plain.headers
        assert packed.headers["content-encoding"] == "gzip"
        assert len(packed.body) < len(plain.body) / 3

    with_client(test)
