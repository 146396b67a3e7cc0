"""Browsers in words."""

from __future__ import annotations

import pytest

from penstock.console.sessions.user_agents import browser_in_words

_KIT = "AppleWebKit/537.36 (KHTML, like Gecko)"


@pytest.mark.parametrize(
    ("user_agent", "words"),
    [
        ("Mozilla/5.0 (X11; Linux x86_64; rv:144.0) Gecko/20100101 Firefox/144.0", "Firefox on Linux"),
        (f"Mozilla/5.0 (Windows NT 10.0; Win64; x64) {_KIT} Chrome/142.0 Safari/537.36", "Chrome on Windows"),
        (f"Mozilla/5.0 (Windows NT 10.0) {_KIT} Chrome/142.0 Safari/537.36 Edg/142.0", "Edge on Windows"),
        (f"Mozilla/5.0 (Linux; Android 16) {_KIT} Chrome/142.0 Mobile Safari/537.36", "Chrome on Android"),
        (f"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) {_KIT} Version/26.0 Safari/605.1.15", "Safari on macOS"),
        (f"Mozilla/5.0 (iPhone; CPU iPhone OS 26_0 like Mac OS X) {_KIT} CriOS/142.0", "Chrome on iOS"),
        ("curl/8.14.1", "another program"),
        ("<script>", "another program"),
        ("", None),
        (None, None),
    ],
)
def test_a_browser_is_named_by_its_family_and_system(user_agent: str | None, words: str | None) -> None:
    assert browser_in_words(user_agent) == words
