"""The words of the query language, by their use.

Above it: the parser, the formatter, the editor grammar. Nothing else is reserved: a property may be called `limit`.
"""

from __future__ import annotations

__all__ = ["AGGREGATES", "FUNCTIONS", "OPERATORS", "RESERVED", "SECTIONS", "STATEMENTS", "UNSUPPORTED"]

RESERVED = ("and", "or", "not", "is", "null", "in")
"""Never an alias, an edge name without quotes, or a property name without a variable."""
SECTIONS = ("query", "match", "return", "order", "limit", "set", "where", "as", "asc", "desc", "exists")
STATEMENTS = ("insert", "update", "delete")
AGGREGATES = ("count", "sum", "avg", "min", "max")
FUNCTIONS = ("now", "date", "datetime", "nearest", "search", "fuzzy", "match_text", "bm25", "rrf")
OPERATORS = ("contains", "starts_with")
UNSUPPORTED = {
    "set": "settings of a query are limits of the server, or arguments of the call",
    "reset": "settings of a query are limits of the server, or arguments of the call",
    "show": "settings of a query are limits of the server, or arguments of the call",
    "explain": "ask for the plan with the command or the operation that explains queries",
    "branch": "branches are created, merged and deleted by commands and operations of the graph",
}
"""Words that begin a statement in other versions of the language, and what to do instead."""
