"""The page of a report: whatever is in it, nothing of it is markup, and nothing is loaded."""

import json
from html.parser import HTMLParser

from penstock.cli.evaluation.dataset import BadLine
from penstock.cli.evaluation.expectations import Check
from penstock.cli.evaluation.page import html_page
from penstock.cli.evaluation.report import CaseResult, Earlier, Report, report_text

HOSTILE = "</pre><script>alert(1)</script><img src=x onerror=alert(1)>\"' onclick=x &lt; \ud800\x00\u202e"
_SIMPLE = {"html", "head", "meta", "title", "style", "body", "h1", "h3", "p", "ul", "li", "b", "details", "summary"}
KNOWN = {*_SIMPLE, "span", "div", "pre"}


class _Seen(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}


def hostile_report(earlier: Earlier | None = None) -> Report:
    case = CaseResult(
        case_id=HOSTILE,
        line=1,
        run_id="c-1",
        given={HOSTILE: HOSTILE},
        expect={"exact": HOSTILE},
        status="completed",
        checks=(
            Check(kind="status", passed=True, score=1),
            Check(kind="exact", passed=False, score=0, message=HOSTILE),
        ),
        output={"text": HOSTILE},
        judge_run_id="j-1",
        milliseconds=1200,
    )
    return Report(
        evaluation="first",
        target={"name": HOSTILE, "version": HOSTILE, "hash": "0"},
        dataset=HOSTILE,
        digest="0",
        results=(case,),
        bad_lines=(BadLine(2, HOSTILE),),
        fail_under=1.0,
        stopped=HOSTILE,
        earlier=earlier,
    )


def test_hostile_text_is_text_on_the_page_also_side_by_side() -> None:
    earlier = Earlier.of(json.loads(report_text(hostile_report())))
    page = html_page(hostile_report(earlier))
    page.encode("utf-8")
    seen = _Seen()
    seen.feed(page)
    assert seen.tags <= KNOWN
    assert not any(name.startswith("on") or name in ("src", "href", "style", "action") for name in seen.attributes)
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert "default-src &#x27;none&#x27;" in page
    assert "http://" not in page
    assert "https://" not in page
    assert "Output before" in page


def test_a_very_long_output_is_cut_off_on_the_page() -> None:
    case = CaseResult(
        case_id="long", line=1, run_id="c-long", given={}, expect=None, status="completed", output="x" * 500_000
    )
    report = Report(
        evaluation="first", target={}, dataset="x", digest="0", results=(case,), bad_lines=(), fail_under=1.0
    )
    page = html_page(report)
    assert len(page) < 100_000
    assert "cut off" in page
