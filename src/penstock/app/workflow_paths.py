"""Files that patterns of the settings stand for.

Above it: the commands that make workflows known. It opens no file.
"""

from __future__ import annotations

from collections.abc import Iterable
from glob import glob, has_magic

from penstock.base.errors import Rejected

__all__ = ["expand_paths"]


def expand_paths(patterns: Iterable[str]) -> list[str]:
    """Files and folders as they are named; patterns (`flows/**/*.yaml`) as the files that match, each once."""
    found: dict[str, None] = {}
    for pattern in patterns:
        matches = sorted(glob(pattern, recursive=True)) if has_magic(pattern) else [pattern]
        if not matches:
            raise Rejected("WORKFLOWS_NOT_FOUND", f"no file matches {pattern}", "check `workflows.paths`")
        found.update(dict.fromkeys(matches))
    return list(found)
