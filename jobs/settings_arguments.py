"""The options of every job that say which configuration it runs with."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from controller.config.sources import ENV_CONF


def add_settings_arguments(parser: argparse.ArgumentParser) -> None:
    """`--conf`, `--profile` and `--set`, as `load_settings` takes them."""
    parser.add_argument(
        "--conf",
        type=Path,
        default=os.environ.get(ENV_CONF) or None,
        help=f"configuration file (YAML); else ${ENV_CONF}",
    )
    parser.add_argument("--profile", help="profile under conf/profiles, such as local or cluster")
    parser.add_argument(
        "--set", action="append", default=[], metavar="SECTION.KEY=VALUE", help="one setting, stronger than the file"
    )
