"""The static files of the console: stylesheet and scripts, at addresses that change with their contents.

All of them are below one address, which has a digest of everything in the folder; so a browser may keep them forever,
and a module imports its neighbours by name. The scripts of others are pinned by hash in `static/vendor/pins.txt`;
`scripts/vendor` fetches them.

Above it: `surface`, `rendering`. Below it: nothing.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from starlette.types import Receive, Scope, Send

from penstock.asgi import header, send_body

__all__ = ["Asset", "assets", "assets_version", "send_asset"]

_KINDS = {".css": b"text/css; charset=utf-8", ".js": b"text/javascript; charset=utf-8"}


class Asset(NamedTuple):
    """A file, and the same compressed."""

    kind: bytes
    plain: bytes
    compressed: bytes


@cache
def assets() -> Mapping[str, Asset]:
    """Return the files by name. They are read with the first page: a server starts without them."""
    folder = files("penstock.console").joinpath("static")
    found: dict[str, Asset] = {}
    for place in (folder, folder.joinpath("vendor")):
        for item in place.iterdir():
            kind = next((kind for ending, kind in _KINDS.items() if item.name.endswith(ending)), None)
            if kind is not None:
                plain = item.read_bytes()
                found[item.name] = Asset(kind, plain, gzip.compress(plain, 9, mtime=0))
    return found


@cache
def assets_version() -> str:
    """Return the part of their address that changes with any of them."""
    digest = hashlib.sha256()
    for name, asset in sorted(assets().items()):
        digest.update(f"{name} {len(asset.plain)} ".encode() + asset.plain)
    return digest.hexdigest()[:16]


async def send_asset(scope: Scope, receive: Receive, send: Send) -> None:
    """Send a file. An address of an older version has the newest files, but must not be kept."""
    wanted = scope["path_params"]
    asset = assets().get(wanted["name"])
    if asset is None or scope["method"] not in ("GET", "HEAD"):
        status = 404 if asset is None else 405
        await send_body(send, status, [(b"content-type", b"text/plain"), (b"content-length", b"0")])
        return
    is_current = wanted["version"] == assets_version()
    takes_gzip = "gzip" in (header(scope, b"accept-encoding") or "")
    body = asset.compressed if takes_gzip else asset.plain
    headers = [
        (b"content-type", asset.kind),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"public, max-age=31536000, immutable" if is_current else b"no-store"),
        (b"vary", b"accept-encoding"),
        (b"x-content-type-options", b"nosniff"),
    ]
    if takes_gzip:
        headers.append((b"content-encoding", b"gzip"))
    await send_body(send, 200, headers, b"" if scope["method"] == "HEAD" else body)
