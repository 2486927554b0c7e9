"""One layer of the configuration: the values of a file, the environment or the command line, in our keys and units.

Within a layer, two names of a setting must not have different values: `rounds.round_interval_s` and Pulsar's
`loadBalancerSheddingIntervalMinutes` are refused then, naming both. A later layer may override an earlier one under any
name. Every error is one line: key, value, place, what is allowed.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from controller.config.definition import Definition, PulsarName
from controller.config.pulsar_names import PULSAR_NAMES, to_our_unit, with_spelling_rule
from controller.config.settings import DEFINITIONS, HIDDEN, Settings, is_secret, reveals_secret
from controller.config.yaml_text import yaml_value
from controller.domain.errors import ConfigError, label, printable, without_login

PULSAR_SECTION = "pulsar"
CLIENT = "kafka.client"  # the mapping that holds secrets
SECTIONS = tuple(Settings.model_fields)


@dataclass(frozen=True, slots=True)
class Given:
    """A value of a layer: `spelled` and `raw` as written, `value` in our type and unit."""

    path: str
    value: Any
    spelled: str
    raw: object
    origin: str

    def __str__(self) -> str:
        return f"{label(self.spelled)} = {format_value(self.raw, self.spelled)}"


Layer = dict[str, Given]


def layer_of_tree(tree: Mapping[Any, object], origin: str) -> Layer:
    """The layer of a parsed file: sections of keys, Pulsar's names at the top or under `pulsar:`."""
    flat: list[tuple[str, object, str]] = []
    for top, inner in tree.items():
        if top in SECTIONS or top == PULSAR_SECTION:
            if inner is None:  # a section with all its keys commented out
                continue
            if not isinstance(inner, Mapping):
                raise ConfigError(
                    f"{top} = {format_value(inner)} in {origin} is a section: give its keys below it, indented"
                )
            flat += [(f"{top}.{name}", value, origin) for name, value in inner.items()]
        else:
            flat.append((str(top), inner, origin))
    return layer_of_names(flat)


def default_paths() -> Layer:
    """The layer of those defaults that are paths, which must be resolved like others."""
    paths = [(path, d.default) for path, d in DEFINITIONS.items() if d.is_path]
    return {path: Given(path, default, path, default, "default") for path, default in paths}


def layer_of_names(named: Iterable[tuple[str, object, str]]) -> Layer:
    """The layer of (name, value, origin) triples; names are `section.key`, Pulsar's name, or `pulsar.<that name>`."""
    ours: list[Given] = []
    pulsar: dict[str, tuple[str, object, str]] = {}
    for spelled, raw, origin in named:
        bare = spelled.removeprefix(f"{PULSAR_SECTION}.")
        if bare in PULSAR_NAMES:
            _agree(pulsar.get(bare), (spelled, raw, origin))
            pulsar[bare] = (spelled, raw, origin)
        elif spelled in DEFINITIONS:
            definition = DEFINITIONS[spelled]
            ours.append(Given(spelled, validate_value(definition, raw, spelled, origin), spelled, raw, origin))
        else:
            raise ConfigError(unknown_key_text(spelled, origin))
    return _merge(ours + _from_pulsar(pulsar))


def _agree(first: tuple[str, object, str] | None, second: tuple[str, object, str]) -> None:
    if first is not None and first[1] != second[1]:
        raise ConfigError(_contradiction(*(Given("", None, *said) for said in (first, second))))


def _from_pulsar(said: Mapping[str, tuple[str, object, str]]) -> list[Given]:
    checked = {}
    for name, (spelled, raw, origin) in said.items():
        alias, definition = PULSAR_NAMES[name]
        checked[name] = validate_value(definition, to_our_unit(alias, raw), spelled, origin, alias, raw)
    kept = with_spelling_rule(checked)
    return [Given(PULSAR_NAMES[name][1].path, value, *said[name]) for name, value in kept.items()]


def _merge(given: Iterable[Given]) -> Layer:
    layer: Layer = {}
    for one in given:
        other = layer.get(one.path)
        if other is not None and other.value != one.value:
            raise ConfigError(_contradiction(other, one))
        layer.setdefault(one.path, one)
    return layer


def validate_value(
    definition: Definition,
    value: object,
    spelled: str,
    origin: str,
    alias: PulsarName | None = None,
    raw: object = None,
) -> Any:
    """The value in the type of the key. Raises ConfigError, which says what is allowed under the name that was used."""
    try:
        return definition.validate(value)
    except ValidationError as error:
        if spelled == CLIENT and isinstance(value, Mapping):
            raise ConfigError(_wrong_entry(error, value, origin)) from None
        if _fits_as_text(definition, value):
            raise ConfigError(
                f"{spelled} = {format_value(value, spelled)} in {origin} is no text to YAML: put it in quotes"
            ) from None
        allowed = definition.describe_allowed(alias.factor, alias.unit) if alias else definition.describe_allowed()
        written = value if alias is None else raw
        also = f"; in Ballast's words {definition.path}" if alias else ""
        message = f"{spelled} = {format_value(written, spelled)} in {origin} is not allowed: give {allowed}{also}"
        raise ConfigError(message) from None


def _fits_as_text(definition: Definition, value: object) -> bool:
    """Whether a number, a switch or a date would be allowed if it were written in quotes."""
    if definition.base is not str or value is None or isinstance(value, (str, Mapping, Sequence)):
        return False
    try:
        definition.validate(str(value).lower() if isinstance(value, bool) else str(value))
    except ValueError:  # pydantic's ValidationError is one; Python writes no integer of more than 4,300 digits
        return False
    return True


def _wrong_entry(error: ValidationError, entries: Mapping[Any, object], origin: str) -> str:
    """The error for a setting of the Kafka clients that is no value. Whatever it is may be secret."""
    given = error.errors(include_input=False, include_url=False)[0]["loc"][0]
    name = _without_value(str(given))
    value = entries.get(given)
    got = {dict: "a mapping", list: "a list", type(None): "nothing"}.get(type(value), "neither")
    advice = "; put passwords in quotes" if value is not None and is_secret(name) else ""
    wanted = "expected text, a number or true or false"
    return f"{CLIENT}.{label(name)} in {origin} is not allowed: {wanted}, got {got}{advice}"


def unknown_key_text(spelled: str, origin: str) -> str:
    """The error for an unknown key, with the nearest known one. Whatever its value is may be secret."""
    near = nearest(spelled)
    advice = f"the nearest known key is {near}" if near else "docs/configuration.md lists all keys"
    return f"unknown key {label(_without_value(spelled))} in {origin}; {advice}"


def _without_value(name: str) -> str:
    """For a name like `password=x`, x must not be shown."""
    return re.split(r"[=:\s]", name, maxsplit=1)[0]


def nearest(spelled: str) -> str | None:
    """The known key that is closest to a mistyped one: by full path, by bare name, by Pulsar's name."""
    names = {path.lower(): path for path in (*DEFINITIONS, *SECTIONS, *PULSAR_NAMES)}
    found = difflib.get_close_matches(spelled.lower(), names, n=1, cutoff=0.75)
    if not found:  # the right key in the wrong section, or in none
        names = {d.name.lower(): d.path for d in DEFINITIONS.values()} | {n.lower(): n for n in PULSAR_NAMES}
        found = difflib.get_close_matches(spelled.lower().split(".", 1)[-1], names, n=1, cutoff=0.75)
    return names[found[0]] if found else None


def format_value(value: object, name: str = "") -> str:
    """A value on one short line, in YAML's form; values that may be secret are hidden."""
    of_clients = name == CLIENT
    if is_secret(name) or (of_clients and not isinstance(value, Mapping)):
        return HIDDEN
    if isinstance(value, Mapping):  # a mistyped name may contain anything
        value = {inner: HIDDEN if of_clients or is_secret(str(inner)) else one for inner, one in value.items()}
    if value is None or isinstance(value, bool):
        text = "empty" if value is None else str(value).lower()
    elif isinstance(value, str) and len(value) <= 80 and yaml_value(value) != value:
        text = repr(value)  # the text '85', not the number
    elif isinstance(value, (list, tuple)):
        text = f"[{', '.join(map(str, value))}]"
    else:
        text = str(value)
    text = printable(without_login(" ".join(text.split())))
    if reveals_secret(text):
        return HIDDEN
    return text if len(text) <= 80 else text[:77] + "..."


def _contradiction(first: Given, second: Given) -> str:
    where = first.origin if first.origin == second.origin else f"{first.origin} and {second.origin}"
    return f"{first} and {second} in {where} name the same setting with different values: keep one of them"
