"""The digest that an approval is bound to: equal for equal calls, different for any other."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
import pytest
import rfc8785

from penstock.governance.approvals import CallBinding, digest_of, value_digest

BINDING = CallBinding(
    principal="key:robot",
    tenant="default",
    capability="workflow:erase",
    schema_version="v1",
    arguments={"b": [1, 2.5, None], "a": "é"},
    state_witness={"hash": "x"},
    policy_version="p1",
    expires_at=1_767_225_600_000,
)


def test_it_is_the_sha256_of_the_rfc_8785_form() -> None:
    assert digest_of(BINDING) == hashlib.sha256(rfc8785.dumps(BINDING.to_json())).hexdigest()


@pytest.mark.parametrize(
    "change",
    [
        {"principal": "key:other"},
        {"tenant": "acme"},
        {"capability": "workflow:keep"},
        {"schema_version": "v2"},
        {"arguments": {"b": [1, 2.5], "a": "é"}},
        {"arguments": {"b": [1, 2.5, None], "a": "e"}},
        {"state_witness": {"hash": "y"}},
        {"state_witness": None},
        {"policy_version": "p2"},
        {"policy_version": None},
        {"expires_at": 1_767_225_600_001},
    ],
    ids=str,
)
def test_a_change_of_any_part_is_another_digest(change: dict[str, Any]) -> None:
    assert digest_of(msgspec.structs.replace(BINDING, **change)) != digest_of(BINDING)


def test_the_order_of_members_does_not_matter_and_large_numbers_do() -> None:
    assert value_digest({"a": 1, "b": 2}) == value_digest({"b": 2, "a": 1})
    assert value_digest(2**53) != value_digest(2**53 + 1)
