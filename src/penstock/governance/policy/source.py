"""The text of policies: splits it into statements, and reads each with its annotations.

Cedar's parser says what is wrong but not where, so the text is split here first: a mistake is then reported with the
line on which its policy begins. Every policy needs an `@id`, because refusals, audit records and tests name policies
by it. Annotations that nothing acts on are refused: a misspelt `@outcome` would otherwise go unnoticed.

Above it: `sets`, the operations on policies. Below it: `cedar`, `annotations`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from penstock.base import limits
from penstock.governance.policy.annotations import PolicyAnnotations, read_annotations
from penstock.governance.policy.cedar import cedarpy

__all__ = ["ParsedText", "Policy", "PolicyProblem", "parse_policies", "without_policies"]

# Strings and comments may contain semicolons; nothing else that contains one is valid.
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\n]*|;', re.DOTALL)
_COMMENT_OR_SPACE = re.compile(r"(?:\s+|//[^\n]*)*")
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyProblem:
    """A mistake in the text of policies. A warning does not keep the text from being used."""

    message: str
    source: str = ""
    line: int = 1
    policy_id: str | None = None
    severity: Literal["error", "warning"] = "error"

    def __str__(self) -> str:
        named = f" ({self.policy_id})" if self.policy_id else ""
        return f"{self.source}:{self.line}{named}: {self.message}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """One policy. `body` is its form in Cedar's JSON."""

    id: str
    effect: Literal["permit", "forbid"]
    text: str
    body: dict[str, Any]
    annotations: PolicyAnnotations
    source: str = ""
    line: int = 1

    @property
    def is_shadow(self) -> bool:
        """Whether it is evaluated beside the others and never enforced."""
        return self.annotations.mode == "shadow"


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedText:
    """The policies of a text, and what is wrong with it."""

    policies: tuple[Policy, ...] = ()
    problems: tuple[PolicyProblem, ...] = ()


@dataclass(slots=True)
class _Reading:
    source: str
    policies: list[Policy] = field(default_factory=list)
    problems: list[PolicyProblem] = field(default_factory=list)
    lines: dict[str, int] = field(default_factory=dict)

    def wrong(self, message: str, line: int, policy_id: str | None = None) -> None:
        self.problems.append(PolicyProblem(message=message, source=self.source, line=line, policy_id=policy_id))


def parse_policies(text: str, source: str = "") -> ParsedText:
    """Read every policy of a text. `source` names the text in problems: a file, or a stored document."""
    reading = _Reading(source)
    if len(text) > limits.POLICY_TEXT_CHARACTERS_MAX:
        reading.wrong(f"the text has more than {limits.POLICY_TEXT_CHARACTERS_MAX} characters", 1)
        return ParsedText(problems=tuple(reading.problems))
    for line, statement in _statements(text):
        _read_statement(reading, line, statement)
    return ParsedText(policies=tuple(reading.policies), problems=tuple(reading.problems))


def without_policies(texts: Iterable[tuple[str, str]]) -> list[PolicyProblem]:
    """Return a problem for each text that has nothing but comments. `texts` are names with their texts."""
    message = "the file has no policies; to have none, remove the file from the settings"
    return [PolicyProblem(message=message, source=name) for name, text in texts if not any(_statements(text))]


def _statements(text: str) -> Iterator[tuple[int, str]]:
    """Yield each statement with the line on which it begins."""
    began = 0
    for found in _TOKEN.finditer(text):
        if found.group() == ";":
            yield from _statement(text, began, found.end())
            began = found.end()
    yield from _statement(text, began, len(text))


def _statement(text: str, began: int, ended: int) -> Iterator[tuple[int, str]]:
    skipped = _COMMENT_OR_SPACE.match(text, began, ended)
    start = skipped.end() if skipped else began
    if start < ended:
        yield text.count("\n", 0, start) + 1, text[start:ended]


def _read_statement(reading: _Reading, line: int, statement: str) -> None:
    try:
        parsed = json.loads(cedarpy.policies_to_json_str(statement))
    except ValueError as error:
        reading.wrong(f"not a Cedar policy: {error}", line, _id_in(statement))
        return
    if parsed["templates"] or len(parsed["staticPolicies"]) != 1:
        reading.wrong("templates are not supported: write the principal and the resource out", line)
        return
    (body,) = parsed["staticPolicies"].values()
    given = body.get("annotations", {})
    policy_id = given.get("id") or ""
    wrong_id = _wrong_id(policy_id)
    if wrong_id is not None:
        reading.wrong(wrong_id, line)
        return
    if policy_id in reading.lines:
        reading.wrong(f"there is another policy with this id on line {reading.lines[policy_id]}", line, policy_id)
        return
    annotations, problems = read_annotations(given, body["effect"])
    for message in problems:
        reading.wrong(message, line, policy_id)
    if annotations is None:
        return
    reading.lines[policy_id] = line
    policy = Policy(
        id=policy_id,
        effect=body["effect"],
        text=statement,
        body=body,
        annotations=annotations,
        source=reading.source,
        line=line,
    )
    reading.policies.append(policy)


def _wrong_id(policy_id: str) -> str | None:
    if not policy_id:
        return 'the policy has no @id: begin it with @id("a-name"), which refusals and audit records show'
    if len(policy_id) > limits.POLICY_ID_CHARACTERS_MAX or not _ID.fullmatch(policy_id):
        return f"the @id {policy_id[:50]!r} is not a name: use letters, digits, dots, hyphens and underscores"
    return None


def _id_in(statement: str) -> str | None:
    """Return the id in a statement that cannot be parsed, to name it anyway."""
    found = re.search(r'@id\(\s*"([^"\\]*)"\s*\)', statement)
    return found.group(1) if found else None
