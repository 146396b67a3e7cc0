"""Executors as the settings say: real servers and models behind them, loaded when needed, missed clearly."""

import asyncio
import json
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from penstock.app.executors.configured import check_extras, open_executors, secrets_of
from penstock.app.executors.extras import EXTRA_EXECUTORS, require_extra
from penstock.app.executors.models import model_providers
from penstock.app.settings.model import HttpSettings, Settings
from penstock.app.settings.named import AgentSettings, McpServerSettings, ModelSettings, TokenPriceSettings
from penstock.app.settings.secrets import CommandReference, EnvironmentReference, FileReference
from penstock.base.errors import Rejected, Unavailable
from penstock.base.json import JsonObject, JsonValue
from penstock.cli.terminal.files import expand_paths
from penstock.runtime.activities.performing import ActivityAsks, ActivityCall, ActivityDone, ActivityOutcome
from penstock.runtime.executors.mcp.config import command_name
from penstock.runtime.extras import install_hint
from tests.fixtures.mcp_tools_server import make_server
from tests.unit.runtime.executors.asgi_server import serving_asgi
from tests.unit.runtime.executors.calls import bounded, call_of, done, error
from tests.unit.runtime.executors.web_server import Answer, Seen, serving
from tests.waiting import SECONDS_MAX
from tests.zygote import piped_script

FIXTURES = Path(__file__).parents[3] / "fixtures"
PYTHON = command_name(sys.executable)
JSON = {"content-type": "application/json"}


async def performed(settings: Settings, *calls: ActivityCall) -> list[ActivityOutcome]:
    async with asyncio.timeout(SECONDS_MAX), open_executors(settings) as equipment:
        return [await equipment.executors[call.activity.node_type].perform(call) for call in calls]


def add(server: str = "tools") -> ActivityCall:
    return call_of("tool_call", {"server": server, "tool": "add"}, {"a": 2, "b": 3}, timeout_ms=240_000)


def summed(outcome: ActivityOutcome) -> JsonValue:
    result = done(outcome)
    assert isinstance(result, dict)
    return result["sum"]


def prompt(**config: Any) -> ActivityCall:
    return call_of("llm_call", {"prompt": "Say something.", **config})


def delegation(agent_id: str, protocol: str) -> ActivityCall:
    call = call_of("agent_delegate", {"agent_id": agent_id, "protocol": protocol}, {"a": 1, "b": 2}, timeout_ms=240_000)
    delegate: JsonObject = {"agentId": agent_id, "protocol": protocol, "delegateCorrelationId": "c_1"}
    return replace(call, activity=replace(call.activity, delegate=delegate))


def test_without_settings_there_is_http_and_what_the_starter_of_a_run_can_do() -> None:
    client = replace(prompt(model="any", provider="client"), client_kinds=("sampling",))
    outcomes = bounded(performed(Settings(), add(), prompt(model="small"), client))
    assert [error(outcome).code for outcome in outcomes[:2]] == ["COMPOSITE_EXECUTOR_NOT_CONFIGURED"] * 2
    assert isinstance(outcomes[2], ActivityAsks)


def test_a_person_is_an_agent_that_needs_no_settings() -> None:
    given: JsonObject = {"message": "Which?", "schema": {"type": "string"}}
    call = delegation("penstock.person", "sdk")
    [outcome] = bounded(performed(Settings(), replace(call, activity=replace(call.activity, arguments=given))))
    assert outcome == ActivityAsks("Which?", {"type": "string"})


def test_the_servers_model_stands_in_for_a_client_that_cannot_be_asked() -> None:
    settings = Settings(models={"small": ModelSettings(provider="mock", replies={"*": "instead"})})
    [outcome] = bounded(performed(settings, prompt(model="any", provider="client")))
    assert done(outcome) == {"text": "instead"}


def test_a_tool_of_a_started_server_is_called_also_as_an_agent() -> None:
    command, *arguments = piped_script(FIXTURES / "mcp_tools_server.py")
    started = McpServerSettings(command=command, args=tuple(arguments))
    settings = Settings(
        mcp_servers={"tools": started, "off": McpServerSettings(command="npx", disabled=True)},
        mcp_allow_commands=(PYTHON,),
        agents={"adder": AgentSettings(type="mcp", server="tools", tool="add")},
    )
    outcomes = bounded(performed(settings, add(), delegation("adder", "mcp"), add("off")))
    assert [summed(outcome) for outcome in outcomes[:2]] == [5, 3]
    assert "is not configured (configured: tools)" in error(outcomes[2]).error


def test_headers_of_a_server_are_filled_with_secrets_when_it_is_called(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PENSTOCK_SECRET_TOKEN", "t0")
    seen: list[str] = []

    async def work() -> list[ActivityOutcome]:
        inner = make_server().streamable_http_app()

        async def app(scope: Any, receive: Any, send: Any) -> None:
            seen.extend(value.decode() for name, value in scope.get("headers", ()) if name == b"authorization")
            await inner(scope, receive, send)

        async with serving_asgi(app) as address:
            settings = Settings(
                mcp_servers={
                    "tools": McpServerSettings(
                        url=f"{address}/mcp", headers={"authorization": "Bearer ${secret:TOKEN}"}
                    ),
                    "broken": McpServerSettings(url=f"{address}/mcp", headers={"x": FileReference("nowhere")}),
                }
            )
            return await performed(settings, add(), add("broken"))

    outcomes = bounded(work())
    assert summed(outcomes[0]) == 5
    assert set(seen) == {"Bearer t0"}
    assert (error(outcomes[1]).code, error(outcomes[1]).retryable) == ("SECRET_UNREADABLE", True)


def test_models_are_asked_by_their_names_with_their_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODEL_KEY", "sk-test")

    def respond(request: Seen) -> Answer:
        asked = json.loads(request.body)
        message = {"role": "assistant", "content": f"I am {asked['model']}"}
        body = {
            "id": "x",
            "object": "chat.completion",
            "created": 1_700_000_000,
            "model": asked["model"],
            "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
            "usage": {"prompt_tokens": 1_000_000, "completion_tokens": 1_000_000, "total_tokens": 2_000_000},
        }
        return Answer(200, json.dumps(body).encode(), JSON)

    async def work() -> tuple[list[ActivityOutcome], list[Seen]]:
        async with serving(respond) as server:
            shared: dict[str, Any] = {
                "provider": "openai-compatible",
                "base_url": server.url("/v1"),
                "api_key": EnvironmentReference("MODEL_KEY"),
                "prices": TokenPriceSettings(input_per_million=0.5, output_per_million=1.25),
            }
            settings = Settings(
                models={
                    "small": ModelSettings(model="tiny-1", **shared),
                    "huge-2": ModelSettings(**shared),
                    "default": ModelSettings(provider="mock", replies={"*": "scripted"}),
                }
            )
            calls = (prompt(model="small"), prompt(model="huge-2"), prompt(), prompt(model="openai-compatible:other"))
            return await performed(settings, *calls), list(server.seen)

    outcomes, seen = bounded(work())
    assert [done(outcome) for outcome in outcomes] == [
        {"text": text} for text in ("I am tiny-1", "I am huge-2", "scripted", "I am other")
    ]
    assert {request.headers["authorization"] for request in seen} == {"Bearer sk-test"}
    assert isinstance(outcomes[0], ActivityDone)
    usage = (outcomes[0].extra or {})["usage"]
    assert isinstance(usage, dict)
    assert usage["cost"] == {"amount": "1.75", "currency": "USD"}


def test_a_key_that_is_missing_fails_only_what_needs_it() -> None:
    settings = Settings(
        models={
            "real": ModelSettings(provider="openai", api_key=EnvironmentReference("NOT_SET_ANYWHERE")),
            "scripted": ModelSettings(provider="mock", replies=["fine"]),
        }
    )
    missing, scripted = bounded(performed(settings, prompt(model="real"), prompt(model="scripted")))
    assert error(missing).code == "LLM_CREDENTIALS_MISSING"
    assert "env NOT_SET_ANYWHERE: the variable is not set" in error(missing).error
    assert done(scripted) == {"text": "fine"}


def test_models_that_share_everything_share_a_provider_and_the_only_model_is_the_default() -> None:
    key, other = EnvironmentReference("A"), EnvironmentReference("B")
    models = {
        "one": ModelSettings(provider="openai", model="m1", api_key=key),
        "two": ModelSettings(provider="openai", api_key=other),
        "three": ModelSettings(provider="openai", api_key=key),
    }
    providers = model_providers(models, lambda name: None)
    assert {name: dict(provider.models) for name, provider in providers.items()} == {
        "openai": {"one": "m1", "three": "three"},
        "openai-two": {"two": "two"},
    }
    [only] = model_providers({"one": models["one"]}, lambda name: None).values()
    assert dict(only.models) == {"one": "m1", "default": "m1"}


def test_an_agent_with_a_task_api_is_given_its_key() -> None:
    def respond(request: Seen) -> Answer:
        task = {"id": "t1", "status": "completed", "output": {"key": request.headers["authorization"]}}
        return Answer(200, json.dumps(task).encode(), JSON)

    async def work() -> ActivityOutcome:
        async with serving(respond) as server:
            agent = AgentSettings(
                type="task_api",
                url=server.url("").rstrip("/"),
                api_key=CommandReference((sys.executable, "-c", "print('k1')")),
                poll_interval=timedelta(milliseconds=10),
            )
            [outcome] = await performed(Settings(agents={"reviewer": agent}), delegation("reviewer", "a2a"))
            return outcome

    assert "k1" in str(done(bounded(work())))


def test_private_addresses_are_opened_by_settings() -> None:
    def respond(request: Seen) -> Answer:
        return Answer(200, b'{"ok": true}', JSON)

    async def work(http: HttpSettings) -> ActivityOutcome:
        async with serving(respond) as server:
            call = call_of("http", {"method": "GET", "url": server.url("/")}, {"url": server.url("/")})
            [outcome] = await performed(Settings(http=http), call)
            return outcome

    assert error(bounded(work(HttpSettings()))).code == "HTTP_ADDRESS_DENIED"
    for allowed in (HttpSettings(allow_private=True), HttpSettings(allow_hosts=("127.0.0.1",))):
        answered = done(bounded(work(allowed)))
        assert isinstance(answered, dict)
        assert answered["body"] == {"ok": True}


WITH_EXTRAS = {
    "a2a": Settings(agents={"a": AgentSettings(url="http://x")}),
    "llm": Settings(models={"a": ModelSettings(provider="openai")}),
}


@pytest.mark.parametrize("name", sorted(EXTRA_EXECUTORS))
def test_a_missing_extra_is_named_before_anything_starts(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check_extras(WITH_EXTRAS[name])
    monkeypatch.setitem(sys.modules, EXTRA_EXECUTORS[name].libraries[0], None)
    with pytest.raises(Unavailable) as caught:
        check_extras(WITH_EXTRAS[name])
    assert (caught.value.code, caught.value.hint) == ("EXTRA_NOT_INSTALLED", install_hint(name))
    scripted = Settings(
        models={"a": ModelSettings(provider="mock", replies=[])},
        mcp_servers={"a": McpServerSettings(url="http://x", disabled=True)},
    )
    check_extras(scripted)


def test_the_library_of_anthropic_is_an_extra_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "anthropic", None)
    with pytest.raises(Unavailable, match="the model a is served by anthropic"):
        check_extras(Settings(models={"a": ModelSettings(provider="anthropic")}))
    with pytest.raises(Rejected):
        require_extra("telepathy")


def test_secrets_are_looked_for_in_the_folder_then_in_the_environment_then_in_the_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("A", "B", "C")
    settings = Settings(secrets={name: EnvironmentReference("PENSTOCK_TEST_VALUE") for name in names})
    monkeypatch.setenv("PENSTOCK_TEST_VALUE", "settings")
    monkeypatch.setenv("PENSTOCK_SECRET_A", "environment")
    monkeypatch.setenv("PENSTOCK_SECRET_B", "environment")
    (tmp_path / "A").write_text("folder", encoding="utf-8")
    assert [secrets_of(settings, tmp_path)(name) for name in names] == ["folder", "environment", "settings"]
    assert [secrets_of(settings)(name) for name in (*names, "D")] == ["environment", "environment", "settings", None]
    with pytest.raises(Rejected, match="is not a folder"):
        secrets_of(settings, tmp_path / "nowhere")


def test_patterns_stand_for_files_and_each_is_named_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "flows" / "deep").mkdir(parents=True)
    for name in ("flows/b.yaml", "flows/a.yaml", "flows/deep/c.yaml", "flows/notes.txt"):
        (tmp_path / name).touch()
    assert expand_paths(["flows/a.yaml", "flows/**/*.yaml", "elsewhere"]) == [
        "flows/a.yaml",
        "flows/b.yaml",
        "flows/deep/c.yaml",
        "elsewhere",
    ]
    with pytest.raises(Rejected, match=r"no file matches none/\*\.yaml"):
        expand_paths(["none/*.yaml"])
