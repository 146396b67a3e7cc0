"""`penstock policy explain` and `penstock policy replay`: what a server's policies decide, or would.

Exit codes of `explain`: 0 when the call would be permitted, 1 when not. Of `replay`: 0 when nothing would change, 1
when something would.
"""

from __future__ import annotations

import json
from typing import Annotated, Any

from penstock.app.files.policies import read_policy_texts
from penstock.base.errors import PenstockError
from penstock.base.json import JsonObject
from penstock.cli.declaration import Argument, Option, echo
from penstock.cli.policy.files import FilesArgument
from penstock.cli.targets.clients import open_client
from penstock.cli.targets.selection import ProfileOption, ServerOption, TargetFileOption, choose_target
from penstock.cli.targets.settings import ConfigOption, command_settings
from penstock.cli.terminal.exits import JsonOption, exit_with, print_json
from penstock.cli.terminal.values import UsageError, parse_value
from penstock.client.operations import find_operation

__all__ = ["explain_command", "replay_command"]

_KEY = "key:"


def explain_command(  # noqa: PLR0913  # every option is one the user can give
    action: Annotated[str, Argument(metavar="TOOL", help="A tool, a workflow or an operation.")],
    *,
    acting_as: Annotated[
        str | None,
        Option("--as", metavar="WHO", help="`key:NAME`, or a principal as JSON; you without it."),
    ] = None,
    arguments: Annotated[str, Option("--arguments", metavar="JSON", help="The arguments of the call.")] = "{}",
    surface: Annotated[str, Option("--surface", help="Where they call: mcp, rest, cli, schedule.")] = "mcp",
    remote: Annotated[str | None, Option("--remote", metavar="ADDRESS", help="Where they call from.")] = None,
    target_server: ServerOption = None,
    target_profile: ProfileOption = None,
    target_file: TargetFileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Explain what would happen to a call.

    Whether it is listed, whether it would be permitted with these arguments, and which policies say so.
    """

    def work() -> int:
        given: JsonObject = {
            "action": action,
            "arguments": parse_value(arguments, "--arguments"),
            "surface": surface,
            **_who(acting_as),
            **({"remote": remote} if remote is not None else {}),
        }
        operation = find_operation("policy.explain")
        with open_client(choose_target(target_server, target_profile, target_file), operation) as client:
            found: Any = client.call(operation.name, given)
        if as_json:
            print_json(found)
        else:
            echo("\n".join(_explained(found)))
        return 0 if found["call"] == "permitted" else 1

    exit_with(work, as_json=as_json)


def _who(acting_as: str | None) -> JsonObject:
    if acting_as is None:
        return {}
    if acting_as.startswith(_KEY):
        return {"key": acting_as.removeprefix(_KEY)}
    try:
        principal = json.loads(acting_as)
    except ValueError:
        raise UsageError(f"--as: {acting_as!r} is neither key:NAME nor a principal as JSON") from None
    return {"principal": principal}


def _explained(found: dict[str, Any]) -> list[str]:
    """Return the lines for people."""
    needed = f"scope {', '.join(found['scopes'])}" if found["scopes"] else "no scope"
    names = _policies(found["listed_by"])
    listed = f"listed: {'yes' if found['listed'] else 'no'} ({', '.join(filter(None, (names, needed)))})"
    by, why = _policies(found["policies"]), "; ".join(found["reasons"])
    words = {
        "permitted": "permitted",
        "forbidden": "refused",
        "held": f"held ({found['held_because']}) until {found['quorum']} of {', '.join(found['approvers'])} approve it",
        "approval": f"needs approval by {found['quorum']} of {', '.join(found['approvers'])}",
        "scope_missing": f"refused: the scope {found['missing_scope']} is missing",
        "arguments_unfit": "refused: the arguments cannot be compared with policies",
    }
    call = f"call:   {words[found['call']]}" + (f" ({by})" if by else "") + (f": {why}" if why else "")
    lines = [listed, call]
    if found.get("hidden"):
        lines.append(f"hidden: {', '.join(found['hidden'])}")
    if found["shadow"] is not None:
        lines.append(f"shadow: would be {found['shadow']} ({_policies(found['shadow_policies']) or 'no policy'})")
    return lines


def _policies(names: list[str]) -> str:
    shown = ", ".join(f'"{name}"' for name in names)
    return f"polic{'y' if len(names) == 1 else 'ies'} {shown}" if names else ""


def replay_command(  # noqa: PLR0913  # every option is one the user can give
    files: FilesArgument = None,
    *,
    last: Annotated[int, Option("--last", metavar="N", min=1, help="How many records to look at.")] = 1_000,
    config: ConfigOption = None,
    target_server: ServerOption = None,
    target_profile: ProfileOption = None,
    target_file: TargetFileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Decide the last recorded calls again with these policies.

    Says how many would now be refused, need an approval or be permitted. Only a digest of arguments is kept, so calls
    whose arguments the policies look at can be decided only if they started a run; the others are counted.
    """

    def work() -> int:
        settings = command_settings(config, {}, as_json=as_json).settings
        try:
            texts = read_policy_texts(files or settings.policy.files)
        except PenstockError as error:
            raise UsageError(error.message) from None
        if not texts:
            raise UsageError("there are no policies: name files, or folders with .cedar files")
        operation = find_operation("policy.replay")
        given: JsonObject = {"text": "\n".join(text for _, text in texts), "last": last}
        with open_client(choose_target(target_server, target_profile, target_file), operation) as client:
            found: Any = client.call(operation.name, given)
        if as_json:
            print_json(found)
        else:
            echo("\n".join(_replayed(found)))
        return 1 if found["changes"] else 0

    exit_with(work, as_json=as_json)


def _replayed(found: dict[str, Any]) -> list[str]:
    calls = f"{found['calls']:,}"
    lines = [
        f"{item['at']}  {item['principal']}  {item['operation']}{' ' + item['subject'] if item['subject'] else ''}: "
        f"{item['before']} -> {item['after']}"
        + (f" ({_policies(item['policies'])})" if item["policies"] else "")
        + (f", {item['count']} times" if item["count"] > 1 else "")
        for item in found["changes"]
    ]
    lines.append(f"{found['would_be_refused']:,} of {calls} calls would now be refused")
    if found["would_need_approval"]:
        lines.append(f"{found['would_need_approval']:,} of {calls} calls would now need an approval")
    if found["would_be_permitted"]:
        lines.append(f"{found['would_be_permitted']:,} of {calls} calls that were refused would now be permitted")
    if found["undecidable"]:
        lines.append(f"{found['undecidable']:,} calls cannot be decided: only a digest of their arguments is kept")
    if found["unknown"]:
        lines.append(f"{found['unknown']:,} calls are of things that do not exist any more")
    return lines
