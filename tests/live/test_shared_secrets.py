"""Two servers on one database have their secrets from a variable, and from nowhere else."""

from __future__ import annotations

import signal
from pathlib import Path

from tests.live.cli.processes import Shop
from tests.live.cli.serving import serving

SETTINGS = "server: {secret: {env: SHARED_SECRET}, audit_key: {env: SHARED_AUDIT_KEY}}\n"
SHARED = {"SHARED_SECRET": "5e" * 32, "SHARED_AUDIT_KEY": "a1" * 32}


def shop_with(folder: Path, variables: dict[str, str]) -> Shop:
    (folder / "penstock.yaml").write_text(SETTINGS, encoding="utf-8")
    return Shop(folder, variables)


def test_servers_with_the_same_secrets_accept_each_others_keys_and_signatures(tmp_path: Path) -> None:
    shop = shop_with(tmp_path, SHARED)
    with serving(shop) as first, serving(shop, key=first.key) as second:
        assert second.announced["owner_key"] is None
        made = second.call("POST", "keys", {"name": "reader", "scopes": ["workflow:read"]}).body
        with serving(shop, key=made["secret"]) as third:
            assert third.call("GET", "workflows").status == 200
        signed = second.call("POST", "audit/checkpoints", {})
        assert signed.status in (200, 201), signed.body
        keys = [server.call("GET", "audit/key").body["public_key"] for server in (first, second)]
        assert keys[0] == keys[1]
        refused = first.call("POST", "audit/key/rotate", {})
        assert (refused.status, refused.body["code"]) == (503, "AUDIT_KEY_UNAVAILABLE"), refused.body
        verified = first.call("POST", "audit/verify", {})
        assert (verified.status, verified.body["intact"]) == (200, True), verified.body
        for server in (first, second):
            server.stop(signal.SIGTERM)
    assert not list(tmp_path.glob("*.secret"))
    assert not list(tmp_path.glob("*.audit-key"))


def test_an_audit_key_is_rotated_in_a_file_and_goes_back_to_its_source(tmp_path: Path) -> None:
    named, key_file = shop_with(tmp_path, SHARED), tmp_path / "penstock.db.audit-key"
    named.json("key", "create", "--name", "reader", "--scopes", "workflow:read")
    named.json("audit", "checkpoint")
    old = named.json("audit", "key")["public_key"]
    assert "AUDIT_KEY_UNAVAILABLE" in named.run("audit", "rotate-key", "--json").stdout
    key_file.write_text(SHARED["SHARED_AUDIT_KEY"], encoding="ascii")
    key_file.chmod(0o600)
    (tmp_path / "penstock.yaml").write_text("server: {secret: {env: SHARED_SECRET}}\n", encoding="utf-8")
    assert named.json("audit", "key")["public_key"] == old
    new = named.json("audit", "rotate-key")["public_key"]
    rotated = shop_with(tmp_path, {**SHARED, "SHARED_AUDIT_KEY": key_file.read_text(encoding="ascii")})
    key_file.unlink()
    shown = rotated.json("audit", "key")
    assert (shown["public_key"], new != old, len(shown["statements"])) == (new, True, 1)
    rotated.json("key", "create", "--name", "other", "--scopes", "workflow:read")
    rotated.json("audit", "checkpoint")
    assert rotated.json("audit", "verify")["intact"]
    assert not key_file.exists()


def test_a_server_does_not_start_without_the_secret_and_makes_no_other(tmp_path: Path) -> None:
    with serving(shop_with(tmp_path, SHARED)) as server:
        server.stop(signal.SIGTERM)
    for changed, code in (
        ({"SHARED_SECRET": ""}, "PEPPER_UNREADABLE"),
        ({"SHARED_SECRET": "not hexadecimal"}, "PEPPER_INVALID"),
        ({"SHARED_SECRET": "5f" * 32}, "PEPPER_MISMATCH"),
        ({"SHARED_AUDIT_KEY": ""}, "AUDIT_KEY_UNAVAILABLE"),
    ):
        ended = shop_with(tmp_path, {**SHARED, **changed}).run("serve", "--port", "0", "--json")
        assert ended.returncode != 0
        assert code in ended.stdout + ended.stderr
        assert not any(value and value in ended.stdout + ended.stderr for value in changed.values())
    assert not list(tmp_path.glob("*.secret"))
    assert not list(tmp_path.glob("*.audit-key"))
    with serving(shop_with(tmp_path, SHARED)) as server:
        server.stop(signal.SIGTERM)


def test_the_address_of_a_database_without_a_driver_is_refused_everywhere(tmp_path: Path) -> None:
    address = "postgresql://me:hidden@db.example/penstock"
    commands = (
        ("serve", "--port", "0"),
        ("server", "check"),
        ("server", "migrate"),
        ("server", "worker"),
        ("server", "backup", "copy.db"),
        ("server", "doctor"),
        ("runs", "list"),
        ("key", "list"),
    )
    for command in commands:
        for shop, more in (
            (Shop(tmp_path), ("--db", address)),
            (Shop(tmp_path, {"PENSTOCK_DB": address}), ()),
        ):
            ended = shop.run(*command, *more)
            said = ended.stdout + ended.stderr
            assert ended.returncode != 0, (command, more, said)
            assert "DATABASE_UNSUPPORTED" in said, (command, more, said)
            assert "hidden" not in said, (command, more, said)
    assert list(tmp_path.iterdir()) == []
