"""HTTP nodes: what is sent, what counts as an answer, and where requests may not go."""

import datetime
import gzip
import ipaddress
import json
import ssl
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from penstock.base import limits
from penstock.base.json import JsonObject, JsonValue
from penstock.runtime.activities.performing import ActivityDone, ActivityOutcome
from penstock.runtime.executors.http.executor import HttpExecutor
from tests.unit.runtime.executors.calls import bounded, call_of, done, error
from tests.unit.runtime.executors.web_server import Answer, Seen, WebServer, serving

JSON = {"content-type": "application/json"}


async def send(
    executor: HttpExecutor, arguments: JsonValue, *, timeout_ms: int | None = None, **config: JsonValue
) -> ActivityOutcome:
    return await executor.perform(call_of("http", dict(config), arguments, timeout_ms=timeout_ms))


def exchange(
    respond: Callable[[Seen], Answer] | Answer,
    arguments: JsonObject | None = None,
    *,
    timeout_ms: int | None = None,
    **config: JsonValue,
) -> tuple[ActivityOutcome, WebServer]:
    """One request to a server of our own; its url is filled in."""

    async def work() -> tuple[ActivityOutcome, WebServer]:
        async with serving(respond) as server:
            executor = HttpExecutor(allow_private=True)
            try:
                given: JsonObject = {"url": server.url("/orders"), **(arguments or {})}
                return await send(executor, given, timeout_ms=timeout_ms, **config), server
            finally:
                await executor.close()

    return bounded(work())


def refused(url: str, *, resolves_to: Sequence[str] = (), allow_hosts: Sequence[str] = ()) -> ActivityOutcome:
    """A request with a resolver of our own; whatever is reached is not ours to reach, so it must be refused before."""

    async def resolve(host: str, port: int) -> Sequence[str]:
        return resolves_to

    async def work() -> ActivityOutcome:
        executor = HttpExecutor(resolve=resolve, allow_hosts=allow_hosts)
        try:
            return await send(executor, {"url": url}, timeout_ms=5_000)
        finally:
            await executor.close()

    return bounded(work())


# --- requests and answers -------------------------------------------------------------------------


def test_a_json_answer_is_parsed_and_only_harmless_headers_are_kept() -> None:
    headers = {**JSON, "ETag": '"7"', "Set-Cookie": "session=secret", "X-Request-Id": "q1", "Server": "x"}
    outcome, server = exchange(Answer(body=b'{"total": 50}', headers=headers))
    assert done(outcome) == {
        "status": 200,
        "headers": {"content-type": "application/json", "etag": '"7"', "x-request-id": "q1"},
        "body": {"total": 50},
    }
    [seen] = server.seen
    assert (seen.method, seen.target) == ("GET", "/orders")
    assert seen.headers["host"] == f"127.0.0.1:{server.port}"
    assert "idempotency-key" not in seen.headers


def test_a_body_that_is_not_text_is_sent_as_json_with_the_idempotency_key() -> None:
    body: JsonObject = {"amount": 20, "note": "für"}
    outcome, server = exchange(Answer(201), {"body": body}, method="POST")
    assert done(outcome) == {"status": 201, "headers": {}, "body": None}
    [seen] = server.seen
    assert json.loads(seen.body) == body
    assert seen.headers["content-type"] == "application/json"
    assert seen.headers["idempotency-key"] == "r_1/pay/1"


def test_text_is_sent_as_text_and_a_document_may_choose_type_and_key() -> None:
    headers: JsonObject = {"Content-Type": "text/csv", "Idempotency-Key": "mine", "X-None": None, "X-Count": 3}
    _, server = exchange(Answer(), {"body": "a,b", "headers": headers}, method="PUT")
    [seen] = server.seen
    assert (seen.method, seen.body) == ("PUT", b"a,b")
    assert (seen.headers["content-type"], seen.headers["idempotency-key"]) == ("text/csv", "mine")
    assert seen.headers["x-count"] == "3"
    assert "x-none" not in seen.headers


def test_a_query_is_appended_to_the_one_in_the_address() -> None:
    async def work() -> str:
        async with serving(Answer()) as server:
            executor = HttpExecutor(allow_private=True)
            query: JsonObject = {"q": "a b&c", "tag": ["x", "y"], "all": True, "none": None}
            done(await send(executor, {"url": server.url("/find?page=2"), "query": query}))
            await executor.close()
            return server.seen[0].target

    assert bounded(work()) == "/find?page=2&q=a+b%26c&tag=x&tag=y&all=true"


def test_text_is_given_as_text_and_anything_else_as_base64() -> None:
    latin = Answer(body="für".encode("latin-1"), headers={"content-type": "text/plain; charset=iso-8859-1"})
    picture = Answer(body=b"\x89PNG\xff", headers={"content-type": "image/png"})
    assert _body(exchange(latin)[0]) == "für"
    assert _body(exchange(picture)[0]) == {"base64": "iVBOR/8="}


def _body(outcome: ActivityOutcome) -> JsonValue:
    result = done(outcome)
    assert isinstance(result, dict)
    return result["body"]


def test_connections_are_used_again() -> None:
    async def work() -> int:
        async with serving(Answer(body=b"{}", headers=JSON)) as server:
            executor = HttpExecutor(allow_private=True)
            for _ in range(5):
                done(await send(executor, {"url": server.url()}))
            await executor.close()
            return server.connections

    assert bounded(work()) == 1


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
def test_answers_that_pass_are_worth_another_try(status: int) -> None:
    failure = error(exchange(Answer(status))[0])
    assert (failure.code, failure.retryable) == (f"HTTP_{status}", True)


@pytest.mark.parametrize("status", [301, 400, 401, 404, 409, 422, 501])
def test_other_failures_are_final(status: int) -> None:
    failure = error(exchange(Answer(status))[0])
    assert (failure.code, failure.retryable) == (f"HTTP_{status}", False)


def test_a_document_decides_what_is_success_and_what_is_tried_again() -> None:
    assert isinstance(exchange(Answer(404), expect_status=[200, 404])[0], ActivityDone)
    assert error(exchange(Answer(200), expect_status=[204])[0]).code == "HTTP_200"
    assert error(exchange(Answer(404), retry_on_status=[404])[0]).retryable
    assert not error(exchange(Answer(503), retry_on_status=[404])[0]).retryable


def test_the_text_of_a_failure_shows_the_answer_but_neither_path_nor_secrets() -> None:
    body = b'{"detail": "no such key s3cret-token-1 in /orders?key=k3y-of-the-query"}'
    arguments: JsonObject = {
        "headers": {"Authorization": "Bearer s3cret-token-1"},
        "query": {"key": "k3y-of-the-query"},
    }
    failure = error(exchange(Answer(403, body), arguments)[0])
    assert failure.error == 'GET 127.0.0.1 answered 403: {"detail": "no such key *** in /orders?key=***"}'


def test_an_answer_that_says_it_is_json_and_is_not_is_a_failure() -> None:
    assert error(exchange(Answer(body=b"<html>", headers=JSON))[0]).code == "HTTP_RESPONSE_INVALID"
    deep = b"[" * 100 + b"]" * 100
    assert error(exchange(Answer(body=deep, headers=JSON))[0]).code == "HTTP_RESPONSE_INVALID"


def test_an_answer_that_is_too_large_is_not_read_to_its_end() -> None:
    plain = Answer(body=b"x" * (limits.HTTP_RESPONSE_BYTES_MAX + 1))
    packed = gzip.compress(b"x" * 50 * limits.HTTP_RESPONSE_BYTES_MAX)
    for answer in (plain, Answer(body=packed, headers={"content-encoding": "gzip"})):
        failure = error(exchange(answer)[0])
        assert (failure.code, failure.retryable) == ("HTTP_RESPONSE_TOO_LARGE", False)


def test_a_compressed_answer_is_unpacked() -> None:
    packed = Answer(body=gzip.compress(b'{"a": 1}'), headers={**JSON, "content-encoding": "gzip"})
    assert _body(exchange(packed)[0]) == {"a": 1}


def test_no_answer_in_time_is_a_timeout() -> None:
    failure = error(exchange(Answer(never=True), timeout_ms=200)[0])
    assert (failure.code, failure.retryable) == ("TIMEOUT", True)


def test_a_server_that_is_not_there_is_worth_another_try() -> None:
    async def work() -> ActivityOutcome:
        async with serving(Answer()) as server:
            url = server.url()
        executor = HttpExecutor(allow_private=True)
        outcome = await send(executor, {"url": url}, timeout_ms=10_000)
        await executor.close()
        return outcome

    failure = error(bounded(work()))
    assert (failure.code, failure.retryable) == ("HTTP_CONNECT_FAILED", True)


def test_a_name_that_does_not_exist_is_told_by_name() -> None:
    failure = error(refused("http://nowhere.example/"))
    assert (failure.code, failure.retryable) == ("HTTP_CONNECT_FAILED", True)
    assert "nowhere.example" in failure.error


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (None, "no `url`"),
        ({"url": 3}, "not a text"),
        ({"url": "ftp://example.org/"}, "http://"),
        ({"url": "file:///etc/passwd"}, "http://"),
        ({"url": "/orders"}, "http://"),
        ({"url": "http://"}, "names no host"),
        ({"url": "http://user:pass@example.org/"}, "credentials"),
        ({"url": "http://example.org/", "headers": {"Host": "internal"}}, "`Host`"),
        ({"url": "http://example.org/", "headers": {"Transfer-Encoding": "chunked"}}, "`Transfer-Encoding`"),
        ({"url": "http://example.org/", "headers": {"Proxy-Authorization": "x"}}, "`Proxy-Authorization`"),
        ({"url": "http://example.org/", "headers": {"X-A": "a\r\nX-B: b"}}, "`X-A`"),
        ({"url": "http://example.org/", "headers": {"X-A": {}}}, "headers/X-A"),
        ({"url": "http://example.org/", "headers": []}, "`headers`"),
        ({"url": "http://example.org/", "query": {"a": {}}}, "query/a"),
        ({"url": "http://example.org/", "query": "a=b"}, "`query`"),
        ({"url": "http://exa mple.org\n/"}, "cannot be sent"),
    ],
)
def test_a_request_that_cannot_be_made_is_told_and_final(arguments: JsonValue, told: str) -> None:
    failure = error(bounded(send(HttpExecutor(), arguments)))
    assert (failure.code, failure.retryable) == ("HTTP_REQUEST_INVALID", False)
    assert told in failure.error


def test_a_method_that_http_nodes_do_not_have_is_refused() -> None:
    failure = error(bounded(send(HttpExecutor(), {"url": "http://example.org/"}, method="CONNECT")))
    assert failure.code == "HTTP_REQUEST_INVALID"


# --- redirects ------------------------------------------------------------------------------------


def test_a_redirect_is_followed_only_if_the_document_says_so() -> None:
    def respond(seen: Seen) -> Answer:
        return Answer(302, headers={"location": "/new"}) if seen.target == "/orders" else Answer(body=b"there")

    assert error(exchange(respond)[0]).code == "HTTP_302"
    outcome, server = exchange(respond, {"headers": {"X-Key": "k"}}, follow_redirects=True)
    assert _body(outcome) == "there"
    assert [seen.headers.get("x-key") for seen in server.seen] == ["k", "k"]


def test_a_redirect_to_another_origin_loses_the_headers_of_the_document() -> None:
    async def work() -> tuple[ActivityOutcome, Seen]:
        async with serving(Answer(body=b"other")) as other:
            away = Answer(303, headers={"location": other.url("/land")})
            async with serving(away) as first:
                executor = HttpExecutor(allow_private=True)
                given: JsonObject = {"url": first.url(), "headers": {"X-Key": "k", "Accept": "text/plain"}, "body": {}}
                outcome = await send(executor, given, follow_redirects=True, method="POST")
                await executor.close()
                return outcome, other.seen[0]

    outcome, seen = bounded(work())
    assert _body(outcome) == "other"
    assert (seen.method, seen.target, seen.body) == ("GET", "/land", b"")
    assert seen.headers["accept"] == "text/plain"
    assert not {"x-key", "idempotency-key", "content-type"} & seen.headers.keys()


def test_a_body_is_not_carried_to_another_origin() -> None:
    async def work() -> ActivityOutcome:
        async with serving(Answer()) as other, serving(Answer(307, headers={"location": other.url()})) as first:
            executor = HttpExecutor(allow_private=True)
            given: JsonObject = {"url": first.url(), "body": {"card": 1}}
            outcome = await send(executor, given, follow_redirects=True, method="POST")
            await executor.close()
            assert other.seen == []
            return outcome

    assert error(bounded(work())).code == "HTTP_REQUEST_INVALID"


def test_redirects_in_a_circle_end() -> None:
    outcome, server = exchange(Answer(302, headers={"location": "/orders"}), follow_redirects=True)
    assert error(outcome).code == "HTTP_REDIRECT_LOOP"
    assert len(server.seen) == limits.HTTP_REDIRECTS_MAX + 1


def test_every_hop_of_a_redirect_is_checked() -> None:
    async def work() -> ActivityOutcome:
        async with serving(Answer(302, headers={"location": "http://169.254.169.254/latest"})) as first:
            executor = HttpExecutor(allow_private=True)
            outcome = await send(executor, {"url": first.url()}, follow_redirects=True)
            await executor.close()
            return outcome

    assert error(bounded(work())).code == "HTTP_ADDRESS_DENIED"


# --- where requests may not go ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/",
        "http://127.9.9.9:8080/",
        "http://10.0.0.1/",
        "http://172.31.0.1/",
        "http://192.168.0.1/",
        "http://100.64.0.1/",
        "http://169.254.169.254/latest/meta-data/",
        "http://168.63.129.16/",
        "http://0.0.0.0/",
        "http://255.255.255.255/",
        "http://224.0.0.1/",
        "http://[::1]/",
        "http://[::]/",
        "http://[::ffff:127.0.0.1]/",
        "http://[::ffff:a9fe:a9fe]/",
        "http://[::127.0.0.1]/",
        "http://[64:ff9b::7f00:1]/",
        "http://[2002:7f00:1::]/",
        "http://[fc00::1]/",
        "http://[fd00:ec2::254]/",
        "http://[fe80::1]/",
        "http://[fec0::1]/",
        "http://[ff02::1]/",
        "http://2130706433/",
        "http://0x7f000001/",
        "http://0x7f.0.0.1/",
        "http://017700000001/",
        "http://127.1/",
        "http://127.0.0.1./",
        "http://127%2e0.0.1/",
    ],
)
def test_an_address_that_is_not_public_is_refused(url: str) -> None:
    failure = error(refused(url))
    assert (failure.code, failure.retryable) == ("HTTP_ADDRESS_DENIED", False)


def test_octal_numbers_are_not_an_address() -> None:
    assert error(refused("http://0177.0.0.1/")).code in ("HTTP_ADDRESS_DENIED", "HTTP_REQUEST_INVALID")


@pytest.mark.parametrize(
    "addresses", [["127.0.0.1"], ["::1"], ["10.1.2.3"], ["93.184.215.14", "10.0.0.1"], ["::ffff:192.168.0.1"]]
)
@pytest.mark.parametrize("host", ["localhost", "rebind.example", "metadata.google.internal"])
def test_a_name_that_leads_inwards_is_refused(host: str, addresses: list[str]) -> None:
    failure = error(refused(f"http://{host}/", resolves_to=addresses))
    assert (failure.code, failure.retryable) == ("HTTP_ADDRESS_DENIED", False)
    assert host in failure.error


def test_localhost_is_refused_with_the_resolver_of_the_machine() -> None:
    executor = HttpExecutor()
    assert error(bounded(send(executor, {"url": "http://localhost/"}))).code == "HTTP_ADDRESS_DENIED"


@pytest.mark.parametrize("allowed", ["127.0.0.1", "127.0.0.0/8", "billing.internal", "*.internal"])
def test_an_operator_allows_hosts_by_name_or_network(allowed: str) -> None:
    async def resolve(host: str, port: int) -> Sequence[str]:
        return ["127.0.0.1"]

    async def work() -> tuple[ActivityOutcome, str]:
        async with serving(Answer(body=b"ours")) as server:
            executor = HttpExecutor(resolve=resolve, allow_hosts=[allowed])
            outcome = await send(executor, {"url": server.url(host="billing.internal")})
            await executor.close()
            return outcome, server.seen[0].headers["host"].partition(":")[0]

    outcome, host = bounded(work())
    assert (_body(outcome), host) == ("ours", "billing.internal")


def test_a_wildcard_does_not_allow_names_that_only_end_alike() -> None:
    failure = error(refused("http://evilinternal/", resolves_to=["127.0.0.1"], allow_hosts=["*.internal"]))
    assert failure.code == "HTTP_ADDRESS_DENIED"


def test_what_an_operator_allows_must_make_sense() -> None:
    with pytest.raises(ValueError, match="neither a host name"):
        HttpExecutor(allow_hosts=["http://x/"])


def test_a_name_is_resolved_once_and_the_connection_goes_to_what_was_checked() -> None:
    answers = [["127.0.0.1"], ["203.0.113.1"]]

    async def resolve(host: str, port: int) -> Sequence[str]:
        return answers.pop(0)

    async def work() -> ActivityOutcome:
        async with serving(Answer(body=b"first")) as server:
            executor = HttpExecutor(resolve=resolve, allow_private=True)
            outcome = await send(executor, {"url": server.url(host="rebind.example")})
            await executor.close()
            return outcome

    assert _body(bounded(work())) == "first"
    assert answers == [["203.0.113.1"]]


def test_the_next_address_is_tried_when_one_does_not_answer() -> None:
    async def work() -> ActivityOutcome:
        async with serving(Answer(body=b"second")) as server:

            async def resolve(host: str, port: int) -> Sequence[str]:
                return ["127.0.0.2", "127.0.0.1"]  # the server listens on the second only

            executor = HttpExecutor(resolve=resolve, allow_private=True)
            outcome = await send(executor, {"url": server.url(host="two.example")})
            await executor.close()
            return outcome

    assert _body(bounded(work())) == "second"


def test_tls_is_checked_against_the_name_although_the_connection_goes_to_an_address(tmp_path: Path) -> None:
    server_side, client_side = _certificates(tmp_path, "api.example")

    async def resolve(host: str, port: int) -> Sequence[str]:
        return ["127.0.0.1"]

    async def work() -> tuple[ActivityOutcome, ActivityOutcome]:
        async with serving(Answer(body=b"safe"), tls=server_side) as server:
            executor = HttpExecutor(resolve=resolve, allow_private=True, verify=client_side)
            right = await send(executor, {"url": server.url(host="api.example", scheme="https")})
            wrong = await send(executor, {"url": server.url(host="other.example", scheme="https")})
            await executor.close()
            return right, wrong

    right, wrong = bounded(work())
    assert _body(right) == "safe"
    assert error(wrong).code == "HTTP_CONNECT_FAILED"


def _certificates(folder: Path, name: str) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """A server with a certificate for one name, and a client that trusts it."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    begin = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    alternatives = [x509.DNSName(name), x509.IPAddress(ipaddress.ip_address("203.0.113.9"))]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(begin)
        .not_valid_after(begin + datetime.timedelta(days=36_500))
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file = folder / "server.pem"
    file.write_bytes(private + certificate.public_bytes(serialization.Encoding.PEM))
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_side.load_cert_chain(file)
    client_side = ssl.create_default_context(cafile=str(file))
    return server_side, client_side
