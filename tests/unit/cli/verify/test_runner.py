"""Running checks: what they raise becomes a result, and those that exhaust limits come last and alone."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2

from penstock.cli.verify.checks import Check, CheckFailed, NotApplicable
from penstock.cli.verify.profiles.listing import PROFILES
from penstock.cli.verify.runner import run_checks
from penstock.cli.verify.target import Target

TARGET = Target(url="http://127.0.0.1:1")


def check(name: str, run: Any) -> Check:
    return Check(id=f"core.{name}", profile="core", requirement="It works.", why="It must.", run=run)


async def passes(kit: object) -> None:
    """Pass."""


async def fails(kit: object) -> None:
    raise CheckFailed("one thing", {"seen": "another"})


async def cannot(kit: object) -> None:
    raise NotApplicable("there is no such thing here")


async def stumbles(kit: object) -> None:
    raise KeyError("draft")


def test_results_are_in_the_order_of_the_checks_and_say_what_happened() -> None:
    checks = [check("a", fails), check("b", passes), check("c", cannot), check("d", stumbles)]
    results = asyncio.run(run_checks(TARGET, checks))
    assert [result.status for result in results] == ["failed", "passed", "not_applicable", "failed"]
    assert (results[0].expected, results[0].seen) == ("one thing", "{'seen': 'another'}")
    assert results[2].reason == "there is no such thing here"
    assert results[3].seen == "KeyError: 'draft'"


def test_a_server_that_does_not_answer_fails_and_does_not_pass() -> None:
    def refuse(request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("refused")

    target = Target(url="http://127.0.0.1:1", key="k", admin_key="a")
    transport = httpx2.MockTransport(refuse)
    results = asyncio.run(run_checks(target, PROFILES["core"].checks, transport=transport))
    assert {result.status for result in results} == {"failed"}


def test_a_stub_that_governs_nothing_passes_little_but_core() -> None:
    def answer(request: httpx2.Request) -> httpx2.Response:
        if "authorization" not in request.headers:
            return httpx2.Response(401, json={"ok": False, "code": "agent.token_invalid", "message": "no token"})
        draft = {"id": "drf_1", "status": "draft"}
        app = {"app": {"id": "app_1"}, "key": {"id": "key_1"}, "token": "t"}
        data = {"tools": [], "items": [], "impactHash": "0", "status": "draft", "draft": draft, **app}
        return httpx2.Response(200, json={"ok": True, "code": "common.success", "data": data})

    target = Target(url="http://127.0.0.1:1", key="k", admin_key="a", patience_seconds=0.0)
    checks = [check for name in ("core", "authz", "writes") for check in PROFILES[name].checks]
    results = asyncio.run(run_checks(target, checks, transport=httpx2.MockTransport(answer)))
    by_profile = {name: [result for result in results if result.check.profile == name] for name in PROFILES}
    assert {result.status for result in by_profile["core"]} == {"passed"}
    for name in ("authz", "writes"):
        passed = [result for result in by_profile[name] if result.status == "passed"]
        assert len(passed) < len(by_profile[name]) / 3, [result.check.id for result in passed]


def test_without_an_admin_key_only_what_needs_none_is_tried() -> None:
    def answer(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(401, json={"ok": False, "code": "agent.token_invalid", "message": "no token"})

    target = Target(url="http://127.0.0.1:1", key="k")
    transport = httpx2.MockTransport(answer)
    results = asyncio.run(run_checks(target, PROFILES["writes"].checks, transport=transport))
    assert {result.status for result in results} == {"not_applicable"}
    assert all("key was given" in (result.reason or "") for result in results)
