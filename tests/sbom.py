"""A software bill of materials (CycloneDX 1.6, JSON) of what `pip install` brings, made from the pinned requirements.

The same requirements and version give the same bytes. Licenses and who needs whom come from the installed packages; a
package for another system is not installed here, and is listed without them.

Above it: `tests.release`. Below it: requirements/runtime.txt, the metadata of installed packages.
"""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from datetime import UTC, datetime
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

__all__ = ["make_sbom", "read_pins"]

DISTRIBUTION = "penstock-mcp"
_PIN = re.compile(r"^(?P<name>[\w.-]+)==(?P<version>[^\s;\\]+)(?:\s*;\s*(?P<marker>[^\\]+?))?\s*\\?$")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_REQUIRED = re.compile(r"[\w.-]+")


def read_pins(requirements: Path) -> list[dict[str, Any]]:
    """Read the pins of a requirements file: name, version, marker and hashes."""
    pins: list[dict[str, Any]] = []
    for line in requirements.read_text(encoding="utf-8").splitlines():
        if found := _PIN.match(line):
            pins.append({**found.groupdict(), "hashes": []})
        elif found := _HASH.search(line):
            pins[-1]["hashes"].append(found[1])
    return pins


def make_sbom(requirements: Path, version: str, at: int) -> bytes:
    """Return the bill of materials of a version, made at a time in epoch seconds."""
    pins = read_pins(requirements)
    own = _reference(DISTRIBUTION, version)
    references = {_normal(pin["name"]): _reference(pin["name"], pin["version"]) for pin in pins}
    needs = {own: _needed(DISTRIBUTION, references)}
    needs.update({references[_normal(pin["name"])]: _needed(pin["name"], references) for pin in pins})
    body = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {
                "type": "application",
                "bom-ref": own,
                "name": DISTRIBUTION,
                "version": version,
                "purl": own,
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            },
        },
        "components": [_component(pin) for pin in pins],
        "dependencies": [{"ref": reference, "dependsOn": found} for reference, found in sorted(needs.items())],
    }
    digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
    serial = uuid.UUID(digest[:32], version=4)
    return (json.dumps({**body, "serialNumber": f"urn:uuid:{serial}"}, indent=2) + "\n").encode()


def _component(pin: dict[str, Any]) -> dict[str, Any]:
    reference = _reference(pin["name"], pin["version"])
    found: dict[str, Any] = {
        "type": "library",
        "bom-ref": reference,
        "name": pin["name"],
        "version": pin["version"],
        "purl": reference,
        "hashes": [{"alg": "SHA-256", "content": content} for content in pin["hashes"]],
    }
    installed = _find_installed(pin["name"])
    if installed is not None and "License-Expression" in installed.metadata:
        found["licenses"] = [{"expression": installed.metadata["License-Expression"]}]
    if pin["marker"]:
        found["properties"] = [{"name": "penstock:marker", "value": pin["marker"].strip()}]
    return found


def _needed(name: str, references: dict[str, str]) -> list[str]:
    installed = _find_installed(name)
    if installed is None:
        return []
    found = {_normal(match[0]) for text in installed.requires or () if (match := _REQUIRED.match(text))}
    # What only an extra needs is not in the requirements, unless another package needs it.
    optional = {
        _normal(match[0])
        for text in installed.requires or ()
        if "extra ==" in text and (match := _REQUIRED.match(text)) and name == DISTRIBUTION
    }
    return sorted(references[each] for each in found - optional if each in references)


def _find_installed(name: str) -> Distribution | None:
    try:
        return distribution(name)
    except PackageNotFoundError:
        return None


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _reference(name: str, version: str) -> str:
    return f"pkg:pypi/{_normal(name)}@{version}"
