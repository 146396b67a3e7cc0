"""Checks of a project: its workflows and what performs them (steps, secrets, models, MCP servers, agents).

It connects to MCP servers, but calls nothing there.

Above it: `command`. Below it: `project.files`, the settings.
"""

from __future__ import annotations

import shutil
import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

from penstock.app.executors.configured import check_extras
from penstock.app.executors.secret_checks import secret_problems
from penstock.app.files.graphs import list_graph_files
from penstock.app.files.named import find_files
from penstock.app.files.trusted import list_trusted_files
from penstock.app.settings.model import Settings
from penstock.app.settings.named import McpServerSettings
from penstock.base import limits
from penstock.base.errors import PenstockError
from penstock.cli.project.files import load_project
from penstock.cli.server.workflow_files import WorkflowFiles, read_named_workflows
from penstock.cli.terminal.checks import Check
from penstock.cli.terminal.console import count_words
from penstock.cli.terminal.hints import command_hint
from penstock.definitions.source.findings import Severity
from penstock.runtime.file_trust import list_risks

__all__ = ["executor_checks", "file_access_checks", "workflow_checks"]

_PORTS = {"http": 80, "https": 443}


def workflow_checks(settings: Settings) -> Iterator[Check]:
    """Check every workflow file (served, or quarantined and why) and the steps that they call."""
    named = read_named_workflows(settings.workflows.paths)
    for source in named.missing:
        message, hint = f"{source.label}: {source.message}", "bring it back, or correct workflows.paths"
        yield Check(name="workflows", status="fail", message=f"{message} (a server does not start)", hint=hint)
    for source in named.unreadable:
        yield Check(name="workflows", status="fail", message=f"{source.label} is left out: {source.message}")
    texts = [(source.label, source.text) for source in named.sources]
    loaded, known = load_project(texts, settings)
    served = [item.workflow.name for item in loaded if item.workflow is not None]
    for item in loaded:
        for finding in item.findings:
            is_error = finding.severity is Severity.ERROR
            message = f"{finding.location or item.file}: {finding.code} {finding.message}"
            left_out = f"{message} (the file is quarantined)" if is_error else message
            yield Check(name="workflows", status="fail" if is_error else "warn", message=left_out, hint=finding.hint)
    if served:
        yield Check(
            name="workflows", status="ok", message=f"{count_words(len(served), 'workflow')}: {', '.join(served)}"
        )
    elif not loaded:
        yield Check(name="workflows", status="skip", message="no files are named (workflows.paths)")
    if known.steps is None:
        problem = known.problem
        message = "the steps cannot be loaded" if problem is None else f"{problem.code}: {problem.message}"
        yield Check(name="steps", status="fail", message=message, hint=None if problem is None else problem.hint)
    else:
        names = sorted(set(known.steps.names()))
        message = ", ".join(names) or "no module is named (steps.modules)"
        yield Check(name="steps", status="ok" if names else "skip", message=message)


def file_access_checks(settings: Settings, settings_file: str | None) -> Iterator[Check]:
    """Warn of files of the operator that other users of this machine can change."""
    files = [*list_trusted_files(settings, settings_file), *WorkflowFiles(settings).list_paths()]
    files += find_files(settings.policy.files, ".cedar").paths
    for graph in settings.declared_graphs.values():
        files += list_graph_files(graph)
    for path in dict.fromkeys(files):
        for risk in list_risks(path):
            yield Check(name="access", status="warn", message=risk.problem, hint=risk.advice)


def executor_checks(settings: Settings) -> Iterator[Check]:
    """Check the libraries, secrets and servers that the settings ask for."""
    try:
        check_extras(settings)
    except PenstockError as error:
        yield Check(name="models", status="fail", message=error.message, hint=command_hint(error))
    else:
        names = ", ".join((*settings.models, *settings.agents))
        yield Check(
            name="models", status="ok" if names else "skip", message=names or "neither models nor agents are set"
        )
    for problem in secret_problems(settings):
        yield Check(
            name="secrets",
            status="warn" if problem.is_warning else "fail",
            message=f"{problem.name}: {problem.message}",
        )
    for name, server in settings.mcp_servers.items():
        yield _server_check(name, server)


def _server_check(name: str, server: McpServerSettings) -> Check:
    if server.disabled:
        return Check(name="servers", status="skip", message=f"{name} is disabled")
    if server.command is not None:
        found = shutil.which(server.command)
        if found is None:
            hint = "install it, or write its whole path"
            return Check(
                name="servers", status="fail", message=f"{name}: there is no program {server.command}", hint=hint
            )
        return Check(name="servers", status="ok", message=f"{name}: {found}")
    parts = urlsplit(server.url or "")
    host, port = parts.hostname or "", parts.port or _PORTS.get(parts.scheme, 0)
    try:
        socket.create_connection((host, port), timeout=limits.DOCTOR_CONNECT_SECONDS_MAX).close()
    except OSError as error:
        message = f"{name}: {host}:{port} cannot be reached ({error.strerror or type(error).__name__})"
        return Check(name="servers", status="fail", message=message, hint="start it, or correct its url in mcp_servers")
    return Check(name="servers", status="ok", message=f"{name}: {host}:{port} answers")
