"""The argparse options with which every job chooses its configuration."""

from __future__ import annotations

import argparse
from pathlib import Path

from controller.config.sources import ENV_CONF


def add_settings_arguments(parser: argparse.ArgumentParser) -> None:
    """Add `--conf`, `--profile` and `--set`, the arguments of `load_settings`."""
    parser.add_argument("--conf", type=Path, help=f"configuration file (YAML); default: ${ENV_CONF}")
    parser.add_argument("--profile", help="profile under conf/profiles, such as local or cluster")
    parser.add_argument(
        "--set", action="append", default=[], metavar="SECTION.KEY=VALUE", help="override one setting; repeatable"
    )
