"""What `penstock.yaml` says about the tools of other MCP servers."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.app.executors.upstreams import import_rules
from penstock.app.settings.model import Settings
from penstock.app.settings.sources import InvalidSettings, load_settings
from penstock.app.settings.view import settings_document
from penstock.definitions.source.findings import Finding

PASTED = """
mcpServers:
  shop:
    command: uvx
    args: [shop-mcp]
    env: {SHOP_TOKEN: "${secret:SHOP_TOKEN}"}
    import:
      tools: [search, "read_*"]
      governance:
        search: {read_only: true, risk: low, scopes: [shop:read]}
        "read_*": {idempotent: true}
  search: {type: http, url: "https://mcp.example/mcp", headers: {authorization: "Bearer ${secret:KEY}"}}
  old: {command: uvx, disabled: true, import: {tools: ["*"]}}
"""


def loaded(text: str, folder: Path) -> Settings:
    file = folder / "penstock.yaml"
    file.write_text(text, encoding="utf-8")
    return load_settings(file, environment={}).settings


def mistakes(text: str, folder: Path) -> tuple[Finding, ...]:
    with pytest.raises(InvalidSettings) as caught:
        loaded(text, folder)
    return caught.value.findings


def test_servers_are_written_as_clients_write_them_with_what_is_imported_beside(tmp_path: Path) -> None:
    settings = loaded(PASTED, tmp_path)
    assert set(settings.mcp_servers) == {"shop", "search", "old"}
    rules = import_rules(settings)
    assert set(rules) == {"shop"}
    shop = rules["shop"]
    assert (shop.prefix, shop.accept, shop.tenants) == ("shop", "manual", ("default",))
    assert [shop.admits(name) for name in ("search", "read_file", "write_file")] == [True, True, False]
    assert shop.rule_of("search").scopes == ("shop:read",)
    assert shop.rule_of("read_file").idempotent
    assert not shop.rule_of("other").read_only


def test_what_is_imported_is_shown_again(tmp_path: Path) -> None:
    servers = settings_document(loaded(PASTED, tmp_path))["mcp_servers"]
    assert isinstance(servers, dict)
    assert isinstance(servers["shop"], dict)
    assert servers["shop"]["import"] == {
        "tools": ["search", "read_*"],
        "governance": {
            "search": {"scopes": ["shop:read"], "risk": "low", "read_only": True},
            "read_*": {"idempotent": True},
        },
    }


def test_both_spellings_at_once_are_refused(tmp_path: Path) -> None:
    [found] = mistakes("mcpServers: {}\nmcp_servers: {}\n", tmp_path)
    assert found.message == "`mcpServers` and `mcp_servers` are the same setting"


def test_a_credential_in_plain_text_is_refused_in_either_spelling(tmp_path: Path) -> None:
    [found] = mistakes('mcpServers: {a: {url: "https://a.example", headers: {authorization: "Bearer x"}}}', tmp_path)
    assert found.code == "SECRET_IN_SETTINGS"


def test_two_servers_cannot_have_one_prefix_and_the_place_is_named(tmp_path: Path) -> None:
    text = "mcpServers:\n  a: {command: uvx, import: {prefix: x}}\n  b: {command: uvx, import: {prefix: x}}\n"
    [found] = mistakes(text, tmp_path)
    assert "`a`" in found.message
    assert found.position is not None
    assert found.position.line == 3


def test_a_name_that_is_no_prefix_needs_one(tmp_path: Path) -> None:
    [found] = mistakes("mcpServers: {1st.server: {command: uvx, import: {tools: [a]}}}", tmp_path)
    assert "needs a `prefix`" in found.message
    [slash] = mistakes("mcpServers: {a/b: {command: uvx, import: {prefix: b}}}", tmp_path)
    assert "slash" in slash.message
    assert loaded("mcpServers: {1st.server: {command: uvx, import: {prefix: first}}}", tmp_path).mcp_servers
