"""Which calls wait, as a table, and what an agent may do by itself."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.governance.holds import (
    PRESETS,
    Approval,
    CallFacts,
    Grant,
    Preset,
    WriteProof,
    auto_execution_denied,
    hold_of,
)

RISKS = ("low", "medium", "high", "critical")
FULL = WriteProof(preflight="matches", has_idempotency_key=True, has_justification=True)

facts = st.builds(
    CallFacts,
    changes=st.booleans(),
    by_agent=st.booleans(),
    risk=st.sampled_from(RISKS),
    confirm=st.booleans(),
    draft=st.sampled_from(("never", "always", "on_risk")),
    by_owner=st.booleans(),
    wants_draft=st.booleans(),
    caller=st.just("key:k"),
)


@pytest.mark.parametrize(
    ("preset", "said", "reason"),
    [
        ("careful", {"by_agent": True, "risk": "high"}, "risk"),
        ("careful", {"by_agent": True, "risk": "critical"}, "risk"),
        ("careful", {"by_agent": True, "risk": "medium"}, None),
        ("careful", {"by_agent": False, "risk": "critical"}, None),
        ("careful", {"by_agent": True, "confirm": True}, "confirm"),
        ("careful", {"by_agent": False, "confirm": True}, None),
        ("careful", {"by_agent": False, "draft": "always"}, "draft"),
        ("careful", {"by_agent": False, "draft": "on_risk", "risk": "high"}, "draft"),
        ("careful", {"by_agent": False, "draft": "on_risk", "risk": "low"}, None),
        ("careful", {"by_agent": False, "draft": "always", "by_owner": True}, None),
        ("open", {"by_agent": True, "risk": "critical", "draft": "always", "confirm": True}, None),
        ("open", {"by_agent": True, "wants_draft": True}, "requested"),
        ("strict", {"by_agent": True, "risk": "low"}, "agent_write"),
        ("strict", {"by_agent": True, "risk": "high"}, "risk"),
        ("strict", {"by_agent": False, "risk": "high"}, None),
        ("strict", {"by_agent": True, "changes": False}, None),
    ],
)
def test_who_waits(preset: Preset, said: dict[str, Any], reason: str | None) -> None:
    found = hold_of(preset, CallFacts(**{"changes": True, **said}), denied_code="AUTO_EXECUTE_DISABLED")
    assert (found.reason if found is not None else None) == reason


@given(facts, st.sampled_from(PRESETS))
def test_what_a_policy_asks_for_always_waits_for_whom_it_says(said: CallFacts, preset: Preset) -> None:
    asked = (Approval(groups=("leads",), count=2), Approval(groups=("finance",)))
    found = hold_of(preset, said, policy=asked)
    assert found is not None
    assert (found.reason, found.approvals) == ("policy", asked)


@given(facts)
def test_a_stricter_preset_never_holds_less(said: CallFacts) -> None:
    held = [hold_of(preset, said, denied_code="X") is not None for preset in ("open", "careful", "strict")]
    assert held == sorted(held)


@given(facts, st.sampled_from(PRESETS))
def test_what_only_reads_never_waits(said: CallFacts, preset: Preset) -> None:
    reads = CallFacts(changes=False, by_agent=said.by_agent, risk=said.risk, confirm=said.confirm, draft=said.draft)
    assert hold_of(preset, reads, denied_code="X") is None


@pytest.mark.parametrize(
    ("grants", "risk", "proof", "code"),
    [
        ((), "low", FULL, "AUTO_EXECUTE_DISABLED"),
        ((Grant(capabilities=frozenset(), expires_at=10),), "low", FULL, "AUTO_EXECUTE_DENIED"),
        ((Grant(capabilities=frozenset({"b"}), expires_at=10),), "low", FULL, "AUTO_EXECUTE_DENIED"),
        ((Grant(capabilities=frozenset({"a"}), expires_at=5),), "low", FULL, "AUTO_EXECUTE_EXPIRED"),
        ((Grant(capabilities=frozenset({"a"}), expires_at=10),), "low", WriteProof(), None),
        ((Grant(capabilities=frozenset({"a"}), expires_at=10),), "high", FULL, "AUTO_EXECUTE_DISABLED"),
        ((Grant(capabilities=frozenset({"a"}), expires_at=10, high_risk=True),), "high", FULL, None),
        (
            (Grant(capabilities=frozenset({"a"}), expires_at=10, high_risk=True),),
            "high",
            WriteProof(preflight="matches", has_idempotency_key=True),
            "JUSTIFICATION_REQUIRED",
        ),
        (
            (Grant(capabilities=frozenset({"a"}), expires_at=10, high_risk=True),),
            "high",
            WriteProof(preflight="matches", has_justification=True),
            "IDEMPOTENCY_KEY_REQUIRED",
        ),
        (
            (Grant(capabilities=frozenset({"a"}), expires_at=10, high_risk=True),),
            "critical",
            WriteProof(has_justification=True, has_idempotency_key=True),
            "PREFLIGHT_REQUIRED",
        ),
        (
            (Grant(capabilities=frozenset({"a"}), expires_at=10, high_risk=True),),
            "critical",
            WriteProof(preflight="mismatch", has_justification=True, has_idempotency_key=True),
            "PREFLIGHT_MISMATCH",
        ),
    ],
)
def test_what_an_agent_may_do_by_itself(
    grants: tuple[Grant, ...], risk: Any, proof: WriteProof, code: str | None
) -> None:
    assert auto_execution_denied("a", risk, grants, proof, now=5) == code


def risky(**more: Any) -> Grant:
    return Grant(capabilities=frozenset({"a"}), expires_at=10, high_risk=True, **more)


@pytest.mark.parametrize(
    ("grants", "proof", "code"),
    [
        ((risky(needs_preflight=False),), WriteProof(has_justification=True, has_idempotency_key=True), None),
        ((risky(needs_idempotency_key=False),), WriteProof(has_justification=True, preflight="matches"), None),
        ((risky(needs_preflight=False, needs_idempotency_key=False),), WriteProof(has_justification=True), None),
        (
            (risky(needs_preflight=False, needs_idempotency_key=False),),
            WriteProof(has_idempotency_key=True, preflight="matches"),
            "JUSTIFICATION_REQUIRED",
        ),
        (
            (risky(needs_preflight=False),),
            WriteProof(has_justification=True, preflight="matches"),
            "IDEMPOTENCY_KEY_REQUIRED",
        ),
        (
            (risky(needs_preflight=False),),
            WriteProof(has_justification=True, has_idempotency_key=True, preflight="mismatch"),
            "PREFLIGHT_MISMATCH",
        ),
        # One grant is enough, whichever comes first; one that has ended lets nothing pass.
        (
            (risky(), risky(needs_preflight=False, needs_idempotency_key=False)),
            WriteProof(has_justification=True),
            None,
        ),
        (
            (
                risky(),
                Grant(
                    capabilities=frozenset({"a"}),
                    expires_at=5,
                    high_risk=True,
                    needs_preflight=False,
                    needs_idempotency_key=False,
                ),
            ),
            WriteProof(has_justification=True),
            "IDEMPOTENCY_KEY_REQUIRED",
        ),
    ],
)
def test_a_grant_says_what_a_dangerous_call_has_to_bring(
    grants: tuple[Grant, ...], proof: WriteProof, code: str | None
) -> None:
    assert auto_execution_denied("a", "high", grants, proof, now=5) == code


def test_a_grant_for_what_could_do_harm_may_cover_nothing_else() -> None:
    alone = (risky(low_risk=False),)
    assert auto_execution_denied("a", "medium", alone, FULL, now=5) == "AUTO_EXECUTE_DISABLED"
    assert auto_execution_denied("a", "high", alone, FULL, now=5) is None
