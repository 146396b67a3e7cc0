"""The page about settings: every key with its type, default, variables and flag, read from the declarations."""

import json
from collections.abc import Iterator, Mapping

from docs.generator.markdown import code, page, prose, table
from penstock.app.settings.composite_types import Record, Setting, Table
from penstock.app.settings.declarations import Section
from penstock.app.settings.model import settings_outline
from penstock.app.settings.sources import CONFIG_VARIABLE, DEFAULT_FILE, OTHER_VARIABLES

__all__ = ["MISTAKES", "configuration_page"]

# Codes that `penstock config validate` and every command that reads settings may report; tests compare them with the
# source.
MISTAKES: Mapping[str, str] = {
    "SECRET_IN_SETTINGS": "A value stands where only a reference to a secret may stand, or a credential in plain text.",
    "SETTINGS_UNREADABLE": "The file is not there, may not be read, or is not text.",
    "SETTING_INVALID": "A value has the wrong type, form or range, or does not fit another one.",
    "UNKNOWN_SETTING": "There is no key of this name; the hint names the nearest.",
    "UNKNOWN_VARIABLE": "A variable looks like a misspelt name of one that sets something.",
}


def configuration_page() -> str:
    """Every setting."""
    return page("Configuration", "the declarations in `app/settings/model.py`", _parts())


def _parts() -> Iterator[str]:
    others = ", ".join(code(name) for name in sorted(OTHER_VARIABLES - {CONFIG_VARIABLE}))
    yield (
        f"Settings are read from {code(DEFAULT_FILE)} in the current folder, or from the file that `--config` or the "
        f"variable {code(CONFIG_VARIABLE)} names; then from the environment; then from flags. The later source wins. "
        "[The guide](../guides/running-workflows.md#configuration) shows how to write them; "
        "`penstock config show --origin` says what counts and why, `penstock config validate` finds every mistake, "
        "and `penstock config schema` prints the JSON Schema for editors."
    )
    yield (
        "A variable that is empty counts as not set. Lists are written with commas or as JSON, tables as JSON objects, "
        "nothing as `null`. Where a key has several variables, the first that is set counts. A variable that begins "
        "with `PENSTOCK_` and looks like a misspelt name below is an error; others are ignored, "
        f"as are `PENSTOCK_SECRET_…` (values of secrets), {others} (commands and scripts) and what Kubernetes sets "
        "for its services. Relative paths in a file start at the folder of the file."
    )
    outline = settings_outline()
    for member in outline.members.values():
        if isinstance(member, Section):
            yield from _section(member)
    yield "## Named things"
    yield _table([member for member in outline.members.values() if isinstance(member, Setting)])
    for member in outline.members.values():
        if isinstance(member, Setting) and isinstance(member.type, Table) and isinstance(member.type.items, Record):
            yield from _records(f"{member.path}.NAME", member.type.items)
    yield "## References to secrets"
    yield (
        "`{env: NAME}` is the value of a variable, `{file: PATH}` the content of a file, `{command: [PROGRAM, …]}` "
        "what a program prints, each without the line end after the last line. No shell is involved. In `env` and "
        "`headers` a text may also hold `${secret:NAME}`, which is looked for in the folder after `--secret-file`, in "
        "the variable `PENSTOCK_SECRET_NAME`, and in `secrets`."
    )
    yield "## Mistakes"
    yield table(["Code", "Meaning"], [[code(name), meaning] for name, meaning in MISTAKES.items()])


def _section(section: Section) -> Iterator[str]:
    heading = "##" if "." not in section.path else "###"
    yield f"{heading} {section.path}"
    yield prose(section.description)
    settings = [member for member in section.members.values() if isinstance(member, Setting)]
    if settings:
        yield _table(settings)
    for member in section.members.values():
        if isinstance(member, Section):
            yield from _section(member)


def _table(settings: list[Setting]) -> str:
    headings = ["Key", "Value", "Default", "Variables", "Flag", "What it does"]
    return table(headings, [_row(setting) for setting in settings])


def _row(setting: Setting) -> list[str]:
    flag = "" if setting.field.flag is None else code(setting.field.flag)
    variables = ", ".join(code(name) for name in setting.variables)
    return [
        code(setting.path),
        prose(setting.expected()),
        _default(setting),
        variables,
        flag,
        prose(setting.field.description),
    ]


def _records(path: str, record: Record) -> Iterator[str]:
    """An object, and every object inside it whose members need an explanation."""
    yield f"### {path}"
    yield prose(record.made.__doc__ or "")
    yield _record(record)
    for member in record.members:
        if isinstance(member.type, Record):
            yield from _records(f"{path}.{member.name}", member.type)
        elif isinstance(member.type, Table) and isinstance(member.type.items, Record):
            yield from _records(f"{path}.{member.name}.NAME", member.type.items)


def _record(record: Record) -> str:
    rows = [
        [code(member.name), prose(member.expected()), _default(member), prose(member.field.description)]
        for member in record.members
    ]
    return table(["Key", "Value", "Default", "What it is"], rows)


def _default(setting: Setting) -> str:
    if setting.required:
        return "must be given"
    if setting.default is None:
        return code("null")
    value = setting.to_json(setting.default)
    return code(value if isinstance(value, str) else json.dumps(value))
