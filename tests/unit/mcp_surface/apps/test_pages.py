"""The documents of pages: whole in themselves, with a policy that allows what is in them and nothing else."""

from __future__ import annotations

import base64
import hashlib
import re

import pytest

from penstock.base.visible_texts import UNSEEN_RANGES, visible_text
from penstock.mcp_surface.apps.pages import app_contents, app_page, listed_pages
from penstock.mcp_surface.apps.views import APP_PAGES


@pytest.mark.parametrize("uri", APP_PAGES)
def test_a_page_allows_its_own_script_and_style_by_hash_and_no_network(uri: str) -> None:
    page = app_page(uri)
    policy = re.search('Content-Security-Policy" content="([^"]+)"', page)
    assert policy is not None
    rules = dict(rule.split(" ", 1) for rule in policy[1].split("; "))
    for name in ("script", "style"):
        inline = re.findall(f"<{name}>(.*?)</{name}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(inline[0].encode()).digest()).decode()
        assert len(inline) == 1
        assert rules[f"{name}-src"] == f"'sha256-{digest}'"
    assert rules["default-src"] == "'none'"
    assert not re.search(r"src=|href=|@import|url\(|innerHTML|insertAdjacent|fetch\(|XMLHttp|eval\(", page)


@pytest.mark.parametrize("uri", APP_PAGES)
def test_a_page_says_nothing_about_anybody_and_is_small(uri: str) -> None:
    assert len(app_page(uri)) < 20_000
    assert app_contents(uri) == {
        "uri": uri,
        "mimeType": "text/html;profile=mcp-app",
        "text": app_page(uri),
        "_meta": {"ui": {"prefersBorder": True}},
    }


def test_the_pages_are_listed() -> None:
    assert [(item["uri"], item["mimeType"]) for item in listed_pages()] == [
        (uri, "text/html;profile=mcp-app") for uri in APP_PAGES
    ]


def test_scripts_write_out_the_characters_that_the_server_writes_out() -> None:
    pattern = re.search("const UNSEEN = /(.+)/gu;", app_page(APP_PAGES[0]))
    assert pattern is not None
    unseen = re.compile(re.sub(r"\\u\{([0-9A-F]+)\}", lambda found: rf"\U{int(found[1], 16):08x}", pattern[1]))
    for first, last in UNSEEN_RANGES:
        for number in {first - 1, first, last, last + 1} - {-1}:
            assert bool(unseen.fullmatch(chr(number))) == (visible_text(chr(number)) != chr(number)), hex(number)
