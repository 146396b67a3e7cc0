"""A strict JSON reader that records where everything is.

The standard reader has no positions and silently keeps the last of two equal keys; this one reports both. Only
`document` calls it. It gives the same values as `json.loads` for every text it accepts.
"""

import json
import re
from bisect import bisect_right

from penstock.base import limits
from penstock.base.json import json_pointer
from penstock.definitions.source.findings import Finding, Position
from penstock.definitions.source.tree import (
    MappingNode,
    ScalarNode,
    SequenceNode,
    SourceNode,
    SourceRefused,
    duplicate_key,
    has_finite_value,
    not_finite,
    too_deep,
    too_many_values,
)

__all__ = ["read_json"]

WHITESPACE = re.compile(r"[ \t\n\r]*")
STRING_START = re.compile(r'"(?:[^"\\\x00-\x1f]++|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*+')
STRING = re.compile(STRING_START.pattern + '"')
NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?P<fraction>\.[0-9]+)?(?P<exponent>[eE][+-]?[0-9]+)?")
WORD = re.compile(r"[-+]?[A-Za-z_][A-Za-z0-9_]*")
LITERALS: dict[str, bool | None] = {"true": True, "false": False, "null": None}
NOT_FINITE = frozenset({"NaN", "Infinity", "-Infinity", "+Infinity"})
SURROGATE = re.compile("[\ud800-\udfff]")
LINE_END = re.compile(r"\r\n|\n|\r")
# Far beyond any double; longer numbers are not worth converting.
NUMBER_CHARACTERS_MAX = 400


def read_json(text: str) -> tuple[SourceNode | None, tuple[Finding, ...]]:
    """Read a JSON text into a tree. No tree means that reading stopped at the last finding."""
    reader = _Reader(text)
    try:
        node = reader.document()
    except SourceRefused as refusal:
        return None, (*reader.findings, refusal.finding)
    return node, tuple(reader.findings)


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.index = 0
        self.path: list[str | int] = []
        self.findings: list[Finding] = []
        self.values = 0
        self.line_starts = [0, *(match.end() for match in LINE_END.finditer(text))]

    def document(self) -> SourceNode:
        self._skip()
        node = self._value()
        self._skip()
        if self.index < len(self.text):
            raise self._unexpected("nothing more after the document")
        return node

    def _value(self) -> SourceNode:
        position = self._position(self.index)
        self.values += 1
        if self.values > limits.DOCUMENT_VALUES_MAX:
            raise SourceRefused(too_many_values(position))
        character = self.text[self.index : self.index + 1]
        if character == "{":
            return self._object(position)
        if character == "[":
            return self._array(position)
        if character == '"':
            return ScalarNode(self._string(), position)
        return self._number_or_word(position)

    def _object(self, position: Position) -> SourceNode:
        self._enter(position)
        members: list[tuple[str, Position, SourceNode]] = []
        seen: dict[str, Position] = {}
        while not self._closed("}", position, first=not seen, expected="a key in double quotes"):
            key_position = self._position(self.index)
            if self.text[self.index : self.index + 1] != '"':
                raise self._unexpected("a key in double quotes")
            key = self._string()
            self._skip()
            if self.text[self.index : self.index + 1] != ":":
                raise self._unexpected(f"`:` after the key `{key}`")
            self.index += 1
            self._skip()
            self.path.append(key)
            member = self._value()
            if key in seen:
                self.findings.append(duplicate_key(key, json_pointer(self.path), key_position, seen[key]))
            else:
                seen[key] = key_position
                members.append((key, key_position, member))
            self.path.pop()
        nodes = [member for _, _, member in members]
        return MappingNode(tuple(members), position, _values(nodes), _depth(nodes))

    def _array(self, position: Position) -> SourceNode:
        self._enter(position)
        items: list[SourceNode] = []
        while not self._closed("]", position, first=not items, expected="a value"):
            self.path.append(len(items))
            items.append(self._value())
            self.path.pop()
        return SequenceNode(tuple(items), position, _values(items), _depth(items))

    def _enter(self, position: Position) -> None:
        if len(self.path) >= limits.DOCUMENT_DEPTH_MAX:
            raise SourceRefused(too_deep(json_pointer(self.path), position))
        self.index += 1

    def _closed(self, bracket: str, opened: Position, *, first: bool, expected: str) -> bool:
        """Move to the next element or past the closing bracket."""
        self._skip()
        if self.index >= len(self.text):
            raise self._refusal(
                f"the text ends, but the bracket opened at line {opened.line}, column {opened.column} is not closed",
                f"add the missing `{bracket}`",
            )
        if self.text[self.index] == bracket:
            self.index += 1
            return True
        if first:
            return False
        if self.text[self.index] != ",":
            raise self._unexpected(f"`,` or `{bracket}`")
        self.index += 1
        self._skip()
        if self.text[self.index : self.index + 1] == bracket:
            raise self._refusal(f"expected {expected}, found `{bracket}`", "remove the comma before the bracket")
        return False

    def _string(self) -> str:
        match = STRING.match(self.text, self.index)
        if match is None:
            raise self._bad_string()
        decoded = json.loads(match[0])
        if SURROGATE.search(decoded) is not None:
            finding = Finding(
                code="TEXT_NOT_UNICODE",
                message="the text has one half of a surrogate pair, which no Unicode text can contain",
                path=json_pointer(self.path),
                hint="write both halves (`\\ud83d\\ude00`) or the character itself",
                position=self._position(self.index),
            )
            raise SourceRefused(finding)
        self.index = match.end()
        return str(decoded)

    def _number_or_word(self, position: Position) -> SourceNode:
        match = NUMBER.match(self.text, self.index)
        word = WORD.match(self.text, self.index)
        if word is not None and word[0] in LITERALS:
            self.index = word.end()
            return ScalarNode(LITERALS[word[0]], position)
        if word is not None and word[0] in NOT_FINITE:
            self.findings.append(not_finite(word[0], json_pointer(self.path), position))
            self.index = word.end()
            return ScalarNode(None, position)
        if match is None:
            raise self._unexpected("a value")
        self.index = match.end()
        value = self._number(match)
        if value is None:
            self.findings.append(not_finite(match[0], json_pointer(self.path), position))
        return ScalarNode(value, position)

    @staticmethod
    def _number(match: re.Match[str]) -> float | None:
        if match["fraction"] or match["exponent"]:
            value: float = float(match[0])
        elif len(match[0]) <= NUMBER_CHARACTERS_MAX:
            value = int(match[0])
        else:
            return None
        return value if has_finite_value(value) else None

    def _skip(self) -> None:
        match = WHITESPACE.match(self.text, self.index)
        if match is not None:
            self.index = match.end()

    def _position(self, index: int) -> Position:
        line = bisect_right(self.line_starts, index)
        return Position(line, index - self.line_starts[line - 1] + 1)

    def _bad_string(self) -> SourceRefused:
        match = STRING_START.match(self.text, self.index)
        start, self.index = self._position(self.index), match.end() if match is not None else self.index
        culprit = self.text[self.index : self.index + 1]
        if culprit == "\\":
            return self._refusal("JSON does not know this escape", "write `\\\\` for a backslash")
        if culprit and culprit not in "\r\n":
            return self._refusal("a control character stands inside a text", "write it as an escape, for example `\\t`")
        return self._refusal(
            f"the text that begins at line {start.line}, column {start.column} is not closed", 'add the missing `"`'
        )

    def _unexpected(self, expected: str) -> SourceRefused:
        found = self.text[self.index : self.index + 1]
        if not found:
            return self._refusal(f"expected {expected}, but the text ends", "complete the document")
        hint = "JSON needs double quotes around keys and texts, and commas between values"
        if found == "'":
            hint = "JSON uses double quotes"
        elif found in "#/":
            hint = "JSON has no comments; a YAML document may have them"
        return self._refusal(f"expected {expected}, found `{found}`", hint)

    def _refusal(self, message: str, hint: str) -> SourceRefused:
        finding = Finding(
            code="SYNTAX_ERROR",
            message=message,
            path=json_pointer(self.path),
            hint=hint,
            position=self._position(self.index),
        )
        return SourceRefused(finding)


def _values(nodes: list[SourceNode]) -> int:
    return 1 + sum(node.values for node in nodes)


def _depth(nodes: list[SourceNode]) -> int:
    return 1 + max((node.depth for node in nodes), default=0)
