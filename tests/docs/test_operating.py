"""What is offered to operators fits the server: metrics and labels that exist, settings and reasons that are real."""

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from docs.generator.metrics import METRICS
from penstock.app.penstock import Penstock
from penstock.app.serving.server import ServerOptions, open_application
from penstock.app.settings.declarations import every_setting
from penstock.app.settings.model import Settings, settings_outline
from penstock.base import limits
from penstock.operations.catalogue.reasons import REASONS
from penstock.rest.prometheus import PrometheusRenderer
from tests.promtool import promtool

ROOT = Path(__file__).parents[2]
PAGES = (
    *(
        f"guides/{name}"
        for name in ("operating", "deploy", "proxy", "backups", "upgrade", "limits", "monitoring", "repair")
    ),
    "explanation/durability",
)
GUIDE = "".join((ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8") for name in PAGES)
DASHBOARD = json.loads((ROOT / "docs" / "operating" / "grafana-dashboard.json").read_text(encoding="utf-8"))
ALERTS = yaml.safe_load((ROOT / "docs" / "operating" / "alerts.yaml").read_text(encoding="utf-8"))
RULES = [rule for group in ALERTS["groups"] for rule in group["rules"]]
METRIC = re.compile(r"\bpenstock_[a-z_]+\b")
SELECTOR = re.compile(r"\b(penstock_[a-z_]+)\{([^}]*)\}")
LABEL = re.compile(r"(\w+)\s*(?:=~|!=|!~|=)\s*\"([^\"]*)\"")
# Labels that Prometheus gives to everything it scrapes.
SCRAPED = frozenset({"job", "instance"})
# What is in the documentation of a Prometheus job and is no metric.
NOT_METRICS = frozenset({"penstock_key"})

Metrics = dict[str, frozenset[str]]


@pytest.fixture(scope="module")
def metrics(tmp_path_factory: pytest.TempPathFactory) -> Metrics:
    """The metrics of an open server: the names of samples with their labels."""

    async def look() -> Metrics:
        folder = tmp_path_factory.mktemp("operating")
        async with (
            Penstock.open(folder / "penstock.db") as penstock,
            open_application(penstock, ServerOptions()) as (_, gate),
        ):
            gate.services.information["started_ms"] = 400
            telemetry = gate.services.telemetry
            declared = {family.name: frozenset(family.labels) for family in telemetry.families()}
            return _samples(PrometheusRenderer(telemetry).text().decode(), declared)

    return asyncio.run(look())


def _samples(text: str, declared: Metrics) -> Metrics:
    found: Metrics = {}
    for name, kind in re.findall(r"^# TYPE (\w+) (\w+)$", text, re.MULTILINE):
        labels = declared.get(name, declared.get(name.removesuffix("_total"), frozenset()))
        found[name] = labels
        if kind == "histogram":
            found.update({f"{name}_bucket": labels | {"le"}, f"{name}_sum": labels, f"{name}_count": labels})
    return found


def expressions() -> Iterator[tuple[str, str]]:
    """Every expression with what it belongs to."""
    yield from ((rule["alert"], rule["expr"]) for rule in RULES)
    for panel in DASHBOARD["panels"]:
        yield from ((panel["title"], target["expr"]) for target in panel["targets"])
    yield from ((note["name"], note["expr"]) for note in DASHBOARD["annotations"]["list"])


@pytest.mark.parametrize(("name", "expression"), list(expressions()))
def test_an_expression_asks_for_metrics_and_labels_that_exist(name: str, expression: str, metrics: Metrics) -> None:
    assert {metric for metric in METRIC.findall(expression) if metric not in metrics} == set()
    for metric, selector in SELECTOR.findall(expression):
        labels = {label for label, _ in LABEL.findall(selector)}
        assert labels <= metrics[metric] | SCRAPED, f"{name}: {metric} has only the labels {metrics[metric]}"
    grouped = {label.strip() for listed in re.findall(r"by \(([^)]*)\)", expression) for label in listed.split(",")}
    known = {label for metric in METRIC.findall(expression) for label in metrics[metric]}
    assert grouped <= known | SCRAPED, name
    assert expression.count("(") == expression.count(")")


def test_reasons_in_expressions_are_real() -> None:
    selectors = [selector for _, expression in expressions() for _, selector in SELECTOR.findall(expression)]
    codes = {
        code
        for text in selectors
        for label, value in LABEL.findall(text)
        if label == "code"
        for code in value.split("|")
    }
    assert codes
    assert codes <= set(REASONS)


def test_every_metric_is_in_the_reference_and_every_metric_in_a_guide_exists(metrics: Metrics) -> None:
    families = {name for name in metrics if not name.endswith(("_bucket", "_sum", "_count"))}
    assert set(METRICS) == families
    assert set(METRIC.findall(GUIDE)) - NOT_METRICS - families == set()


def test_the_dashboard_has_a_place_for_each_panel() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {(place["x"] + column, place["y"] + row) for column in range(place["w"]) for row in range(place["h"])}
        assert place["x"] + place["w"] <= 24, panel["title"]
        assert not taken & cells, panel["title"]
        taken |= cells
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])


def test_an_alert_says_how_bad_it_is_and_what_to_do() -> None:
    assert len({rule["alert"] for rule in RULES}) == len(RULES)
    for rule in RULES:
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert set(rule["annotations"]) == {"summary", "description"}, rule["alert"]


def test_prometheus_itself_takes_the_rules_and_refuses_a_broken_one(tmp_path: Path) -> None:
    checked = promtool("check", "rules", ROOT / "docs" / "operating" / "alerts.yaml")
    assert (checked.returncode, f"{len(RULES)} rules found" in checked.stdout) == (0, True), checked.stderr
    broken = tmp_path / "broken.yaml"
    broken.write_text((ROOT / "docs" / "operating" / "alerts.yaml").read_text().replace("sum by (", "sum by by (", 1))
    assert promtool("check", "rules", broken).returncode != 0


def test_prometheus_parses_every_expression_of_the_dashboard(tmp_path: Path) -> None:
    asked = [
        {"record": f"panel:{number}", "expr": re.sub(r"\$__(rate_)?interval", "5m", expression)}
        for number, (_, expression) in enumerate(expressions())
    ]
    rules = tmp_path / "dashboard.yaml"
    rules.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": asked}]}))
    checked = promtool("check", "rules", "--lint=none", rules)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_settings_that_the_guides_name_exist_with_the_defaults_they_name() -> None:
    known = {setting.path for setting in every_setting(settings_outline())}
    sections = ("server.", "limits.", "retention.", "audit.", "telemetry.")
    named = {text for text in re.findall(r"`([a-z_.]+)`", GUIDE) if text.startswith(sections)}
    assert named <= known
    settings = Settings()
    for path, shown in (
        (settings.server.drain_seconds, "(20 s)"),
        (settings.server.max_concurrent_requests, "| 1,000 |"),
        (settings.limits.concurrent_per_key, "| 256 |"),
        (settings.server.streams.max, "| 10,000, 2,000 |"),
        (settings.server.max_body_bytes / 1024 / 1024, "| 2 MiB |"),
        (settings.limits.read_per_minute, "| 60,000, 12,000 for each key |"),
        (settings.limits.write_per_minute, "| 60,000, 12,000 for each key |"),
        (settings.server.sync_wait_max_seconds, "| 300 s |"),
        (settings.server.streams.per_key, "| 10,000, 2,000 |"),
        (limits.SCHEMA_VISITS_MAX, "| 100,000 visits"),
        (limits.DOCUMENT_CHECK_MS_MAX / 1000, "| 20 s (`DOCUMENT_CHECK_MS_MAX`)"),
        (limits.JQ_TIME_BUDGET_MS / 1000, "| 1 s (`JQ_TIME_BUDGET_MS`)"),
        (limits.LIVE_RUNS_MAX, "| 1,000, and 128 MiB together (`LIVE_RUNS_BYTES_MAX`)"),
        (limits.LIVE_RUNS_BYTES_MAX / 1024 / 1024, "| 1,000, and 128 MiB together (`LIVE_RUNS_BYTES_MAX`)"),
        (limits.STORE_CHECKPOINT_PAGES, "whenever it has 10,000 pages"),
        (limits.STORE_CHECK_BYTES_MAX / 1024 / 1024, "a file of up to 64 MiB"),
        (limits.DRAIN_WAIT_SECONDS, "get its handle after 2 s"),
        (limits.STREAM_HEARTBEAT_SECONDS, "the heartbeat of 15 s"),
        (limits.LOOP_STALL_SECONDS * 1000, "above 100 ms"),
    ):
        assert (shown in GUIDE, f"{path:,.0f}" in shown) == (True, True), shown
