"""What executors say in words does not repeat the secrets that they were given."""

import asyncio

from penstock.engine.effects import PerformActivity
from penstock.runtime.activities.performing import ActivityCall, ActivityError
from penstock.runtime.activities.routing import Router
from penstock.runtime.executors.step.executor import StepExecutor
from penstock.runtime.steps.registry import StepRegistry, step

SECRET = "s3cr3t-t0ken"


@step(name="login")
async def login(token: str) -> dict[str, str]:
    """A step that says what it was given when it fails."""
    raise ValueError(f"the server refused {token}")


def test_an_exception_of_a_step_says_no_secret_that_it_was_given() -> None:
    registry = StepRegistry()
    registry.register(login)
    router = Router(executors={"step": StepExecutor(registry)}, secrets={"TOKEN": SECRET}.get)
    activity = PerformActivity(
        effect_id="r/login/1/1",
        node_id="login",
        visit=1,
        attempt=1,
        node_type="step",
        idempotency_key="k",
        config={"handler": "login"},
        arguments={"token": "***"},
        secrets={"/token": "Bearer ${secret:TOKEN}"},
    )
    call = ActivityCall(run_id="r", workflow_name="w", activity=activity, values={})
    outcome = asyncio.run(router.perform(call))
    assert isinstance(outcome, ActivityError)
    assert SECRET not in repr(outcome)
    assert "the server refused" in outcome.error
