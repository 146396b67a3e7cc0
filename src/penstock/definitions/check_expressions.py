"""Checks of jq, templates and secrets: what does not compile, what is forbidden, what names something unknown.

Above it: `validate`. Below it: `jq_sites` says where jq may stand, `expressions` and `templates` compile it, `jq_text`
reads it. What type a value has is `check_types`' business.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from penstock.base.json import JsonObject, JsonValue, json_pointer
from penstock.definitions.expressions import ExpressionProblem, compile_expression
from penstock.definitions.findings import Finding, Severity
from penstock.definitions.guesses import Guesses
from penstock.definitions.jq_sites import Form, Site, sites_of
from penstock.definitions.jq_text import root_keys
from penstock.definitions.outline import Outline
from penstock.definitions.reach import Graph, graph_of
from penstock.definitions.templates import TemplateProblem, compile_template, template_expressions

__all__ = ["expression_findings"]

_SECRET = re.compile(r"\$\{secret:([A-Za-z_][A-Za-z0-9_]*)\}")
