"""A browser in words, from what it calls itself: `Firefox on Linux`.

It helps people to recognise their own sessions. A browser may call itself anything, so nothing is decided by it.

Above it: `sessions`. Below it: nothing.
"""

from __future__ import annotations

__all__ = ["browser_in_words"]

# Nearly every browser also names those that came before it, so the order matters.
_FAMILIES = (
    ("Edg", "Edge"),
    ("OPR/", "Opera"),
    ("SamsungBrowser/", "Samsung Internet"),
    ("Firefox/", "Firefox"),
    ("FxiOS/", "Firefox"),
    ("CriOS/", "Chrome"),
    ("Chrome/", "Chrome"),
    ("Safari/", "Safari"),
)
_SYSTEMS = (
    ("Android", "Android"),
    ("iPhone", "iOS"),
    ("iPad", "iPadOS"),
    ("CrOS", "ChromeOS"),
    ("Windows", "Windows"),
    ("Macintosh", "macOS"),
    ("Linux", "Linux"),
)


def browser_in_words(user_agent: str | None) -> str | None:
    """Return the family of a browser and its system; None if it does not say."""
    if not user_agent:
        return None
    family = _first(_FAMILIES, user_agent) or "another program"
    system = _first(_SYSTEMS, user_agent)
    return family if system is None else f"{family} on {system}"


def _first(names: tuple[tuple[str, str], ...], user_agent: str) -> str | None:
    return next((words for mark, words in names if mark in user_agent), None)
