"""A YAML reader for workflow documents: the JSON values of YAML 1.2, and no surprises.

It is built on the event stream of PyYAML, because PyYAML's own constructors follow YAML 1.1 (`on` is true, `0123` is
83) and recurse without a limit. Anchors and aliases work within `limits.DOCUMENT_VALUES_MAX`. Tags, merge keys, several
documents and keys that are not text are refused. Only `document` calls it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import yaml

from penstock.base import limits
from penstock.base.json import json_pointer
from penstock.definitions.source.findings import Finding, Position
from penstock.definitions.source.quoting import find_value, quote_braces
from penstock.definitions.source.tree import (
    AliasNode,
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

__all__ = ["read_yaml"]

# The parser on top of libyaml is about ten times faster; both give the same events.
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
TEXT_TAGS = frozenset({"!", "tag:yaml.org,2002:str"})
COLLECTION_TAGS = frozenset({"!", "tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"})
WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
DECIMAL = re.compile(r"[-+]?[0-9]+")
OCTAL = re.compile(r"0o[0-7]+")
HEXADECIMAL = re.compile(r"0x[0-9a-fA-F]+")
FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
# Far beyond any double; longer numbers are not worth converting.
NUMBER_CHARACTERS_MAX = 400
HINTS = {
    "found a tab character": "indent with spaces, not tabs",
    "found character that cannot start any token": "indent with spaces, not tabs; quote text that begins with @ or %",
    "mapping values are not allowed": "put text that contains `: ` in quotes",
    "could not find expected ':'": "each line of an object is `key: value`",
    "did not find expected key": "check the indentation: keys of one object start in the same column",
    "did not find expected '-' indicator": "check the indentation: items of one list start in the same column",
    "found unexpected end of stream": "a quote or bracket is not closed",
    "found unknown escape character": "use single quotes for text with backslashes",
}
# What the parser says where a bracket ends a plain text.
_INTERRUPTED = ("',' or", "cannot start any token")
_KEY = re.compile(r"\s*(?:- )?[A-Za-z_][\w-]*")
EMPTY = Finding(
    code="SYNTAX_ERROR", message="the document is empty", hint="begin with `penstock: v1`", position=Position(1, 1)
)


@dataclass(slots=True)
class _Frame:
    """A list or object that is still open."""

    position: Position
    anchor: str | None
    is_mapping: bool
    nodes: list[SourceNode] = field(default_factory=list)
    members: list[tuple[str, Position, SourceNode]] = field(default_factory=list)
    seen: dict[str, Position] = field(default_factory=dict)
    key: tuple[str | None, Position] | None = None


def read_yaml(text: str) -> tuple[SourceNode | None, tuple[Finding, ...]]:
    """Read a YAML text into a tree. No tree means that reading stopped at the last finding."""
    builder = _Builder(text)
    try:
        for event in _events(text):
            builder.take(event)
    except SourceRefused as refusal:
        return None, (*builder.findings, refusal.finding)
    if builder.root is None:
        return None, (EMPTY,)
    return builder.root, tuple(builder.findings)


def _events(text: str) -> Iterator[yaml.Event]:
    try:
        yield from yaml.parse(text, Loader=LOADER)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise SourceRefused(_syntax_error(text, error, _position(mark))) from error
    except yaml.reader.ReaderError as error:
        before = text.encode("utf-8")[: error.position].decode("utf-8", "ignore")
        position = Position(before.count("\n") + 1, len(before) - before.rfind("\n"))
        finding = Finding(
            code="SYNTAX_ERROR",
            message="a character here is not allowed in YAML",
            hint="remove it, or write it as an escape in double quotes",
            position=position,
        )
        raise SourceRefused(finding) from error


def _syntax_error(text: str, error: yaml.MarkedYAMLError, position: Position) -> Finding:
    problem = error.problem or "the text is not YAML"
    line = _line_at(text, position)
    correction = find_value(line, position.column) if any(words in problem for words in _INTERRUPTED) else None
    if correction is not None:
        return Finding(
            code="SYNTAX_ERROR",
            message="a value with brackets stands here without quotes",
            hint=f"put it in quotes: `{correction.line}`",
            position=Position(position.line, correction.start + 1),
        )
    hint = next((hint for words, hint in HINTS.items() if words in problem), "check indentation and quotes here")
    if "mapping values" in problem and _KEY.fullmatch(line[: position.column - 1]):
        hint = "check the indentation: keys of one object start in the same column; text with `: ` needs quotes"
    message = f"{problem} {error.context}" if error.context else problem
    return Finding(code="SYNTAX_ERROR", message=message, hint=hint, position=position)


def _line_at(text: str, position: Position) -> str:
    lines = text.splitlines()
    return lines[position.line - 1] if position.line <= len(lines) else ""


class _Builder:
    def __init__(self, text: str) -> None:
        self.text = text
        self.root: SourceNode | None = None
        self.findings: list[Finding] = []
        self.stack: list[_Frame] = []
        self.anchors: dict[str, SourceNode | None] = {}
        self.values = 0

    def take(self, event: yaml.Event) -> None:
        match event:
            case yaml.ScalarEvent():
                position = _position(event.start_mark)
                self._count(1, position)
                self._add(self._scalar(event, position), event.anchor)
            case yaml.SequenceStartEvent() | yaml.MappingStartEvent():
                self._open(event)
            case yaml.SequenceEndEvent() | yaml.MappingEndEvent():
                self._close()
            case yaml.AliasEvent():
                self._alias(event)
            case yaml.DocumentStartEvent() if self.root is not None:
                raise self._refused(
                    "MULTIPLE_DOCUMENTS",
                    "a second document begins here",
                    "keep one workflow per file",
                    _position(event.start_mark),
                )
            case _:
                pass

    def _open(self, event: yaml.SequenceStartEvent | yaml.MappingStartEvent) -> None:
        position = _position(event.start_mark)
        self._count(1, position)
        if len(self.stack) >= limits.DOCUMENT_DEPTH_MAX:
            raise SourceRefused(too_deep(self._path(), position))
        if event.tag is not None and event.tag not in COLLECTION_TAGS:
            self._tag(event.tag, position)
        if event.anchor is not None:
            self.anchors[event.anchor] = None
        self.stack.append(_Frame(position, event.anchor, isinstance(event, yaml.MappingStartEvent)))

    def _close(self) -> None:
        frame = self.stack.pop()
        values = 1 + sum(node.values for node in frame.nodes)
        depth = 1 + max((node.depth for node in frame.nodes), default=0)
        node: SourceNode
        if frame.is_mapping:
            node = MappingNode(tuple(frame.members), frame.position, values, depth)
        else:
            node = SequenceNode(tuple(frame.nodes), frame.position, values, depth)
        self._add(node, frame.anchor)

    def _alias(self, event: yaml.AliasEvent) -> None:
        position = _position(event.start_mark)
        anchor = event.anchor or ""
        target = self.anchors.get(anchor)
        if target is None:
            message = (
                f"the alias `*{anchor}` stands inside the value it repeats"
                if anchor in self.anchors
                else f"no anchor `&{anchor}` comes before the alias `*{anchor}`"
            )
            raise self._refused("ALIAS_UNKNOWN", message, "write the value out here", position)
        self._count(target.values, position)
        if len(self.stack) + target.depth > limits.DOCUMENT_DEPTH_MAX:
            raise SourceRefused(too_deep(self._path(), position))
        self._add(AliasNode(target, position, target.values, target.depth), None)

    def _add(self, node: SourceNode, anchor: str | None) -> None:
        if anchor is not None:
            self.anchors[anchor] = node
        if not self.stack:
            self.root = node
            return
        frame = self.stack[-1]
        if not frame.is_mapping:
            frame.nodes.append(node)
        elif frame.key is None:
            frame.key = (self._key(node), node.position)
        else:
            self._member(frame, *frame.key, node)
            frame.key = None

    def _member(self, frame: _Frame, key: str | None, key_position: Position, node: SourceNode) -> None:
        if key is None:
            return
        if key in frame.seen:
            self.findings.append(duplicate_key(key, self._path(), key_position, frame.seen[key]))
            return
        frame.seen[key] = key_position
        frame.nodes.append(node)
        frame.members.append((key, key_position, node))

    def _key(self, node: SourceNode) -> str | None:
        value = node.target if isinstance(node, AliasNode) else node
        if isinstance(value, ScalarNode) and isinstance(value.value, _MergeKey):
            self._report(
                "MERGE_KEY",
                "merge keys (`<<`) are not part of YAML 1.2",
                "repeat the fields, or put `<<` in quotes if it is a name",
                node.position,
            )
            return None
        if isinstance(value, ScalarNode) and isinstance(value.value, str):
            return value.value
        correction = quote_braces(_line_at(self.text, node.position), node.position.column - 1)
        if isinstance(value, MappingNode) and correction is not None:
            hint = f"put it in quotes: `{correction.line}`"
            position = Position(node.position.line, correction.start + 1)
            self._report("KEY_NOT_TEXT", "`{{ }}` stands here without quotes", hint, position)
            return None
        self._report(
            "KEY_NOT_TEXT",
            "the keys of an object must be text",
            'put the key in quotes, for example `"1"`',
            node.position,
        )
        return None

    def _scalar(self, event: yaml.ScalarEvent, position: Position) -> ScalarNode:
        text: str = event.value
        plain = bool(event.implicit[0]) and event.tag is None
        if event.tag is not None and event.tag not in TEXT_TAGS:
            self._tag(event.tag, position)
        if not plain:
            return ScalarNode(text, position)
        if text == "<<" and self.stack and self.stack[-1].is_mapping and self.stack[-1].key is None:
            return ScalarNode(_MergeKey(text), position)
        if text in WORDS:
            return ScalarNode(WORDS[text], position)
        number = _number(text)
        if number is None:
            return ScalarNode(text, position)
        if not has_finite_value(number):
            self.findings.append(not_finite(text, self._path(), position))
            return ScalarNode(None, position)
        return ScalarNode(number, position)

    def _count(self, values: int, position: Position) -> None:
        self.values += values
        if self.values > limits.DOCUMENT_VALUES_MAX:
            raise SourceRefused(too_many_values(position))

    def _tag(self, tag: str, position: Position) -> None:
        shown = tag.replace("tag:yaml.org,2002:", "!!")
        self._report("TAG_NOT_ALLOWED", f"the tag `{shown}` is not allowed", "remove it; quotes make a text", position)

    def _report(self, code: str, message: str, hint: str, position: Position) -> None:
        self.findings.append(self._refused(code, message, hint, position).finding)

    def _refused(self, code: str, message: str, hint: str, position: Position) -> SourceRefused:
        finding = Finding(code=code, message=message, path=self._path(), hint=hint, position=position)
        return SourceRefused(finding)

    def _path(self) -> str:
        parts: list[str | int] = []
        for frame in self.stack:
            if not frame.is_mapping:
                parts.append(len(frame.nodes))
            elif frame.key is not None and frame.key[0] is not None:
                parts.append(frame.key[0])
        return json_pointer(parts)


class _MergeKey(str):
    """The key `<<`, written without quotes."""

    __slots__ = ()


def _number(text: str) -> float | None:
    """The number that a plain scalar means, infinities included, or None when it is text."""
    if NOT_FINITE.fullmatch(text) is not None:
        return float("inf")
    if len(text) > NUMBER_CHARACTERS_MAX:
        return float("inf") if FLOAT.fullmatch(text) is not None else None
    if DECIMAL.fullmatch(text) is not None:
        return int(text)
    if OCTAL.fullmatch(text) is not None:
        return int(text[2:], 8)
    if HEXADECIMAL.fullmatch(text) is not None:
        return int(text[2:], 16)
    return float(text) if FLOAT.fullmatch(text) is not None else None


def _position(mark: "yaml.error.Mark | yaml._yaml.Mark | None") -> Position:
    return Position(1, 1) if mark is None else Position(mark.line + 1, mark.column + 1)
