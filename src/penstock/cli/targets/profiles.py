"""Profiles: the servers that a person works with, by name, in a file of their own.

    current: staging
    profiles:
      staging: {server: "https://penstock.example.com", key: {env: STAGING_KEY}}
      local:   {server: "http://127.0.0.1:5151", key: {command: [pass, show, penstock]}}

The file never holds a key, only where it is to be found. It is replaced as a whole, readable for its owner only.

Above it: `selection`, `server.profile`. Below it: `app.settings.secrets`, the file system.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import NoReturn

import yaml
from msgspec import Struct
from msgspec.structs import replace

from penstock.app.settings.secrets import (
    ReferenceProblem,
    SecretReference,
    anchored_reference,
    read_reference,
    reference_document,
)
from penstock.base import limits
from penstock.base.errors import NotFound, Rejected
from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.source.document import SourceDocument, read_source
from penstock.definitions.source.findings import suggestion

__all__ = ["PROFILE_VARIABLE", "Profile", "Profiles", "profiles_path", "read_profiles", "write_profiles"]

PROFILE_VARIABLE = "PENSTOCK_PROFILE"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_MEMBERS = ("server", "key")
_TOP_MEMBERS = ("current", "profiles")


class Profile(Struct, frozen=True, kw_only=True):
    """A server, and where the key for it is to be found."""

    server: str
    key: SecretReference | None = None


class Profiles(Struct, frozen=True, kw_only=True):
    """All profiles of a person; `current` is used when none is named."""

    by_name: Mapping[str, Profile] = {}
    current: str | None = None

    def get(self, name: str) -> Profile:
        """The profile of a name."""
        found = self.by_name.get(name)
        if found is None:
            near = suggestion(name, self.by_name)
            hint = (
                near or "`penstock config profile list` shows which there are, `penstock config profile add` makes one"
            )
            raise NotFound("PROFILE_NOT_FOUND", f"there is no profile {name[:64]}", hint)
        return found

    def with_profile(self, name: str, profile: Profile, *, replaces: bool) -> Profiles:
        """The same with one more."""
        if not _NAME.fullmatch(name):
            message = f"{name[:64]!r} is not a valid name for a profile"
            raise Rejected("PROFILE_INVALID", message, "use letters, digits, `.`, `_` and `-`")
        if name in self.by_name and not replaces:
            raise Rejected("PROFILE_EXISTS", f"the profile {name} already exists", "replace it with `--replace`")
        return replace(self, by_name={**self.by_name, name: profile})

    def without(self, name: str) -> Profiles:
        """The same without one."""
        self.get(name)
        kept = {other: profile for other, profile in self.by_name.items() if other != name}
        return replace(self, by_name=kept, current=None if self.current == name else self.current)

    def using(self, name: str | None) -> Profiles:
        """The same with another current one, or with none."""
        if name is not None:
            self.get(name)
        return replace(self, current=name)


def profiles_path(environment: Mapping[str, str] | None = None) -> Path:
    """Where profiles are kept: `penstock/profiles.yaml` in the user's folder for settings."""
    variables = os.environ if environment is None else environment
    given = variables.get("XDG_CONFIG_HOME", "")
    folder = Path(given) if os.path.isabs(given) else Path.home() / ".config"
    return folder / "penstock" / "profiles.yaml"


def read_profiles(path: Path) -> Profiles:
    """The profiles in a file; none if there is no file."""
    try:
        with path.open("rb") as file:
            data = file.read(limits.DOCUMENT_BYTES_MAX)
    except FileNotFoundError:
        return Profiles()
    except OSError as error:
        raise Rejected(
            "PROFILES_UNREADABLE", f"{path}: {error.strerror}", "give yourself read access to the file"
        ) from None
    if not data.strip():
        return Profiles()
    source = read_source(data.decode("utf-8", errors="replace"), file=str(path))
    if not isinstance(source, SourceDocument):
        raise Rejected("PROFILE_INVALID", f"{source[0].location}: {source[0].message}", source[0].hint)
    value = source.value
    if not isinstance(value, dict):
        _refuse(path, "the file must be an object with `profiles`")
    _check_members(path, "the file", value, _TOP_MEMBERS)
    listed = value.get("profiles") or {}
    if not isinstance(listed, dict):
        _refuse(path, "`profiles` must be an object with a member for each profile")
    by_name = {name: _profile(path, name, given) for name, given in listed.items()}
    current = value.get("current")
    if current is not None and current not in by_name:
        _refuse(path, f"`current` names a profile that is not there: {str(current)[:64]}")
    return Profiles(by_name=by_name, current=current if isinstance(current, str) else None)


def _profile(path: Path, name: str, given: JsonValue) -> Profile:
    if not isinstance(given, dict) or not isinstance(given.get("server"), str):
        _refuse(path, f"profile {name}: it must be an object with the address of a `server`")
    _check_members(path, f"profile {name}", given, _MEMBERS)
    key = given.get("key")
    if key is None:
        return Profile(server=str(given["server"]))
    reference = read_reference(key)
    if isinstance(reference, ReferenceProblem):
        raise Rejected("SECRET_IN_SETTINGS", f"{path}: profile {name}: `key` {reference.message}", reference.hint)
    return Profile(server=str(given["server"]), key=anchored_reference(reference, str(path.parent)))


def _check_members(path: Path, place: str, given: JsonObject, known: tuple[str, ...]) -> None:
    for name in given:
        if name not in known:
            hint = suggestion(name, known) or f"known are: {', '.join(known)}"
            _refuse(path, f"{place} has no member {name[:64]!r}", hint)


def _refuse(path: Path, message: str, hint: str | None = None) -> NoReturn:
    raise Rejected("PROFILE_INVALID", f"{path}: {message}", hint)


def write_profiles(path: Path, profiles: Profiles) -> None:
    """Replace the file as a whole."""
    listed: JsonObject = {name: _document(profile) for name, profile in profiles.by_name.items()}
    document: JsonObject = {"current": profiles.current} if profiles.current is not None else {}
    document["profiles"] = listed
    text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # A temporary file is readable for its owner only.
        with NamedTemporaryFile("w", dir=path.parent, prefix=".profiles-", delete=False, encoding="utf-8") as file:
            file.write(text)
        Path(file.name).replace(path)
    except OSError as error:
        raise Rejected("PROFILES_UNREADABLE", f"{path}: {error.strerror}", "check who may write there") from None


def _document(profile: Profile) -> JsonObject:
    key: JsonObject = {} if profile.key is None else {"key": reference_document(profile.key)}
    return {"server": profile.server, **key}
