"""Finds prose that a reader stops at: phrases we do not use, and sentences that are too long.

It reads pages (README, guides, tutorials, explanations) and, in the source, every docstring and every text of several
words, which is where help, errors and findings come from. `docs/prose-allowed.json` has the number of findings that
each file may still have. A file may have fewer, never more. Generated pages consist of these texts and are skipped.

    python -m docs.generator.prose [FILE...]   list the findings
    python -m docs.generator.prose --check     fail if a file has more than it may have (scripts/check)
    python -m docs.generator.prose --accept    store the numbers, if none grew
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["Finding", "find_in_page", "find_in_source", "find_in_tree"]

ROOT = Path(__file__).parents[2]
ALLOWED = ROOT / "docs" / "prose-allowed.json"
WORDS_MAX: Final = 40
# What a reader stops at, and what to write in its place.
PHRASES: Final = {
    r"whoever|whomever|whatever revision": "name the person: you, the caller, anyone with the scope",
    r"(?:is|are|was|were|be|being) told(?! apart)": "say who reports what: the log says, the answer names",
    r"(?:it|run|server|work|that|this|which) goes on|go on from here|going on with": "continues, resumes",
    r"those (?:who|whose)": "people who, or name them",
    r"as the machine says": "as your operating system user",
    r"(?:is|are|was) none\b(?! of)": "does not exist, or say what is missing",
    r"asks nothing": "is not waiting for an answer",
    r"tells? of\b": "reports, names",
    r"(?:has|have) to do with": "is about, belongs to",
    r"of before\b": "from before",
    r"for the rest of it|all the same\b": "rewrite",
    r"nobody performs": "no worker is running",
    r"taken up\b|take up what|takes up what": "reload, apply",
    r"is another one\b|are other ones\b": "changes, differs",
}
_NAMED: Final = (f"(?P<p{at}>\\b(?:{phrase}))" for at, phrase in enumerate(PHRASES))
_PATTERN: Final = re.compile("|".join(_NAMED), re.IGNORECASE)
_ADVICE: Final = tuple(PHRASES.values())
_FENCE: Final = re.compile(r"^(```|~~~).*?^\1\s*$", re.MULTILINE | re.DOTALL)
_CODE: Final = re.compile(r"`[^`\n]*`")
_TEMPLATE: Final = re.compile(r"\{%.*?%\}|\{\{.*?\}\}|\{#.*?#\}", re.DOTALL)
_LINK: Final = re.compile(r"\]\([^)\s]*\)")
_SENTENCE_END: Final = re.compile(r"(?<=[.!?:;])\s+|\n\s*\n|\n\s*[-*|#\d]")
_WORDS_IN_TEXT_MIN: Final = 4
# Not prose for readers, or prose of others.
_SKIPPED: Final = (
    "docs/reference/",
    "docs/generator/",
    "docs/decisions/",
    "CHANGELOG.md",
    "src/penstock/client/generated/",
)


@dataclass(frozen=True, slots=True)
class Finding:
    """A place that a reader stops at."""

    path: str
    line: int
    text: str
    advice: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text!r}: {self.advice}"


def find_in_page(path: str, text: str) -> Iterator[Finding]:
    """Findings in a page; code and addresses are not read."""
    plain = _FENCE.sub(lambda found: "\n" * found[0].count("\n"), text)
    plain = _TEMPLATE.sub(lambda found: "\n" * found[0].count("\n"), plain)
    plain = _LINK.sub("]", _CODE.sub("`code`", plain))
    yield from _find_phrases(path, plain, 1)
    if not path.endswith(".html"):  # what looks like a sentence there is markup
        yield from _find_long_sentences(path, plain)


def find_in_source(path: str, text: str) -> Iterator[Finding]:
    """Findings in docstrings and in texts of several words."""
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
            continue
        if len(node.value.split()) >= _WORDS_IN_TEXT_MIN:  # shorter ones are names and keys
            yield from _find_phrases(path, _CODE.sub("`code`", node.value), node.lineno)


def _find_phrases(path: str, text: str, first_line: int) -> Iterator[Finding]:
    for found in _PATTERN.finditer(text):
        advice = _ADVICE[int(str(found.lastgroup)[1:])]
        yield Finding(path, first_line + text.count("\n", 0, found.start()), found[0], advice)


def _find_long_sentences(path: str, text: str) -> Iterator[Finding]:
    at = 0
    for sentence in _SENTENCE_END.split(text):
        at = text.find(sentence, at) if sentence else at
        words = 0 if "|" in sentence else len(sentence.split())
        if words > WORDS_MAX:
            start = " ".join(sentence.split()[:6])
            yield Finding(path, text.count("\n", 0, at) + 1, f"{start} …", f"{words} words; split the sentence")
        at += len(sentence)


def find_in_tree() -> dict[str, list[Finding]]:
    """The findings of every file that has some."""
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*.md")]
    found: dict[str, list[Finding]] = {}
    for path in sorted([*pages, *ROOT.glob("src/penstock/**/*.py"), *ROOT.glob("src/penstock/**/*.html")]):
        name = path.relative_to(ROOT).as_posix()
        if name.startswith(_SKIPPED):
            continue
        find = find_in_source if path.suffix == ".py" else find_in_page
        findings = list(find(name, path.read_text(encoding="utf-8")))
        if findings:
            found[name] = findings
    return found


def main(arguments: list[str]) -> int:
    """List, check or store."""
    found = find_in_tree()
    allowed: dict[str, int] = json.loads(ALLOWED.read_text(encoding="utf-8")) if ALLOWED.exists() else {}
    options = [argument for argument in arguments if argument.startswith("--")]
    named = [argument for argument in arguments if not argument.startswith("--")]
    grown = {name: items for name, items in found.items() if len(items) > allowed.get(name, 0)}
    shown = grown if options else {name: items for name, items in found.items() if not named or name in named}
    for items in shown.values() if allowed or not options else ():
        print("\n".join(map(str, items)))
    total = sum(map(len, found.values()))
    print(f"{total} findings in {len(found)} files; {sum(allowed.values())} allowed", file=sys.stderr)
    if "--accept" in options and (not grown or not allowed):
        text = json.dumps({name: len(items) for name, items in found.items()}, indent=1)
        ALLOWED.write_text(text + "\n", encoding="utf-8")
        return 0
    return 1 if options and grown else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
