"""`penstock runs`: the commands about runs, put together."""

from __future__ import annotations

import typer

from penstock.cli.runs_change import (
    answer_command,
    cancel_command,
    fork_command,
    lease_command,
    pause_command,
    resume_command,
    retry_command,
    signal_command,
    submit_command,
)
from penstock.cli.runs_look import history_command, list_command, query_command, show_command, watch_command

__all__ = ["runs_app"]

runs_app = typer.Typer(name="runs", help="Look at runs and change them.", no_args_is_help=True)
runs_app.command("list")(list_command)
runs_app.command("show")(show_command)
runs_app.command("history")(history_command)
runs_app.command("watch")(watch_command)
runs_app.command("answer")(answer_command)
runs_app.command("signal")(signal_command)
runs_app.command("lease")(lease_command)
runs_app.command("submit")(submit_command)
runs_app.command("pause")(pause_command)
runs_app.command("resume")(resume_command)
runs_app.command("cancel")(cancel_command)
runs_app.command("retry")(retry_command)
runs_app.command("fork")(fork_command)
runs_app.command("query")(query_command)
