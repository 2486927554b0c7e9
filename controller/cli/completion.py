"""`ballast completion bash|zsh|fish`: a script that lets the shell complete commands, options and their choices.

The scripts ask `ballast completion words -- WORD…` for what the last word may become. Names of commands need no import
of any of them; options need that of one command.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Annotated, Any

import typer

from controller.cli.options import new_group

BASH = """\
# ballast's commands and options: source this, or put it into /etc/bash_completion.d
_ballast() {
    local IFS=$'\\n'
    COMPREPLY=($(ballast completion words -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _ballast ballast
"""
ZSH = """\
#compdef ballast
# ballast's commands and options: put this as _ballast into a folder of $fpath, or source it after compinit
_ballast() {
    local -a found
    found=("${(@f)$(ballast completion words -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    if [[ -n "${found[1]}" ]]; then compadd -a found; else _files; fi
}
compdef _ballast ballast
"""
FISH = """\
# ballast's commands and options: put this as ballast.fish into ~/.config/fish/completions
complete -c ballast -a '(ballast completion words -- (commandline -opc)[2..-1] (commandline -ct) 2>/dev/null)'
"""
app = new_group("A script that lets your shell complete commands and options: `source <(ballast completion bash)`.")
Words = Annotated[list[str] | None, typer.Argument(help="The words after `ballast`, the last one to be completed.")]


@app.command()
def bash() -> None:
    """Print the script for bash: `source <(ballast completion bash)`."""
    typer.echo(BASH, nl=False)


@app.command()
def zsh() -> None:
    """Print the script for zsh: `source <(ballast completion zsh)`, after compinit."""
    typer.echo(ZSH, nl=False)


@app.command()
def fish() -> None:
    """Print the script for fish: `ballast completion fish | source`."""
    typer.echo(FISH, nl=False)


@app.command(hidden=True)
def words(given: Words = None) -> None:
    """Print what the last of these words may become, one a line."""
    for candidate in candidates_for(given or [""]):
        typer.echo(candidate)


def candidates_for(given: Sequence[str]) -> list[str]:
    """What the last of the words after `ballast` may become; nothing where only the shell can tell, as for files."""
    from controller.cli.main import COMMANDS  # which names this module

    *before, incomplete = given
    if not before:
        return [name for name in COMMANDS if name.startswith(incomplete)]
    if before[0] not in COMMANDS:
        return []
    command: Any = typer.main.get_command(
        getattr(importlib.import_module(COMMANDS[before[0]].module), COMMANDS[before[0]].app)
    )
    own: list[str] = []  # the words since the command's name
    for word in before[1:]:
        sub = getattr(command, "commands", {}).get(word)
        command, own = (sub, []) if sub is not None else (command, [*own, word])
    return sorted({name for name in _names(command, own, incomplete) if name.startswith(incomplete)})


def _names(command: Any, before: Sequence[str], incomplete: str) -> Iterator[str]:
    """The sub-commands and options of a command; where a value has choices, those alone."""
    options = {name: option for option in command.params for name in option.opts if name.startswith("-")}
    wants_value = {name for name, option in options.items() if not getattr(option, "is_flag", False)}
    if before and before[-1] in wants_value:
        yield from _choices(command, options[before[-1]], incomplete)
        return
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    given = sum(word not in options and last not in wants_value for last, word in pairwise(["", *before]))
    chosen = list(_choices(command, arguments[given], incomplete)) if given < len(arguments) else []
    if chosen and not incomplete.startswith("-"):
        yield from chosen
        return
    yield from (name for name, sub in getattr(command, "commands", {}).items() if not sub.hidden)
    yield from (*(name for name in options if name.startswith("--")), "--help")


def _choices(command: Any, parameter: Any, incomplete: str) -> Iterator[str]:
    """The values that an option or argument may have, if these are few (`controller.cli.choices`)."""
    found = parameter.shell_complete(typer.Context(command), incomplete)
    yield from (str(item.value) for item in found if item.type == "plain")
