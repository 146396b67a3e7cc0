"""Strangers are counted by the address that they come from, and never lock out whoever has a key."""

from __future__ import annotations

from collections import Counter

import pytest

from penstock.base.errors import Denied, LimitExceeded
from penstock.operations.gate.context import Credentials, GateLimits
from penstock.operations.gate.pipeline import Gate
from penstock.operations.gate.rates.peers import PeerLimits, peer_of
from penstock.runtime.ports.platform import AuditQuery
from penstock.runtime.tables.audit.records import list_audit
from tests.unit.operations.conftest import Caller, OpenGate

pytestmark = pytest.mark.anyio
WRONG = "pen_aaaaaaaaaaaa_" + "x" * 43


class Stopped:
    """A clock that stands."""

    def now_ms(self) -> int:
        return 1_000

    def elapsed_ms(self) -> int:
        return 1_000


@pytest.mark.parametrize(
    ("remote", "peer"),
    [
        ("203.0.113.7", "203.0.113.7"),
        ("::ffff:203.0.113.7", "203.0.113.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff::", "2001:db8:1:2::/64"),
        ("2001:db8:1:3::1", "2001:db8:1:3::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("somewhere", "somewhere"),
        ("x" * 500, "x" * 64),
    ],
)
def test_an_address_counts_as_whoever_has_it(remote: str, peer: str) -> None:
    assert peer_of(remote) == peer


def test_requests_and_wrong_credentials_are_counted_apart() -> None:
    peers = PeerLimits(GateLimits(unauthenticated_per_minute=12, failed_logins_per_minute=6), Stopped())
    assert [peers.count("203.0.113.7") is None for _ in range(3)] == [True, True, False]
    assert [peers.count("203.0.113.7", failed=True) is None for _ in range(2)] == [True, False]
    assert peers.count("203.0.113.8") is None
    with pytest.raises(LimitExceeded) as refused:
        peers.check("203.0.113.7")
    assert refused.value.details == {"retry_after_seconds": 5, "limit": "unauthenticated", "per_minute": 12, "burst": 2}
    limited = peers.count("203.0.113.7", failed=True)
    assert limited is not None
    assert limited.details == {"retry_after_seconds": 10, "limit": "failed_logins", "per_minute": 6, "burst": 1}


def test_somebody_without_an_address_is_not_counted() -> None:
    peers = PeerLimits(GateLimits(unauthenticated_per_minute=6), Stopped())
    for _ in range(5):
        peers.check(None)
        assert peers.count(None) is None


async def code_of(gate: Gate, bearer: str | None, remote: str = "203.0.113.7") -> str | None:
    """What somebody is told who comes from an address; None if they are let in."""
    try:
        await gate.authenticate(Credentials(bearer=bearer), surface="rest", request_id="r", remote=remote)
    except (Denied, LimitExceeded) as error:
        return error.code
    return None


async def new_key(owner: Caller) -> str:
    secret: str = (await owner.call("key.create", name="somebody", scopes=["workflow:read"]))["secret"]
    return secret


async def test_valid_credentials_are_let_in_whatever_came_from_their_address(open_caller: OpenGate) -> None:
    async with open_caller(failed_logins_per_minute=6, unauthenticated_per_minute=6) as owner:
        gate, key, late = owner.gate, await new_key(owner), await new_key(owner)
        for bearer in (WRONG, None):
            assert await code_of(gate, bearer) == "UNAUTHENTICATED"
            assert [await code_of(gate, bearer) for _ in range(3)] == ["RATE_LIMITED"] * 3
            assert await code_of(gate, key) is None
        # A key that this process never saw before, too.
        assert await code_of(gate, late) is None
        assert await code_of(gate, WRONG, "203.0.113.8") == "UNAUTHENTICATED"


async def test_a_flood_of_strangers_is_on_record_with_its_address_and_few_rows(open_caller: OpenGate) -> None:
    async with open_caller(failed_logins_per_minute=6) as owner:
        for _ in range(200):
            await code_of(owner.gate, WRONG)
        await owner.gate.flush(final=True)
        page = await list_audit(owner.gate.services.platform, AuditQuery(tenant="-", limit=100))
        counts = Counter[str | None]()
        for record in page.records:
            counts[record.entry.code] += record.entry.count
        assert counts == {"UNAUTHENTICATED": 1, "RATE_LIMITED": 199}
        assert len(page.records) <= 4
