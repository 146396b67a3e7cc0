"""Find the route of a path, in as many steps as the path has segments.

Starlette's router tries one route after the other. With a hundred routes that took longer than the call itself. Here,
routes whose segments are literals or whole parameters form a tree, in which literals match before parameters. The few
routes with other patterns are tried one by one, and routes that take the rest of a path come last.

A slash written as `%2F` is a character of its segment, as RFC 3986 says: it never separates segments, and so never
selects another route.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias
from urllib.parse import unquote

from starlette.routing import BaseRoute, Match, Route
from starlette.types import ASGIApp, Receive, Scope, Send

__all__ = ["PathRouter"]

_PARAMETER = re.compile(r"\{(\w+)\}")
_PLAIN = re.compile(r"[^{}]*")
_TAKES_THE_REST = re.compile(r"\{\w+:path\}")
_WRITTEN_SLASH = "%2F"
_PATHS_KEPT = 1_024
_KEPT_CHARACTERS_MAX = 200
# Replaces an escaped slash while a path is matched. No path can contain it: a lone surrogate is not a character.
_HELD_SLASH = "\udc2f"


@dataclass(slots=True)
class _Node:
    """A node of the tree: children by literal segment, a child for any segment, and the route that ends here."""

    named: dict[str, _Node] = field(default_factory=dict)
    anything: _Node | None = None
    route: Route | None = None
    parameters: tuple[str, ...] = ()


Found: TypeAlias = tuple[BaseRoute, dict[str, object]]


class PathRouter:
    """Finds the route of a request among all routes of an application."""

    def __init__(self, routes: Sequence[BaseRoute], nothing: ASGIApp) -> None:
        self.routes = tuple(routes)
        self._nothing = nothing
        self._root = _Node()
        self._exact: dict[str, Route] = {}
        """Routes without parameters, by path."""
        self._walked: dict[str, tuple[Route, dict[str, object]]] = {}
        """Cache of paths recently found in the tree."""
        self._patterns: list[BaseRoute] = []
        self._rest: list[BaseRoute] = []
        for route in routes:
            self._add(route)

    def _add(self, route: BaseRoute) -> None:
        path = getattr(route, "path", "")
        parts = path.split("/")[1:]
        simple = all(_PARAMETER.fullmatch(part) or _PLAIN.fullmatch(part) for part in parts)
        if not isinstance(route, Route) or not simple:
            is_pattern = isinstance(route, Route) and not _TAKES_THE_REST.search(path)
            (self._patterns if is_pattern else self._rest).append(route)
            return
        node, parameters = self._root, []
        for part in parts:
            found = _PARAMETER.fullmatch(part)
            if found is None:
                node = node.named.setdefault(part, _Node())
            else:
                parameters.append(found[1])
                node.anything = node.anything or _Node()
                node = node.anything
        if node.route is None:
            node.route, node.parameters = route, tuple(parameters)
            if not parameters and ":" not in path:
                self._exact[path] = route

    def find(self, scope: Scope) -> Found | None:
        """Return the route of a request and the values of its path parameters."""
        path = _with_held_slashes(scope)
        if path is not None:
            return self._find_held(path, scope)
        return self._find(scope["path"], scope)

    def _find(self, path: str, scope: Scope) -> Found | None:
        exact = self._exact.get(path)
        if exact is not None:
            return exact, {}
        if ":" in path:
            found = _first_match(self._patterns, scope)
            if found is not None:
                return found
        known = self._walked.get(path)
        if known is not None:
            return known[0], dict(known[1])
        values: list[str] = []
        node = _walk(self._root, path.split("/")[1:], 0, values)
        if node is not None and node.route is not None:
            parameters: dict[str, object] = dict(zip(node.parameters, values, strict=True))
            self._remember(path, node.route, parameters)
            return node.route, dict(parameters)
        return _first_match(self._rest, scope)

    def _remember(self, path: str, route: Route, parameters: dict[str, object]) -> None:
        """Cache the route of a path. The cache holds few paths, and only short ones."""
        if len(path) > _KEPT_CHARACTERS_MAX:
            return
        if len(self._walked) >= _PATHS_KEPT:
            self._walked.clear()
        self._walked[path] = (route, parameters)

    def _find_held(self, path: str, scope: Scope) -> Found | None:
        """Find the route of a path that contains a slash written as `%2F`."""
        # Later readers of the scope must see the path as the client wrote it, not a different path.
        scope["path"] = path.replace(_HELD_SLASH, _WRITTEN_SLASH)
        found = self._find(path, {**scope, "path": path})
        if found is None:
            return None
        route, values = found
        # A route that takes the rest of a path splits it itself, and must not split at this slash.
        slash = _WRITTEN_SLASH if route in self._rest else "/"
        return route, {
            name: value.replace(_HELD_SLASH, slash) if isinstance(value, str) else value
            for name, value in values.items()
        }

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Serve one request."""
        found = self.find(scope) if scope["type"] == "http" else None
        if found is None:
            return self._nothing(scope, receive, send)
        route, parameters = found
        scope["route"] = route
        scope["path_params"] = parameters
        if isinstance(route, Route):
            # Endpoints that are ASGI applications check the method themselves.
            return (route.handle if route.methods else route.app)(scope, receive, send)
        # A mounted application gets its own root path and the path below it.
        scope.update(route.matches(scope)[1])
        return route.handle(scope, receive, send)


def _with_held_slashes(scope: Scope) -> str | None:
    """Return the path with its escaped slashes marked, or None for the usual path, which has none."""
    raw: bytes = scope.get("raw_path") or b""
    if b"%2f" not in raw and b"%2F" not in raw:
        return None
    parts = raw.decode("latin-1").split("/")
    return "/".join(unquote(part).replace("/", _HELD_SLASH) for part in parts)


def _walk(node: _Node, parts: list[str], depth: int, values: list[str]) -> _Node | None:
    """Find the node of a path; a literal is tried before a parameter."""
    if depth == len(parts):
        return node if node.route is not None else None
    part = parts[depth]
    named = node.named.get(part)
    if named is not None:
        found = _walk(named, parts, depth + 1, values)
        if found is not None:
            return found
    if node.anything is None or not part:
        return None
    values.append(part)
    found = _walk(node.anything, parts, depth + 1, values)
    if found is None:
        values.pop()
    return found


def _first_match(routes: Sequence[BaseRoute], scope: Scope) -> Found | None:
    for route in routes:
        match, child = route.matches(scope)
        if match is not Match.NONE:
            return route, child.get("path_params", {})
    return None
