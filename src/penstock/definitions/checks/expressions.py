"""Checks of jq, templates and secrets: programs that do not compile or are forbidden, and unknown names.

Above it: `validate`. Below it: `outline.jq_places` and `outline.jq_leaves` find and compile the jq, `jq.text` reads the
names in it, `outline.reach` knows which nodes a body can see. `types` checks the types of values.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from penstock.base.json import JsonObject, JsonValue
from penstock.base.limits import DOCUMENT_EXPRESSIONS_MAX
from penstock.definitions.checks.secret_answers import secret_answer_findings
from penstock.definitions.checks.secrets import secret_findings
from penstock.definitions.jq.text import root_keys
from penstock.definitions.node_parts.jq_places import JqPlace
from penstock.definitions.node_parts.kind import Bodies
from penstock.definitions.nodes import kind_named
from penstock.definitions.outline.document import OutlineNode
from penstock.definitions.outline.jq_leaves import Collected, JsonLeaf, Leaf, Mistake, Query, SecretText, Text
from penstock.definitions.outline.reach import Graph
from penstock.definitions.source.findings import Finding

__all__ = ["expression_findings"]

_ALWAYS_VISIBLE = ("input", "run", "state", "error")
_ROOT_HINT = "expressions read `.input`, `.state`, `.run` and the outputs of nodes by their ids"


def expression_findings(document: JsonObject, graph: Graph, collected: Collected) -> tuple[Finding, ...]:
    """Return everything that is wrong with the expressions, templates and secrets of a document."""
    outline, names = graph.outline, _Names(document=document, graph=graph)
    findings: list[Finding] = []
    allowed: set[str] = set()
    for place, leaves in collected.places:
        findings.extend(finding for leaf in leaves for finding in _check_leaf(leaf, place, names))
        if place.allows_secrets:
            allowed.add(place.path)
    if not collected.complete:
        findings.append(
            Finding(
                code="TOO_MANY_EXPRESSIONS",
                message=f"the document has more than {DOCUMENT_EXPRESSIONS_MAX:,} jq expressions; not all were checked",
                hint="move parts of it into workflows of their own and call them with `type: subworkflow`",
            )
        )
        return tuple(findings)
    findings.extend(secret_answer_findings(document, outline, collected.places))
    if outline.native:
        findings.extend(secret_findings(document, frozenset(allowed), names.graph.suggestions))
    return tuple(findings)


def _check_leaf(leaf: Leaf, place: JqPlace, names: _Names) -> Iterator[Finding]:
    match leaf:
        case Mistake(path=path, code=code, message=message, hint=hint):
            yield Finding(code=code, message=message, path=path, hint=hint)
        case Query(path=path, program=program):
            yield from names.unknown((program,), path, place)
        case Text(path=path, programs=programs):
            yield from names.unknown(programs, path, place)
        case SecretText() | JsonLeaf():
            pass


@dataclass(slots=True, kw_only=True)
class _Names:
    """The names that expressions can use, body by body."""

    document: JsonObject
    graph: Graph

    def unknown(self, programs: tuple[str, ...], path: str, place: JqPlace) -> Iterator[Finding]:
        """Yield findings for names at the root of expressions that do not exist there."""
        if not self.graph.outline.native or place.body is None:
            return
        reported: set[str] = set()
        for program in programs:
            for name in sorted(root_keys(program) or ()):
                if name not in reported and not self._is_visible(name, place.body):
                    reported.add(name)
                    yield self._unknown(name, path, place.body)

    def _is_visible(self, name: str, body: str) -> bool:
        around = tuple(self.graph.enclosing(body))
        return name in _ALWAYS_VISIBLE or self._is_readable(name, around) or name in self._names_around(around)

    def _is_readable(self, name: str, around: tuple[str, ...]) -> bool:
        """Whether a node's output is kept in one of these bodies, or will be when a node in them is done."""
        if any(name in self.graph.ids_by_body.get(body, ()) for body in around):
            return True
        node = self.graph.nodes.get(name)
        return node is not None and any(home in around for home in self._homes(node))

    def _homes(self, node: OutlineNode) -> Iterator[str]:
        """The bodies that see a node's output: its own, and those around it up to one whose nodes have many outputs."""
        for home in self.graph.enclosing(node.body):
            yield home
            owner = self._owner(home)
            inside = _bodies(owner)
            if owner is None or (inside is not None and not inside.once_each):
                return

    def _visible(self, body: str) -> dict[str, None]:
        """The names that an expression in a body can read."""
        around = tuple(self.graph.enclosing(body))
        nodes = (name for name in self.graph.nodes if self._is_readable(name, around))
        return dict.fromkeys((*_ALWAYS_VISIBLE, *self._names_around(around), *nodes))

    def _names_around(self, around: tuple[str, ...]) -> Iterator[str]:
        for owner in map(self._owner, around):
            inside = _bodies(owner)
            if owner is None or inside is None:
                continue
            if inside.item_name is not None:
                name, default = inside.item_name
                yield str(owner.fields.get(name, default))
            yield from inside.names

    def _owner(self, body: str) -> OutlineNode | None:
        described = self.graph.outline.bodies.get(body)
        return self.graph.nodes.get(described.owner) if described is not None and described.owner else None

    def _unknown(self, name: str, path: str, body: str) -> Finding:
        hidden = self.graph.nodes.get(name)
        if hidden is not None:
            return self._hidden(hidden, path)
        hint = None
        for source in ("input", "state"):
            if name in _property_names(self.document.get(source)):
                hint = f"did you mean `.{source}.{name}`?"
        if hint is None:
            guess = self.graph.suggestions.nearest(name, self._visible(body))
            hint = f"did you mean `.{guess}`?" if guess is not None else _ROOT_HINT
        return Finding(code="UNKNOWN_REFERENCE", message=f"`.{name}` does not exist here", path=path, hint=hint)

    def _hidden(self, node: OutlineNode, path: str) -> Finding:
        *_, outermost = self._homes(node)
        owner = self._owner(outermost)
        name = owner.id if owner is not None else outermost
        return Finding(
            code="UNKNOWN_REFERENCE",
            message=f"`{node.id}` is inside `{name}`, so its output is not readable here",
            path=path,
            hint=f"read the results of all items instead: `.{name}`",
        )


def _bodies(owner: OutlineNode | None) -> Bodies | None:
    kind = kind_named(owner.type) if owner is not None else None
    return None if kind is None else kind.bodies


def _property_names(schema: JsonValue) -> tuple[str, ...]:
    properties = schema.get("properties") if isinstance(schema, dict) else None
    return tuple(properties) if isinstance(properties, dict) else ()
