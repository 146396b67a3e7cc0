"""Spellings of earlier versions. They work until 0.2, print where the command is now, and appear in no help.

`OLD_SPELLINGS` is the only table: a command whose first words are in it is called as the words beside them.

Above it: `lazy_commands`. Below it: nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import Final, NamedTuple

__all__ = ["OLD_SPELLINGS", "Renamed", "find_new_spelling"]

OLD_SPELLINGS: Final = {
    "agent execute": "agent start",
    "backup": "server backup",
    "backups create": "server backup",
    "backups list": "server list-backups",
    "backups": "server list-backups",
    "check": "server check",
    "console-session": "key session",
    "control": "workflow control",
    "delivery": "webhook delivery",
    "diff": "workflow diff",
    "doctor": "server doctor",
    "draft list": "approval drafts",
    "draft": "approval",
    "execution lease-activity": "runs lease",
    "execution status": "runs show",
    "execution submit-activity": "runs submit",
    "execution": "runs",
    "grant": "approval grant",
    "graphs branches-create": "graph branch create",
    "graphs branches-delete": "graph branch delete",
    "graphs branches-list": "graph branch list",
    "graphs branches-merge": "graph branch merge",
    "graphs branches-preview": "graph branch preview",
    "graphs changes-poll": "graph changes",
    "graphs commits-changes": "graph commit changes",
    "graphs commits-get": "graph commit get",
    "graphs commits-list": "graph commit list",
    "graphs queries-delete": "graph query delete",
    "graphs queries-explain": "graph query explain",
    "graphs queries-get": "graph query get",
    "graphs queries-list": "graph query list",
    "graphs queries-put": "graph query put",
    "graphs queries-validate": "graph query validate",
    "graphs query": "graph query adhoc",
    "graphs query-run": "graph query run",
    "graphs schema-apply": "graph schema apply",
    "graphs schema-get": "graph schema get",
    "graphs": "graph",
    "import": "tool import",
    "memory": "agent memory",
    "model": "agent model",
    "notification": "webhook notification",
    "preflight run": "approval preflight",
    "preflight": "approval preflight",
    "profile": "config profile",
    "query": "graph query",
    "quota": "key quota",
    "restore": "server restore",
    "runs lease-activity": "runs lease",
    "runs status": "runs show",
    "runs submit-activity": "runs submit",
    "schema check": "graph schema check",
    "schema": "workflow json-schema",
    "schemas": "workflow schema",
    "session": "agent session",
    "sign": "workflow sign",
    "simulate": "workflow simulate",
    "system": "server",
    "task": "workflow task",
    "token": "key token",
    "tool execute": "tool call",
    "top": "runs top",
    "trigger": "webhook trigger",
    "upstream": "tool upstream",
    "vacuum": "server vacuum",
    "verify": "server verify",
    "verify-signature": "workflow verify-signature",
    "worker": "server worker",
    "workflow execute": "workflow start",
    "workflow executions": "workflow runs",
}
# Before there were data graphs on the command line, `penstock graph FILE` drew a workflow.
_DRAWING: Final = ("graph", "workflow draw")
_DRAWN_SUFFIXES: Final = frozenset({".yaml", ".yml", ".json"})
_WORDS_MAX: Final = 2


class Renamed(NamedTuple):
    """A command with an old spelling, and its words with the new one."""

    old: str
    new: str
    words: list[str]

    def hint(self) -> str:
        """The line that says so."""
        return f"`penstock {self.old}` is now `penstock {self.new}`. The old name goes away in 0.2."


def find_new_spelling(words: Sequence[str]) -> Renamed | None:
    """The new spelling of a command; None if its words are not an old spelling."""
    for count in range(_WORDS_MAX, 0, -1):
        old = " ".join(words[:count]).replace("_", "-")
        if len(words) >= count and old in OLD_SPELLINGS:
            new = OLD_SPELLINGS[old]
            return Renamed(old, new, [*new.split(), *words[count:]])
    old, new = _DRAWING
    # The file may stand behind options, and is the only word with such a suffix that no command of `graph` takes first.
    if words and words[0] == old and len(words) > 1 and _draws(words[1:]):
        return Renamed(f"{old} FILE", f"{new} FILE", [*new.split(), *words[1:]])
    return None


def _draws(words: Sequence[str]) -> bool:
    """Whether these are the words of the old drawing: an option or a file stands first, and a file is among them."""
    if not words[0].startswith("-") and not _is_document(words[0]):
        return False
    return any(map(_is_document, words))


def _is_document(word: str) -> bool:
    return word == "-" or PurePath(word).suffix.lower() in _DRAWN_SUFFIXES
