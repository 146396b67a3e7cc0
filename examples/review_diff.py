"""The step of the code review: rules that need no model."""

from __future__ import annotations

import re

from penstock import step

SECRET = re.compile(r"(api[_-]?key|password|secret|token)\w*\s*[:=]\s*['\"][^'\"]{3,}", re.IGNORECASE)
LEFTOVERS = {"print(": "a print that was forgotten", "breakpoint(": "a breakpoint", "TODO": "work that is not done"}


@step(name="review_diff:findings")
def findings(diff: str) -> dict[str, object]:
    """What rules find in the lines that a diff adds."""
    added = [(number, line[1:]) for number, line in enumerate(diff.splitlines(), 1) if _is_added(line)]
    secrets = [f"line {number}: looks like a secret" for number, line in added if SECRET.search(line)]
    leftovers = [f"line {number}: {told}" for number, line in added for mark, told in LEFTOVERS.items() if mark in line]
    changes_code = bool(added) and "test" not in diff
    untested = ["no test is changed"] if changes_code else []
    return {"secrets": bool(secrets), "remarks": secrets + leftovers + untested}


def _is_added(line: str) -> bool:
    return line.startswith("+") and not line.startswith("+++")
