"""Reads layers from YAML files, the environment and `--set` options."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from controller.config.layers import (
    CLIENT,
    PULSAR_SECTION,
    Layer,
    format_value,
    layer_of_names,
)
from controller.config.pulsar_names import PULSAR_NAMES
from controller.config.settings import DEFINITIONS, OVERRIDE, is_secret, reveals_secret
from controller.config.store_options import where_credentials_go
from controller.config.variables import ENV_PREFIX, is_no_setting, unknown_variable_text
from controller.config.yaml_text import MAX_CHARS, parse_yaml, yaml_value
from controller.domain.errors import ConfigError, printable

STORE = "tables.storage_options"
MOST_CHARS = 300  # of what YAML says about a file
MOST_VALUE_CHARS = MAX_CHARS // 8  # on a command line or in the environment: a file can say the same, escapes included


# PyYAML quotes names and values of the file, and its own terms: a character, or a token such as <stream end>.
_QUOTED = re.compile(r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*\"""")
_OF_YAML = re.compile(r".|<[a-z ]+>")


def read_text(path: Path, what: str) -> str:
    """The text of a file that a user named. Raises ConfigError, with `what` it should be, if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8-sig")  # without the mark that editors of Windows write first
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "is no UTF-8 text: save it as UTF-8"
        raise ConfigError(f"cannot read {what} {path}: {reason}") from None


def read_yaml(path: Path) -> dict[Any, object]:
    """The mapping in a YAML file; {} if it is empty. Raises ConfigError with file and line for anything else."""
    text = read_text(path, "configuration file")
    try:
        tree = parse_yaml(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f" line {mark.line + 1}" if mark else ""
        problem = printable(str(getattr(error, "problem", None) or error or "cannot be parsed")[:MOST_CHARS])
        if reveals_secret(text):  # to YAML, a password that begins with * or ! is a name, which it would quote
            problem = _QUOTED.sub(_without_value, problem)
        raise ConfigError(f"configuration file {path}{line} is no YAML that Ballast reads: {problem}") from None
    if tree is None:
        return {}
    if not isinstance(tree, dict):
        hint = ": write key: value, not key=value" if isinstance(tree, str) and "=" in tree else ""
        raise ConfigError(f"configuration file {path} holds {type(tree).__name__}, not sections of keys{hint}")
    return tree


def _without_value(quoted: re.Match[str]) -> str:
    kept = _OF_YAML.fullmatch(quoted[0][1:-1]) is not None
    return quoted[0] if kept else "a value (put passwords in quotes)"


def layer_of_environment(env: Mapping[str, str]) -> Layer:
    """The layer of `BALLAST_<SECTION>__<KEY>` (in any case) and, for Pulsar's names, `BALLAST_PULSAR__<NAME>`.

    `BALLAST_KAFKA__CLIENT__<NAME>` is one setting of the Kafka clients, like `--set kafka.client.NAME`. Raises
    ConfigError for any other variable that begins with BALLAST_, unless `is_no_setting`.
    """
    known = {path.lower(): path for path in DEFINITIONS}
    known |= {f"{PULSAR_SECTION}.{name.lower()}": f"{PULSAR_SECTION}.{name}" for name in PULSAR_NAMES}
    named: list[tuple[str, object, str]] = []
    entries: dict[str, object] = {}
    for variable, text in sorted(env.items()):
        if not variable.upper().startswith(ENV_PREFIX) or is_no_setting(variable, text):
            continue
        wanted = variable[len(ENV_PREFIX) :].lower().replace("__", ".", 1)
        if wanted.startswith(f"{CLIENT}__"):
            name = wanted.removeprefix(f"{CLIENT}__")
            entries[name] = text if is_secret(name) else yaml_value(text)
        elif wanted in known:
            named.append(_from_text(known[wanted], text, f"environment variable {variable}"))
        else:
            raise ConfigError(unknown_variable_text(variable))
    if entries:
        named.append((CLIENT, entries, f"environment variables {ENV_PREFIX}KAFKA__CLIENT__…"))
    return layer_of_names(named)


def layer_of_overrides(overrides: Sequence[str]) -> Layer:
    """The layer of `section.key=value`, `Pulsar's name=value` and `kafka.client.NAME=value`."""
    named: dict[str, tuple[str, object, str]] = {}
    entries: dict[str, dict[str, object]] = {}
    for override in overrides:
        name, equals, text = override.partition("=")
        name = name.strip()
        if not equals or not name:
            raise ConfigError(f"override {format_value(override)} is not allowed: give section.key=value")
        parent = next((p for p, d in DEFINITIONS.items() if d.is_mapping and name.startswith(p + ".")), None)
        if parent:
            entries.setdefault(parent, {})[name[len(parent) + 1 :]] = yaml_value(text)
        else:
            named[name] = _from_text(name, text, OVERRIDE)  # the last of equal names wins, as in a shell
    _check_no_secret(named, entries)
    whole: Iterable[tuple[str, object, str]] = [(path, inner, OVERRIDE) for path, inner in entries.items()]
    return layer_of_names([*named.values(), *whole])


def _check_no_secret(named: Mapping[str, tuple[str, object, str]], entries: Mapping[str, dict[str, object]]) -> None:
    """Raise ConfigError for a secret on the command line, which everybody can see in the list of processes."""
    whole = {name: value for name, value, _ in named.values()}
    for parent, inner in {**whole, **entries}.items():
        secret = next((name for name in inner if is_secret(str(name))), None) if isinstance(inner, Mapping) else None
        if secret is not None:
            raise ConfigError(
                f"override {parent}.{secret} is not allowed: the list of processes shows it to everybody; "
                f"{_where_secrets_go(parent, str(secret))}"
            )


def _where_secrets_go(parent: str, secret: str) -> str:
    if parent == STORE:  # a file or a variable of ours would be refused as well
        return where_credentials_go(secret)
    variable = f"{ENV_PREFIX}{parent}__{secret}".replace(".", "__").upper()
    return f"give it in a file (--conf), or as environment variable {variable}"


def _from_text(name: str, text: str, origin: str) -> tuple[str, object, str]:
    if len(text) > MOST_VALUE_CHARS:
        raise ConfigError(f"{name} ({origin}): a value of {len(text)} characters, at most {MOST_VALUE_CHARS}")
    bare = name.removeprefix(f"{PULSAR_SECTION}.")
    definition = PULSAR_NAMES[bare][1] if bare in PULSAR_NAMES else DEFINITIONS.get(name)
    return name, definition.from_text(text) if definition else text, origin
