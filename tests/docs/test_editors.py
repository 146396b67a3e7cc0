"""The TextMate grammars of the graph languages: valid, complete, and in agreement with the tokens of the parsers."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from penstock.graph.query.format import format_queries
from penstock.graph.query.words import AGGREGATES, FUNCTIONS, OPERATORS, RESERVED, SECTIONS, STATEMENTS
from penstock.graph.schema.parser import CONSTRAINTS, DECLARATIONS
from penstock.graph.schema.types import BASES
from penstock.graph.syntax.tokens import TokenKind, tokenize

FOLDER = Path(__file__).parents[2] / "editors" / "vscode-graph"
GUIDES = Path(__file__).parents[2] / "docs" / "guides"
GUIDE = "".join((GUIDES / f"{name}.md").read_text(encoding="utf-8") for name in ("graph-schema", "graph-language"))


def load(path: str) -> dict[str, Any]:
    found = json.loads((FOLDER / path).read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


class Grammar:
    """As much of a TextMate engine as these grammars need: matches, captures, blocks, and includes."""

    def __init__(self, path: str) -> None:
        self.grammar = load(path)

    def rules(self, patterns: list[dict[str, Any]]) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for each in patterns:
            name = each.get("include")
            found += self.rules(self.grammar["repository"][name[1:]]["patterns"]) if name else [each]
        return found

    def scopes(self, text: str) -> list[str]:
        """The scope of every character; empty where nothing matched."""
        found = [""] * len(text)
        self._run(text, 0, self.rules(self.grammar["patterns"]), None, found)
        return found

    def _run(
        self, text: str, at: int, rules: list[dict[str, Any]], end: re.Pattern[str] | None, found: list[str]
    ) -> int:
        while at < len(text):
            closing = end.match(text, at) if end else None
            if closing:
                return closing.end()
            rule, match = self._first(text, at, rules)
            if rule is None or match is None:
                at += 1
                continue
            self._name(found, match.start(), match.end(), rule.get("name", ""))
            for key, capture in rule.get("captures", rule.get("beginCaptures", {})).items():
                self._name(found, *match.span(int(key)), capture["name"])
            if "begin" in rule:
                stop = self._run(
                    text, match.end(), self.rules(rule.get("patterns", [])), re.compile(rule["end"]), found
                )
                if "name" in rule:
                    self._name(found, match.start(), stop, rule["name"])
                elif "endCaptures" in rule:
                    self._name(found, stop - 1, stop, rule["endCaptures"]["0"]["name"])
                at = stop
            else:
                at = max(match.end(), at + 1)
        return at

    @staticmethod
    def _first(text: str, at: int, rules: list[dict[str, Any]]) -> tuple[Any, re.Match[str] | None]:
        for rule in rules:
            match = re.compile(rule.get("match") or rule["begin"], re.MULTILINE).match(text, at)
            if match and match.end() > at:
                return rule, match
        return None, None

    @staticmethod
    def _name(found: list[str], start: int, end: int, name: str) -> None:
        if name:
            found[start:end] = [name] * (end - start)


def scope_of(grammar: Grammar, text: str, word: str) -> str:
    return grammar.scopes(text)[text.index(word)]


SCHEMA, QUERY = "syntaxes/pg.tmLanguage.json", "syntaxes/gq.tmLanguage.json"


@pytest.mark.parametrize("path", [SCHEMA, QUERY])
def test_every_pattern_compiles_and_every_include_exists(path: str) -> None:
    grammar = Grammar(path)
    for part in (grammar.grammar["patterns"], *(each["patterns"] for each in grammar.grammar["repository"].values())):
        for rule in grammar.rules(part):
            for key in ("match", "begin", "end"):
                re.compile(rule.get(key, ""))
            assert ("match" in rule) != ("begin" in rule)


def test_the_package_names_files_that_exist() -> None:
    package = load("package.json")["contributes"]
    for grammar in package["grammars"]:
        assert load(grammar["path"])["scopeName"] == grammar["scopeName"]
    assert {each["id"] for each in package["languages"]} == {each["language"] for each in package["grammars"]}
    for language in package["languages"]:
        assert load(language["configuration"])["comments"]["lineComment"] == "//"


@pytest.mark.parametrize("word", [*RESERVED, *SECTIONS, *STATEMENTS, *OPERATORS, "true", "false"])
def test_every_word_of_queries_is_a_keyword(word: str) -> None:
    scope = scope_of(Grammar(QUERY), f"x {word} 1", f"{word}")
    assert scope.startswith(("keyword", "storage", "constant.language"))


@pytest.mark.parametrize("word", [*AGGREGATES, *FUNCTIONS])
def test_every_function_of_queries_is_a_function(word: str) -> None:
    assert scope_of(Grammar(QUERY), f"{word}($x.a)", word) == "support.function.gq"


@pytest.mark.parametrize("word", [*BASES, "Vector", "enum"])
def test_every_type_is_a_type(word: str) -> None:
    assert scope_of(Grammar(SCHEMA), f"a: {word}(3)", word) == "support.type.pg"
    if word != "enum":
        assert scope_of(Grammar(QUERY), f"($a: {word})", word) == "support.type.gq"


@pytest.mark.parametrize("word", [*DECLARATIONS, "implements", *(f"@{each}" for each in (*CONSTRAINTS, "card"))])
def test_every_word_of_schemas_is_a_keyword(word: str) -> None:
    assert scope_of(Grammar(SCHEMA), f"{word} Name", word).startswith(("storage", "keyword"))


def test_words_may_be_properties() -> None:
    assert scope_of(Grammar(SCHEMA), "node: String", "node") == "variable.other.property.pg"
    assert scope_of(Grammar(QUERY), "{ limit: $x }", "limit") == "variable.other.property.gq"
    assert scope_of(Grammar(QUERY), "$x.limit", "limit") == "variable.other.property.gq"
    assert scope_of(Grammar(QUERY), "$a knows{1,2} $b", "knows") == "entity.name.tag.edge.gq"


_EXPECTED = {
    TokenKind.STRING: "string",
    TokenKind.VARIABLE: "variable",
    TokenKind.INTEGER: "constant.numeric",
    TokenKind.FLOAT: "constant.numeric",
}


@pytest.mark.parametrize(("language", "path"), [("pg", SCHEMA), ("gq", QUERY)])
def test_every_token_of_the_guide_has_a_scope_that_fits(language: str, path: str) -> None:
    blocks = re.findall(rf"^```{language}\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
    assert blocks
    grammar = Grammar(path)
    for text in blocks:
        scopes = grammar.scopes(text)
        assert not [scope for scope in scopes if scope.startswith("invalid")]
        for token in tokenize(text).tokens[:-1]:
            in_enum = scopes[token.start] == "constant.other.enum.pg"
            assert scopes[token.start], f"{token.shown} has no scope"
            assert in_enum or scopes[token.start].startswith(_EXPECTED.get(token.kind, ""))


def test_formatted_queries_of_the_guide_stay_as_they_are() -> None:
    for text in re.findall(r"^```gq\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL):
        assert format_queries(text) == text
