"""`penstock server verify`: check from outside how a server governs agents.

Exit codes: 0 when no check failed, 1 when one did, 2 when the kit could not be run.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from penstock.cli.declaration import Option, echo
from penstock.cli.terminal.exits import JsonOption, exit_with, print_json
from penstock.cli.terminal.values import UsageError
from penstock.cli.verify.checks import Check, CheckResult
from penstock.cli.verify.fresh_server import fresh_server
from penstock.cli.verify.profiles.listing import PROFILES
from penstock.cli.verify.report import report_json, summary_lines
from penstock.cli.verify.runner import run_checks
from penstock.cli.verify.target import Target

__all__ = ["chosen_checks", "verify_command"]

# The published runner of the profile reads its address and token from variables of these prefixes.
_RUNNER_PREFIXES = ("PENSTOCK_VERIFY_", "OPENPORT_", "OPENMCP_")


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyOptions:
    """Which server, and which checks."""

    url: Annotated[str | None, Option("--url", help="The server; without one, a fresh server is checked.")] = None
    key: Annotated[str | None, Option("--key", help="A token of the agent plane, with every scope.")] = None
    admin_key: Annotated[
        str | None, Option("--admin-key", help="A key of the admin plane, to make the keys that are tested with.")
    ] = None
    approver_key: Annotated[
        str | None,
        Option("--approver-key", help="A key of somebody else, who approves; the admin key without one."),
    ] = None
    admin_header: Annotated[
        list[str] | None,
        Option("--admin-header", metavar="NAME:VALUE", help="A header of the admin plane; repeatable."),
    ] = None
    mcp_path: Annotated[str, Option("--mcp-path", help="Where the server speaks MCP.")] = "/mcp"
    profile: Annotated[str, Option("--profile", help=f"Which profiles, with commas: {', '.join(PROFILES)}.")] = (
        ",".join(PROFILES)
    )
    check: Annotated[list[str] | None, Option("--check", metavar="ID", help="Only this check; repeatable.")] = None

    def target(self) -> Target | None:
        """Return the server to check; None for a fresh one."""
        url, key = self.url or _variable("BASE_URL"), self.key or _variable("AGENT_TOKEN")
        admin_key = self.admin_key or _variable("ADMIN_KEY")
        if url is None:
            if key or admin_key or self.admin_header:
                raise UsageError("keys belong to a server: say which with --url")
            return None
        if not url.startswith(("http://", "https://")):
            raise UsageError(f"{url!r} is not the address of a server: write it like https://example.com")
        headers = dict(_header(text) for text in self.admin_header or ())
        return Target(
            url=url,
            key=key,
            admin_key=admin_key,
            approver_key=self.approver_key or _variable("APPROVER_KEY"),
            admin_headers=headers,
            mcp_path=self.mcp_path,
        )


def verify_command(
    *,
    options: VerifyOptions,
    listing: Annotated[bool, Option("--list", help="List the checks instead of running them.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Check from outside how a server governs agents, over HTTP and MCP.

    The kit knows a server only by its address and its keys, so that anybody can check any server with it. It makes
    apps, keys, drafts and transactions in the demo ledger; do not point it at data that matters. A check that cannot be
    tried on a server is reported as not applicable, with the reason, and never as passed. Exits with 1 when a check
    failed.
    """

    def work() -> int:
        checks = chosen_checks(options.profile, options.check or ())
        if listing:
            _print_checks(checks, as_json=as_json)
            return 0
        results = _results(options.target(), checks, as_json=as_json)
        if as_json:
            print_json(report_json(results))
        else:
            echo("\n".join(summary_lines(results)))
        return 0 if report_json(results)["ok"] else 1

    exit_with(work, as_json=as_json)


def chosen_checks(profiles: str, ids: Sequence[str]) -> list[Check]:
    """Return the checks of some profiles, or those with some ids; raise `UsageError` for unknown names."""
    names = [name.strip() for name in profiles.split(",") if name.strip()]
    unknown = [name for name in names if name not in PROFILES]
    if unknown or not names:
        raise UsageError(
            f"there is no profile {', '.join(unknown) or 'without a name'}: choose of {', '.join(PROFILES)}"
        )
    found = [check for profile in PROFILES.values() if profile.name in names for check in profile.checks]
    if not ids:
        return found
    known = {check.id for check in found}
    missing = [check_id for check_id in ids if check_id not in known]
    if missing:
        raise UsageError(f"there is no check {', '.join(missing)}: see `penstock server verify --list`")
    return [check for check in found if check.id in set(ids)]


def _variable(name: str, environment: Mapping[str, str] = os.environ) -> str | None:
    return next((environment[prefix + name] for prefix in _RUNNER_PREFIXES if environment.get(prefix + name)), None)


def _header(text: str) -> tuple[str, str]:
    name, separator, value = text.partition(":")
    if not separator or not name.strip():
        raise UsageError(f"{text!r} is not a header: write it as NAME:VALUE")
    return name.strip().lower(), value.strip()


def _results(target: Target | None, checks: Sequence[Check], *, as_json: bool) -> list[CheckResult]:
    def done(result: CheckResult) -> None:
        if not as_json and result.status == "failed":
            echo(f"✗ {result.check.id}", err=True)

    if target is not None:
        return asyncio.run(run_checks(target, checks, done=done))
    with fresh_server() as fresh:
        if not as_json:
            echo(f"a fresh server at {fresh.url}, preset strict, with the demo ledger", err=True)
        return asyncio.run(run_checks(fresh, checks, done=done))


def _print_checks(checks: Sequence[Check], *, as_json: bool) -> None:
    if as_json:
        print_json([{"id": check.id, "requirement": check.requirement, "why": check.why} for check in checks])
        return
    for check in checks:
        echo(f"{check.id}  {check.requirement}")
