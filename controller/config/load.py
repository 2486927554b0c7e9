"""`load_settings`: defaults < profile < file < environment < overrides.

Raises ConfigError, one line, for whatever cannot be understood in any layer, also where a later layer would have
hidden it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from controller.config.checks import check_all
from controller.config.layers import Layer, layer_of_tree, shown
from controller.config.settings import DEFINITIONS, Settings
from controller.config.sources import ENV_PROFILE, layer_of_environment, layer_of_overrides, read_yaml
from controller.domain.errors import ConfigError

DEFAULT_PROFILE = "local"


def load_settings(
    path: Path | None,
    profile: str | None = None,
    overrides: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
) -> Settings:
    """The effective settings. `path`: the operator's file; `env`: the process's environment unless given.

    The profile is the argument, else BALLAST_PROFILE, else the file's `profile:`, else `local`.
    """
    env = os.environ if env is None else env
    tree = read_yaml(path) if path is not None else {}
    in_file = tree.pop("profile", None)
    name = profile or env.get(ENV_PROFILE) or in_file or DEFAULT_PROFILE
    layers = [
        layer_of_tree(_profile_tree(name, _profile_folders(path, env)), f"profile {name}"),
        layer_of_tree(tree, f"file {path}"),
        layer_of_environment(env),
        layer_of_overrides(overrides),
    ]
    values, origins = _effective(layers)
    settings = Settings.made_of(values, origins, str(name))
    check_all(settings)
    return settings


def _profile_folders(path: Path | None, env: Mapping[str, str]) -> list[Path]:
    """A `profiles` folder beside the operator's file comes first, then the shipped one."""
    home = env.get("BALLAST_HOME")
    shipped = (Path(home) if home else Path(__file__).resolve().parents[2]) / "conf" / "profiles"
    return [path.parent / "profiles", shipped] if path is not None else [shipped]


def _profile_tree(name: object, folders: Sequence[Path]) -> dict[Any, object]:
    available = {file.stem: file for folder in reversed(folders) for file in sorted(folder.glob("*.yaml"))}
    if not isinstance(name, str) or name not in available:
        raise ConfigError(f"profile = {shown(name)} is not allowed: give one of {', '.join(sorted(available))}")
    tree = read_yaml(available[name])
    if "profile" in tree:
        raise ConfigError(f"profile = {shown(tree['profile'])} in {available[name]}: a profile cannot name another")
    return tree


def _effective(layers: Sequence[Layer]) -> tuple[dict[str, Any], dict[str, str]]:
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for layer in layers:
        for path, given in layer.items():
            passed_through = DEFINITIONS[path].is_mapping
            values[path] = {**values.get(path, {}), **given.value} if passed_through else given.value
            origins[path] = given.origin
    return values, origins
