"""Every generated page by its path below `docs/`."""

from collections.abc import Callable, Mapping

from docs.generator.commands import commands_page
from docs.generator.configuration import configuration_page
from docs.generator.errors import errors_page
from docs.generator.events import events_page
from docs.generator.fields import document_page, nodes_page
from docs.generator.findings import findings_page
from docs.generator.graph_findings import graph_findings_page
from docs.generator.limits import limits_page
from docs.generator.mcp_tools import mcp_tools_page
from docs.generator.metrics import metrics_page
from docs.generator.navigation import contents_page
from docs.generator.records import history_page
from docs.generator.rest import rest_page
from docs.generator.states import states_page

__all__ = ["PAGES"]

PAGES: Mapping[str, Callable[[], str]] = {
    "README.md": contents_page,
    "reference/cli.md": commands_page,
    "reference/configuration.md": configuration_page,
    "reference/document.md": document_page,
    "reference/engine-states.md": states_page,
    "reference/errors.md": errors_page,
    "reference/events.md": events_page,
    "reference/findings.md": findings_page,
    "reference/graph-findings.md": graph_findings_page,
    "reference/history.md": history_page,
    "reference/limits.md": limits_page,
    "reference/mcp-tools.md": mcp_tools_page,
    "reference/metrics.md": metrics_page,
    "reference/nodes.md": nodes_page,
    "reference/rest.md": rest_page,
}
