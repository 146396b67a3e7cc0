"""Sources as trees: each is parsed once for all the checks that look at it, and forgotten soon.

Above it: `checks`, `doors`. Nobody changes a tree. Few are kept, because the trees of all sources together are hundreds
of megabytes, which every garbage collection would look at.
"""

import ast
from functools import lru_cache

__all__ = ["nodes_of", "tree_of"]


@lru_cache(maxsize=4)
def tree_of(source: str) -> ast.Module:
    """What a source says."""
    return ast.parse(source)


@lru_cache(maxsize=4)
def nodes_of(source: str) -> tuple[ast.AST, ...]:
    """Everything in it, outer things first."""
    return tuple(ast.walk(tree_of(source)))
