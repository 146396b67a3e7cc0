"""Checkpoints are stamped by an authority; one that fails holds up nothing, and is asked again."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.app.serving.checkpoints import CheckpointChoices, CheckpointKeeper
from penstock.app.serving.stamping import StampChoices, Stamper, StampStatus, with_stamp_check
from penstock.base.clock import ManualClock
from penstock.base.errors import Rejected
from penstock.operations.audit.stamps import stamp_of
from penstock.operations.gate.context import ServerParts, WebhookChoices
from penstock.operations.gate.pipeline import Gate
from penstock.operations.system.health import STAMPS_CHECK, is_ready
from tests.fixtures.timestamp_authority import Authority, authority
from tests.unit.app.serving.test_checkpoints import HOUR, changes, signed, with_gate

PRIVATE = ServerParts(webhooks=WebhookChoices(allow_private_addresses=True))
pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="there is no openssl to stamp with")


@pytest.fixture
def tsa(tmp_path: Path) -> Iterator[Authority]:
    with authority(tmp_path / "authority") as made:
        yield made


def keeper_with(gate: Gate, tsa: Authority, certificates: Path | None = None) -> tuple[CheckpointKeeper, StampStatus]:
    status = StampStatus()
    stamper = Stamper(gate, StampChoices(url=tsa.url, certificates=certificates), status)
    return CheckpointKeeper(gate, CheckpointChoices(every_entries=3, every_ms=HOUR), [], stamper), status


async def stamped(gate: Gate, size: int, tenant: str = "default") -> bool:
    return await stamp_of(gate.services.platform, tenant, size) is not None


def test_the_newest_checkpoint_of_each_trail_is_stamped_once(tmp_path: Path, tsa: Authority) -> None:
    async def test(gate: Gate, clock: ManualClock) -> None:
        keeper, status = keeper_with(gate, tsa, certificates=tsa.root)
        await changes(gate, 0, 3)
        await changes(gate, 0, 3, tenant="shop")
        await keeper.look()
        await keeper.look()
        assert (await stamped(gate, 3), await stamped(gate, 3, "shop"), len(tsa.asked)) == (True, True, 2)
        assert status.reason is None
        clock.advance(2 * HOUR)
        await keeper.look()
        assert await signed(gate) == 3, "nothing came but the records of the checkpoint and of its stamp"
        again, _ = keeper_with(gate, tsa)
        await again.look()
        assert len(tsa.asked) == 2, "another process knows that it is stamped"
        await keeper.stamper.close()  # type: ignore[union-attr]
        await again.stamper.close()  # type: ignore[union-attr]

    with_gate(tmp_path / "penstock.db", test, PRIVATE)


@pytest.mark.parametrize(
    ("status", "answer", "reason"),
    [
        (500, None, "it answered 500"),
        (200, b"<html>", "not a stamp"),
        (200, b"x" * 70_000, "more than 65536 bytes"),
    ],
)
def test_an_authority_that_fails_never_stops_checkpoints_and_is_asked_again_later(
    tmp_path: Path, tsa: Authority, status: int, answer: bytes | None, reason: str
) -> None:
    async def test(gate: Gate, clock: ManualClock) -> None:
        keeper, state = keeper_with(gate, tsa)
        assert keeper.stamper is not None
        tsa.status, tsa.answer = status, answer
        await changes(gate, 0, 3)
        await keeper.look()
        await keeper.look()
        assert (await signed(gate), await stamped(gate, 3), len(tsa.asked)) == (3, False, 1)
        assert reason in str(state.reason)
        await changes(gate, 3, 3)
        await keeper.look()
        assert await signed(gate) == 7

        async def well() -> dict[str, str]:
            return {"store": "ok"}

        checks = await with_stamp_check(well, state)()
        assert reason in checks[STAMPS_CHECK]
        assert is_ready(checks)
        tsa.status, tsa.answer = 200, None
        clock.advance(keeper.stamper.choices.retry_ms)
        await keeper.look()
        assert (await stamped(gate, 7), await stamped(gate, 3)) == (True, False), "the newest covers what is before it"
        assert (await with_stamp_check(well, state)())[STAMPS_CHECK] == "ok"
        await keeper.stamper.close()

    with_gate(tmp_path / "penstock.db", test, PRIVATE)


def test_a_stamp_of_somebody_else_is_not_kept(tmp_path: Path, tsa: Authority) -> None:
    async def test(gate: Gate, clock: ManualClock) -> None:
        with authority(tmp_path / "other") as other:
            keeper, status = keeper_with(gate, tsa, certificates=other.root)
        await changes(gate, 0, 3)
        await keeper.look()
        assert (await stamped(gate, 3), "signed by an authority" in str(status.reason)) == (False, True)
        await keeper.stamper.close()  # type: ignore[union-attr]

    with_gate(tmp_path / "penstock.db", test, PRIVATE)


def test_an_authority_in_a_private_network_is_asked_only_if_webhooks_may_go_there(
    tmp_path: Path, tsa: Authority
) -> None:
    async def test(gate: Gate, clock: ManualClock) -> None:
        keeper, status = keeper_with(gate, tsa)
        await changes(gate, 0, 3)
        await keeper.look()
        assert ("not allowed" in str(status.reason), tsa.asked) == (True, [])
        assert await signed(gate) == 3
        await keeper.stamper.close()  # type: ignore[union-attr]
        with pytest.raises(Rejected):
            Stamper(gate, StampChoices(url=tsa.url, certificates=tmp_path / "none.pem"))

    with_gate(tmp_path / "penstock.db", test)
