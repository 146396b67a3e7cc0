"""Every generated page by its path below `docs/`."""

from collections.abc import Callable, Mapping

from docs.generator.commands import commands_page
from docs.generator.fields import document_page, nodes_page
from docs.generator.findings import findings_page
from docs.generator.limits import limits_page
from docs.generator.records import history_page
from docs.generator.states import states_page

__all__ = ["PAGES"]

PAGES: Mapping[str, Callable[[], str]] = {
    "reference/cli.md": commands_page,
    "reference/document.md": document_page,
    "reference/engine-states.md": states_page,
    "reference/findings.md": findings_page,
    "reference/history.md": history_page,
    "reference/limits.md": limits_page,
    "reference/nodes.md": nodes_page,
}
