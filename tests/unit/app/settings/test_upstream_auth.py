"""Settings of OAuth: what does not belong together is refused when the settings are read."""

from __future__ import annotations

import pytest

from penstock.app.settings.named import McpServerSettings
from penstock.app.settings.secrets import EnvironmentReference
from penstock.app.settings.upstream_auth import OAuthSettings

SECRET = EnvironmentReference("SHOP_SECRET")
ISSUER = "https://login.example"


def told(item: OAuthSettings | McpServerSettings) -> str:
    return "; ".join(f"{problem.member} {problem.message}" for problem in item.problems())


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (OAuthSettings(client_id="us", client_secret=SECRET), "needs `issuer`"),
        (OAuthSettings(client_id="us", private_key=SECRET), "needs `issuer`"),
        (OAuthSettings(client_secret=SECRET, issuer=ISSUER), "`client_id` is missing"),
        (OAuthSettings(client_id="us", client_secret=SECRET, private_key=SECRET, issuer=ISSUER), "prove the same"),
        (OAuthSettings(client_id="us", client_metadata_url="https://us.example/client"), "name the same client"),
        (OAuthSettings(client_metadata_url="http://us.example/client"), "must begin with https://"),
        (OAuthSettings(client_metadata_url="https://us.example/"), "and have a path"),
        (OAuthSettings(grant="client_credentials", issuer=ISSUER), "needs `client_id`"),
        (OAuthSettings(grant="client_credentials", client_id="us", issuer=ISSUER), "`client_secret` or `private_key`"),
        (OAuthSettings(scopes=("a b",)), "single scopes"),
    ],
)
def test_what_does_not_belong_together_is_said(settings: OAuthSettings, words: str) -> None:
    assert words in told(settings)


@pytest.mark.parametrize(
    "settings",
    [
        OAuthSettings(),
        OAuthSettings(client_id="us"),
        OAuthSettings(client_metadata_url="https://us.example/client.json", scopes=("a", "b:c")),
        OAuthSettings(grant="client_credentials", client_id="us", client_secret=SECRET, issuer=ISSUER),
        OAuthSettings(grant="client_credentials", client_id="us", private_key=SECRET, issuer=ISSUER),
    ],
)
def test_each_way_to_sign_in_can_be_written(settings: OAuthSettings) -> None:
    assert told(settings) == ""
    assert told(McpServerSettings(url="https://shop.example/mcp", auth=settings)) == ""


def test_auth_is_for_addresses_that_may_have_secrets_and_replaces_the_header() -> None:
    auth = OAuthSettings()
    assert "is for servers that are reached with `url`" in told(McpServerSettings(command="python", auth=auth))
    assert "must begin with https://" in told(McpServerSettings(url="http://shop.example/mcp", auth=auth))
    assert told(McpServerSettings(url="http://127.0.0.1:8000/mcp", auth=auth)) == ""
    headers = {"Authorization": SECRET}
    assert "must not have `authorization`" in told(
        McpServerSettings(url="https://shop.example/mcp", auth=auth, headers=headers)
    )
