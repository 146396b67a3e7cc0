"""The figures of `docs/promises.md`: run the scripts behind them, store what they print, and render the table.

    python -m docs.generator.promises [--run NAME... | --check]

Each script prints one JSON object as its last line. It is stored in `docs/figures/NAME.json` with the date, the commit
and the machine. The table stands in the page between two comments.

Above it: `scripts/promises`, `scripts/docs`. Below it: the scripts.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from docs.generator.markdown import code, link, table

__all__ = ["FIGURES", "PROMISES_PAGE", "Figure", "busy", "main", "read_figures", "with_figures"]

ROOT: Final = Path(__file__).parents[2]
PROMISES_PAGE: Final = "docs/promises.md"
FOLDER: Final = ROOT / "docs" / "figures"
_BLOCK: Final = re.compile(r"(<!-- figures -->\n).*?(<!-- end of figures -->)", re.DOTALL)
_SECONDS_MAX: Final = 3_600
_GIBIBYTE: Final = 1 << 30
# A machine on which more than half of the cores were busy before the script started spoils measured times.
_BUSY_SHARE: Final = 0.5

Result = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Figure:
    """A script, the promise that it tests, and its result in words."""

    name: str
    promise: str
    command: tuple[str, ...]
    in_words: Callable[[Result], str]
    measures_time: bool = False


def _count_tests(result: Result) -> str:
    return f"{result['passed']:,} of {result['tests']:,} tests passed"


def _describe_torture(result: Result) -> str:
    return (
        f"{result['runs']:,} runs, {result['kills']} kills ({result['kills_inside_calls']} inside a write), "
        f"{result['hang_ups']} callers hung up: {result['lost_runs']} runs and {result['lost_inputs']} inputs lost, "
        f"{result['doubled_effects']} effects doubled, {result['abandoned_runs']} runs abandoned; "
        f"{result['audited_changes']:,} changes: {result['acknowledged_without_audit']} without a record, "
        f"{result['audit_without_change']} records without a change"
    )


def _describe_pair(result: Result) -> str:
    return (
        f"{result['performed']:,} activities by two processes: {result['performed_twice_at_once']} performed twice "
        f"at once; {result['taken_over']} runs of the killed process taken over"
    )


def _describe_simulation(result: Result) -> str:
    return (
        f"{result['seeds']:,} seeds, {result['runs']:,} runs, {result['crashes']:,} crashes, {result['lost']} lost "
        f"results: {result['failures']} failures"
    )


def _describe_authority(result: Result) -> str:
    calls = sum(result["calls"].values())
    return (
        f"{result['operations']} operations, {result['keys']} keys, {calls:,} calls on {len(result['calls'])} "
        f"surfaces: {len(result['bypasses'])} bypasses, {len(result['leaks'])} leaks, "
        f"{len(result['wrongly_refused'])} wrongly refused"
    )


def _describe_kit(result: Result) -> str:
    parts = [part for part in result.values() if isinstance(part, dict)]
    passed, checks = (sum(part[key] for part in parts) for key in ("passed", "checks"))
    return f"{passed} of {checks} checks passed; {result['broken_caught']} of {result['broken']} broken servers caught"


def _describe_abuse(result: Result) -> str:
    return (
        f"{result['held']} of {result['cases']} attacks held; {result['healthz_failures']} failed probes meanwhile; "
        f"at most {result['rss_mb_max']} MB"
    )


def _describe_rest_fuzzing(result: Result) -> str:
    calls = result["cases"] + result["cases_without_key"]
    return (
        f"{calls:,} calls and {result['broken_requests']:,} broken requests: {result['server_errors']} server errors, "
        f"{result['schema_failures']} answers that do not fit their schema"
    )


def _describe_raw_fuzzing(result: Result) -> str:
    return (
        f"{result['requests']:,} broken requests and {result['lines']:,} broken lines on a pipe: "
        f"{result['wrong']} answered wrongly"
    )


def _describe_conformance(result: Result) -> str:
    revisions = [key for key in result if re.fullmatch(r"\d{4}-\d\d-\d\d", key)]
    passed = ", ".join(f"{key}: {result[key]['passed']} of {result[key]['required']}" for key in revisions)
    return f"required scenarios passed in suite {result['suite']}: {passed}"


def _describe_clients(result: Result) -> str:
    found = result["clients"].values()
    passed, checks = (sum(client[key] for client in found) for key in ("passed", "checks"))
    return f"{len(found)} clients, {passed} of {checks} checks passed"


def _describe_engine(result: Result) -> str:
    return (
        f"{result['start_step_end_runs_per_cpu_second']:,.0f} runs and {result['records_per_second']:,} records "
        "a second in memory, on one core"
    )


def _describe_durable(result: Result) -> str:
    rates = result["runs_per_second"]["5"]
    return (
        f"{rates['200']:,.0f} durable runs of five steps a second with 200 callers, {rates['1']:,.0f} with one; "
        f"an answer is stored in {result['answer_to_next_record_ms_p50']:.1f} ms; "
        f"{result['bytes_per_stored_run']:,} bytes for a stored run"
    )


def _describe_gate(result: Result) -> str:
    return (
        f"a call passes the gate with 50 policies in {result['gate_p50_ms']:.2f} ms, with 500 in "
        f"{result['gate_500_p50_ms']:.2f} ms; an audited change takes {result['audited_write_cpu_us']:.0f} µs "
        "of processor time"
    )


def _describe_rest(result: Result) -> str:
    return (
        f"{result['reads_per_second']['penstock']:,} reads a second, "
        f"{result['read_ratio_to_bare_fastapi']:.1f} times a bare FastAPI endpoint; "
        f"{result['sse_streams_held']:,} open streams in {result['rss_mb']:.0f} MB"
    )


def _describe_mcp(result: Result) -> str:
    return (
        f"lists of 200 tools {result['list_200_ratio_to_sdk_c32']:.0f} times as fast as the SDK's server, calls "
        f"{result['call_200_ratio_to_sdk_c32']:.1f} times; "
        f"{result['call_overhead_over_rest_ms_p50']:.2f} ms more than REST"
    )


# In the order of the page; `promise` is the anchor of a section.
FIGURES: Final = (
    Figure("torture", "nothing-acknowledged-is-lost", ("scripts/torture", "--rounds", "5"), _describe_torture),
    Figure(
        "two-processes", "nothing-acknowledged-is-lost", ("scripts/two-processes", "--seconds", "20"), _describe_pair
    ),
    Figure("simulate", "nothing-acknowledged-is-lost", ("scripts/simulate", "--seeds", "1000"), _describe_simulation),
    Figure("once", "an-effect-happens-once-where-we-say-so", ("scripts/suite", "once"), _count_tests),
    Figure("audit", "a-change-and-its-audit-record-are-one", ("scripts/suite", "audit"), _count_tests),
    Figure("authority", "one-gate-on-every-surface", ("scripts/authority",), _describe_authority),
    Figure("verify", "one-gate-on-every-surface", ("scripts/verify",), _describe_kit),
    Figure("damage", "bad-input-and-damage-lose-nothing", ("scripts/suite", "damage"), _count_tests),
    Figure("abuse", "bad-input-and-damage-lose-nothing", ("scripts/abuse",), _describe_abuse),
    Figure(
        "fuzz-rest",
        "bad-input-and-damage-lose-nothing",
        ("scripts/fuzz-rest", "--examples", "20", "--rounds", "5"),
        _describe_rest_fuzzing,
    ),
    Figure(
        "fuzz-raw", "bad-input-and-damage-lose-nothing", ("scripts/fuzz-raw", "--seconds", "30"), _describe_raw_fuzzing
    ),
    Figure("closed", "what-cannot-be-decided-is-refused", ("scripts/suite", "closed"), _count_tests),
    Figure("upgrades", "upgrades-read-every-earlier-format", ("scripts/suite", "upgrades"), _count_tests),
    Figure(
        "conformance-mcp", "assistants-can-rely-on-the-protocol", ("scripts/conformance-mcp",), _describe_conformance
    ),
    Figure("clients", "assistants-can-rely-on-the-protocol", ("scripts/clients",), _describe_clients),
    Figure("engine", "it-is-fast-enough", ("scripts/benchmark", "engine"), _describe_engine, measures_time=True),
    Figure(
        "durable",
        "it-is-fast-enough",
        ("scripts/benchmark", "durable", "--quick"),
        _describe_durable,
        measures_time=True,
    ),
    Figure("gate", "it-is-fast-enough", ("scripts/benchmark", "gate", "--quick"), _describe_gate, measures_time=True),
    Figure("rest", "it-is-fast-enough", ("scripts/benchmark", "rest", "--quick"), _describe_rest, measures_time=True),
    Figure("mcp", "it-is-fast-enough", ("scripts/benchmark", "mcp", "--quick"), _describe_mcp, measures_time=True),
)
_GROUPS: Final = {
    "all": tuple(figure.name for figure in FIGURES),
    "correctness": tuple(figure.name for figure in FIGURES if not figure.measures_time),
    "speed": tuple(figure.name for figure in FIGURES if figure.measures_time),
}


def run_figure(figure: Figure) -> dict[str, Any]:
    """Run a script and return its result, with the date, the commit and the machine."""
    load, begun = os.getloadavg()[0], time.monotonic()
    done = subprocess.run(
        figure.command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False, timeout=_SECONDS_MAX
    )
    lines = done.stdout.strip().splitlines()
    return {
        "command": " ".join(figure.command),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "commit": _git("rev-parse", "--short=12", "HEAD"),
        "clean": not _git(
            "status", "--porcelain", "--untracked-files=no", "--", "src", "tests", "benchmarks", "scripts"
        ),
        "seconds": round(time.monotonic() - begun),
        "machine": {
            "system": f"{platform.system()} {platform.machine()}",
            "cores": os.cpu_count(),
            "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / _GIBIBYTE),
            "python": platform.python_version(),
        },
        "load_before": round(load, 1),
        "exit_code": done.returncode,
        "result": json.loads(lines[-1]),
    }


def _git(*words: str) -> str:
    return subprocess.run(("git", *words), cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def busy(stored: Mapping[str, Any]) -> bool:
    """Whether other programs kept the machine busy before the script started."""
    return bool(stored["load_before"] > _BUSY_SHARE * stored["machine"]["cores"])


def read_figures(folder: Path = FOLDER) -> dict[str, dict[str, Any]]:
    """The stored figures by name."""
    paths = ((figure.name, folder / f"{figure.name}.json") for figure in FIGURES)
    return {name: json.loads(path.read_text(encoding="utf-8")) for name, path in paths if path.is_file()}


def with_figures(text: str, stored: Mapping[str, Mapping[str, Any]]) -> str:
    """The page with the table of these figures."""
    headings = {_anchor_of(line): line.removeprefix("## ") for line in text.splitlines() if line.startswith("## ")}
    rows = [_row(figure, headings[figure.promise], stored.get(figure.name)) for figure in FIGURES]
    lines = table(["Promise", "Script", "Last result", "When, commit, machine"], rows)
    return _BLOCK.sub(lambda found: f"{found[1]}\n{lines}\n\n{found[2]}", text)


def _anchor_of(heading: str) -> str:
    return re.sub(r"[^a-z0-9 -]", "", heading.removeprefix("## ").lower()).replace(" ", "-")


def _row(figure: Figure, promise: str, stored: Mapping[str, Any] | None) -> list[str]:
    cells = [link(promise, f"#{figure.promise}"), code(" ".join(figure.command))]
    if stored is None:
        return [*cells, "not run", ""]
    result = figure.in_words(stored["result"])
    missed = stored["result"]["ok"] is not True
    if missed:
        result += "; **a target was missed**"
    if (missed or figure.measures_time) and busy(stored):
        result += " (on a busy machine)"
    machine = stored["machine"]
    where = f"{machine['system']}, {machine['cores']} cores, Python {machine['python']}"
    return [*cells, result, f"{stored['date']}, {code(stored['commit'])}, {where}"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run scripts, render the page, or check it."""
    parser = argparse.ArgumentParser(prog="scripts/promises", description="Keep the figures of docs/promises.md.")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--run", nargs="+", metavar="NAME", choices=(*_GROUPS, *_GROUPS["all"]), help="run these first")
    what.add_argument("--check", action="store_true", help="write nothing, and fail if the page is stale")
    chosen = parser.parse_args(arguments)
    wanted = {name for given in chosen.run or () for name in _GROUPS.get(given, (given,))}
    for figure in FIGURES:
        if figure.name in wanted:
            print(f"==> {' '.join(figure.command)}", file=sys.stderr)
            FOLDER.mkdir(exist_ok=True)
            text = json.dumps(run_figure(figure), indent=1, ensure_ascii=False) + "\n"
            (FOLDER / f"{figure.name}.json").write_text(text, encoding="utf-8")
    stored = read_figures()
    page = ROOT / PROMISES_PAGE
    before = page.read_text(encoding="utf-8")
    after = with_figures(before, stored)
    if not chosen.check:
        page.write_text(after, encoding="utf-8")
    missed = [name for name, each in stored.items() if each["result"]["ok"] is not True]
    missing = [figure.name for figure in FIGURES if figure.name not in stored]
    ok = not missing and not (chosen.check and before != after)
    print(json.dumps({"figures": len(stored), "missing": missing, "missed_targets": missed, "ok": ok}))
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
