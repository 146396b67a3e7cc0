"""The pages are true: generated ones are current, files in them valid, transcripts real, and links lead somewhere."""

import ast
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from docs.generator.findings import FINDINGS
from docs.generator.markdown import anchor
from docs.generator.pages import PAGES
from docs.generator.records import KEYS, RECORDS
from docs.generator.transcripts import TRANSCRIPT_PAGES, refreshed
from penstock.definitions.model import NodeType
from penstock.definitions.nodes import NODE_KINDS
from penstock.definitions.source.findings import Finding
from penstock.definitions.validate import validate_source
from penstock.engine.records import COMMANDS, EVENTS
from tests.together import together
from tests.zygote import piped_folder

ROOT = Path(__file__).parents[2]
PAGES_WRITTEN = sorted(
    path.relative_to(ROOT).as_posix()
    for folder in (".", "docs", "examples")
    for path in (ROOT / folder).glob("*.md" if folder == "." else "**/*.md")
)
FENCED = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
SOURCE_FILE = re.compile(r"`([a-z_0-9.]+/[a-z_0-9./]+\.py)`")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
CODE_LIKE = re.compile(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)+")
# Words in capitals that the source writes for other reasons than to name a finding.
NOT_FINDINGS = frozenset(
    {
        "API_KEY",  # examples in hints and schemas
        "ORDER_NOT_FOUND",
        "SHOP_API_KEY",
        "INVALID_CHARACTER",  # words of libjq's grammar
        "QQSTRING_START",
        "EXECUTION_NOT_FOUND",  # refusals of runs, which are not about documents
        "RETRY_NOT_ALLOWED",
        # with which runs of agents end, and what models are told of their calls
        *("AGENT_TURNS_SPENT", "AGENT_TOKENS_SPENT", "AGENT_COST_SPENT", "AGENT_COST_UNKNOWN", "AGENT_TIME_SPENT"),
        "MEMORY_SCOPE_NOT_ALLOWED",
        *("TOOL_UNKNOWN", "TOOL_ARGUMENTS_INVALID", "TOOL_CALL_DECLINED", "OUTPUT_SCHEMA_VIOLATION"),
        "SCHEMA_DEFAULTS_EXCEEDED",  # of a value that is sent, not of a document
        "CONNECTION_FAILED",
        "MCP_ERROR",
        "PROJECT_EXISTS",  # refusals of `penstock init`
        "PROJECT_UNWRITABLE",
        "STEPS_BROKEN",  # refusals of modules with steps, and of patterns in the settings
        "STEPS_NAME_TAKEN",
        "STEPS_NOT_FOUND",
        "WORKFLOWS_NOT_FOUND",
        "NOTIFY_SOCKET",  # variables of the machine
        "FORCE_COLOR",
        "NO_COLOR",
        "XDG_CONFIG_HOME",
        "CLAUDE_CONFIG_DIR",
        "CODEX_HOME",
        "COPILOT_HOME",
    }
)


def read(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def fenced(kind: str) -> list[Block]:
    return [
        Block(page, read(page).count("\n", 0, match.start()) + 1, match[2])
        for page in PAGES_WRITTEN
        for match in FENCED.finditer(read(page))
        if match[1] == kind
    ]


@pytest.mark.parametrize("name", PAGES)
def test_a_generated_page_is_current(name: str) -> None:
    assert read(f"docs/{name}") == PAGES[name](), "run scripts/docs"


def test_every_page_of_the_reference_is_generated() -> None:
    written = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs" / "reference").iterdir()}
    assert written == {name for name in PAGES if name.startswith("reference/")}


@pytest.mark.parametrize("name", TRANSCRIPT_PAGES)
def test_a_transcript_shows_what_the_commands_print(name: str, tmp_path: Path) -> None:
    assert read(name) == refreshed(read(name), piped_folder(tmp_path / "bin")), "run scripts/docs"


def test_every_page_with_a_transcript_is_run() -> None:
    assert {block.page for block in fenced("console")} == set(TRANSCRIPT_PAGES)


@pytest.mark.parametrize("block", fenced("yaml"), ids=str)
def test_yaml_in_a_page_can_be_used(block: Block) -> None:
    if not block.text.startswith("penstock:"):
        assert yaml.safe_load(block.text) is not None
        return
    assert told(validate_source(block.text, file=str(block))) == []


@pytest.mark.parametrize("block", fenced("json"), ids=str)
def test_json_in_a_page_can_be_used(block: Block) -> None:
    document = json.loads(block.text)
    if "document" in document:
        assert told(validate_source(block.text, file=str(block))) == []


def told(findings: tuple[Finding, ...]) -> list[str]:
    return [f"{finding.location} {finding.code} {finding.message}" for finding in findings]


@together(PAGES_WRITTEN, groups=4)
def test_links_lead_somewhere(page: str) -> None:
    # What stands in code is not a link.
    text = FENCED.sub("", read(page))
    missing = [target for target in LINK.findall(text) if "://" not in target and not leads_somewhere(page, target)]
    assert missing == []


def leads_somewhere(page: str, target: str) -> bool:
    path, _, fragment = target.partition("#")
    found = (ROOT / page).parent / path if path else ROOT / page
    if not found.exists():
        return False
    if not fragment:
        return True
    text = FENCED.sub("", found.read_text(encoding="utf-8"))
    return fragment in {anchor(heading) for heading in HEADING.findall(text)}


@together([page for page in PAGES_WRITTEN if page != "CHANGELOG.md"], groups=4)
def test_a_page_names_source_files_that_exist(page: str) -> None:
    named = set(SOURCE_FILE.findall((ROOT / page).read_text(encoding="utf-8")))
    folders = (ROOT, ROOT / "src", ROOT / "src" / "penstock", (ROOT / page).parent)
    assert [name for name in sorted(named) if not any((folder / name).exists() for folder in folders)] == []


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached, pending = {"README.md"}, ["README.md"]
    while pending:
        page = pending.pop()
        for target in LINK.findall(FENCED.sub("", read(page))):
            found = ((ROOT / page).parent / target.partition("#")[0]).resolve()
            name = found.relative_to(ROOT).as_posix() if "://" not in target and found.is_relative_to(ROOT) else ""
            if name.endswith(".md") and name not in reached:
                reached.add(name)
                pending.append(name)
    assert set(PAGES_WRITTEN) - reached == set()


def test_every_node_type_says_what_it_gives() -> None:
    assert set(NODE_KINDS) == set(NodeType)
    assert all(kind.gives for kind in NODE_KINDS.values())


def test_every_command_and_event_is_described() -> None:
    assert set(RECORDS) == COMMANDS | EVENTS
    page = read("docs/reference/history.md")
    assert [name for name in COMMANDS | EVENTS if f"| `{name}` |" not in page] == []


def test_every_explained_key_belongs_to_a_record() -> None:
    known = {key.removesuffix("?") for note in RECORDS.values() for key in note.keys.split()}
    assert set(KEYS) - known == set()


def test_every_finding_is_described_and_every_described_finding_exists() -> None:
    used = set(finding_codes())
    assert used - set(FINDINGS) == set()
    assert set(FINDINGS) - used == set()


def finding_codes() -> Iterator[str]:
    """Every text of the source that looks like a code, apart from exported names and words of other things."""
    for folder in ("definitions", "cli/documents", "cli/terminal", "cli/project"):
        for path in (ROOT / "src" / "penstock" / folder).rglob("*.py"):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            exported = {id(node) for listed in exports(tree) for node in ast.walk(listed)}
            texts = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in exported]
            yield from (
                str(node.value)
                for node in texts
                if CODE_LIKE.fullmatch(str(node.value)) and node.value not in NOT_FINDINGS
            )


def exports(tree: ast.Module) -> Iterator[ast.expr]:
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "__all__":
            yield statement.value
