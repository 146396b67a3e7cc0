"""Values of settings, read from JSON values and checked against their declarations.

Above it: `loading` reads whole sources with it. Below it: the declarations. The text of a variable becomes a JSON
value in `text` first.
Nothing is printed and nothing raised: what is wrong with a value is a finding. A finding about a secret shows nothing
of what was given.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, assert_never

from msgspec import Struct

from penstock.app.settings.forms import carries_credentials
from penstock.app.settings.keys import (
    Anything,
    Choice,
    Form,
    Kind,
    Number,
    PlainKind,
    PrivateText,
    Record,
    Secret,
    Setting,
    Span,
    Switch,
    Table,
    Text,
    Texts,
    Whole,
)
from penstock.app.settings.secrets import (
    REFERENCE_HINT,
    FileReference,
    ReferenceProblem,
    anchored_reference,
    read_reference,
)
from penstock.app.settings.text import written
from penstock.app.settings.words import described, expected
from penstock.base.json import JsonValue, json_pointer
from penstock.definitions.durations import parse_native_duration_ms
from penstock.definitions.source.findings import Finding, Position, suggestion

__all__ = ["SECRET_CODE", "UNUSABLE", "Place", "Unusable", "ValueReader"]


class Unusable:
    """What reading gives for a value that is wrong; its findings say why."""


UNUSABLE: Final = Unusable()
# A finding of this code is about a line that should not be shown again.
SECRET_CODE: Final = "SECRET_IN_SETTINGS"
# A length of time without a unit.
_BARE_NUMBER = re.compile(r"\s*[0-9.]+\s*")
_SECRET_MARK = "${secret:"


class Place(Struct, frozen=True, kw_only=True):
    """Where values come from: a file with the positions of its parts, or something else that has a name.

    `folder` is where relative paths start, if not at the current folder.
    """

    label: str
    positions: Mapping[str, Position] = {}
    folder: str | None = None


class ValueReader:
    """Reads values that came from one place, and gathers what is wrong with them."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.findings: list[Finding] = []

    def report(self, code: str, pointer: str, message: str, hint: str | None = None) -> Unusable:
        """Note that something is wrong."""
        position = self.place.positions.get(pointer)
        self.findings.append(
            Finding(code=code, message=message, path=pointer, hint=hint, position=position, file=self.place.label)
        )
        return UNUSABLE

    def setting(self, setting: Setting, value: JsonValue, pointer: str, name: str) -> Any:
        """The value of a key; `name` is how messages call it."""
        if value is None and setting.optional:
            return None
        return self._value(setting.kind, value, pointer, name)

    def _value(self, kind: Kind, value: JsonValue, pointer: str, name: str) -> Any:
        match kind:
            case Texts():
                return self._texts(kind, value, pointer, name)
            case Secret():
                return self._secret(value, pointer, name)
            case PrivateText():
                return self._private(value, pointer, name)
            case Table():
                return self._table(kind, value, pointer, name)
            case Record():
                return self._record(kind, value, pointer, name)
            case _:
                return self._plain(kind, value, pointer, name)

    def _plain(self, kind: PlainKind, value: JsonValue, pointer: str, name: str) -> Any:
        match kind:
            case Switch():
                return value if isinstance(value, bool) else self._mistyped(kind, value, pointer, name)
            case Whole():
                if isinstance(value, bool) or not isinstance(value, int):
                    return self._mistyped(kind, value, pointer, name)
                return self._bounded(kind, value, pointer, name)
            case Number() | Span():
                return self._amount(kind, value, pointer, name)
            case Text():
                return self._text(value, pointer, name, kind.form)
            case Choice():
                return self._choice(kind, value, pointer, name)
            case Anything():
                return value
            case _:
                assert_never(kind)

    def _mistyped(self, kind: Kind, value: JsonValue, pointer: str, name: str) -> Unusable:
        hint = None
        if isinstance(value, str) and value.startswith("tcp://"):
            hint = "Kubernetes sets such variables for its services; `enableServiceLinks: false` keeps them away"
        elif isinstance(kind, Span) and isinstance(value, int | float) and not isinstance(value, bool):
            hint = f"write the unit: {value}s or {value}ms"
        return self.report(
            "SETTING_INVALID", pointer, f"`{name}` must be {expected(kind)}, not {described(value)}", hint
        )

    def _bounded(self, kind: Whole | Number | Span, value: Any, pointer: str, name: str) -> Any:
        number = value.total_seconds() if isinstance(value, timedelta) else value
        low = kind.minimum is not None and number < kind.minimum
        high = kind.maximum is not None and number > kind.maximum
        return self._mistyped(kind, written(kind, value), pointer, name) if low or high else value

    def _amount(self, kind: Number | Span, value: JsonValue, pointer: str, name: str) -> Any:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if isinstance(kind, Number) and isinstance(value, int | float) and is_number:
            return self._bounded(kind, float(value), pointer, name)
        takes_text = isinstance(kind, Span) or kind.counts_seconds
        # In documents a bare number is milliseconds, in settings with seconds it is seconds: here it must have a unit.
        has_unit = isinstance(value, str) and _BARE_NUMBER.fullmatch(value) is None
        duration_ms = parse_native_duration_ms(value) if takes_text and has_unit and isinstance(value, str) else None
        if duration_ms is None:
            return self._mistyped(kind, value, pointer, name)
        length = timedelta(milliseconds=duration_ms)
        return self._bounded(kind, length.total_seconds() if isinstance(kind, Number) else length, pointer, name)

    def _text(self, value: JsonValue, pointer: str, name: str, form: Form | None) -> Any:
        if not isinstance(value, str) or not value or "\0" in value:
            return self._mistyped(Text(form), value, pointer, name)
        if form is None:
            return value
        if form.pattern is not None and re.fullmatch(form.pattern, value) is None:
            return self._mistyped(Text(form), value, pointer, name)
        if form.check is not None and not form.check(value):
            return self._mistyped(Text(form), value, pointer, name)
        return self._anchored(value, form)

    def _anchored(self, value: str, form: Form) -> str:
        is_path = form.anchor == "path" or (form.anchor == "module" and (value.endswith(".py") or "/" in value))
        if not is_path:
            return value
        path = os.path.expanduser(value) if value.startswith("~") else value
        return str(Path(self.place.folder) / path) if self.place.folder is not None else path

    def _choice(self, kind: Choice, value: JsonValue, pointer: str, name: str) -> Any:
        found = next((word for word in kind.words if isinstance(value, str) and word.lower() == value.lower()), None)
        if found is not None:
            return found
        hint = suggestion(value, kind.words) if isinstance(value, str) else None
        told = f"`{name}` must be {expected(kind)}, not {described(value)}"
        return self.report("SETTING_INVALID", pointer, told, hint)

    def _texts(self, kind: Texts, value: JsonValue, pointer: str, name: str) -> Any:
        if not isinstance(value, list):
            return self._mistyped(kind, value, pointer, name)
        items = [
            self._text(item, f"{pointer}/{index}", f"{name}[{index}]", kind.form) for index, item in enumerate(value)
        ]
        return UNUSABLE if UNUSABLE in items else tuple(items)

    def _secret(self, value: JsonValue, pointer: str, name: str) -> Any:
        reference = read_reference(value)
        if isinstance(reference, ReferenceProblem):
            code = "SETTING_INVALID" if isinstance(value, dict) else SECRET_CODE
            return self.report(code, pointer, f"`{name}` {reference.message}", reference.hint)
        if isinstance(reference, FileReference) and reference.path.startswith("~"):
            reference = FileReference(os.path.expanduser(reference.path))
        return anchored_reference(reference, self.place.folder)

    def _private(self, value: JsonValue, pointer: str, name: str) -> Any:
        if isinstance(value, dict):
            return self._secret(value, pointer, name)
        if not isinstance(value, str):
            # What was given may be a secret, even as a number.
            told = f"`{name}` must be a text or a reference to a secret"
            return self.report("SETTING_INVALID", pointer, told, REFERENCE_HINT)
        if carries_credentials(name.rpartition(".")[2]) and _SECRET_MARK not in value:
            told = f"`{name}` is a secret: its value must not stand in settings"
            hint = f"{REFERENCE_HINT}; or a text with ${{secret:NAME}} in it"
            return self.report(SECRET_CODE, pointer, told, hint)
        return value

    def _table(self, kind: Table, value: JsonValue, pointer: str, name: str) -> Any:
        if not isinstance(value, dict):
            return self._mistyped(kind, value, pointer, name)
        items: dict[str, Any] = {}
        for key, member in value.items():
            place = pointer + json_pointer((key,))
            if kind.names is not None and re.fullmatch(kind.names.pattern or ".*", key) is None:
                told = f"`{key}` in `{name}` must be {kind.names.expected}"
                items[key] = self.report("SETTING_INVALID", place, told)
            else:
                items[key] = self._value(kind.items, member, place, f"{name}.{key}")
        return UNUSABLE if UNUSABLE in items.values() else items

    def _record(self, kind: Record, value: JsonValue, pointer: str, name: str) -> Any:
        if not isinstance(value, dict):
            return self._mistyped(kind, value, pointer, name)
        known = {member.name: member for member in kind.members}
        found: dict[str, Any] = {}
        before = len(self.findings)
        for key, given in value.items():
            place = pointer + json_pointer((key,))
            member = known.get(key)
            if member is None:
                hint = suggestion(key, known) or f"it may have {', '.join(known)}"
                self.report("UNKNOWN_SETTING", place, f"`{name}` has no `{key}`", hint)
            else:
                found[member.attribute] = self.setting(member, given, place, f"{name}.{key}")
        for member in kind.members:
            if member.required and member.name not in value:
                self.report("SETTING_INVALID", pointer, f"`{name}` needs `{member.name}`: {member.key.description}")
        if len(self.findings) > before:
            return UNUSABLE
        made: Any = kind.made(**found)
        for problem in getattr(made, "problems", tuple)():
            place = pointer + json_pointer((problem.member,)) if problem.member else pointer
            called = f"{name}.{problem.member}" if problem.member else name
            self.report("SETTING_INVALID", place, f"`{called}` {problem.message}", problem.hint)
        return UNUSABLE if len(self.findings) > before else made
