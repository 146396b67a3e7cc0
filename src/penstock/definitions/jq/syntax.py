"""jq programs as trees, for questions that tokens alone cannot answer.

libjq compiles and runs the programs. This parser exists so that `bounds` and `reads` can tell what a program may cost
and which parts of its input it reads. It does not guess: for a program that it does not understand, or that is nested
too deeply, there is no tree, and the callers assume the worst.

Above it: `text`, `bounds` and `reads`. Below it: `tokens`.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from penstock.definitions.jq.tokens import Token, TokenKind, tokenize

__all__ = ["ASSIGNMENTS", "COMPARISONS", "Node", "NodeKind", "parse_program"]

# Real expressions nest three or four levels deep. The limits keep every walk far from Python's recursion limit.
NESTING_MAX = 24
DEPTH_MAX = 100


class NodeKind(StrEnum):
    """The kinds of nodes; each comment lists the children in order."""

    ATTEMPT = "attempt"  # body, and perhaps handler
    BINARY = "binary"  # left, right; value is the operator
    BIND = "bind"  # source, body, and keys computed by the pattern; names are the variables
    CALL = "call"  # arguments; value is the name
    COLLECT = "collect"  # perhaps body
    COMMA = "comma"  # two or more
    FOLD = "fold"  # source, start, update, perhaps extract, and pattern keys; names are the variables
    FORMAT = "format"
    IDENTITY = "identity"
    IF = "if"  # condition, then, condition, then, …, otherwise
    INDEX = "index"  # target, key
    ITERATE = "iterate"  # target
    LITERAL = "literal"  # value is the JSON scalar
    NEGATE = "negate"  # operand
    OBJECT = "object"  # key, value, key, value, …
    OPAQUE = "opaque"  # parts of something whose meaning is not modelled
    PIPE = "pipe"  # two or more
    SLICE = "slice"  # target, from, to
    TEXT = "text"  # interpolated parts; value is the length of the fixed text
    VARIABLE = "variable"  # value is the name


@dataclass(frozen=True, slots=True)
class Node:
    """A node of the tree."""

    kind: NodeKind
    children: tuple["Node", ...] = ()
    value: str | float | bool | None = None
    names: tuple[str, ...] = ()
    depth: int = 0


ASSIGNMENTS = frozenset({"=", "|=", "+=", "-=", "*=", "/=", "%=", "//="})
COMPARISONS = frozenset({"==", "!=", "<", ">", "<=", ">="})
PRECEDENCE = {
    "//": 1,
    **dict.fromkeys(ASSIGNMENTS, 2),
    "or": 3,
    "and": 4,
    **dict.fromkeys(COMPARISONS, 5),
    **dict.fromkeys(("+", "-"), 6),
    **dict.fromkeys(("*", "/", "%"), 7),
}
CONSTANTS: dict[str, bool | None] = {"true": True, "false": False, "null": None}
IDENTITY = Node(NodeKind.IDENTITY)
NULL = Node(NodeKind.LITERAL)


def parse_program(program: str) -> Node | None:
    """Parse a program. None means that this parser does not support it, not that it is invalid."""
    try:
        return _Parser(tokenize(program)).program()
    except _NotParsed:
        return None


class _NotParsed(Exception):
    pass


class _Parser:
    def __init__(self, tokens: tuple[Token, ...]) -> None:
        self.tokens = tokens
        self.index = 0
        self.nesting = 0

    def program(self) -> Node:
        node = self._query()
        if self.index < len(self.tokens):
            raise _NotParsed
        return node

    def _query(self) -> Node:
        self.nesting += 1
        if self.nesting > NESTING_MAX:
            raise _NotParsed
        stages = [self._outputs()]
        while self._accept("|"):
            stages.append(self._outputs())
        self.nesting -= 1
        return _several(NodeKind.PIPE, stages)

    def _outputs(self) -> Node:
        alternatives = [self._element()]
        while self._accept(","):
            alternatives.append(self._element())
        return _several(NodeKind.COMMA, alternatives)

    def _element(self) -> Node:
        if self._accept("def"):
            return self._definition()
        if self._accept("label"):
            self._take(TokenKind.VARIABLE)
            self._expect("|")
            return _node(NodeKind.OPAQUE, self._query())
        source = self._expression(1)
        if not self._accept("as"):
            return source
        names, keys, simple = self._patterns()
        self._expect("|")
        body = self._query()
        if simple is None:
            return _node(NodeKind.OPAQUE, source, body, *keys)
        return _node(NodeKind.BIND, source, body, *keys, names=names)

    def _definition(self) -> Node:
        self._take(TokenKind.IDENTIFIER)
        if self._accept("("):
            while not self._accept(")"):
                if not self._accept(";"):
                    self._take(TokenKind.IDENTIFIER, TokenKind.VARIABLE)
        self._expect(":")
        body = self._query()
        self._expect(";")
        return _node(NodeKind.OPAQUE, body, self._query())

    def _patterns(self) -> tuple[tuple[str, ...], list[Node], bool | None]:
        """The bound names, the computed keys, and whether it is a plain variable (None: alternatives with `?//`)."""
        names: list[str] = []
        keys: list[Node] = []
        plain = self._peek_kind() is TokenKind.VARIABLE
        self._pattern(names, keys)
        if self._accept("?//"):
            self._patterns()
            return (), keys, None
        return tuple(names), keys, plain

    def _pattern(self, names: list[str], keys: list[Node]) -> None:
        if self._peek_kind() is TokenKind.VARIABLE:
            names.append(self._take(TokenKind.VARIABLE).text)
            return
        # The computed keys mark a destructured value, as opposed to a plain one.
        keys.append(NULL)
        if self._accept("["):
            self._pattern(names, keys)
            while self._accept(","):
                self._pattern(names, keys)
            self._expect("]")
            return
        self._expect("{")
        self._object_pattern(names, keys)
        while self._accept(","):
            self._object_pattern(names, keys)
        self._expect("}")

    def _object_pattern(self, names: list[str], keys: list[Node]) -> None:
        if self._peek_kind() is TokenKind.VARIABLE:
            names.append(self._take(TokenKind.VARIABLE).text)
            if not self._accept(":"):
                return
        else:
            keys.append(self._object_key())
            self._expect(":")
        self._pattern(names, keys)

    def _expression(self, precedence_min: int) -> Node:
        left = self._postfix()
        while True:
            operator = self._peek_operator()
            precedence = PRECEDENCE.get(operator, 0)
            if precedence < precedence_min or precedence == 0:
                return left
            self.index += 1
            right = self._expression(precedence if operator == "//" else precedence + 1)
            left = _node(NodeKind.BINARY, left, right, value=operator)

    def _postfix(self) -> Node:
        node = self._term()
        while True:
            token = self._peek()
            if token is None:
                return node
            if token.kind is TokenKind.FIELD:
                self.index += 1
                node = _node(NodeKind.INDEX, node, _node(NodeKind.LITERAL, value=token.text))
            elif self._accept("?"):
                node = _node(NodeKind.ATTEMPT, node)
            elif self._accept("["):
                node = self._bracket(node)
            elif self._accept("."):
                node = self._after_dot(node)
            else:
                return node

    def _after_dot(self, target: Node) -> Node:
        if self._accept("["):
            return self._bracket(target)
        return _node(NodeKind.INDEX, target, self._string())

    def _bracket(self, target: Node) -> Node:
        if self._accept("]"):
            return _node(NodeKind.ITERATE, target)
        if self._accept(":"):
            return self._slice(target, NULL)
        key = self._query()
        if self._accept(":"):
            return self._slice(target, key)
        self._expect("]")
        return _node(NodeKind.INDEX, target, key)

    def _slice(self, target: Node, start: Node) -> Node:
        if self._accept("]"):
            return _node(NodeKind.SLICE, target, start, NULL)
        end = self._query()
        self._expect("]")
        return _node(NodeKind.SLICE, target, start, end)

    def _term(self) -> Node:
        token = self._peek()
        if token is None:
            raise _NotParsed
        match token.kind:
            case TokenKind.FIELD:
                # The caller's loop reads it as an access to the input.
                return IDENTITY
            case TokenKind.NUMBER:
                self.index += 1
                return _node(NodeKind.LITERAL, value=float(token.text))
            case TokenKind.STRING_START:
                return self._string()
            case TokenKind.FORMAT:
                return self._format()
            case TokenKind.VARIABLE:
                self.index += 1
                return _node(NodeKind.VARIABLE, value=token.text)
            case TokenKind.IDENTIFIER:
                return self._call()
            case TokenKind.KEYWORD:
                return self._keyword()
            case _:
                return self._operator_term()

    def _operator_term(self) -> Node:
        if self._accept("."):
            return self._after_dot(IDENTITY) if self._peek_kind() is TokenKind.STRING_START else IDENTITY
        if self._accept(".."):
            return _node(NodeKind.CALL, value="recurse")
        if self._accept("-"):
            return self._nested(lambda: _node(NodeKind.NEGATE, self._postfix()))
        if self._accept("("):
            node = self._query()
            self._expect(")")
            return node
        if self._accept("["):
            if self._accept("]"):
                return _node(NodeKind.COLLECT)
            node = _node(NodeKind.COLLECT, self._query())
            self._expect("]")
            return node
        if self._accept("{"):
            return self._object()
        raise _NotParsed

    def _keyword(self) -> Node:
        if self._accept("if"):
            return self._if()
        if self._accept("try"):
            return self._nested(self._try)
        if self._accept("reduce") or self._accept("foreach"):
            return self._fold()
        if self._accept("break"):
            self._take(TokenKind.VARIABLE)
            return _node(NodeKind.OPAQUE)
        raise _NotParsed

    def _if(self) -> Node:
        parts = [self._query()]
        self._expect("then")
        parts.append(self._query())
        while self._accept("elif"):
            parts.append(self._query())
            self._expect("then")
            parts.append(self._query())
        parts.append(self._query() if self._accept("else") else IDENTITY)
        self._expect("end")
        return _node(NodeKind.IF, *parts)

    def _try(self) -> Node:
        body = self._postfix()
        if self._accept("catch"):
            return _node(NodeKind.ATTEMPT, body, self._postfix())
        return _node(NodeKind.ATTEMPT, body)

    def _fold(self) -> Node:
        source = self._expression(1)
        self._expect("as")
        names, keys, simple = self._patterns()
        self._expect("(")
        parts = [self._query()]
        while self._accept(";"):
            parts.append(self._query())
        self._expect(")")
        if simple is None:
            return _node(NodeKind.OPAQUE, source, *parts, *keys)
        return _node(NodeKind.FOLD, source, *parts, *keys, names=names)

    def _call(self) -> Node:
        name = self._take(TokenKind.IDENTIFIER).text
        if name in CONSTANTS:
            return _node(NodeKind.LITERAL, value=CONSTANTS[name])
        arguments: list[Node] = []
        if self._accept("("):
            arguments.append(self._query())
            while self._accept(";"):
                arguments.append(self._query())
            self._expect(")")
        return _node(NodeKind.CALL, *arguments, value=name)

    def _object(self) -> Node:
        parts: list[Node] = []
        while not self._accept("}"):
            if parts:
                self._expect(",")
                if self._accept("}"):
                    break
            parts.extend(self._entry())
        return _node(NodeKind.OBJECT, *parts)

    def _entry(self) -> tuple[Node, Node]:
        if self._peek_kind() is TokenKind.VARIABLE:
            name = self._take(TokenKind.VARIABLE).text
            variable = _node(NodeKind.VARIABLE, value=name)
            if not self._accept(":"):
                return _node(NodeKind.LITERAL, value=name), variable
            return variable, self._entry_value()
        computed = self._peek_operator() == "("
        key = self._object_key()
        if self._accept(":"):
            return key, self._entry_value()
        if computed:
            raise _NotParsed
        return key, _node(NodeKind.INDEX, IDENTITY, key)

    def _entry_value(self) -> Node:
        stages = [self._expression(1)]
        while self._accept("|"):
            stages.append(self._expression(1))
        return _several(NodeKind.PIPE, stages)

    def _object_key(self) -> Node:
        if self._peek_kind() in (TokenKind.IDENTIFIER, TokenKind.KEYWORD):
            return _node(NodeKind.LITERAL, value=self._take(TokenKind.IDENTIFIER, TokenKind.KEYWORD).text)
        if self._accept("("):
            key = self._query()
            self._expect(")")
            return key
        return self._string()

    def _format(self) -> Node:
        name = self._take(TokenKind.FORMAT).text
        if self._peek_kind() is TokenKind.STRING_START:
            return self._string()
        return _node(NodeKind.FORMAT, value=name)

    def _string(self) -> Node:
        if self._peek_kind() is TokenKind.FORMAT:
            self.index += 1
        self._take(TokenKind.STRING_START)
        fixed = ""
        parts: list[Node] = []
        while True:
            token = self._take(TokenKind.STRING_TEXT, TokenKind.INTERPOLATION_START, TokenKind.STRING_END)
            if token.kind is TokenKind.STRING_END:
                break
            if token.kind is TokenKind.STRING_TEXT:
                fixed += _unescaped(token.text)
                continue
            parts.append(self._query())
            self._take(TokenKind.INTERPOLATION_END)
        if not parts:
            return _node(NodeKind.LITERAL, value=fixed)
        return _node(NodeKind.TEXT, *parts, value=float(len(fixed)))

    def _nested(self, parse: Callable[[], Node]) -> Node:
        self.nesting += 1
        if self.nesting > NESTING_MAX:
            raise _NotParsed
        node = parse()
        self.nesting -= 1
        return node

    def _peek(self) -> Token | None:
        return self.tokens[self.index] if self.index < len(self.tokens) else None

    def _peek_kind(self) -> TokenKind | None:
        token = self._peek()
        return None if token is None else token.kind

    def _peek_operator(self) -> str:
        token = self._peek()
        if token is None or token.kind not in (TokenKind.OPERATOR, TokenKind.KEYWORD):
            return ""
        return token.text

    def _accept(self, text: str) -> bool:
        if self._peek_operator() != text:
            return False
        self.index += 1
        return True

    def _expect(self, text: str) -> None:
        if not self._accept(text):
            raise _NotParsed

    def _take(self, *kinds: TokenKind) -> Token:
        token = self._peek()
        if token is None or token.kind not in kinds:
            raise _NotParsed
        self.index += 1
        return token


def _several(kind: NodeKind, nodes: list[Node]) -> Node:
    return nodes[0] if len(nodes) == 1 else _node(kind, *nodes)


def _node(
    kind: NodeKind, *children: Node, value: str | float | bool | None = None, names: tuple[str, ...] = ()
) -> Node:
    depth = 1 + max((child.depth for child in children), default=0)
    if depth > DEPTH_MAX:
        raise _NotParsed
    return Node(kind, children, value, names, depth)


def _unescaped(text: str) -> str:
    try:
        decoded = str(json.loads(f'"{text}"', strict=False))
        decoded.encode("utf-8")
    except ValueError as error:
        raise _NotParsed from error
    return decoded
