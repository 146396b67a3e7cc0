"""`/docs`: the API reference for people, one page rendered from the OpenAPI document.

The page is self-contained: it loads no script, font or style, so that it works offline and no third party learns who
reads it. It lists every operation by resource, with its parameters, its responses and the scopes that it needs.
"""

from __future__ import annotations

from html import escape
from typing import Any

import msgspec

from penstock.base.encoding import encode_bytes
from penstock.base.json import JsonObject

__all__ = ["PAGE_HEADERS", "reference_page"]

PAGE_HEADERS = (
    (
        b"content-security-policy",
        b"default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (b"referrer-policy", b"no-referrer"),
)

_STYLE = """
:root{color-scheme:light dark;--ink:#1c2430;--soft:#5b6675;--line:#d9dee6;--back:#fff;--panel:#f5f7fa;--link:#0b5cad}
.GET{color:#1a7f37}.POST{color:#0969da}.PUT,.PATCH{color:#9a6700}.DELETE{color:#cf222e}
@media (prefers-color-scheme:dark){
:root{--ink:#e5e9f0;--soft:#9aa5b5;--line:#333c4a;--back:#12161c;--panel:#1a2029;--link:#7cb7ff}
.GET{color:#56d364}.POST{color:#79c0ff}.PUT,.PATCH{color:#e3b341}.DELETE{color:#ff7b72}
}
*{box-sizing:border-box}
body{margin:0;font:16px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--back)}
a{color:var(--link)}
header,main{max-width:64rem;margin:0 auto;padding:1.5rem}
nav{display:flex;flex-wrap:wrap;gap:.4rem 1rem}
h2{margin:2.5rem 0 .5rem;border-bottom:1px solid var(--line);padding-bottom:.25rem}
.about{color:var(--soft);margin:.25rem 0 1rem}
article{border:1px solid var(--line);border-radius:.5rem;margin:.75rem 0;background:var(--panel)}
summary{cursor:pointer;padding:.6rem .9rem;display:flex;flex-wrap:wrap;gap:.25rem .75rem;align-items:baseline}
summary:focus-visible{outline:2px solid var(--link);outline-offset:2px}
.inside summary{display:list-item;padding:.4rem 0;color:var(--link)}
.inside{padding:0 .9rem .9rem;border-top:1px solid var(--line)}
code,pre,.method{font-family:ui-monospace,Consolas,monospace;font-size:.875rem}
.method{font-weight:700;min-width:4.2rem}
.title{color:var(--soft)}
table{border-collapse:collapse;width:100%;margin:.5rem 0}
th,td{text-align:left;vertical-align:top;padding:.3rem .6rem .3rem 0;border-bottom:1px solid var(--line)}
th{font-weight:600;color:var(--soft);font-size:.875rem}
pre{overflow:auto;background:var(--back);border:1px solid var(--line);border-radius:.4rem;padding:.6rem}
pre{max-height:28rem}
.scope{border:1px solid var(--line);border-radius:1rem;padding:0 .5rem;margin-right:.3rem}
h3{font-size:1rem;margin:1rem 0 .25rem}
.wide{overflow-x:auto}
"""


def reference_page(document: JsonObject) -> bytes:
    """Render the page of a document."""
    found: dict[str, Any] = document
    by_tag: dict[str, list[str]] = {tag["name"]: [] for tag in found["tags"]}
    resolve = _Resolver(found)
    for path, operations in found["paths"].items():
        for method, operation in operations.items():
            by_tag[operation["tags"][0]].append(_operation(method.upper(), path, operation, resolve))
    info, base = found["info"], found["servers"][0]["url"]
    links = " ".join(f'<a href="#{escape(tag)}">{escape(tag)}</a>' for tag in by_tag)
    sections = "".join(_section(tag, by_tag[tag["name"]]) for tag in found["tags"])
    title = f"{info['title']} {info['version']}"
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)} · REST</title><style>{_STYLE}</style></head><body><header>"
        f"<h1>{escape(title)}</h1>{_prose(info['description'])}"
        f'<p>Paths stand below <code>{escape(base)}</code>. The same for programs: <a href="/openapi.json">openapi.json'
        f'</a>.</p><nav aria-label="Resources">{links}</nav></header><main>{sections}</main></body></html>'
    ).encode()


def _section(tag: dict[str, Any], operations: list[str]) -> str:
    name = escape(tag["name"])
    about = escape(tag.get("description", ""))
    return f'<section id="{name}"><h2>{name}</h2><p class="about">{about}</p>{"".join(operations)}</section>'


class _Resolver:
    """Resolves references, to a depth that is still readable."""

    def __init__(self, document: dict[str, Any]) -> None:
        self._document = document

    def __call__(self, value: Any) -> Any:
        while isinstance(value, dict) and "$ref" in value:
            found: Any = self._document
            for part in str(value["$ref"]).removeprefix("#/").split("/"):
                found = found[part]
            value = found
        return value

    def whole(self, value: Any, depth: int = 6) -> Any:
        """Return a schema with its references replaced by their targets."""
        value = self(value)
        if isinstance(value, dict):
            return {name: self.whole(item, depth - 1) if depth else "…" for name, item in value.items()}
        if isinstance(value, list):
            return [self.whole(item, depth - 1) if depth else "…" for item in value]
        return value


def _prose(text: str) -> str:
    """Render paragraphs, lists and code in backticks."""
    parts = []
    for block in text.strip().split("\n\n"):
        lines = block.split("\n")
        if all(line.startswith("- ") for line in lines):
            parts.append("<ul>" + "".join(f"<li>{_inline(line[2:])}</li>" for line in lines) + "</ul>")
        else:
            parts.append(f"<p>{_inline(' '.join(lines))}</p>")
    return "".join(parts)


def _inline(text: str) -> str:
    pieces = escape(text).split("`")
    return "".join(f"<code>{piece}</code>" if number % 2 else piece for number, piece in enumerate(pieces))


def _operation(method: str, path: str, operation: dict[str, Any], resolve: _Resolver) -> str:
    scopes = "".join(f'<code class="scope">{escape(scope)}</code>' for scope in operation["x-scopes"])
    needs = scopes or "any valid key"
    name = escape(operation["operationId"])
    return (
        f'<article id="{name}"><details><summary><span class="method {method}">{method}</span>'
        f'<code>{escape(path)}</code><span class="title">{escape(operation["summary"])}</span></summary>'
        f'<div class="inside"><p>{_inline(operation["description"])}</p>'
        f"<p><b>{name}</b> · needs {needs}</p>"
        f"{_parameters(operation, resolve)}{_body(operation, resolve)}{_responses(operation, resolve)}"
        "</div></details></article>"
    )


def _parameters(operation: dict[str, Any], resolve: _Resolver) -> str:
    rows = []
    for given in operation.get("parameters", ()):
        item = resolve(given)
        needed = "required" if item["required"] else "optional"
        rows.append(
            f"<tr><td><code>{escape(item['name'])}</code></td><td>{item['in']}, {needed}</td>"
            f"<td>{_inline(item.get('description', ''))}</td></tr>"
        )
    if not rows:
        return ""
    head = "<tr><th>Parameter</th><th>Where</th><th>What</th></tr>"
    return f'<h3>Parameters</h3><div class="wide"><table>{head}{"".join(rows)}</table></div>'


def _schema(title: str, media: dict[str, Any], resolve: _Resolver) -> str:
    text = msgspec.json.format(encode_bytes(resolve.whole(media.get("schema", {}))), indent=2).decode()
    return f"<details><summary>{escape(title)}</summary><pre>{escape(text)}</pre></details>"


def _body(operation: dict[str, Any], resolve: _Resolver) -> str:
    body = operation.get("requestBody")
    if body is None:
        return ""
    parts = ["<h3>Body</h3>"]
    for media_type, media in body["content"].items():
        parts.append(_schema(f"{media_type}, schema", media, resolve))
        for example in media.get("examples", {}).values():
            text = msgspec.json.format(encode_bytes(example["value"]), indent=2).decode()
            parts.append(f"<pre>{escape(text)}</pre>")
        if "example" in media and isinstance(media["example"], str):
            parts.append(f"<pre>{escape(media['example'])}</pre>")
    return "".join(parts)


def _responses(operation: dict[str, Any], resolve: _Resolver) -> str:
    rows, schemas = [], []
    for status, given in operation["responses"].items():
        answer = resolve(given)
        rows.append(f"<tr><td>{status}</td><td>{_inline(answer['description'])}</td></tr>")
        if status.startswith("2"):
            for media_type, media in answer.get("content", {}).items():
                schemas.append(_schema(f"{status} {media_type}, schema", media, resolve))
    head = "<tr><th>Status</th><th>What, and the codes of refusals</th></tr>"
    return f'<h3>Answers</h3>{"".join(schemas)}<div class="wide"><table>{head}{"".join(rows)}</table></div>'
