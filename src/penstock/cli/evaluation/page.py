"""The report of an evaluation as one HTML page that needs nothing else: no script, no font, no image, no address.

Whatever a model or a data set says is text here. Everything is escaped, and the page forbids itself, with a policy in
its head, to load or to run anything at all. Cases unfold without a script.

Above it: `command`. Below it: `report`.
"""

from __future__ import annotations

import base64
import hashlib
import json
from html import escape

from penstock.base.json import JsonValue
from penstock.cli.evaluation.report import CaseResult, Change, Difference, Report

__all__ = ["html_page"]

_VALUE_CHARACTERS_MAX = 20_000
_STYLE = (  # prose: a style sheet
    ":root{color-scheme:light dark;--line:#8885;--good:#1a7f37;--bad:#c62828;--dim:#8888}"
    "@media(prefers-color-scheme:dark){:root{--good:#4cc26b;--bad:#ff7b72}}"
    "body{font:15px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem}"
    "h1{font-size:1.5rem;margin:0}h1+p{margin-top:.2rem;opacity:.75}"
    ".figures{display:flex;flex-wrap:wrap;gap:.8rem;margin:1.2rem 0;padding:0;list-style:none}"
    ".figures li{border:1px solid var(--line);border-radius:.5rem;padding:.6rem 1rem;min-width:7rem}"
    ".figures b{display:block;font-size:1.35rem;font-weight:600}"
    ".good{color:var(--good)}.bad{color:var(--bad)}.dim{opacity:.7}"
    "details{border-top:1px solid var(--line)}details:last-of-type{border-bottom:1px solid var(--line)}"
    "summary{display:grid;grid-template-columns:1.4rem 1fr auto auto;gap:.8rem;padding:.45rem .2rem;cursor:pointer}"
    "summary::-webkit-details-marker{display:none}summary span{overflow-wrap:anywhere}"
    ".body{padding:.2rem .2rem 1rem 2.2rem}.sides{display:grid;grid-template-columns:1fr 1fr;gap:1rem}"
    "@media(max-width:45rem){.sides{grid-template-columns:1fr}}"
    "h3{font-size:.85rem;margin:.8rem 0 .2rem;opacity:.7;font-weight:600}"
    "pre{margin:0;padding:.6rem;border:1px solid var(--line);border-radius:.35rem;white-space:pre-wrap;"
    "overflow-wrap:anywhere;font:13px/1.45 ui-monospace,Consolas,monospace;max-height:24rem;overflow:auto}"
    "ul.checks{margin:.2rem 0;padding-left:1.1rem}ul.checks li{overflow-wrap:anywhere}"
    ".tag{border:1px solid var(--line);border-radius:1rem;padding:0 .6rem;font-size:.85rem}"
)
_STYLE_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_POLICY = f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; base-uri 'none'; form-action 'none'"


def html_page(report: Report) -> str:
    """Return the page."""
    changes = {item.case_id: item for item in report.differences}
    target = f"{report.target.get('name')} {report.target.get('version')}"
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="content-security-policy" content="{escape(_POLICY)}">',
        '<meta name="viewport" content="width=device-width">',
        '<meta name="referrer" content="no-referrer">',
        f"<title>Evaluation {_text(report.evaluation)}</title><style>{_STYLE}</style></head><body>",
        f"<h1>Evaluation {_text(report.evaluation)}</h1>",
        f"<p>{_text(report.dataset)} against {_text(target)}</p>",
        _figures(report),
        *_notes(report),
        *(_case(result, changes.get(result.case_id)) for result in report.results),
        "</body></html>",
    ]
    return "\n".join(parts) + "\n"


def _text(value: object) -> str:
    return escape(str(value).encode("utf-8", "replace").decode())


def _figure(label: str, value: str, style: str = "") -> str:
    return f'<li><b class="{style}">{_text(value)}</b>{_text(label)}</li>'


def _figures(report: Report) -> str:
    spent = report.spent
    style = "good" if report.ok else "bad"
    figures = [
        _figure("passed", f"{report.passed} of {len(report.results)}", style),
        _figure(f"of cases, {report.fail_under:.0%} wanted", f"{report.pass_rate:.0%}", style),
        _figure("mean score", f"{report.score:.2f}"),
        _figure("tokens", f"{spent.tokens:,}"),
        _figure("US dollars", "unknown" if spent.cost is None else f"{spent.cost.normalize():f}"),
    ]
    if report.earlier is not None:
        counted = [item.change for item in report.differences]
        better, worse = counted.count(Change.BETTER), counted.count(Change.WORSE)
        figures.append(_figure("better", str(better), "good" if better else ""))
        figures.append(_figure("worse", str(worse), "bad" if worse else ""))
    return f'<ul class="figures">{"".join(figures)}</ul>'


def _notes(report: Report) -> list[str]:
    notes = []
    if report.earlier is not None:
        before = report.earlier
        told = f"Compared with {before.evaluation}: version {before.target.get('version')}"
        rates = f"{before.pass_rate:.0%} passed there, score {before.score:.2f}."
        gone = [item.case_id for item in report.differences if item.change is Change.GONE]
        missing = f" Not in this data set: {', '.join(gone)}." if gone else ""
        notes.append(f"<p>{_text(f'{told}; {rates}{missing}')}</p>")
    if report.stopped is not None:
        notes.append(f'<p class="bad">Stopped: {_text(report.stopped)}.</p>')
    if report.bad_lines:
        lines = "".join(f"<li>line {line.line}: {_text(line.message)}</li>" for line in report.bad_lines)
        notes.append(f'<p class="bad">Lines that were left out:</p><ul class="checks">{lines}</ul>')
    return notes


def _case(result: CaseResult, change: Difference | None) -> str:
    mark, style = ("✓", "good") if result.passed else ("✗", "bad") if result.checks else ("-", "dim")
    tag = "" if change is None or change.change is Change.SAME else _tag(change)
    took = "" if result.milliseconds is None else f"{result.milliseconds:,} ms"
    head = (
        f'<summary><span class="{style}">{mark}</span><span>{_text(result.case_id)} {tag}</span>'
        f'<span class="dim">{took}</span><span>{result.score:.2f}</span></summary>'
    )
    opened = "" if result.passed else " open"
    return f'<details{opened}>{head}<div class="body">{_body(result, change)}</div></details>'


def _tag(change: Difference) -> str:
    style = {Change.BETTER: "good", Change.WORSE: "bad"}.get(change.change, "dim")
    return f'<span class="tag {style}">{change.change}</span>'


def _body(result: CaseResult, change: Difference | None) -> str:
    checks = "".join(
        f'<li class="{"good" if check.passed else "bad"}">{_text(check.kind)}'
        f" {check.score:.2f}{_text(f': {check.message}' if check.message else '')}</li>"
        for check in result.checks
    )
    run = f"run {result.run_id}" + (f", judged in {result.judge_run_id}" if result.judge_run_id else "")
    before = change is not None and change.passed_before is not None
    now = _value("Output", result.output if result.error is None else result.error)
    output = now
    if before and change is not None:
        output = f'<div class="sides"><div>{_value("Output before", change.output_before)}</div><div>{now}</div></div>'
    return (
        f'<ul class="checks">{checks or "<li>not run</li>"}</ul>{output}{_value("Input", result.given)}'
        f'{_value("Expected", result.expect)}<p class="dim">line {result.line}, {_text(run)}, '
        f"status {_text(result.status)}</p>"
    )


def _value(title: str, value: JsonValue) -> str:
    text = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)
    if len(text) > _VALUE_CHARACTERS_MAX:
        text = f"{text[:_VALUE_CHARACTERS_MAX]}\n… (cut off; the whole of it is in the JSON report and in the run)"
    return f"<h3>{_text(title)}</h3><pre>{_text(text)}</pre>"
