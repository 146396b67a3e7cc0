"""Static files: scripts of others are those that were pinned, ours are small and make no markup of texts."""

from __future__ import annotations

import hashlib
import re
from importlib.resources import files

from penstock.console.assets import assets, assets_version

STATIC = files("penstock.console").joinpath("static")
OWN = [item.name for item in STATIC.iterdir() if item.name.endswith(".js")]
# What would make markup or code of a text, and what htmx would evaluate.
FORBIDDEN = re.compile(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|hx-on|\bjs:")
SCRIPT_KB_GZIP_MAX = 40


def test_every_file_of_others_fits_the_hash_that_it_was_pinned_with() -> None:
    vendor = STATIC.joinpath("vendor")
    pins = [line.split() for line in vendor.joinpath("pins.txt").read_text().splitlines()]
    found = {path.rpartition("/")[2]: hash_ for _, path, hash_ in pins}
    assert found == {
        item.name: hashlib.sha256(item.read_bytes()).hexdigest() for item in vendor.iterdir() if item.name != "pins.txt"
    }
    assert {"LICENSE", "htmx.min.js", "hx-csp.min.js"} == {*found}


def test_all_scripts_together_are_small() -> None:
    sizes = {name: len(asset.compressed) for name, asset in assets().items() if name.endswith(".js")}
    assert sum(sizes.values()) < SCRIPT_KB_GZIP_MAX * 1000, sizes


def test_our_scripts_make_no_markup_of_texts() -> None:
    assert {"console.js", "live.js", "keyboard.js"} <= {*OWN}
    found = {name: FORBIDDEN.findall(STATIC.joinpath(name).read_text()) for name in OWN}
    assert found == {name: [] for name in OWN}


def test_the_address_of_files_is_one_that_can_be_kept() -> None:
    assert re.fullmatch(r"[0-9a-f]{16}", assets_version())
