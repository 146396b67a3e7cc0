"""The certificates that a machine trusts are read off the event loop, and once for all clients."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import httpcore2
import pytest

from penstock.base import limits
from penstock.runtime.executors.mcp.config import McpServerConfig
from penstock.runtime.executors.outbound import tls_trust as trust_module
from penstock.runtime.executors.outbound.tls_trust import trusted_certificates
from tests.scenarios.hostile_upstream import hostile_http
from tests.scenarios.test_upstream_isolation import called, executor_of
from tests.unit.runtime.executors.calls import done
from tests.waiting import SECONDS_MAX


def readers_during(monkeypatch: pytest.MonkeyPatch, work: Callable[[], Awaitable[None]]) -> list[int]:
    """Which threads read certificates while something is done on an event loop, whose thread is 0."""
    threads: list[int] = []
    read = httpcore2.default_ssl_context

    def counted(**options: Any) -> ssl.SSLContext:
        threads.append(threading.get_ident())
        return read(**options)

    monkeypatch.setattr(httpcore2, "default_ssl_context", counted)
    monkeypatch.setattr(trust_module, "_CERTIFICATES", type(trust_module._CERTIFICATES)())

    async def body() -> int:
        async with asyncio.timeout(SECONDS_MAX):
            await work()
        return threading.get_ident()

    own = asyncio.run(body())
    return [0 if thread == own else thread for thread in threads]


def test_many_who_ask_at_once_share_what_one_thread_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        found = await asyncio.gather(*(trusted_certificates() for _ in range(20)))
        assert len({id(context) for context in found}) == 1
        assert found[0].verify_mode is ssl.CERT_REQUIRED

    readers = readers_during(monkeypatch, work)
    assert len(readers) == 1
    assert 0 not in readers


def test_other_certificates_are_noticed(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    async def work() -> None:
        before = await trusted_certificates()
        assert await trusted_certificates() is before
        with monkeypatch.context() as patch:
            patch.setenv("SSL_CERT_DIR", str(tmp_path))
            other = await trusted_certificates()
            assert other is not before
            patch.setattr(limits, "TRUST_KEPT_SECONDS", 0.0)
            assert await trusted_certificates() is not other

    assert 0 not in readers_during(monkeypatch, work)


def test_a_connection_to_a_tool_server_reads_none_on_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        with hostile_http() as url:
            async with executor_of(McpServerConfig(url=url)) as executor:
                for who in ("ada", "bob", "eve"):
                    assert done(await executor.perform(called("pid", by=who)))

    readers = readers_during(monkeypatch, work)
    assert len(readers) == 1
    assert 0 not in readers
