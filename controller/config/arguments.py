"""The options of every job that say which configuration it runs with, as argparse takes them."""

from __future__ import annotations

import argparse
from pathlib import Path

from controller.config.sources import ENV_CONF


def add_settings_arguments(parser: argparse.ArgumentParser) -> None:
    """`--conf`, `--profile` and `--set`, as `load_settings` takes them."""
    parser.add_argument("--conf", type=Path, help=f"configuration file (YAML); else ${ENV_CONF}")
    parser.add_argument("--profile", help="profile under conf/profiles, such as local or cluster")
    parser.add_argument(
        "--set", action="append", default=[], metavar="SECTION.KEY=VALUE", help="one setting, stronger than the file"
    )
