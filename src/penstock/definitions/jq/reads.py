"""Which parts of its input a jq program reads.

Follows every value of a program back to the path of the root it came from. The checks use the result to report
references to things that do not exist. `expressions` uses it to pass only the relevant parts to libjq, because reading
a large root costs far more than evaluating a small expression on it.

Above it: `text` and `expressions`. Below it: `syntax`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from penstock.base.json import JsonValue
from penstock.definitions.jq.syntax import ASSIGNMENTS, Node, NodeKind

__all__ = ["Reads", "project", "reads_of"]

Path: TypeAlias = tuple[str, ...]
# Where a value may come from: paths of the root, or None for a value that the program created.
Origins: TypeAlias = frozenset[Path | None]


@dataclass(frozen=True, slots=True)
class Reads:
    """The parts of a value that are read: all of it, or only some members if it is an object."""

    whole: bool = False
    members: dict[str, "Reads"] = field(default_factory=dict)


MADE: Origins = frozenset({None})
NOTHING: Origins = frozenset()
# Functions that pass on the outputs of one argument, and functions that do not look at their input.
TRANSPARENT_ARITIES = {("first", 1): 0, ("last", 1): 0, ("limit", 2): 1}
BLIND_ARITIES = frozenset({("empty", 0), ("error", 1), ("range", 1), ("range", 2), ("range", 3)})
# Functions that apply their second argument to the outputs of the first.
PIPING_ARITIES = frozenset({("all", 2), ("any", 2)})


def reads_of(node: Node) -> Reads | None:
    """Return what the program reads of its root; None when it may read anything.

    The result is complete: no other part of the root can change the result of the program, not even an error.
    """
    reader = _Reader()
    try:
        reader.consume(reader.origins(node, frozenset({()}), {}))
    except _Unknown:
        return None
    tree = _tree(reader.touched, reader.paths)
    return None if tree.whole else tree


def project(value: JsonValue, reads: Reads) -> JsonValue:
    """Return the parts of a value that are read; a value that is not an object is returned unchanged."""
    if reads.whole or not isinstance(value, dict):
        return value
    return {name: project(value[name], inner) for name, inner in reads.members.items() if name in value}


class _Unknown(Exception):
    pass


class _Reader:
    def __init__(self) -> None:
        # Paths read whole, and paths only passed through: an access can fail even when its result is dropped.
        self.paths: set[Path] = set()
        self.touched: set[Path] = set()

    def consume(self, origins: Origins) -> Origins:
        self.paths.update(path for path in origins if path is not None)
        return MADE

    def origins(self, node: Node, inputs: Origins, variables: Mapping[str, Origins]) -> Origins:
        """Where the outputs of a node may come from, given where its inputs may come from."""
        match node.kind:
            case NodeKind.IDENTITY:
                return inputs
            case NodeKind.LITERAL:
                return MADE
            case NodeKind.VARIABLE:
                return variables.get(str(node.value), MADE)
            case NodeKind.OPAQUE:
                raise _Unknown
            case NodeKind.FORMAT:
                return self.consume(inputs)
            case NodeKind.PIPE:
                for stage in node.children:
                    inputs = self.origins(stage, inputs, variables)
                return inputs
            case NodeKind.COMMA:
                return NOTHING.union(*(self.origins(child, inputs, variables) for child in node.children))
            case _:
                return self._structured(node, inputs, variables)

    def _structured(self, node: Node, inputs: Origins, variables: Mapping[str, Origins]) -> Origins:
        match node.kind:
            case NodeKind.INDEX:
                return self._index(node, inputs, variables)
            case NodeKind.ATTEMPT:
                body, *handler = node.children
                found = self.origins(body, inputs, variables)
                return found.union(*(self.origins(part, MADE, variables) for part in handler))
            case NodeKind.IF:
                return self._if(node, inputs, variables)
            case NodeKind.BIND:
                return self._bind(node, inputs, variables)
            case NodeKind.FOLD:
                return self._fold(node, inputs, variables)
            case NodeKind.CALL:
                return self._call(node, inputs, variables)
            case NodeKind.BINARY:
                return self._binary(node, inputs, variables)
            case _:
                return self._consume_all(node.children, inputs, variables)

    def _index(self, node: Node, inputs: Origins, variables: Mapping[str, Origins]) -> Origins:
        target, key = node.children
        found = self.origins(target, inputs, variables)
        if key.kind is NodeKind.LITERAL and isinstance(key.value, str):
            name = key.value
            reached: Origins = frozenset(None if path is None else (*path, name) for path in found)
            self.touched.update(path for path in reached if path is not None)
            return reached
        self.consume(self.origins(key, inputs, variables))
        return self.consume(found)

    def _if(self, node: Node, inputs: Origins, variables: Mapping[str, Origins]) -> Origins:
        *pairs, otherwise = node.children
        found = self.origins(otherwise, inputs, variables)
        for condition, then in zip(pairs[::2], pairs[1::2], strict=True):
            self.consume(self.origins(condition, inputs, variables))
            found = found.union(self.origins(then, inputs, variables))
        return found

    def _bind(self, node: Node, inputs: Origins, variables: Mapping[str, Origins]) -> Origins:
        source, body, *keys = node.children
        bound = self.origins(source, inputs, variables)
        if keys:
            # The parts of a destructuring pattern are not followed one by one.
            bound = self.consume(bound)
        inner = {**variables, **dict.fromkeys(node.names, bound)}
        self._consume_all(keys, inputs.union(MADE), inner)
        return self.origins(body, inputs, inner)

    def _fold(self, node: Node, inputs: Origins, variables: Mapping[str, Origins]) -> Origins:
        source, start, *steps = node.children
        self.consume(self.origins(source, inputs, variables))
        self.consume(self.origins(start, inputs, variables))
        inner = {**variables, **dict.fromkeys(node.names, MADE)}
        return self._consume_all(steps, MADE, inner)

    def _binary(self, node: Node, inputs: Origins, variables: Mapping[str, Origins]) -> Origins:
        if node.value in ASSIGNMENTS:
            # The result is the whole input with a change.
            self.consume(inputs)
        left, right = (self.origins(child, inputs, variables) for child in node.children)
        self.consume(left)
        if node.value == "//":
            return left.union(right)
        return self.consume(right)

    def _call(self, node: Node, inputs: Origins, variables: Mapping[str, Origins]) -> Origins:
        signature = (str(node.value), len(node.children))
        if signature in BLIND_ARITIES:
            return self._consume_all(node.children, inputs, variables)
        if signature == ("select", 1):
            self._consume_all(node.children, inputs, variables)
            return inputs
        if signature in TRANSPARENT_ARITIES:
            handed_on = TRANSPARENT_ARITIES[signature]
            self._consume_all(node.children[:handed_on], inputs, variables)
            return self.origins(node.children[handed_on], inputs, variables)
        if signature in PIPING_ARITIES:
            found = self.origins(node.children[0], inputs, variables)
            self.consume(found)
            return self._consume_all(node.children[1:], found, variables)
        self.consume(inputs)
        # An argument may be applied to the input or to a value made from it; this covers both.
        return self._consume_all(node.children, inputs.union(MADE), variables)

    def _consume_all(
        self, nodes: tuple[Node, ...] | list[Node], inputs: Origins, variables: Mapping[str, Origins]
    ) -> Origins:
        for node in nodes:
            self.consume(self.origins(node, inputs, variables))
        return MADE


def _tree(touched: set[Path], whole: set[Path]) -> Reads:
    root = Reads(whole=() in whole)
    # Shorter paths first: nothing below a path that is read whole needs its own entry.
    for path in sorted(touched | whole, key=len):
        place = root
        for length, name in enumerate(path, start=1):
            if place.whole:
                break
            place = place.members.setdefault(name, Reads(whole=path[:length] in whole))
    return root
