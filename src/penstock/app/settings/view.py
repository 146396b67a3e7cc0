"""Settings as output: for people, with descriptions in place of secrets, as a file, and as variables.

Above it: `penstock config show`. Below it: the declarations. Of a secret it knows only the reference.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import Any

from penstock.app.settings.composite_types import Setting
from penstock.app.settings.declarations import Section, every_setting
from penstock.app.settings.model import Settings, settings_outline
from penstock.base.json import JsonObject, JsonValue

__all__ = ["settings_document", "settings_environment", "settings_rows", "settings_view", "value_of"]


def value_of(settings: Settings, path: str) -> Any:
    """The value of a key."""
    found: Any = settings
    for name in path.split("."):
        found = getattr(found, name)
    return found


def settings_rows(settings: Settings) -> Iterator[tuple[Setting, JsonValue]]:
    """Every key with its value as shown to people, in the order of declaration."""
    for setting in every_setting(settings_outline()):
        yield setting, setting.shown(value_of(settings, setting.path))


def settings_view(settings: Settings, paths: Container[str] | None = None) -> JsonObject:
    """All settings, or the named ones, as shown to people and nested as in a file."""
    values = {
        setting.path: value for setting, value in settings_rows(settings) if paths is None or setting.path in paths
    }
    return _nested(settings_outline(), values)


def settings_document(settings: Settings) -> JsonObject:
    """All settings in the form of `penstock.yaml`."""
    every = every_setting(settings_outline())
    given = {setting.path: setting.to_json(value_of(settings, setting.path)) for setting in every}
    return _nested(settings_outline(), given)


def settings_environment(settings: Settings) -> dict[str, str]:
    """All settings in the form of variables."""
    return {
        setting.variable: setting.encode(value_of(settings, setting.path))
        for setting in every_setting(settings_outline())
    }


def _nested(section: Section, values: JsonObject) -> JsonObject:
    found: JsonObject = {}
    for name, member in section.members.items():
        if isinstance(member, Section):
            inner = _nested(member, values)
            if inner:
                found[name] = inner
        elif member.path in values:
            found[name] = values[member.path]
    return found
