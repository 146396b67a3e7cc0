"""Signatures of webhooks: vectors from elsewhere, and everything that must not pass."""

from __future__ import annotations

import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.governance.webhook_signatures import (
    SIGNATURE_HEADERS,
    STRATEGIES,
    Strategy,
    Unverified,
    Verified,
    endpoint_secret,
    secret_text,
    sign_request,
    standard_headers,
    verify_request,
)

NOW = 1_767_225_600_000
SKEW = 300_000
BODY = b'{"order": 7}'
SECRET = "correct horse"


def signed(strategy: Strategy, body: bytes = BODY, *, at_ms: int = NOW, secret: str = SECRET) -> dict[str, str]:
    if strategy == "standard":
        return standard_headers((secret.encode(),), "msg_1", body, now_ms=at_ms)
    if strategy == "github":
        return {SIGNATURE_HEADERS["github"]: "sha256=" + hmac.digest(secret.encode(), body, "sha256").hex()}
    return {SIGNATURE_HEADERS[strategy]: sign_request(secret, body, now_ms=at_ms)}


def verdict(strategy: Strategy, headers: dict[str, str], body: bytes = BODY, *, now_ms: int = NOW) -> str:
    found = verify_request(strategy, SECRET, headers, body, now_ms=now_ms, skew_ms=SKEW)
    return "verified" if isinstance(found, Verified) else found.code


def test_the_example_of_githubs_documentation_verifies() -> None:
    # docs.github.com, "Validating webhook deliveries": secret, payload and the signature they give.
    expected = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    found = verify_request(
        "github",
        "It's a Secret to Everybody",
        {"x-hub-signature-256": expected},
        b"Hello, World!",
        now_ms=NOW,
        skew_ms=SKEW,
    )
    assert isinstance(found, Verified)


def test_the_example_of_standard_webhooks_verifies() -> None:
    # The test vector of the Standard Webhooks libraries.
    headers = {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    body = b'{"test": 2432232314}'
    found = verify_request("standard", secret, headers, body, now_ms=1_614_265_330_000, skew_ms=SKEW)
    assert isinstance(found, Verified)


def test_our_own_signature_is_an_hmac_of_time_and_body() -> None:
    expected = hmac.new(b"k", b"1767225600.{}", "sha256").hexdigest()
    assert sign_request("k", b"{}", now_ms=NOW) == f"t=1767225600,v1={expected}"


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_genuine_request_passes_and_another_one_does_not(strategy: Strategy) -> None:
    assert verdict(strategy, signed(strategy)) == "verified"
    assert verdict(strategy, signed(strategy), b'{"order": 8}') == "WEBHOOK_SIGNATURE_INVALID"
    assert verdict(strategy, signed(strategy, secret="other")) == "WEBHOOK_SIGNATURE_INVALID"
    assert verdict(strategy, {}) == "WEBHOOK_SIGNATURE_MISSING"
    assert verdict(strategy, dict.fromkeys(signed(strategy), "")) == "WEBHOOK_SIGNATURE_MISSING"


@pytest.mark.parametrize("strategy", ["hmac", "stripe", "standard"])
def test_a_time_must_be_near(strategy: Strategy) -> None:
    headers = signed(strategy)
    assert verdict(strategy, headers, now_ms=NOW + SKEW) == "verified"
    assert verdict(strategy, headers, now_ms=NOW - SKEW) == "verified"
    assert verdict(strategy, headers, now_ms=NOW + SKEW + 1) == "WEBHOOK_SIGNATURE_EXPIRED"
    assert verdict(strategy, headers, now_ms=NOW - SKEW - 1) == "WEBHOOK_SIGNATURE_EXPIRED"


@pytest.mark.parametrize("strategy", ["hmac", "stripe"])
def test_a_time_that_was_not_signed_does_not_help(strategy: Strategy) -> None:
    name = SIGNATURE_HEADERS[strategy]
    old = signed(strategy, at_ms=NOW - 10 * SKEW)[name]
    assert verdict(strategy, {name: f"t={NOW // 1_000},{old.partition(',')[2]}"}) == "WEBHOOK_SIGNATURE_INVALID"


def test_one_right_signature_among_several_is_enough() -> None:
    right = signed("stripe")["stripe-signature"]
    seconds, _, claim = right.partition(",")
    assert verdict("stripe", {"stripe-signature": f"{seconds},v1={'0' * 64},{claim},v0=abc"}) == "verified"
    headers = standard_headers((b"old", SECRET.encode()), "msg_1", BODY, now_ms=NOW)
    assert verdict("standard", headers) == "verified"


@pytest.mark.parametrize(
    "value",
    [
        "nonsense",
        "t=1",
        "v1=00",
        "t=,v1=00",
        "t=abc,v1=00",
        "t=1,t=2,v1=00",
        "t=-5,v1=00",
        "t=1767225600" + ",v1=00" * 11,
        "t=1767225600,v1=" + "0" * 4_000,
        "t=1767225600,v1=é",
        "t=9999999999999999999999,v1=00",
    ],
)
def test_headers_that_are_written_otherwise_are_refused(value: str) -> None:
    assert verdict("hmac", {"x-penstock-signature": value}) == "WEBHOOK_SIGNATURE_INVALID"


@given(st.sampled_from(STRATEGIES), st.text(max_size=300), st.text(max_size=50), st.text(max_size=50))
def test_no_header_that_somebody_makes_up_passes_or_crashes(
    strategy: Strategy, value: str, message_id: str, seconds: str
) -> None:
    headers = {SIGNATURE_HEADERS[strategy]: value, "webhook-id": message_id, "webhook-timestamp": seconds}
    found = verify_request(strategy, SECRET, headers, BODY, now_ms=NOW, skew_ms=SKEW)
    assert isinstance(found, Unverified)


@given(st.sampled_from(STRATEGIES), st.binary(max_size=200), st.text(min_size=1, max_size=40))
def test_what_was_signed_verifies(strategy: Strategy, body: bytes, secret: str) -> None:
    headers = signed(strategy, body, secret=secret.encode("utf-8", "replace").decode())
    key = secret.encode("utf-8", "replace").decode()
    found = verify_request(strategy, key, headers, body, now_ms=NOW, skew_ms=SKEW)
    assert isinstance(found, Verified) or key.startswith("whsec_")


def test_another_header_can_be_named() -> None:
    headers = {"x-signature": sign_request(SECRET, BODY, now_ms=NOW)}
    found = verify_request("hmac", SECRET, headers, BODY, now_ms=NOW, skew_ms=SKEW, header="X-Signature")
    assert isinstance(found, Verified)


def test_the_same_request_has_the_same_identity_and_another_one_another() -> None:
    def identity(headers: dict[str, str], body: bytes = BODY) -> str:
        found = verify_request("hmac", SECRET, headers, body, now_ms=NOW, skew_ms=SKEW)
        assert isinstance(found, Verified)
        return found.identity

    assert identity(signed("hmac")) == identity(signed("hmac"))
    assert identity(signed("hmac")) != identity(signed("hmac", at_ms=NOW + 1_000))
    shouted = {
        name: value.replace("v1=", "v1=").upper().replace("T=", "t=").replace("V1=", "v1=")
        for name, value in signed("hmac").items()
    }
    assert identity(signed("hmac")) == identity(shouted)


def test_the_secret_of_an_endpoint_depends_on_everything_that_names_it() -> None:
    secrets = {
        endpoint_secret(b"pepper", "default", "wh_1", 1),
        endpoint_secret(b"other", "default", "wh_1", 1),
        endpoint_secret(b"pepper", "acme", "wh_1", 1),
        endpoint_secret(b"pepper", "default", "wh_2", 1),
        endpoint_secret(b"pepper", "default", "wh_1", 2),
    }
    assert len(secrets) == 5
    assert all(len(secret) == 32 for secret in secrets)


def test_what_is_sent_verifies_with_the_secret_that_was_shown() -> None:
    secret = endpoint_secret(b"pepper", "default", "wh_1", 1)
    headers = standard_headers((secret,), "dlv_1", BODY, now_ms=NOW)
    found = verify_request("standard", secret_text(secret), headers, BODY, now_ms=NOW, skew_ms=SKEW)
    assert isinstance(found, Verified)
