"""The steps of the daily report: figures from a file of orders, and a folder to publish in."""

from __future__ import annotations

import csv
import os
from collections import defaultdict
from pathlib import Path

from penstock import step

ORDERS = Path(__file__).with_name("orders.csv")
# Assistants start programs in a folder of their choice.
PUBLISHED = Path(os.environ.get("REPORTS", "reports"))


@step(name="daily_report:figures")
def figures(day: str) -> dict[str, object]:
    """What was sold on a day."""
    with ORDERS.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["day"] == day]
    sold: dict[str, int] = defaultdict(int)
    revenue: dict[str, float] = defaultdict(float)
    for row in rows:
        sold[row["product"]] += int(row["count"])
        revenue[row["product"]] += int(row["count"]) * float(row["price"])
    products = [{"name": name, "sold": sold[name], "revenue": round(revenue[name], 2)} for name in sorted(sold)]
    orders = len({row["order"] for row in rows})
    return {"orders": orders, "revenue": round(sum(revenue.values()), 2), "products": products}


@step(name="daily_report:publish")
def publish(text: str, remark: str) -> dict[str, str]:
    """Put a report where everybody finds it."""
    day = text.partition("\n")[0].removeprefix("# Report of ").strip()
    PUBLISHED.mkdir(exist_ok=True)
    place = PUBLISHED / f"{day}.md"
    place.write_text(f"{text}\n{remark}\n" if remark else text, encoding="utf-8")
    return {"place": place.as_posix()}
