"""Rules between settings: where a bound secret may be used."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.app.settings.model import Settings
from penstock.app.settings.named import AgentSettings, ApiSettings, McpServerSettings, ModelSettings
from penstock.app.settings.rules import settings_problems

SENT = {"authorization": "Bearer ${secret:KEY}"}
BOUND = {"KEY": ("api.example.com", "*.shop.example")}
GOOD, BAD = "https://api.example.com/x", "https://api.example.com.evil.example/x"


def servers(url: str) -> dict[str, Any]:
    return {"mcp_servers": {"crm": McpServerSettings(url=url, headers=SENT)}}


def apis(url: str, **more: Any) -> dict[str, Any]:
    return {"apis": {"crm": ApiSettings(document="api.json", base_url=url, **{"headers": SENT, **more})}}


def models(url: str) -> dict[str, Any]:
    return {"models": {"crm": ModelSettings(provider="openai-compatible", base_url=url, headers=SENT)}}


def agents(url: str, **more: Any) -> dict[str, Any]:
    return {"agents": {"crm": AgentSettings(type="a2a", url=url, headers=SENT, **more)}}


PLACES = {
    "mcp_servers.crm.headers.authorization": servers,
    "apis.crm.headers.authorization": apis,
    "apis.crm.query.key": lambda url: apis(url, headers={}, query={"key": "${secret:KEY}"}),
    "models.crm.headers.authorization": models,
    "agents.crm.headers.authorization": agents,
}


@pytest.mark.parametrize("place", PLACES)
def test_a_bound_secret_in_the_settings_is_for_its_hosts(place: str) -> None:
    assert list(settings_problems(Settings(secret_hosts=BOUND, **PLACES[place](GOOD)))) == []
    assert list(settings_problems(Settings(secret_hosts=BOUND, **PLACES[place]("https://a.shop.example")))) == []
    assert list(settings_problems(Settings(**PLACES[place](BAD)))) == []
    [problem] = settings_problems(Settings(secret_hosts=BOUND, **PLACES[place](BAD)))
    assert ".".join((problem.paths[0], *problem.below)) == place
    assert "`KEY`" in problem.message
    assert "api.example.com.evil.example" in problem.message
    assert "secret_hosts.KEY" in str(problem.hint)


def test_a_bound_secret_is_no_variable_of_a_program() -> None:
    server = McpServerSettings(command="npx", env={"TOKEN": "${secret:KEY}"})
    [problem] = settings_problems(Settings(secret_hosts=BOUND, mcp_servers={"crm": server}))
    assert problem.below == ("crm", "env", "TOKEN")
    assert "a program names no host" in problem.message


def test_every_origin_that_gets_the_headers_of_an_agent_is_a_host_of_its_secrets() -> None:
    chosen = agents(GOOD, trusted_origins=("https://other.example",))
    [problem] = settings_problems(Settings(secret_hosts=BOUND, **chosen))
    assert "other.example" in problem.message


def test_what_is_disabled_or_names_no_address_of_its_own_is_no_problem_here() -> None:
    disabled = McpServerSettings(url=BAD, headers=SENT, disabled=True)
    api = ApiSettings(document="api.json", headers=SENT)
    usual = ModelSettings(provider="openai", headers=SENT)
    chosen = Settings(secret_hosts=BOUND, mcp_servers={"crm": disabled}, apis={"shop": api}, models={"gpt": usual})
    assert list(settings_problems(chosen)) == []
