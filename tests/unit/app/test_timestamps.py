"""Stamps of a time-stamping authority: asked for, read, and verified with its certificate alone."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from penstock.app import timestamps
from penstock.app.timestamps import Stamp, StampInvalid, read_authorities, read_stamp, stamp_request, verify_stamp
from penstock.base.errors import Rejected, Unavailable
from penstock.runtime.extras import install_hint
from penstock.runtime.system import SystemClock
from tests.fixtures.timestamp_authority import Authority, authority

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="there is no openssl to stamp with")


@pytest.fixture(scope="module")
def tsa(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Authority]:
    with authority(tmp_path_factory.mktemp("authority")) as made:
        yield made


def test_a_stamp_is_verified_with_the_certificate_of_its_authority(tsa: Authority) -> None:
    request = stamp_request("a checkpoint")
    answer = tsa.stamp(request.body)
    trusted = read_authorities(tsa.root)
    for found in (
        read_stamp(answer, "a checkpoint", request),
        read_stamp(answer, "a checkpoint", request, trusted),
        verify_stamp(answer, "a checkpoint", trusted),
    ):
        assert isinstance(found, Stamp), found
        assert found.token == answer
        assert abs(found.at - SystemClock().now_ms()) < 3_600_000, datetime.fromtimestamp(found.at / 1000, UTC)


def test_only_a_hash_is_sent(tsa: Authority) -> None:
    assert b"a checkpoint" not in stamp_request("a checkpoint").body


def test_a_stamp_on_another_text_or_for_another_request_or_of_somebody_else_is_none(
    tsa: Authority, tmp_path: Path
) -> None:
    request = stamp_request("a checkpoint")
    answer = tsa.stamp(request.body)
    with authority(tmp_path) as other:
        stranger = read_authorities(other.root)
    wrong = [
        read_stamp(answer, "another checkpoint", request),
        read_stamp(answer, "a checkpoint", stamp_request("a checkpoint")),
        read_stamp(answer, "a checkpoint", request, stranger),
        verify_stamp(answer, "another checkpoint", read_authorities(tsa.root)),
        verify_stamp(answer, "a checkpoint", stranger),
    ]
    assert all(isinstance(item, StampInvalid) for item in wrong), wrong
    assert "signed by an authority" in wrong[-1].reason  # type: ignore[union-attr]


def test_what_is_no_stamp_is_none_wherever_it_is_broken(tsa: Authority) -> None:
    request = stamp_request("a checkpoint")
    answer = tsa.stamp(request.body)
    trusted = read_authorities(tsa.root)
    genuine = verify_stamp(answer, "a checkpoint", trusted)
    assert isinstance(genuine, Stamp)
    for broken in (b"", b"\x30\x00", b"<html>", answer[:-1], answer[: len(answer) // 2]):
        assert isinstance(read_stamp(broken, "a checkpoint", request), StampInvalid)
        assert isinstance(verify_stamp(broken, "a checkpoint", trusted), StampInvalid)
    for place in range(0, len(answer), 29):
        found = verify_stamp(
            answer[:place] + bytes([answer[place] ^ 0x55]) + answer[place + 1 :], "a checkpoint", trusted
        )
        # Names of algorithms that nobody reads may differ; the time never does.
        assert isinstance(found, StampInvalid) or found.at == genuine.at, place


def test_a_refusal_of_the_authority_says_why(tsa: Authority) -> None:
    refused = tsa.stamp(b"\x30\x03\x02\x01\x01")
    found = read_stamp(refused, "a checkpoint", stamp_request("a checkpoint"))
    assert isinstance(found, StampInvalid)
    assert "refused it (status 2" in found.reason


def test_a_file_without_certificates_is_named(tmp_path: Path) -> None:
    with pytest.raises(Rejected) as unreadable:
        read_authorities(tmp_path / "none.pem")
    assert unreadable.value.code == "FILE_UNREADABLE"
    (tmp_path / "none.pem").write_text("nothing", encoding="utf-8")
    with pytest.raises(Rejected) as unfit:
        read_authorities(tmp_path / "none.pem")
    assert unfit.value.code == "TIMESTAMP_CERTIFICATE_INVALID"


def test_without_the_library_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timestamps, "find_spec", lambda name: None)
    with pytest.raises(Unavailable) as missing:
        timestamps.require_timestamps()
    assert (missing.value.code, missing.value.hint) == ("EXTRA_NOT_INSTALLED", install_hint("timestamp"))
