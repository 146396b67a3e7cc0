"""How to install what an extra brings, as a command that works from wherever the reader is.

The command names the libraries themselves and this process's interpreter, so it needs neither a checkout nor a package
index that has this distribution.

Above it: `app`, the executors, the command line. Below it: the metadata of this installation.
"""

from __future__ import annotations

import re
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING

from penstock.base.lazy_import import lazy_import

if TYPE_CHECKING:
    from importlib import metadata
else:
    metadata = lazy_import("importlib.metadata")

__all__ = ["DISTRIBUTION", "install_hint"]

DISTRIBUTION = "penstock-mcp"
"""The name of the distribution. On the package index, `penstock` is somebody else's."""
_EXTRA = re.compile(r"extra == ['\"]([^'\"]+)['\"]")


def install_hint(extra: str) -> str:
    """Return what to run so that the libraries of an extra are there for this interpreter."""
    try:
        required = metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        required = []
    marked = ((text.partition(";")[0].strip(), _EXTRA.search(text)) for text in required)
    wanted = [requirement for requirement, found in marked if found is not None and found[1] == extra]
    if not wanted:
        return f"install the extra `{extra}`, in a checkout with `pip install '.[{extra}]'`"
    named = " ".join(f'"{requirement}"' for requirement in wanted)
    if find_spec("pip") is None:
        return f'run `uv pip install --python "{sys.executable}" {named}`'
    return f'run `"{sys.executable}" -m pip install {named}`'
