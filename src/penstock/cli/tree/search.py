"""The nearest commands to a mistyped one, anywhere in the tree.

Above it: `lazy_commands`. Below it: `commands`.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import Final

from penstock.cli.references import CommandGroup
from penstock.cli.tree.commands import commands_below

__all__ = ["find_nearest", "refuse_unknown"]

_SHOWN_MAX: Final = 3
# How near a name must be: in the group, in the group when others have exactly that name, and anywhere.
_CUTOFF_IN_GROUP: Final = 0.6
_CUTOFF_BESIDE_OTHERS: Final = 0.85
_CUTOFF_ANYWHERE: Final = 0.75


def refuse_unknown(group: str, words: Sequence[str]) -> str:
    """What to say about words that do not name a command of a group."""
    typed = shlex.join(["penstock", *group.split(), words[0]])
    found = find_nearest(group, words[0])
    if not found:
        return f"There is no command `{typed}`. `{f'penstock {group}'.strip()} --help` lists the commands."
    if len(found) == 1:
        return (
            f"There is no command `{typed}`. Did you mean `{shlex.join(['penstock', *found[0].split(), *words[1:]])}`?"
        )
    *others, last = (f"`penstock {path}`" for path in found)
    return f"There is no command `{typed}`. Did you mean {', '.join(others)} or {last}?"


def find_nearest(group: str, word: str) -> list[str]:
    """The commands that a word may mean: of this name anywhere, else of a near name in the group, else anywhere."""
    word = word.replace("_", "-")
    paths = list(_paths(""))
    names = {path: path.rpartition(" ")[2] for path in paths}
    found = [path for path in paths if names[path] in (word, word.removesuffix("s"))]
    cutoff = _CUTOFF_BESIDE_OTHERS if found else _CUTOFF_IN_GROUP
    near = get_close_matches(word, commands_below(group), n=_SHOWN_MAX, cutoff=cutoff)
    found += [path for name in near if (path := f"{group} {name}".strip()) not in found]
    if not found:
        near = get_close_matches(word, {*names.values()}, n=1, cutoff=_CUTOFF_ANYWHERE)
        found = [path for path in paths if names[path] in near]
    # Commands of the same group come first, then those with the fewest words.
    return sorted(found, key=lambda path: (not path.startswith(group), path.count(" ")))[:_SHOWN_MAX]


def _paths(path: str) -> Iterator[str]:
    for name, row in commands_below(path).items():
        words = f"{path} {name}".strip()
        yield words
        if isinstance(row, CommandGroup):
            yield from _paths(words)
