"""The templates of `penstock init`: what each shows, what its files are, and the commands to try first.

The files are in the folder `templates`, as they will be in the project; those in `common` are in every project. Files
that would mean something where they are now (`steps.py`, `.gitignore`) have the suffix `.template`.

Above it: `init`. Below it: the files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable

__all__ = ["TEMPLATES", "Template", "project_files"]

_SUFFIX = ".template"
_HIDDEN = {"gitignore": ".gitignore"}
_TESTED = ("penstock test", "run its test cases")
_CHECKED = ("penstock validate", "check your changes")
_SERVED = ("penstock dev", "serve, reload on save")


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """A kind of project."""

    name: str
    title: str
    about: Mapping[str, str]
    """What its files are, by their paths. Files that need no word are left out."""
    next: tuple[tuple[str, str], ...]
    """The commands to try first, each with its purpose."""


_ALL = (
    Template(
        name="approval",
        title="a refund that waits until a person approves it",
        about={
            "penstock.yaml": "settings",
            "policies/starter.cedar": "a policy to start from; name it in penstock.yaml",
            "steps.py": "Python functions that workflows call",
            "workflows/refund.yaml": "a workflow with an approval, and its tests",
        },
        next=(
            ("penstock mcp call refund_order order_id=A-7 amount=180", "call it as a tool"),
            _TESTED,
            _CHECKED,
            _SERVED,
        ),
    ),
    Template(
        name="agent",
        title="an agent with tools and an approval; its model is a script",
        about={
            "penstock.yaml": "settings, with the script of the model",
            "steps.py": "Python functions that the tools call",
            "workflows/find_order.yaml": "a tool of the agent, and its tests",
            "workflows/refund_order.yaml": "a tool that needs an approval, and its tests",
            "workflows/support.yaml": "the agent, and its tests",
        },
        next=(
            ('penstock mcp call support prompt="Order A-7 never arrived."', "ask the agent"),
            _TESTED,
            _CHECKED,
            _SERVED,
        ),
    ),
    Template(
        name="api",
        title="an OpenAPI document whose operations become tools",
        about={
            "apis/stock.yaml": "the OpenAPI document",
            "penstock.yaml": "settings: which operations become tools",
            "stock_api.py": "the API, on this machine; yours takes its place",
            "workflows/reorder.yaml": "a workflow that calls the API, and its tests",
        },
        next=(
            ("python stock_api.py &", "start the API"),
            ("penstock mcp call reorder below=5", "call it as a tool"),
            _TESTED,
            _CHECKED,
            _SERVED,
        ),
    ),
    Template(
        name="graph",
        title="a data graph, stored queries as tools, a protected branch",
        about={
            "data/seed.jsonl": "nodes and edges to start with",
            "penstock.yaml": "settings: the graph and its protected branch",
            "queries/tasks.gq": "stored queries; each is a tool",
            "schema.pg": "the types of nodes and edges",
            "tests/tasks.tests.yaml": "test cases of the queries",
            "workflows/propose_close.yaml": "a workflow that changes a branch, and its tests",
        },
        next=(
            ("penstock graph load crm data/seed.jsonl", "put the data into the graph"),
            ('penstock mcp call tasks_of \'params={"owner": "ada"}\'', "ask it as a tool"),
            ("penstock mcp call propose_close slug=call-acme", "change a branch"),
            _TESTED,
            _SERVED,
        ),
    ),
)
TEMPLATES: Mapping[str, Template] = {template.name: template for template in _ALL}
"""By their names; the first one is the default."""


def project_files(template: str) -> dict[str, str]:
    """The files of a new project by their paths in it."""
    folder = files("penstock.cli.project") / "templates"
    return dict(sorted([*_list_files(folder / "common", ""), *_list_files(folder / template, "")]))


def _list_files(folder: Traversable, place: str) -> Iterator[tuple[str, str]]:
    for item in folder.iterdir():
        if item.is_dir():
            yield from _list_files(item, f"{place}{item.name}/")
            continue
        name = item.name.removesuffix(_SUFFIX)
        yield place + _HIDDEN.get(name, name), item.read_text(encoding="utf-8")
