"""Completion in shells: the scripts, where they are installed, and what a real shell makes of them."""

import os
import shutil
import subprocess
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from penstock.cli.commands.completion import SHELLS, Shell, completion_options, completion_script, install_script
from penstock.cli.lazy_commands import LazyGroup
from penstock.cli.references import LazyCommand

TABLE = {"serve": LazyCommand("nowhere", "", "Serve."), "server": LazyCommand("nowhere", "", "Servers.")}
CHECKS = {
    "bash": ["--norc", "--noprofile", "-c", 'source "$1" && complete -p greet', "bash"],
    "zsh": ["-f", "-c", 'source "$1" && print ${_comps[greet]}', "zsh"],
    "fish": ["--no-config", "-c", "source $argv[1]; complete -c greet"],
}


def command() -> click.Command:
    return LazyGroup("", "Greet.", params=completion_options("greet"), rows=lambda _: TABLE)


@pytest.mark.parametrize("shell", SHELLS)
def test_installing_writes_the_script_and_names_it_once_in_the_settings(shell: Shell, tmp_path: Path) -> None:
    environment = {"HOME": str(tmp_path)}
    script = completion_script(command(), "greet", shell)
    settings = tmp_path / {"bash": ".bashrc", "zsh": ".zshrc", "fish": "none"}[shell]
    if shell != "fish":
        settings.write_text("alias a=b", encoding="utf-8")
    done, again = (install_script(script, "greet", shell, environment) for _ in range(2))
    assert again == done
    assert done.script.read_text(encoding="utf-8") == script
    assert f"_GREET_COMPLETE={shell}_complete" in script
    if shell == "fish":
        assert (done.settings, done.script) == (None, tmp_path / ".config/fish/completions/greet.fish")
    else:
        lines = settings.read_text(encoding="utf-8").splitlines()
        assert lines[0] == "alias a=b"
        assert [str(done.script) in line for line in lines[1:]] == [True]


def test_folders_that_the_environment_names_are_used(tmp_path: Path) -> None:
    names = {"HOME": "/nowhere", "XDG_DATA_HOME": "d", "XDG_CONFIG_HOME": "c", "ZDOTDIR": "z"}
    environment = {name: str(tmp_path / folder) for name, folder in names.items()}
    (tmp_path / "z").mkdir()
    assert install_script("x", "greet", "fish", environment).script == tmp_path / "c/fish/completions/greet.fish"
    zsh = install_script("x", "greet", "zsh", environment)
    assert (zsh.script, zsh.settings) == (tmp_path / "d/greet/completion.zsh", tmp_path / "z/.zshrc")


@pytest.mark.parametrize("shell", [shell for shell in SHELLS if shutil.which(shell)])
def test_a_shell_takes_the_script(shell: Shell, tmp_path: Path) -> None:
    done = install_script(completion_script(command(), "greet", shell), "greet", shell, {"HOME": str(tmp_path)})
    prelude = ["autoload -Uz compinit && compinit -u && "] if shell == "zsh" else [""]
    words = [word.replace('source "$1"', f'{prelude[0]}source "$1"') for word in CHECKS[shell]]
    environment = {**os.environ, "HOME": str(tmp_path)}
    found = subprocess.run(
        [shell, *words, str(done.script)], capture_output=True, text=True, check=True, env=environment, timeout=60
    )
    assert "greet" in found.stdout


def answer(line: str, shell: str) -> list[str]:
    words = line.split(" ")
    environment = {
        "_GREET_COMPLETE": f"{shell}_complete",
        "COMP_WORDS": " ".join(words) if shell != "fish" else " ".join(words[:-1]),
        "COMP_CWORD": str(len(words) - 1) if shell != "fish" else words[-1],
    }
    return CliRunner().invoke(command(), [], prog_name="greet", env=environment).output.splitlines()


@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_is_answered_with_what_fits(shell: str) -> None:
    told = " ".join(answer("greet serv", shell))
    assert "serve" in told
    assert "server" in told
    assert "--help" in " ".join(answer("greet --h", shell))


@pytest.mark.parametrize("shell", SHELLS)
def test_the_options_print_and_install_for_the_shell_that_is_named_or_the_login_shell(
    shell: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "ZDOTDIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "getppid", os.getpid)  # Python, which is no shell
    monkeypatch.setenv("SHELL", f"/usr/bin/{shell}")
    own = CliRunner().invoke(command(), ["--show-completion"], prog_name="greet")
    named = CliRunner().invoke(command(), ["--show-completion", shell], prog_name="greet")
    assert (own.exit_code, own.output) == (0, named.output)
    done = CliRunner().invoke(command(), ["--install-completion"], prog_name="greet")
    assert done.exit_code == 0
    assert f"{shell} completion installed in {tmp_path}" in done.output


def test_an_unknown_login_shell_and_a_folder_that_cannot_be_written_are_mistakes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "getppid", os.getpid)  # Python, which is no shell
    monkeypatch.setenv("SHELL", "/bin/tcsh")
    refused = CliRunner().invoke(command(), ["--show-completion"], prog_name="greet")
    assert refused.exit_code == 2
    assert "SHELL names 'tcsh'; name your shell: bash, zsh, fish" in refused.stderr
    (tmp_path / "file").write_text("", encoding="utf-8")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "file"))
    failed = CliRunner().invoke(command(), ["--install-completion", "bash"], prog_name="greet")
    assert failed.exit_code == 1
    assert "completion cannot be installed" in failed.stderr
