"""Write the generated pages, sources and transcripts, or say which of them are stale: `scripts/docs [--check]`."""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from docs.generator.floors import FLOOR_PAGES, with_pictures
from docs.generator.pages import PAGES
from docs.generator.promises import PROMISES_PAGE, read_figures, with_figures
from docs.generator.sources import sources
from docs.generator.transcripts import TRANSCRIPT_PAGES, refreshed

__all__ = ["main"]

ROOT = Path(__file__).parents[2]


def main() -> int:
    """Write every page; with `--check` only compare, and return 1 if one is stale."""
    parser = argparse.ArgumentParser(prog="scripts/docs", description="Make docs/reference from the source.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 when a page is stale")
    check = parser.parse_args().check
    stale = 0
    for name, text in _pages():
        path = ROOT / name
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            continue
        stale += 1
        print(f"{name}: {'stale; run scripts/docs' if check else 'written'}", file=sys.stderr)
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    if not stale:
        print("all pages are up to date", file=sys.stderr)
    return 1 if check and stale else 0


def _pages() -> Iterator[tuple[str, str]]:
    # First, because the command line is made from one of them, and pages are made from the command line.
    yield from sources().items()
    for name, render in PAGES.items():
        yield f"docs/{name}", render()
    for name in FLOOR_PAGES:
        yield name, with_pictures((ROOT / name).read_text(encoding="utf-8"))
    yield PROMISES_PAGE, with_figures((ROOT / PROMISES_PAGE).read_text(encoding="utf-8"), read_figures())
    for name in TRANSCRIPT_PAGES:
        yield name, refreshed((ROOT / name).read_text(encoding="utf-8"))


if __name__ == "__main__":
    sys.exit(main())
