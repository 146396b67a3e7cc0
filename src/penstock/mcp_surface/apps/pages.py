"""The pages of MCP Apps: documents without any data, whole in themselves, which no network can be reached from.

Each is built once, from the scripts and the stylesheet in `static`. Its content security policy allows these by their
hashes and nothing else, whatever the host allows; texts are set as text, which `require-trusted-types-for` enforces.
Everybody who may call at all may read them. Above it: `resources.contents`. Below it: `views`.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from functools import cache
from importlib.resources import files

from penstock.base.json import JsonObject
from penstock.base.visible_texts import UNSEEN_RANGES
from penstock.mcp_surface.apps.views import APP_MIME_TYPE, APPROVAL_PAGE, RUN_PAGE, VIEW_META

__all__ = ["app_contents", "app_page", "listed_pages"]

# The title, what it is for, the scripts in their order, and the function that shows a result.
_PAGES = {
    APPROVAL_PAGE: (
        "Penstock approval",
        "A call that waits for approval; it is decided elsewhere.",
        ("host.js", "approval.js"),
        "showApproval",
    ),
    RUN_PAGE: (
        "Penstock run",
        "The status of a run, its nodes, and what it waits for.",
        ("host.js", "approval.js", "run.js"),
        "showRun",
    ),
}
# The host draws a border and a background around them.
_META: JsonObject = {"ui": {"prefersBorder": True}}
_DOCUMENT = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<main><p class="quiet">Waiting for the result.</p></main>
<script>{script}</script>
</body>
</html>
"""


def listed_pages() -> list[JsonObject]:
    """Return the pages as a client that shows them finds them in its list of resources."""
    return [
        {
            "uri": uri,
            "name": title.lower().replace(" ", "_"),
            "title": title,
            "description": purpose,
            "mimeType": APP_MIME_TYPE,
            "_meta": _META,
        }
        for uri, (title, purpose, _, _) in _PAGES.items()
    ]


def app_contents(uri: str) -> JsonObject:
    """Return a page as the contents of a resource."""
    return {"uri": uri, "mimeType": APP_MIME_TYPE, "text": app_page(uri), "_meta": _META}


@cache
def app_page(uri: str) -> str:
    """Return the document of a page."""
    title, _, scripts, shows = _PAGES[uri]
    script = "\n".join((_names(), *(_static(name) for name in scripts), f"listen({shows});"))
    style = _static("view.css")
    policy = "; ".join(
        (
            "default-src 'none'",
            f"script-src {_hashed(script)}",
            f"style-src {_hashed(style)}",
            "base-uri 'none'",
            "form-action 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        )
    )
    return _DOCUMENT.format(policy=policy, title=title, style=style, script=script)


def _static(name: str) -> str:
    return files("penstock.mcp_surface.apps").joinpath("static", name).read_text(encoding="utf-8")


def _names() -> str:
    """Return what the scripts share with the server: the key of the metadata, and the characters to write out."""
    return f'const VIEW = "{VIEW_META}";\nconst UNSEEN = /[{_ranges(UNSEEN_RANGES)}]/gu;'


def _ranges(ranges: Iterable[tuple[int, int]]) -> str:
    return "".join(f"\\u{{{first:X}}}-\\u{{{last:X}}}" for first, last in ranges)


def _hashed(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
