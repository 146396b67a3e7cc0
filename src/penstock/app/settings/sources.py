"""Reads settings from all sources, with one precedence: defaults < `penstock.yaml` < environment < flags.

    loaded = load_settings(flags={"server.port": 8080})
    loaded.settings.server.port, str(loaded.origins["server.port"])        # 8080, 'flag --port'

Every mistake of every source is reported at once, each with its location. An empty variable counts as not set. A
variable that starts with `PENSTOCK_` and looks like a misspelt name of a setting is a mistake; others are ignored.

Above it: the commands and the modules that compose the product. Below it: the declarations in `model`. Secrets are not
read: settings hold references, and `secret_sources` finds the values when they are needed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, Literal

from msgspec import Struct

from penstock.app.settings.composite_types import ENVIRONMENT_PREFIX, Setting
from penstock.app.settings.declarations import FOREIGN_SPELLINGS, Section, every_setting
from penstock.app.settings.locations import INVALID, Location, Source
from penstock.app.settings.model import Settings, settings_outline
from penstock.app.settings.rules import settings_problems
from penstock.app.settings.types import TextProblem
from penstock.base import limits
from penstock.base.errors import Rejected
from penstock.base.json import JsonValue, json_pointer
from penstock.definitions.source.document import SourceDocument, read_source
from penstock.definitions.source.findings import Finding, suggestion

__all__ = [
    "CONFIG_VARIABLE",
    "DEFAULT_FILE",
    "OTHER_VARIABLES",
    "InvalidSettings",
    "LoadedSettings",
    "Origin",
    "load_settings",
]

DEFAULT_FILE: Final = "penstock.yaml"
CONFIG_VARIABLE: Final = "PENSTOCK_CONFIG"
# Our variables that are not settings.
OTHER_VARIABLES: Final = frozenset(
    {CONFIG_VARIABLE, "PENSTOCK_PYTHON", "PENSTOCK_SERVER", "PENSTOCK_API_KEY", "PENSTOCK_PROFILE"}
)
_SECRET_PREFIX: Final = "PENSTOCK_SECRET_"
# Variables that Kubernetes sets in every container for a service whose name starts with `penstock`, and the values of
# such ports.
_OF_KUBERNETES: Final = re.compile(r".*_(?:SERVICE_(?:HOST|PORT)(?:_.*)?|PORT_\d+_(?:TCP|UDP)(?:_.*)?)")
_KUBERNETES_PORTS: Final = ("tcp://", "udp://", "sctp://")
# Names that are more similar than this are typing mistakes; others may belong to something else.
_SIMILARITY_MIN: Final = 0.8
# Where to find things that people look for in the wrong place.
_MISPLACED_KEYS: Final = {
    "limits.stream_per_key": "this is `server.streams.per_key`",
    "penstock": "this looks like a workflow; settings have no version line",
    "mcp": "Penstock as an MCP server is `server.mcp`; servers whose tools it uses are `mcp_servers`",
    "database": "name the database with `storage.path`",
}


class Origin(Struct, frozen=True):
    """Where the value of a key comes from, for people."""

    source: Literal["default", "file", "environment", "flag"]
    place: str = ""

    def __str__(self) -> str:
        match self.source:
            case "default":
                return "default"
            case "file":
                return self.place
            case "environment" | "flag":
                return f"{self.source} {self.place}"


class LoadedSettings(Struct, frozen=True, kw_only=True):
    """Settings, the origin of each, and the file that was read.

    `ignored` are variables that start with `PENSTOCK_` and set nothing.
    """

    settings: Settings
    origins: Mapping[str, Origin]
    file: str | None = None
    ignored: tuple[str, ...] = ()


class InvalidSettings(Rejected):
    """The settings have mistakes. `findings` has all of them; `text` is the text of the file they may be in."""

    def __init__(self, findings: tuple[Finding, ...], file: str | None = None, text: str = "") -> None:
        first = "; ".join(f"{finding.location}: {finding.message}" for finding in findings[:3])
        more = "" if len(findings) <= 3 else f"; and {len(findings) - 3} more"  # noqa: PLR2004  # as many as fit
        listed: list[JsonValue] = [finding.to_json() for finding in findings]
        super().__init__(
            "INVALID_SETTINGS",
            f"the settings have mistakes: {first}{more}",
            "`penstock config validate` shows all of them",
            {"findings": listed},
        )
        self.findings = findings
        self.file = file
        self.text = text

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.findings, self.file, self.text)


def load_settings(
    file: str | Path | None = None,
    environment: Mapping[str, str] | None = None,
    flags: Mapping[str, Any] | None = None,
) -> LoadedSettings:
    """Read the settings from all sources. Raises `InvalidSettings` with every mistake.

    `file` is the argument of `--config`. Without it, the variable PENSTOCK_CONFIG names the file; without that,
    `penstock.yaml` in the current folder is read if it exists. `flags` has values by path, in the form of a file or a
    variable; None stands for a flag that was not given.
    """
    variables = os.environ if environment is None else environment
    loader = _Loader()
    named = str(file) if file is not None else variables.get(CONFIG_VARIABLE) or None
    loader.read_file(named)
    ignored = loader.read_environment(variables)
    loader.read_flags(flags or {})
    return loader.finish(ignored)


class _Loader:
    """Reads one source after the other; a later one wins."""

    def __init__(self) -> None:
        self.outline = settings_outline()
        self.findings: list[Finding] = []
        self.values: dict[str, Any] = {}
        self.origins: dict[str, Origin] = {}
        self.sources: dict[str, Source] = {}
        self.spelt: dict[str, str] = {}
        self.file: str | None = None
        self.text = ""

    # --- the file ---------------------------------------------------------------------------------

    def read_file(self, named: str | None) -> None:
        label = named or DEFAULT_FILE
        if named is None and not Path(label).exists():
            return
        self.file = label
        text = _text_of(label)
        if isinstance(text, Finding):
            self.findings.append(text)
            return
        self.text = text
        if _is_blank(text):
            return
        document = read_source(text, file=label)
        if not isinstance(document, SourceDocument):
            self.findings.extend(document)
            return
        folder = str(Path(label).parent)
        source = Source(label=label, positions=document.positions, folder=None if folder == "." else folder)
        self._section(self.outline, {} if document.value is None else document.value, self._at(source))

    def _at(self, source: Source, pointer: str = "", name: str = "") -> Location:
        return Location(source, self.findings, pointer, name)

    def _section(self, section: Section, value: JsonValue, at: Location) -> None:
        if not isinstance(value, dict):
            called = f"`{section.path}`" if section.path else "the file"
            at.report(f"{called} must be an object with {', '.join(section.members)}")
            return
        for name, given in value.items():
            here = at.member(name)
            called = name if section.path else FOREIGN_SPELLINGS.get(name, name)
            member = section.members.get(called)
            if called != name and called in value:
                here.report(f"`{name}` and `{called}` are the same setting", "list all servers under one of them")
                continue
            match member:
                case None:
                    self._unknown(section, name, here)
                case Section():
                    # A section with all its lines commented out is null.
                    self._section(member, {} if given is None else given, here)
                case Setting():
                    position = at.source.positions[here.pointer]
                    origin = Origin("file", f"{at.source.label}:{position.line}:{position.column}")
                    self.spelt[member.path] = name
                    self._take(member, given, origin, self._at(at.source, here.pointer, member.path))

    def _unknown(self, section: Section, name: str, at: Location) -> None:
        path = f"{section.path}.{name}" if section.path else name
        hint = _MISPLACED_KEYS.get(path) or self._guess(section, name)
        at.report(f"there is no setting `{path}`", hint, code="UNKNOWN_SETTING")

    def _guess(self, section: Section, name: str) -> str:
        every = list(every_setting(self.outline))
        if any(setting.path == name for setting in every):
            first, _, rest = name.partition(".")
            return f"write `{rest}` below `{first}`, without the dot"
        near = suggestion(name, section.members)
        same = [setting.path for setting in every if setting.name == name]
        if near is None and same:
            return f"did you mean `{same[0]}`?"
        return near or f"there is {', '.join(section.members)}"

    # --- the environment ----------------------------------------------------------------------------

    def read_environment(self, variables: Mapping[str, str]) -> tuple[str, ...]:
        known: set[str] = set()
        for setting in every_setting(self.outline):
            known.update(setting.variables)
            name = next((name for name in setting.variables if variables.get(name)), None)
            if name is not None:
                self._take_text(setting, variables[name], Origin("environment", name))
        ignored = []
        for name, text in variables.items():
            if not name.startswith(ENVIRONMENT_PREFIX) or name in known or _is_of_others(name, text):
                continue
            guess = _guessed_variable(name, known)
            if guess is not None:
                at = self._at(Source(label=f"environment {name}"))
                at.report(f"no setting has the variable `{name}`", f"did you mean `{guess}`?", code="UNKNOWN_VARIABLE")
            else:
                ignored.append(name)
        return tuple(sorted(ignored))

    # --- flags --------------------------------------------------------------------------------------

    def read_flags(self, flags: Mapping[str, Any]) -> None:
        settings = {setting.path: setting for setting in every_setting(self.outline)}
        for path, given in flags.items():
            setting = settings[path]
            if given is None:
                continue
            origin = Origin("flag", setting.field.flag or f"--{setting.name.replace('_', '-')}")
            if isinstance(given, str | Path):
                self._take_text(setting, str(given), origin)
                continue
            value = [str(item) for item in given] if isinstance(given, list | tuple) else given
            self._take(setting, value, origin, self._at(Source(label=str(origin)), name=path))

    # --- shared by all sources ----------------------------------------------------------------------

    def _take_text(self, setting: Setting, text: str, origin: Origin) -> None:
        """Take a value from a variable or a flag, which is named in the findings."""
        at = self._at(Source(label=str(origin)), name=setting.path)
        given = setting.decode(text)
        if isinstance(given, TextProblem):
            at.report(f"`{setting.path}` {given.message}")
        else:
            self._take(setting, given, origin, at)

    def _take(self, setting: Setting, given: JsonValue, origin: Origin, at: Location) -> None:
        value = setting.parse(given, at)
        if value is not INVALID:
            self.values[setting.path] = value
            self.origins[setting.path] = origin
            self.sources[setting.path] = at.source

    def finish(self, ignored: tuple[str, ...]) -> LoadedSettings:
        """The settings. Raises `InvalidSettings` if there are mistakes."""
        if self.findings:
            raise InvalidSettings(tuple(self.findings), self.file, self.text)
        settings = Settings(**{name: self._built(member) for name, member in self.outline.members.items()})
        for problem in settings_problems(settings):
            path = next((path for path in problem.paths if path in self.sources), problem.paths[0])
            source = self.sources.get(path, Source(label=f"default of {path}"))
            spelt = (*path.split(".")[:-1], self.spelt.get(path, path.rpartition(".")[2]))
            pointer = json_pointer((*spelt, *problem.below)) if source.positions else ""
            self._at(source, pointer).report(problem.message, problem.hint)
        if self.findings:
            raise InvalidSettings(tuple(self.findings), self.file, self.text)
        origins = {setting.path: Origin("default") for setting in every_setting(self.outline)}
        return LoadedSettings(settings=settings, origins=origins | self.origins, file=self.file, ignored=ignored)

    def _built(self, member: Section | Setting) -> Any:
        if isinstance(member, Setting):
            return self.values.get(member.path, member.default)
        return member.made(**{name: self._built(inner) for name, inner in member.members.items()})


def _text_of(label: str) -> str | Finding:
    try:
        with Path(label).open("rb") as opened:
            data = opened.read(limits.DOCUMENT_BYTES_MAX + 1)
        return data.decode("utf-8-sig")
    except OSError as error:
        why = error.strerror or type(error).__name__
    except UnicodeDecodeError as error:
        why = f"it is not text in UTF-8 (byte {error.start})"
    return Finding(code="SETTINGS_UNREADABLE", message=f"the file cannot be read: {why}", file=label)


def _is_blank(text: str) -> bool:
    """True if a file has no content: a file with every line commented out counts as none."""
    return all(not line or line.startswith("#") or line == "---" for line in map(str.strip, text.splitlines()))


def _is_of_others(name: str, text: str) -> bool:
    if name in OTHER_VARIABLES or name.startswith(_SECRET_PREFIX) or _OF_KUBERNETES.fullmatch(name) is not None:
        return True
    return name.endswith("_PORT") and text.startswith(_KUBERNETES_PORTS)


def _guessed_variable(name: str, known: set[str]) -> str | None:
    """The variable that was probably meant. The common prefix does not count towards the similarity."""
    rests = {full.removeprefix(ENVIRONMENT_PREFIX): full for full in sorted(known)}
    found = get_close_matches(name.removeprefix(ENVIRONMENT_PREFIX), rests, n=1, cutoff=_SIMILARITY_MIN)
    return rests[found[0]] if found else None
