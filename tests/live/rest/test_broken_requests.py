"""Whatever is sent, the server answers with a problem document of 4xx or hangs up, and its memory stays flat."""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.rest.broken import Broken, broken_requests, mangled
from tests.live.rest.seeds import seed
from tests.live.rest.servers import LiveServer, serving
from tests.live.rest.wire import exchange, read_answer, request_head
from tests.waiting import SECONDS_MAX

KINDS = [broken.name for broken in broken_requests("pen_x")]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    with serving(tmp_path_factory.mktemp("server")) as found:
        seed(found.call)
        yield found


def of_kind(server: LiveServer, name: str) -> Broken:
    [found] = [broken for broken in broken_requests(server.key) if broken.name == name]
    return found


@pytest.mark.parametrize("name", KINDS)
def test_a_broken_request_is_refused_with_a_problem(server: LiveServer, name: str) -> None:
    broken = of_kind(server, name)
    answer = exchange(server.port, broken.parts)
    if answer is None:
        assert broken.may_hang_up
        return
    assert answer.status in broken.statuses, answer
    assert answer.media_type == "application/problem+json"
    problem = answer.json()
    assert problem["status"] == answer.status
    assert problem["code"]
    assert problem["detail"]
    assert problem["request_id"] == answer.headers["x-request-id"]
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_requests_with_random_mistakes_are_refused_or_understood(server: LiveServer) -> None:
    answers: Counter[int] = Counter()
    for number in range(400):
        with socket.create_connection(("127.0.0.1", server.port), timeout=SECONDS_MAX) as connection:
            # What is too short by the mistakes is made long enough, so that nobody waits for more.
            connection.sendall(mangled(server.key, number) + b" " * 64)
            try:
                answer = read_answer(connection)
            except ConnectionResetError:
                continue
        if answer is not None:
            assert answer.status < 500, (number, answer)
            answers[answer.status] += 1
    assert answers[400] > 100
    assert server.call("GET", "health")["ready"] is True


def test_memory_stays_flat_under_thousands_of_broken_requests(server: LiveServer) -> None:
    kinds = [broken for broken in broken_requests(server.key) if sum(map(len, broken.parts)) < 100_000]
    large = [broken for broken in broken_requests(server.key) if "body" in broken.name and broken not in kinds]

    def storm(rounds: int) -> None:
        for _ in range(rounds):
            for broken in kinds:
                exchange(server.port, broken.parts)
        for broken in large:
            exchange(server.port, broken.parts)

    storm(3)
    before = server.resident_bytes()
    storm(30)
    grown = server.resident_bytes() - before
    assert len(kinds) * 30 > 2_000
    assert grown < 16_000_000, f"{grown / 1e6:.1f} MB more after the storm"


def test_a_body_that_trickles_is_given_up_on(tmp_path: Path) -> None:
    script = (
        "import sys\n"
        "from penstock.base import limits\n"
        "limits.REQUEST_BODY_SECONDS_MAX = 0.5\n"
        "limits.REQUEST_HEAD_SECONDS_MAX = 0.5\n"
        "from penstock.cli.main import main\n"
        "main()\n"
    )
    with serving(tmp_path, script=script) as server:
        seed(server.call)
        head = request_head("POST", "/api/v0/workflows", server.key, "Content-Length: 50", close=False)
        with socket.create_connection(("127.0.0.1", server.port), timeout=SECONDS_MAX) as connection:
            connection.sendall(head + b'{"document"')
            answer = read_answer(connection)
            assert answer is not None
            assert (answer.status, answer.json()["code"]) == (408, "REQUEST_TIMEOUT")
            assert connection.recv(1) == b""
        with socket.create_connection(("127.0.0.1", server.port), timeout=SECONDS_MAX) as connection:
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Slow: ")
            answer = read_answer(connection)
            assert answer is not None
            assert (answer.status, answer.json()["code"]) == (408, "REQUEST_TIMEOUT")
        with socket.create_connection(("127.0.0.1", server.port), timeout=SECONDS_MAX) as connection:
            assert connection.recv(1) == b"", "a connection that says nothing is closed"
