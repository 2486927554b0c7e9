"""Writes a recommendation as a configuration snippet: YAML that the loader accepts, with the reasons as comments.

Knobs have the names and units of `PolicySettings`, keys those of the file. A key is used if loading it gives the knob
its value, so that the snippet says exactly what was run. Values that no key can express, or that the loader refuses,
become comments.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import yaml

from controller.backtest.choose.recommend import Recommendation
from controller.backtest.point.grid import Value
from controller.config.load import load_settings
from controller.config.policy_values import policy_settings
from controller.config.pulsar_names import PULSAR_NAMES, to_our_unit
from controller.config.settings import DEFINITIONS, Settings
from controller.domain.errors import BallastError, ConfigError
from controller.domain.settings.policy import MIB, PolicySettings
from controller.domain.settings.pulsar import pulsar_name

WIDTH = 118
NO_KEY = "no key of the configuration says that"
Load = Callable[[list[str]], Settings]  # loads the effective settings with these overrides
_PER_KNOB: dict[str, tuple[str, float]] = {  # knob: key, and what its value is multiplied by
    "strategy": ("rounds.strategy", 1),
    "max_report_age_ms": ("rounds.max_report_age_s", 1 / 1000),
    "shed.overloaded_threshold": ("shedding.overloaded_threshold_pct", 100),
    "shed.difference": ("shedding.difference_points", 100),
    "shed.grace_period_ms": ("shedding.grace_period_minutes", 1 / 60_000),
    "shed.target_margin": ("shedding.target_margin_pct", 100),
    "split.max_bandwidth_bytes_per_s": ("split.max_bandwidth_mbytes", 1 / MIB),
    "caps.max_bundle_memory_bytes": ("broker.max_memory", 1),
    "caps.max_throughput_bytes_per_s": ("broker.max_net_usage", 1),
}
_SECTIONS = {"shed": "shedding", "caps": "broker"}
_SUFFIXES = (("", "", 1), ("", "_pct", 100), ("_bytes_per_s", "", 1), ("_bytes", "", 1))  # knob's, key's, factor


def _alone(overrides: list[str]) -> Settings:
    return load_settings(None, None, overrides, env={})


def check_values(knobs: Collection[tuple[str, Value]], load: Load) -> None:
    """Raise ConfigError for a value that the key of its knob does not allow; knobs without a key have no range."""
    for name, value in sorted(knobs, key=repr):
        found, refused = _key_of(name, value, load)
        if found is None and refused != NO_KEY:
            raise ConfigError(f"--grid {name}={value}: {refused}")


def snippet(recommendation: Recommendation, title: str) -> str:
    """The text of recommendation.yaml."""
    named = {} if recommendation.strategy is None else {"strategy": recommendation.strategy}
    tree, left_over = conf_tree({**named, **recommendation.settings})
    sure = str(recommendation.confidence)
    told = [title, recommendation.verdict.text, f"{sure[0].upper()}{sure[1:]}.", *recommendation.reasons]
    lines = [*_comments(told)]
    lines += yaml.safe_dump(tree, sort_keys=True).splitlines() if tree else []
    lines += _comments([*left_over, *recommendation.advice])
    return "\n".join(lines) + "\n"


def conf_tree(settings: Mapping[str, Value | str]) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """Section -> key -> value, and a sentence for each knob that cannot be written."""
    tree: dict[str, dict[str, Any]] = {}
    left_over = []
    for name, value in settings.items():
        found, refused = _key_of(name, value)
        if found is None:
            left_over.append(f"{name} {json.dumps(value)} is left out: {refused}.")
        else:
            section, key = found[0].split(".")
            if tree.setdefault(section, {}).setdefault(key, found[1]) != found[1]:  # one key may say two knobs
                left_over.append(f"{name} {json.dumps(value)} is left out: {found[0]} says another knob already.")
    return tree, left_over


def keys_of(knob: str) -> list[str]:
    """Configuration keys that may set the knob, the most likely one first."""
    return [path for path, _ in _candidates(knob, 1) if path in DEFINITIONS]


@lru_cache(maxsize=1_024, typed=True)
def key_and_value(knob: str, value: Value) -> tuple[str, Any] | None:
    """The key that gives the knob this value, and the value in the key's unit; None if no key says that."""
    return _key_of(knob, value)[0]


def _key_of(name: str, value: Value | str, load: Load = _alone) -> tuple[tuple[str, Any] | None, str]:
    """The key and its value, or the reason why there is none."""
    refused = NO_KEY
    for path, ours in _candidates(name, value):
        try:
            word = ours if isinstance(ours, str) else json.dumps(ours)
            loaded = policy_settings(load([f"{path}={word}"]))
        except BallastError as error:
            refused = str(error)
            continue
        if _knob(loaded, name) == value:
            return (path, ours), ""
    return None, refused


def _candidates(name: str, value: Value | str) -> Iterator[tuple[str, Any]]:
    section, _, knob = name.rpartition(".")
    if name in _PER_KNOB:
        path, factor = _PER_KNOB[name]
        yield path, _scale(value, factor)
    if section == "weights":
        yield f"shedding.{knob}_weight", value
    if section == "pulsar" and pulsar_name(knob) in PULSAR_NAMES:
        alias, definition = PULSAR_NAMES[pulsar_name(knob)]
        yield definition.path, to_our_unit(alias, value)
    for theirs, ours, factor in _SUFFIXES:
        path = f"{_SECTIONS.get(section, section)}.{knob.removesuffix(theirs)}{ours}"
        if path in DEFINITIONS:
            yield path, _scale(value, factor)


def _scale(value: Value | str, factor: float) -> Any:
    """The value in the unit of the key; whole numbers become int."""
    if value is None or isinstance(value, bool | str) or factor == 1:
        return value
    scaled = round(float(value * factor), 9)
    return int(scaled) if scaled.is_integer() else scaled


def _knob(settings: PolicySettings, name: str) -> Any:
    found: Any = settings
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def _comments(sentences: Sequence[str]) -> Iterator[str]:
    """Comment lines. White space is collapsed, so that a sentence cannot end its comment."""
    for sentence in sentences:
        for line in textwrap.wrap(" ".join(sentence.split()), WIDTH - 2, break_long_words=False) or [""]:
            yield f"# {line}".rstrip()
