"""Checkpoints that a time-stamping authority stamped: a server asks for stamps, and anybody verifies them offline."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.timestamp_authority import Authority, authority
from tests.live.rest.servers import serving
from tests.waiting import SECONDS_MAX, wait_until
from tests.zygote import run_command

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="there is no openssl to stamp with")


@pytest.fixture(scope="module")
def stamped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Authority]]:
    """A folder with a database whose audit trail a server had stamped, and its export and key beside it."""
    folder = tmp_path_factory.mktemp("stamped")
    with authority(folder / "authority") as tsa:
        settings = {
            "PENSTOCK_AUDIT_CHECKPOINTS_TIMESTAMP_URL": tsa.url,
            "PENSTOCK_AUDIT_CHECKPOINTS_TIMESTAMP_CERTIFICATES": str(tsa.root),
            "PENSTOCK_WEBHOOKS_ALLOW_PRIVATE_ADDRESSES": "true",
        }
        with serving(folder, **settings) as server:
            server.call("POST", "schemas", {"id": "order", "schema": {}})
            made = server.call("POST", "audit/checkpoints", {})
            wait_until(lambda: tsa.asked)
            wait_until(lambda: server.call("GET", "audit/checkpoints")["items"][0]["stamp"])
            [shown] = [
                item for item in server.call("GET", "audit/checkpoints")["items"] if item["size"] == made["size"]
            ]
            assert shown["stamped_at"] is not None
            exported = server.call("GET", "audit/export")
            assert [stamp["size"] for stamp in exported["stamps"]] == [made["size"]]
            events = server.call("GET", "audit/export?format=cloudevents")["events"]
            assert "dev.penstock.audit.stamp" in [event["type"] for event in events]
            assert server.call("GET", "health")["checks"]["audit_stamps"] == "ok"
            assert server.stop() == 0
        (folder / "key.txt").write_text(command(folder, "audit", "key", "--db", "penstock.db"), encoding="utf-8")
        for form in ("jsonl", "cloudevents"):
            command(folder, "audit", "export", "--db", "penstock.db", "--format", form, "--out", f"trail.{form}")
        yield folder, tsa


def command(folder: Path, *arguments: str, code: int = 0, **environment: str) -> str:
    told = run_command(arguments, folder=folder, environment=environment, timeout_seconds=SECONDS_MAX)
    assert told.returncode == code, told
    return told.stdout


def verify(folder: Path, file: str, certificate: Path | None, code: int = 0) -> str:
    given = () if certificate is None else ("--timestamp-certificate", str(certificate))
    return command(folder, "audit", "verify", "--public-key", "key.txt", *given, file, code=code)


@pytest.mark.parametrize("file", ["trail.jsonl", "trail.cloudevents", "penstock.db"])
def test_stamps_are_verified_offline_with_the_certificate_of_the_authority(
    stamped: tuple[Path, Authority], file: str
) -> None:
    folder, tsa = stamped
    assert ", 1 stamped, the last 20" in verify(folder, file, tsa.root)
    assert "1 stamps not verified (--timestamp-certificate)" in verify(folder, file, None)
    with authority(folder / f"other-{file}") as other:
        told = verify(folder, file, other.root, code=1)
    assert "BROKEN: the trail of default: the stamp on the checkpoint" in told
    assert "not signed by an authority" in told


def changed(folder: Path, name: str, change: Any) -> str:
    lines = [json.loads(line) for line in (folder / "trail.jsonl").read_text(encoding="utf-8").splitlines()]
    for line in lines:
        if "stamp" in line:
            change(line["stamp"])
    (folder / name).write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    return name


def test_a_stamp_that_was_changed_or_moved_is_found_and_its_own_time_counts(stamped: tuple[Path, Authority]) -> None:
    folder, tsa = stamped

    def bent(stamp: dict[str, Any]) -> None:
        token = bytearray(base64.b64decode(stamp["token"]))
        token[-5] ^= 1
        stamp["token"] = base64.b64encode(token).decode()

    for number, change in enumerate(
        (
            bent,
            lambda stamp: stamp.update(size=1),
            lambda stamp: stamp.update(token="!"),
            lambda stamp: stamp.update(token=""),
        )
    ):
        told = verify(folder, changed(folder, f"bent-{number}.jsonl", change), tsa.root, code=1)
        assert "BROKEN: the trail of default: the stamp" in told
    # The time beside the stamp is for people who list checkpoints; what is verified is the time in it.
    dated = changed(folder, "dated.jsonl", lambda stamp: stamp.update(at=1))
    assert verify(folder, dated, tsa.root) == verify(folder, "trail.jsonl", tsa.root)


def test_the_doctor_says_whether_checkpoints_are_stamped(stamped: tuple[Path, Authority]) -> None:
    folder, tsa = stamped

    def checks(**environment: str) -> list[tuple[str, str]]:
        told = run_command(
            ["doctor", "--json", "--db", "penstock.db"],
            folder=folder,
            environment=environment,
            timeout_seconds=SECONDS_MAX,
        )
        found = json.loads(told.stdout)["checks"]
        return [(check["status"], check["message"]) for check in found if check["name"] == "stamps"]

    url = {"PENSTOCK_AUDIT_CHECKPOINTS_TIMESTAMP_URL": tsa.url}
    assert checks() == []
    [(status, message)] = checks(**url)
    assert (status, "every trail is stamped" in message) == ("ok", True)
    command(folder, "audit", "checkpoint", "--db", "penstock.db")
    [(status, message)] = checks(**url)
    assert (status, "the newest checkpoint of default has no stamp" in message) == ("warn", True)
    [(status, _)] = checks(**url, PENSTOCK_AUDIT_CHECKPOINTS_TIMESTAMP_CERTIFICATES="none.pem")
    assert status == "fail"
