"""The files that a process trusts and does not watch: settings, steps, descriptions of APIs, secrets and keys.

A server warns of those that other users can change: in the log at the start and when that changes, and in
`system.health`. `penstock server doctor` names them together with policies, graphs and workflows.

Above it: `gate`, the command line. Below it: the settings, `runtime.file_trust`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from penstock.app.server_secret.keys import ServerKeys
from penstock.app.settings.model import Settings
from penstock.app.settings.secrets import FileReference
from penstock.runtime.file_trust import list_risks

__all__ = ["RiskLog", "describe_risks", "list_trusted_files"]

_LOGGER = logging.getLogger("penstock.files")
_SHOWN_MAX = 5
_PYTHON = ".py"


def list_trusted_files(
    settings: Settings, settings_file: str | None, secret_folder: Path | None = None
) -> Iterator[Path]:
    """Return the files that the settings name beside policies, graphs and workflows, and the file of the settings."""
    if secret_folder is not None:
        yield secret_folder / "*"  # each file is checked when it is read; here, the folder is
    if settings_file is not None:
        yield Path(settings_file)
    yield from (Path(name) for name in settings.steps.modules if name.endswith(_PYTHON))
    yield from (Path(api.document) for api in settings.apis.values() if api.document is not None)
    yield from (Path(api.overrides) for api in settings.apis.values() if api.overrides is not None)
    yield from map(Path, settings.workflows.signatures.trusted_keys)
    yield from (Path(item.path) for item in settings.secrets.values() if isinstance(item, FileReference))
    certificates = settings.audit.checkpoints.timestamp.certificates
    if certificates is not None:
        yield Path(certificates)
    keys = ServerKeys.chosen(settings, Path(settings.storage.path))
    yield from (source.file for source in (keys.secret, keys.audit_key) if source.file is not None)


def describe_risks(paths: Iterable[Path]) -> list[str]:
    """Return who else can change files, one line for each."""
    found = [f"{risk.problem}; {risk.advice}" for path in dict.fromkeys(paths) for risk in list_risks(path)]
    return list(dict.fromkeys(found))


class RiskLog:
    """Logs every risk when it appears, once."""

    def __init__(self) -> None:
        self._known: frozenset[str] = frozenset()

    def note(self, risks: Sequence[str]) -> None:
        """Log the risks that were not there the last time."""
        known, self._known = self._known, frozenset(risks)
        for risk in risks:
            if risk not in known:
                _LOGGER.warning("a trusted file is open to others: %s", risk)

    def state(self) -> str:
        """Return the risks as a check of health."""
        listed = sorted(self._known)
        more = [f"and {len(listed) - _SHOWN_MAX} more"] if len(listed) > _SHOWN_MAX else []
        return "; ".join([*listed[:_SHOWN_MAX], *more]) or "ok"
