"""The command line of a job: the options with which it chooses its configuration, and errors of one line."""

from __future__ import annotations

import argparse
import difflib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from controller.config.variables import ENV_CONF


class OneLineParser(argparse.ArgumentParser):
    """Exits with code 2 and one line for a bad command line; the line names the option nearest to a mistyped one."""

    def error(self, message: str) -> NoReturn:
        mistyped = re.match(r"unrecognized arguments: (--?[^\s=]+)", message)
        if mistyped:
            known = re.findall(r"(?<![\w-])--[\w-]+", self.format_help())
            message = unknown_option_text(mistyped[1], difflib.get_close_matches(mistyped[1], known, n=1))
        self.exit(2, f"{self.prog}: {message}; `{self.prog} --help` tells what there is\n")


def unknown_option_text(option: str, near: Sequence[str]) -> str:
    """What is wrong with an option that does not exist. `near`: those that look like it, the nearest first."""
    return f"no option {option}" + (f", the nearest is {near[0]}" if near else "")


def add_settings_arguments(parser: argparse.ArgumentParser) -> None:
    """Add `--conf`, `--profile` and `--set`, the arguments of `load_settings`."""
    parser.add_argument("--conf", type=Path, help=f"configuration file (YAML); default: ${ENV_CONF}")
    parser.add_argument("--profile", help="profile under conf/profiles, such as local or cluster")
    parser.add_argument(
        "--set", action="append", default=[], metavar="SECTION.KEY=VALUE", help="override one setting; repeatable"
    )
