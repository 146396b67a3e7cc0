"""Models that tenants register: used by nodes at once, with their keys, limits, fallbacks and costs.

A real provider's library asks a model server on the loopback interface, through the gate, the store and the driver.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from penstock.app.drivers import storage_of
from penstock.app.executors.configured import open_executors
from penstock.app.gate import local_owner, open_gate
from penstock.app.penstock import Penstock
from penstock.app.serving.metrics import export_metrics
from penstock.app.settings.model import HttpSettings, Settings, StorageSettings
from penstock.app.settings.named import ModelLimitSettings, ModelSettings, TokenPriceSettings
from penstock.base.ids import DEFAULT_TENANT
from penstock.cli.project.context import ProjectContext
from penstock.cli.project.findings import project_findings
from penstock.cli.runs.reports import RunContext, print_run
from penstock.governance.quotas import TENANT_SUBJECT
from penstock.runtime.tables.usage import read_usage
from tests.fixtures.model_server import Asked, CutsOff, Fails, ModelServer, Says, Stalls, model_server
from tests.unit.operations.conftest import Caller
from tests.waiting import SECONDS_MAX

pytestmark = pytest.mark.anyio
OPEN = HttpSettings(allow_private=True)
PRICES = {"input_per_million": 1_000.0, "output_per_million": 2_000.0}


@asynccontextmanager
async def server_with(folder: Path, settings: Settings | None = None) -> AsyncIterator[Caller]:
    """A gate and a driver with the executors of the settings, as a server has them."""
    chosen = settings or Settings(http=OPEN)
    async with (
        asyncio.timeout(SECONDS_MAX),
        open_executors(chosen) as equipment,
        Penstock.open(
            storage=storage_of(chosen, folder / "penstock.db"),
            executors=equipment.executors,
            secrets=equipment.secrets,
            models=equipment.models,
        ) as penstock,
        open_gate(penstock) as gate,
    ):
        yield Caller(gate, local_owner(), penstock)


def document(model: str = "fast", name: str = "ask", **node: Any) -> dict[str, Any]:
    asking = {"id": "ask", "type": "llm_call", "model": model, "prompt": "Capital of France?", **node}
    return {"penstock": "v1", "name": name, "nodes": [asking, {"id": "done", "type": "end", "output": "${ .ask }"}]}


def entry(server: ModelServer, **more: Any) -> dict[str, Any]:
    return {"provider": "openai-compatible", "model": "tiny-1", "base_url": server.url, **more}


async def run(caller: Caller, workflow: str = "ask") -> dict[str, Any]:
    """Execute a workflow and return the execution when it has ended."""
    done: dict[str, Any] = await caller.call("workflow.execute", workflow_id=workflow, sync=True)
    found: dict[str, Any] = await caller.call("execution.status", execution_id=done["execution_id"])
    return found


async def extra_of(caller: Caller, execution: dict[str, Any], kind: str) -> dict[str, Any]:
    """What the history keeps beside the result or the error of the node."""
    page = await caller.call("execution.history", execution_id=execution["execution_id"])
    [event] = [item for item in page["items"] if item["name"] == kind]
    found: dict[str, Any] = event["payload"]
    return found


async def test_a_registered_model_is_used_at_once_changed_with_the_next_call_and_gone_when_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_SECRET_KEY", "sk-first-secret")
    with model_server(otherwise=lambda asked: Says(f"I am {asked.model}")) as server:
        async with server_with(tmp_path) as caller:
            await caller.call("workflow.create", document=document())
            missing = await run(caller)
            assert missing["error"]["code"] == "COMPOSITE_EXECUTOR_NOT_CONFIGURED"
            await caller.call("model.create", id="fast", **entry(server, api_key_secret="KEY", prices=PRICES))
            first = await run(caller)
            assert first["output"] == {"text": "I am tiny-1"}
            assert first["usage"] == {
                "input_tokens": 12,
                "output_tokens": 3,
                "requests": 1,
                "cost": {"amount": "0.018", "currency": "USD"},
                "own": None,
            }
            changed = entry(server, api_key_secret="KEY", parameters={"temperature": 0.25}, limits={"max_tokens": 7})
            await caller.call("model.update", model_id="fast", **{**changed, "model": "tiny-2"})
            monkeypatch.setenv("PENSTOCK_SECRET_KEY", "sk-second-secret")
            assert (await run(caller))["output"] == {"text": "I am tiny-2"}
            await caller.call("model.create", id="other", **entry(server))
            await caller.call("model.delete", model_id="fast")
            gone = await run(caller)
    assert gone["error"]["code"] == "LLM_MODEL_NOT_FOUND"
    assert [asked.headers["authorization"] for asked in server.asked] == [
        "Bearer sk-first-secret",
        "Bearer sk-second-secret",
    ]
    sent = server.asked[1].body
    assert sent["temperature"] == 0.25
    assert 7 in (sent.get("max_tokens"), sent.get("max_completion_tokens"))
    assert b"sk-first-secret" not in (tmp_path / "penstock.db").read_bytes()


async def test_a_model_and_its_key_belong_to_one_tenant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_SECRET_KEY", "sk-of-the-operator")
    monkeypatch.setenv("PENSTOCK_SECRET_TENANT_ACME__KEY", "sk-of-acme")
    with model_server() as server:
        async with server_with(tmp_path) as caller:
            acme = await caller.new_caller("*", tenant="acme")
            other = await caller.new_caller("*", tenant="other")
            for one in (acme, other):
                await one.call("workflow.create", document=document())
            await acme.call("model.create", id="fast", **entry(server, api_key_secret="KEY"))
            assert (await run(acme))["output"] == {"text": "fine"}
            assert (await run(other))["error"]["code"] == "COMPOSITE_EXECUTOR_NOT_CONFIGURED"
            await other.call("model.create", id="fast", **entry(server, api_key_secret="KEY"))
            unset = await run(other)
    assert unset["error"]["code"] == "SECRET_NOT_SET"
    assert [asked.headers["authorization"] for asked in server.asked] == ["Bearer sk-of-acme"]


@pytest.mark.parametrize("provider", ["openai-compatible", "openai", "anthropic"])
async def test_a_private_address_is_refused_unless_the_settings_allow_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, provider: str
) -> None:
    monkeypatch.setenv("PENSTOCK_SECRET_KEY", "sk")
    with model_server() as server:
        async with server_with(tmp_path, Settings()) as caller:
            await caller.call("workflow.create", document=document())
            chosen = {**entry(server, api_key_secret="KEY"), "provider": provider}
            await caller.call("model.create", id="fast", **chosen)
            refused = await run(caller)
    assert refused["error"]["code"] == "HTTP_ADDRESS_DENIED"
    assert server.asked == []


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (Fails(429, "slow down", retry_after=1), "LLM_PROVIDER_ERROR"),
        (Fails(500), "LLM_PROVIDER_ERROR"),
        (CutsOff(), "LLM_PROVIDER_ERROR"),
        (Stalls(), "LLM_TIMEOUT"),
    ],
    ids=["429", "500", "cut off", "slow"],
)
async def test_a_fallback_answers_for_a_model_that_cannot_and_both_are_in_the_history(
    tmp_path: Path, reply: Any, code: str
) -> None:
    def otherwise(asked: Asked) -> Any:
        return reply if asked.model == "tiny-1" else Says("from the second", input_tokens=20, output_tokens=4)

    with model_server(otherwise=otherwise) as server:
        async with server_with(tmp_path) as caller:
            await caller.call("workflow.create", document=document())
            await caller.call("model.create", id="second", **{**entry(server, prices=PRICES), "model": "tiny-2"})
            # The library of the provider is imported before a short timeout has to hold.
            await caller.call("workflow.create", document=document("second", "warm_up"))
            await run(caller, "warm_up")
            slow = {"timeout_seconds": 0.5} if isinstance(reply, Stalls) else {}
            await caller.call("model.create", id="fast", **entry(server, fallbacks=["second"], **slow))
            done = await run(caller)
            kept = await extra_of(caller, done, "ActivityCompleted")
    assert done["output"] == {"text": "from the second"}
    assert done["usage"]["input_tokens"] == 20
    first, second = kept["attempts"]
    assert (first["name"], first["code"], first["requests"]) == ("fast", code, 0)
    assert (second["name"], second["model"], second["input_tokens"]) == ("second", "tiny-2", 20)
    assert second["cost"] == {"amount": "0.028", "currency": "USD"}


@pytest.mark.parametrize(
    ("reply", "code"),
    [(Fails(400, "too long"), "LLM_PROVIDER_ERROR"), (Fails(401, "who?"), "LLM_CREDENTIALS_MISSING")],
)
async def test_what_another_attempt_cannot_get_over_asks_no_fallback(tmp_path: Path, reply: Any, code: str) -> None:
    with model_server(otherwise=lambda asked: reply) as server:
        async with server_with(tmp_path) as caller:
            await caller.call("workflow.create", document=document())
            await caller.call("model.create", id="second", **entry(server))
            await caller.call("model.create", id="fast", **entry(server, fallbacks=["second"]))
            failed = await run(caller)
    assert failed["error"]["code"] == code
    assert len(server.asked) == 1


async def test_a_fallback_that_was_deleted_is_passed_by(tmp_path: Path) -> None:
    with model_server() as server:
        server.script.append(Fails(503))
        async with server_with(tmp_path) as caller:
            await caller.call("workflow.create", document=document())
            await caller.call("model.create", id="gone", **entry(server))
            await caller.call("model.create", id="last", **entry(server))
            await caller.call("model.create", id="fast", **entry(server, fallbacks=["gone", "last"]))
            await caller.call("model.delete", model_id="gone")
            done = await run(caller)
            kept = await extra_of(caller, done, "ActivityCompleted")
    codes = [(attempt["name"], attempt.get("code")) for attempt in kept["attempts"]]
    assert codes == [("fast", "LLM_PROVIDER_ERROR"), ("gone", "LLM_MODEL_NOT_FOUND"), ("last", None)]


async def test_limits_hold_for_requests_and_for_the_cost_of_a_day(tmp_path: Path) -> None:
    with model_server() as server:
        async with server_with(tmp_path) as caller:
            await caller.call("workflow.create", document=document("rare", "rare"))
            await caller.call("model.create", id="rare", **entry(server, limits={"requests_per_minute": 1}))
            assert (await run(caller, "rare"))["status"] == "completed"
            refused = await run(caller, "rare")
            assert refused["error"]["code"] == "LLM_LIMIT_REACHED"
            await caller.call("workflow.create", document=document("dear", "dear"))
            dear = entry(server, prices=PRICES, limits={"cost_per_day": 0.03}, fallbacks=["rare"])
            await caller.call("model.create", id="dear", **{**dear, "fallbacks": []})
            # 0.018 dollars each: the second is still within the day's limit, the third is not.
            assert [(await run(caller, "dear"))["status"] for _ in range(3)] == ["completed", "completed", "failed"]
            await caller.call("model.create", id="cheap", **entry(server))
            await caller.call("model.update", model_id="dear", **{**dear, "fallbacks": ["cheap"]})
            instead = await run(caller, "dear")
            kept = await extra_of(caller, instead, "ActivityCompleted")
    assert [attempt.get("code") for attempt in kept["attempts"]] == ["LLM_LIMIT_REACHED", None]


async def test_models_of_the_settings_have_the_same_limits_and_fallbacks_and_their_names_are_taken(
    tmp_path: Path,
) -> None:
    with model_server() as server:
        shared: dict[str, Any] = {"provider": "openai-compatible", "base_url": server.url}
        prices = TokenPriceSettings(input_per_million=1000, output_per_million=2000)
        settings = Settings(
            http=OPEN,
            models={
                "fast": ModelSettings(
                    model="tiny-1",
                    prices=prices,
                    limits=ModelLimitSettings(cost_per_day=0.01),
                    fallbacks=("spare",),
                    **shared,
                ),
                "spare": ModelSettings(model="tiny-2", **shared),
            },
        )
        async with server_with(tmp_path, settings) as caller:
            await caller.call("workflow.create", document=document())
            await run(caller)
            await run(caller)
            taken = await caller.refusal("model.create", id="fast", **entry(server))
            await caller.call("model.create", id="mine", **entry(server, fallbacks=["fast"]))
    assert taken.code == "MODEL_IN_SETTINGS"
    assert [asked.model for asked in server.asked] == ["tiny-1", "tiny-2"]


async def test_a_scripted_model_can_be_registered_and_goes_on_where_it_was(tmp_path: Path) -> None:
    async with server_with(tmp_path) as caller:
        await caller.call("workflow.create", document=document())
        await caller.call("model.create", id="fast", provider="mock", model="script", replies=["one", "two"])
        assert [(await run(caller))["output"] for _ in range(2)] == [{"text": "one"}, {"text": "two"}]


async def test_members_that_do_not_fit_together_are_refused(tmp_path: Path) -> None:
    async with server_with(tmp_path) as caller:

        async def refused(**body: Any) -> tuple[str, str]:
            error = await caller.refusal("model.create", id="m", **{"provider": "openai", "model": "x", **body})
            return error.code, f"{error.message} {error.hint}"

        code, text = await refused(provider="mistral")
        assert code == "MODEL_PROVIDER_UNKNOWN"
        assert "openai-compatible" in text
        for body in (
            {"provider": "openai-compatible"},
            {"provider": "deepseek", "base_url": "https://example.com"},
            {"replies": ["a"]},
            {"parameters": {"temprature": 1}},
            {"limits": {"cost_per_day": 5}},
            {"fallbacks": ["nobody"]},
            {"fallbacks": ["m"]},
        ):
            assert (await refused(**body))[0] == "MODEL_INVALID", body
        await caller.call("model.create", id="a", provider="openai", model="x")
        await caller.call("model.create", id="b", provider="openai", model="x", fallbacks=["a"])
        back = await caller.refusal("model.update", model_id="a", provider="openai", model="x", fallbacks=["b"])
        assert back.code == "MODEL_INVALID"
        assert "a → b → a" in back.message


async def test_documents_are_checked_against_registered_models(tmp_path: Path) -> None:
    async with server_with(tmp_path) as caller:
        created = await caller.call("workflow.create", document=document("fats"))
        [warning] = created["warnings"]
        assert (warning["code"], warning["severity"]) == ("UNKNOWN_MODEL", "warning")
        assert warning["path"] == "/nodes/0/model"
        await caller.call("model.create", id="fast", provider="openai", model="x")
        checked = await caller.call("workflow.validate", document=document("fats"))
        assert checked["valid"]
        assert [finding["hint"] for finding in checked["findings"]] == ["did you mean `fast`?"]
        changed = await caller.call("workflow.update", workflow_id="ask", document=document("fast"))
        assert changed["warnings"] is None
    known = ProjectContext(settings=Settings(storage=StorageSettings(path=str(tmp_path / "penstock.db"))), steps=None)
    found = [list(project_findings(document(model), known)) for model in ("fast", "fats")]
    assert [[finding.hint for finding in findings] for findings in found] == [[], ["did you mean `fast`?"]]


async def test_tokens_and_cost_are_in_the_metrics_the_quotas_and_the_report_of_a_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with model_server() as server:
        async with server_with(tmp_path) as caller:
            await caller.call("workflow.create", document=document())
            limited = {"limits": {"requests_per_minute": 1}}
            await caller.call("model.create", id="fast", **entry(server, prices=PRICES, **limited))
            with export_metrics(caller.penstock, caller.gate.services):
                done = await run(caller)
                await run(caller)
            telemetry, platform = caller.gate.services.telemetry, caller.gate.services.platform
            used = await read_usage(platform, DEFAULT_TENANT, TENANT_SUBJECT, at=caller.penstock.host.clock.now_ms())
    assert telemetry.model_attempts.values == {
        ("openai-compatible", "answered"): 1,
        ("openai-compatible", "limited"): 1,
    }
    assert telemetry.model_tokens.values == {("openai-compatible", "input"): 12, ("openai-compatible", "output"): 3}
    assert telemetry.model_cost.values == {("openai-compatible",): pytest.approx(0.018)}
    assert (used.tokens, used.cost) == (15, 18_000)
    print_run(done, RunContext(now=0, where=()))
    assert "models      1 request, 12 tokens in, 3 out, 0.018 USD" in capsys.readouterr().out
