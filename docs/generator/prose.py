"""Finds prose that a reader stops at: phrases we do not use, sentences that are too long, and too many passive ones.

It reads pages (README, guides, tutorials, explanations) and, in the source, every docstring and every text of several
words, which is where help, errors and findings come from. Generated pages consist of these texts and are skipped.

A finding that is wrong is allowed in its place, with the reason: `# prose: …` behind the text or on the line before it,
in pages `<!-- prose: … -->` on the line before.

    python -m docs.generator.prose [FILE...]   list the findings
    python -m docs.generator.prose --check     list them, and fail if there is one (scripts/check)
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["Finding", "find_in_page", "find_in_source", "find_in_tree", "main"]

ROOT = Path(__file__).parents[2]
WORDS_MAX: Final = 35
WORDS_IN_SOURCE_MAX: Final = 30
# Of the pages of Django's manual (topics, how-to, tutorials; 5.2), four of five have a smaller share. Source files have
# more, because an error is often about what cannot be done.
PASSIVE_SHARE_MAX: Final = 0.30
PASSIVE_SHARE_IN_SOURCE_MAX: Final = 0.45
_SENTENCES_MIN: Final = 20
# What a reader stops at, and what to write in its place.
PHRASES: Final = {
    r"whoever|whomever|whatever revision": "name the person: you, the caller, anyone with the scope",
    r"(?:is|are|was|were|be|being) told(?! apart)": "say who reports what: the log says, the answer names",
    r"(?:it|run|server|work|that|this|which) goes on|go on from here|going on with": "continues, resumes",
    r"those (?:who|whose)": "people who, or name them",
    r"as the machine says": "as your operating system user",
    r"(?:is|are|was) (?-i:none)\b(?! of)": "does not exist, or say what is missing",
    r"(?<!there )(?:is|are|was) no (?!longer|more|less|other|way|reason|need|use|point|match)\w+": "is not a …",
    r"asks nothing": "is not waiting for an answer",
    r"tells? of\b": "reports, names",
    r"(?:has|have) to do with": "is about, belongs to",
    r"of before\b": "from before",
    r"for the rest of it|all the same\b": "rewrite",
    r"nobody performs": "no worker is running",
    r"taken up\b|take up what|takes up what": "reload, apply",
    r"is another one\b|are other ones\b": "changes, differs",
    r"(?:as|how) (?:it|they|things|an? \w+|the \w+) stands?\b(?! (?:in|on|for)\b)": "its status, the current state",
    r"(?:is|are|was|were|be|been) asked for\b": "is requested, is required",
    r"what (?:became|becomes|has become|came|comes|has come) of": "the outcome, the result",
    r"under way": "in progress",
    r"\banew\b": "again, from the start",
    r"counts? for nothing": "is ignored",
    r"goes? on\b(?! to\b)|going on\b": "continues",
    r"in (?:so many|its|their|our) words": "in its terms, literally",
    r"takes? (?:it|them|back what) back|taken back": "revoke, undo",
    r"(?:what|that) there (?:is|are)\b": "what exists, or name it",
    r"for ever\b|in vain\b|if need be\b|in order to\b": "forever, without effect, if necessary, to",
    r"outside of\b": "outside",
}
_NAMED: Final = (f"(?P<p{at}>\\b(?:{phrase}))" for at, phrase in enumerate(PHRASES))
_PATTERN: Final = re.compile("|".join(_NAMED), re.IGNORECASE)
_ADVICE: Final = tuple(PHRASES.values())
_FENCE: Final = re.compile(r"^(```|~~~).*?^\1\s*$", re.MULTILINE | re.DOTALL)
_CODE: Final = re.compile(r"`[^`\n]*`")
_TEMPLATE: Final = re.compile(r"\{%.*?%\}|\{\{.*?\}\}|\{#.*?#\}", re.DOTALL)
_LINK: Final = re.compile(r"\]\([^)\s]*\)")
_SENTENCE_END: Final = re.compile(r"(?<=[.!?])[\"”)*_]*\s+|:\s*\n|\n\s*\n|\n\s*(?:[-*|#]|\d+\.)")
_STOP: Final = re.compile(rf"(?<=[;:])\s+|{_SENTENCE_END.pattern}")  # in source, a part of a list counts by itself
_BLOCK: Final = re.compile(r"^ {4,}\S.*$", re.MULTILINE)
_WORDS_IN_TEXT_MIN: Final = 4
_SQL: Final = re.compile(r"\b(?:SELECT|INSERT|CREATE|UPDATE|DELETE|WITH|FROM|WHERE|ALTER|NOT NULL)\b")
_IRREGULAR: Final = (
    "begun bound broken brought built bought caught chosen cut dealt done drawn driven fed forgotten found given grown"
    " heard held hidden hit kept known laid led left lent let lost made meant met paid put read run said seen sent set"
    " shown shut spent split spoken spread stolen taken taught thought thrown told torn understood undone"
    " withdrawn won written"
)
_PASSIVE: Final = re.compile(
    r"\b(?:am|is|are|was|were|be|been|being)(?:n't)? (?:(?:not|never|also|only|always|then|still|already|\w+ly) )?"
    rf"(?:[a-z]{{2,}}ed|{_IRREGULAR.replace(' ', '|')})\b",
    re.IGNORECASE,
)
_ALLOWANCE: Final = re.compile(r"(?:#|<!--) prose: \S")
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
    findings = list(_find_phrases(path, plain, 1))
    if not path.endswith(".html"):  # what looks like a sentence there is markup
        findings += _find_long_sentences(path, plain, 1, _SENTENCE_END, WORDS_MAX)
        findings += _find_passive_share(path, [plain], PASSIVE_SHARE_MAX)
    lines = text.split("\n")
    yield from (found for found in findings if not _ALLOWANCE.search(lines[found.line - 2] if found.line > 1 else ""))


def find_in_source(path: str, text: str) -> Iterator[Finding]:
    """Findings in docstrings and in texts of several words."""
    lines = ["", *text.split("\n")]
    texts: list[str] = []
    for node, value in _texts_of(ast.parse(text)):
        if len(value.split()) < _WORDS_IN_TEXT_MIN:  # shorter ones are names and keys
            continue
        if any(_ALLOWANCE.search(lines[at]) for at in (node.lineno - 1, node.end_lineno or 0)):
            continue
        plain = _CODE.sub("`code`", value)
        yield from _find_phrases(path, plain, node.lineno)
        if not _SQL.search(plain):
            texts.append(_BLOCK.sub("", inspect.cleandoc(plain)))
            yield from _find_long_sentences(path, texts[-1], node.lineno, _STOP, WORDS_IN_SOURCE_MAX)
    yield from _find_passive_share(path, texts, PASSIVE_SHARE_IN_SOURCE_MAX)


def _texts_of(tree: ast.AST) -> Iterator[tuple[ast.Constant | ast.JoinedStr, str]]:
    """Every text of a program; one with values in it is read whole, with a word in place of each value."""
    left: list[ast.AST] = [tree]
    while left:
        node = left.pop(0)
        if isinstance(node, ast.JoinedStr):
            parts = [part.value if isinstance(part, ast.Constant) else "VALUE" for part in node.values]
            yield node, "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node, node.value
        else:
            left += ast.iter_child_nodes(node)


def _find_phrases(path: str, text: str, first_line: int) -> Iterator[Finding]:
    for found in _PATTERN.finditer(text):
        advice = _ADVICE[int(str(found.lastgroup)[1:])]
        yield Finding(path, first_line + text.count("\n", 0, found.start()), found[0], advice)


def _find_long_sentences(
    path: str, text: str, first_line: int, end: re.Pattern[str], words_max: int
) -> Iterator[Finding]:
    at = 0
    for sentence in end.split(text):
        at = text.find(sentence, at) if sentence else at
        words = 0 if "|" in sentence else len(sentence.split())
        if words > words_max:
            start = " ".join(sentence.split()[:6])
            line = first_line + text.count("\n", 0, at)
            yield Finding(path, line, f"{start} …", f"{words} words; split the sentence")
        at += len(sentence)


def _find_passive_share(path: str, texts: list[str], share_max: float) -> Iterator[Finding]:
    found = [sentence for text in texts for sentence in _SENTENCE_END.split(text)]
    sentences = [sentence for sentence in found if len(sentence.split()) >= _WORDS_IN_TEXT_MIN and "|" not in sentence]
    passive = sum(_PASSIVE.search(" ".join(sentence.split())) is not None for sentence in sentences)
    if len(sentences) >= _SENTENCES_MIN and passive > share_max * len(sentences):
        text = f"{passive} of {len(sentences)} sentences are passive"
        yield Finding(path, 1, text, f"say who does it; at most {share_max:.0%} may be")


def find_in_tree(root: Path = ROOT) -> dict[str, list[Finding]]:
    """The findings of every file that has some."""
    pages = [*root.glob("*.md"), *root.glob("docs/**/*.md"), *root.glob("examples/*.md")]
    found: dict[str, list[Finding]] = {}
    for path in sorted([*pages, *root.glob("src/penstock/**/*.py"), *root.glob("src/penstock/**/*.html")]):
        name = path.relative_to(root).as_posix()
        if name.startswith(_SKIPPED):
            continue
        find = find_in_source if path.suffix == ".py" else find_in_page
        findings = list(find(name, path.read_text(encoding="utf-8")))
        if findings:
            found[name] = findings
    return found


def main(arguments: list[str], root: Path = ROOT) -> int:
    """List the findings, of all files or of those named; with --check, return 1 if a file has some."""
    named = {argument for argument in arguments if argument != "--check"}
    found = {name: items for name, items in find_in_tree(root).items() if not named or name in named}
    for items in found.values():
        print("\n".join(map(str, items)))
    print(f"{sum(map(len, found.values()))} findings in {len(found)} files", file=sys.stderr)
    return 1 if found and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
