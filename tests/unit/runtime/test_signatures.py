"""Whose workflows are trusted: off, warn and require, and what is remembered of it."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import assume, given
from hypothesis import strategies as st

from penstock.base.errors import Rejected
from penstock.base.json import JsonObject
from penstock.definitions.canonical import canonical_json, definition_hash, signature_of, without_signature
from penstock.definitions.signature import public_key_spki, sign_definition
from penstock.runtime.signatures import SignatureTrust

KEY, OTHER = Ed25519PrivateKey.from_private_bytes(bytes(32)), Ed25519PrivateKey.from_private_bytes(bytes([1]) * 32)
DOCUMENT: JsonObject = {
    "penstock": "v1",
    "name": "greet",
    "governance": {"scopes": ["greet:run"], "risk": "low"},
    "nodes": [
        {"id": "ask", "type": "human_input", "prompt": "Who?", "amount": 5},
        {"id": "done", "type": "end", "output": {"text": "${ .input.name }", "list": [1, 2.5, None, True]}},
    ],
}
SIGNED = sign_definition(DOCUMENT, key_id="k1", private_key=KEY)


def trust(mode: str = "require", **more: Any) -> SignatureTrust:
    return SignatureTrust(mode=mode, trusted_keys={"k1": public_key_spki(KEY)}, **more)  # type: ignore[arg-type]  # a parameter of the test


def code_of(document: JsonObject) -> str | None:
    return trust().verdict(document, definition_hash(document)).code


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every part of a document."""
    found = [path] if path else []
    if isinstance(value, dict):
        for name in value:
            found += places(value[name], (*path, name))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            found += places(item, (*path, number))
    return found


def changed(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    if isinstance(value, dict):
        return {name: changed(item, path[1:], new) if name == path[0] else item for name, item in value.items()}
    return [changed(item, path[1:], new) if number == path[0] else item for number, item in enumerate(value)]


values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**53), 2**53), st.text(max_size=10)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)),
    max_leaves=5,
)


@pytest.mark.parametrize("path", [pytest.param(path, id="/".join(map(str, path))) for path in places(DOCUMENT)])
def test_every_part_of_a_document_is_covered(path: tuple[Any, ...]) -> None:
    assert code_of(changed(SIGNED, path, "tampered")) == "SIGNATURE_INVALID"


@given(st.sampled_from(places(SIGNED)), values)
def test_any_change_of_a_document_breaks_its_signature(path: tuple[Any, ...], new: Any) -> None:
    tampered = changed(SIGNED, path, new)
    assume(canonical_json(tampered) != canonical_json(SIGNED))
    verdict = trust().verdict(tampered, definition_hash(tampered))
    same_content = canonical_json(without_signature(tampered)) == canonical_json(without_signature(DOCUMENT))
    # The id of the key stands twice in a signature; the copy outside may be left out.
    if same_content and path == ("signature", "keyId") and new is None:
        assert verdict.is_good
    else:
        assert not verdict.is_good


@given(st.dictionaries(st.text(max_size=8), values, min_size=1, max_size=3))
def test_anything_that_is_added_breaks_it(more: dict[str, Any]) -> None:
    assume(not set(more) & {*DOCUMENT, "signature", "document"})
    assert code_of({**SIGNED, **more}) == "SIGNATURE_INVALID"


@given(st.permutations(list(SIGNED)))
def test_the_order_of_members_does_not_matter(names: list[str]) -> None:
    assert code_of({name: SIGNED[name] for name in names}) is None


def test_the_three_reasons_have_codes_and_hints() -> None:
    by_other = sign_definition(DOCUMENT, key_id="k2", private_key=OTHER)
    posing = sign_definition(DOCUMENT, key_id="k1", private_key=OTHER)
    assert code_of(DOCUMENT) == "SIGNATURE_REQUIRED"
    assert code_of(by_other) == "SIGNER_NOT_TRUSTED"
    assert code_of(posing) == "SIGNATURE_INVALID"
    assert code_of({**DOCUMENT, "signature": "signed, honestly"}) == "SIGNATURE_INVALID"
    for document in (DOCUMENT, by_other, posing):
        with pytest.raises(Rejected) as caught:
            trust().refuse("greet", document, definition_hash(document))
        assert "penstock workflow sign" in (caught.value.hint or "") or "trusted" in (caught.value.hint or "")


def test_off_looks_at_nothing_and_warn_warns_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    digest = definition_hash(DOCUMENT)
    trust("off").refuse("greet", DOCUMENT, digest)
    assert caplog.records == []
    warning = trust("warn")
    for _ in range(3):
        warning.refuse("greet", DOCUMENT, digest)
        warning.refuse("greet", SIGNED, digest)
    assert [record.getMessage().split(": ")[1] for record in caplog.records] == ["SIGNATURE_REQUIRED"]


def test_a_workflow_that_this_process_made_needs_no_signature() -> None:
    required = trust()
    required.vouch(definition_hash(DOCUMENT))
    required.refuse("greet", DOCUMENT, definition_hash(DOCUMENT))


def test_a_remembered_verdict_is_not_that_of_another_signature() -> None:
    required, digest = trust(), definition_hash(DOCUMENT)
    assert required.verdict(SIGNED, digest).is_good
    assert not required.verdict(DOCUMENT, digest).is_good
    block = signature_of(SIGNED)
    assert isinstance(block, dict)
    token = str(block["value"])
    forged = {
        **SIGNED,
        "signature": {**block, "value": token[:-6] + ("AAAAAA" if token[-6:] != "AAAAAA" else "BBBBBB")},
    }
    assert not required.verdict(forged, digest).is_good
