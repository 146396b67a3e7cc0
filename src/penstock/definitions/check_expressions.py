"""Checks of jq, templates and secrets: what does not compile, what is forbidden, what names something unknown.

Above it: `validate`. Below it: `jq_sites` and `jq_leaves` find and compile the jq, `jq_text` reads the names in it,
`reach` knows which nodes a body can see. What type a value has is `check_types`' business.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.check_secrets import secret_findings
from penstock.definitions.findings import Finding
from penstock.definitions.guesses import Guesses
from penstock.definitions.jq_leaves import JsonLeaf, Leaf, Mistake, Query, SecretText, Text, leaves_of
from penstock.definitions.jq_sites import Site, sites_of
from penstock.definitions.jq_text import root_keys
from penstock.definitions.outline import Outline
from penstock.definitions.reach import Graph, graph_of

__all__ = ["expression_findings"]

_ALWAYS_VISIBLE = ("input", "run", "state", "error")
_ROOT_HINT = "expressions read `.input`, `.state`, `.run` and the outputs of nodes by their ids"


def expression_findings(document: JsonObject, outline: Outline, guesses: Guesses | None = None) -> tuple[Finding, ...]:
    """Everything that is wrong with the expressions, templates and secrets of a document."""
    names = _Names(document=document, graph=graph_of(outline, guesses))
    findings: list[Finding] = []
    allowed: set[str] = set()
    for site in sites_of(document, outline):
        for leaf in leaves_of(site):
            findings.extend(_check_leaf(leaf, site, names))
        if site.allows_secrets:
            allowed.add(site.path)
    if outline.native:
        findings.extend(secret_findings(document, frozenset(allowed), names.graph.guesses))
    return tuple(findings)


def _check_leaf(leaf: Leaf, site: Site, names: _Names) -> Iterator[Finding]:
    match leaf:
        case Mistake(path=path, code=code, message=message, hint=hint):
            yield Finding(code=code, message=message, path=path, hint=hint)
        case Query(path=path, program=program):
            yield from names.unknown((program,), path, site)
        case Text(path=path, programs=programs):
            yield from names.unknown(programs, path, site)
        case SecretText() | JsonLeaf():
            pass


@dataclass(slots=True, kw_only=True)
class _Names:
    """What expressions can name, body by body."""

    document: JsonObject
    graph: Graph

    def unknown(self, programs: tuple[str, ...], path: str, site: Site) -> Iterator[Finding]:
        """The names at the root of expressions that nothing has there."""
        if not self.graph.outline.native or site.body is None:
            return
        reported: set[str] = set()
        for program in programs:
            for name in sorted(root_keys(program) or ()):
                if name not in reported and not self._is_visible(name, site.body):
                    reported.add(name)
                    yield self._unknown(name, path, site.body)

    def _is_visible(self, name: str, body: str) -> bool:
        return name in _ALWAYS_VISIBLE or any(
            name in self.graph.ids_by_body.get(around, ()) or name in self._names_of_owner(around)
            for around in self.graph.enclosing(body)
        )

    def _visible(self, body: str) -> dict[str, None]:
        """The names that an expression in a body can read, from the outside in."""
        names = dict.fromkeys(_ALWAYS_VISIBLE)
        for around in self.graph.enclosing(body):
            names.update(dict.fromkeys((*self.graph.names_in(around), *self._names_of_owner(around))))
        return names

    def _names_of_owner(self, body: str) -> tuple[str, ...]:
        described = self.graph.outline.bodies.get(body)
        owner = self.graph.nodes.get(described.owner) if described is not None and described.owner else None
        if owner is None:
            return ()
        if owner.type == "for_each":
            item = owner.fields.get("as")
            return ("item", "index", item) if isinstance(item, str) else ("item", "index")
        return ("loop",) if owner.type == "loop" else ()

    def _unknown(self, name: str, path: str, body: str) -> Finding:
        hidden = self.graph.nodes.get(name)
        if hidden is not None:
            return self._hidden(name, path, hidden.body)
        hint = None
        for source in ("input", "state"):
            if name in _property_names(self.document.get(source)):
                hint = f"did you mean `.{source}.{name}`?"
        if hint is None:
            guess = self.graph.guesses.nearest(name, self._visible(body))
            hint = f"did you mean `.{guess}`?" if guess is not None else _ROOT_HINT
        return Finding(
            code="UNKNOWN_REFERENCE", message=f"`.{name}` names nothing that exists here", path=path, hint=hint
        )

    def _hidden(self, name: str, path: str, body: str) -> Finding:
        described = self.graph.outline.bodies.get(body)
        owner = described.owner if described is not None else None
        return Finding(
            code="UNKNOWN_REFERENCE",
            message=f"`{name}` is inside `{owner or body}` and cannot be read from here",
            path=path,
            hint=f"read the output of `{owner}` instead: `.{owner}`" if owner is not None else None,
        )


def _property_names(schema: JsonValue) -> tuple[str, ...]:
    properties = schema.get("properties") if isinstance(schema, dict) else None
    return tuple(properties) if isinstance(properties, dict) else ()
