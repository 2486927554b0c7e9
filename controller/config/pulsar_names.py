"""Pulsar's names of our keys, and the conversion of units.

The names are declared with the keys. A value under Pulsar's name has Pulsar's unit (its MB are MiB) and is multiplied
by the declared factor.
"""

from __future__ import annotations

from controller.config.definition import Definition, PulsarName
from controller.config.settings import DEFINITIONS

PULSAR_NAMES: dict[str, tuple[PulsarName, Definition]] = {
    alias.name: (alias, definition) for definition in DEFINITIONS.values() for alias in definition.pulsar
}


def to_our_unit(alias: PulsarName, value: object) -> object:
    """The value in our unit. Anything but a number is left to validation."""
    if alias.factor == 1 or isinstance(value, bool) or not isinstance(value, (int, float)):
        return value
    ours = value * alias.factor
    return int(ours) if isinstance(ours, float) and ours.is_integer() else ours


def with_spelling_rule(given: dict[str, object]) -> dict[str, object]:
    """Apply Pulsar's rule for its two misspelt weights to the Pulsar names of one layer.

    The misspelt weight is only read if the correctly spelt one is exactly 1.0. So, as in Pulsar, a stale misspelt value
    cannot be overridden by 1.0.
    """
    result = dict(given)
    for alias, _ in PULSAR_NAMES.values():
        if not alias.misspelling_of or alias.name not in result or alias.misspelling_of not in result:
            continue
        well_spelt_is_default = result[alias.misspelling_of] == 1.0
        del result[alias.misspelling_of if well_spelt_is_default and result[alias.name] != 1.0 else alias.name]
    return result
