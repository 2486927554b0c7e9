"""`load_settings` merges the layers of the configuration: defaults < profile < file < environment < overrides.

Raises ConfigError, in one line, for any error in any layer, even if a later layer overrides the value.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from controller.config.checks import check_all
from controller.config.layers import Layer, default_paths, format_value, layer_of_tree
from controller.config.places import resolve_paths
from controller.config.settings import DEFINITIONS, Settings
from controller.config.sources import layer_of_environment, layer_of_overrides, read_yaml
from controller.config.variables import ENV_CONF, ENV_PROFILE
from controller.domain.errors import ConfigError
from controller.process.paths import absolute, home, shipped
from controller.process.plugins import use_installed_strategies

DEFAULT_PROFILE = "local"


def load_settings(
    path: Path | None,
    profile: str | None = None,
    overrides: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
) -> Settings:
    """The effective settings. `env`: by default the environment of the process.

    The operator's file is `path`, else that in BALLAST_CONF, else none. The profile is the argument, else
    BALLAST_PROFILE, else `profile:` in the file, else `local`.
    """
    env = os.environ if env is None else env
    by = ""
    if path is None and env.get(ENV_CONF):
        path, by = Path(absolute(env[ENV_CONF], f"environment variable {ENV_CONF}")), ENV_CONF
    tree = read_yaml(path) if path is not None else {}
    in_file = tree.pop("profile", None)
    name = profile or env.get(ENV_PROFILE) or in_file or DEFAULT_PROFILE
    at_home, own = home(env), path.absolute().parent if path is not None else None
    profiles = shipped(at_home) / "conf" / "profiles"
    file = _profile_file(name, [own / "profiles", profiles] if own is not None else [profiles])
    layers = [
        (default_paths(), at_home),
        (layer_of_tree(_profile_tree(file), f"profile {name}"), at_home if file.parent == profiles else file.parent),
        (layer_of_tree(tree, f"file {path}"), own),
        (layer_of_environment(env), None),
        (layer_of_overrides(overrides), None),
    ]
    values, origins, written = _effective(layers)
    settings = Settings.from_values(values, origins, str(name), written, path, by)
    use_installed_strategies()  # the configuration may name them
    check_all(settings)
    return settings


def _profile_file(name: object, folders: Sequence[Path]) -> Path:
    """The file of a profile, first from a folder `profiles` beside the operator's file, then from the shipped one."""
    available = {file.stem: file for folder in reversed(folders) for file in sorted(folder.glob("*.yaml"))}
    if not available:
        raise ConfigError(f"no profiles in {folders[-1]}: set BALLAST_HOME to the folder that has conf/profiles")
    if not isinstance(name, str) or name not in available:
        raise ConfigError(f"profile = {format_value(name)} is not allowed: give one of {', '.join(sorted(available))}")
    return available[name]


def _profile_tree(file: Path) -> dict[Any, object]:
    tree = read_yaml(file)
    if "profile" in tree:
        raise ConfigError(f"profile = {format_value(tree['profile'])} in {file}: a profile cannot name another")
    return tree


def _effective(layers: Sequence[tuple[Layer, Path | None]]) -> tuple[dict[str, Any], dict[str, str], dict[str, str]]:
    """Values, origins, and relative paths as written. Each layer comes with the folder of its relative paths."""
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    written: dict[str, str] = {}
    for layer, folder in layers:
        for path, given in layer.items():
            definition = DEFINITIONS[path]
            value = resolve_paths(path, given.value, given.origin, folder)
            values[path] = {**values.get(path, {}), **value} if definition.is_mapping else value
            origins[path] = given.origin
            written.pop(path, None)
            if definition.is_path and value != given.value:
                written[path] = given.value
    return values, origins, written
