"""What is kept of a usage model beyond the process that learned it: the bundles known best, and a hash of it all.

A bundle of which no more is known than of any other is as good as a new one. So of a large cluster only the bundles
that differ most from the prior are kept. The same model gives the same bundles and the same hash on every machine.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache

import numpy as np

from controller.policy.usage.drivers import DRIVERS, Drivers
from controller.policy.usage.model import FACTOR_SPREAD, BrokerStates, BundleStates, UsageModel, name_columns
from controller.policy.view.costs import Floats
from controller.policy.view.frame import Ints

MOST_BUNDLES = 20_000
MEANING = 1  # raise it when a field of the model keeps its name and gets another meaning or unit
STATES = ("brokers", "bundles")


@dataclass(frozen=True, eq=False)
class Learned:
    """A usage model and the newest round that it learned from, `at_ms` on the axis of the load reports."""

    model: UsageModel = field(default_factory=UsageModel)
    at_ms: int = 0


def name_scalars() -> list[str]:
    """The fields of the model that are one number."""
    return [scalar.name for scalar in fields(UsageModel) if scalar.name not in ("drivers", *STATES)]


def describe_layout() -> str:
    """Names the fields that a stored model has, so that no other version takes it for its own."""
    drivers = [column.name for column in fields(Drivers)]
    parts = (name_scalars(), drivers, name_columns(BrokerStates), name_columns(BundleStates), DRIVERS)
    return f"{MEANING}-{hashlib.sha256(repr(parts).encode()).hexdigest()[:12]}"


def keep_best_known(model: UsageModel, most: int = MOST_BUNDLES) -> UsageModel:
    """The model with the `most` bundles whose loss would change most; of equals the first by name."""
    states = model.bundles
    if len(states.names) <= most:
        return model
    kept = _largest(_worth(states), most)
    columns = {name: getattr(states, name)[kept] for name in name_columns(BundleStates)}
    names = tuple(map(states.names.__getitem__, kept.tolist()))
    return replace(model, bundles=BundleStates(names=names, **columns))


def _worth(states: BundleStates) -> Floats:
    """[N] how much is known of bundles that is not known of new ones: a factor one standard deviation off counts as
    much as a certain one, or a remembered burst."""
    off = np.abs(states.factor - 1) / FACTOR_SPREAD
    certain = 1 - states.variance / FACTOR_SPREAD**2
    return np.nan_to_num(off + certain + (states.burst > 0))


def _largest(worth: Floats, most: int) -> Ints:
    """The indices of the `most` largest values, ascending; of equal values the first."""
    if most <= 0:
        return np.zeros(0, np.int64)
    least = np.partition(worth, len(worth) - most)[len(worth) - most]
    above = worth > least
    equal = np.flatnonzero(worth == least)[: most - int(above.sum())]
    above[equal] = True
    return np.flatnonzero(above)


def hash_of(learned: Learned) -> str:
    """SHA-256 over the layout, then numbers in the order of their fields, little-endian, and the digests of names."""
    model, digest = learned.model, hashlib.sha256()
    digest.update(describe_layout().encode())
    digest.update(struct.pack("<q", learned.at_ms))
    for name in name_scalars():
        value = getattr(model, name)
        digest.update(b"-" if value is None else struct.pack("<d", value))
    digest.update(b"-" if model.drivers is None else _bytes_of_drivers(model.drivers))
    for states in (model.brokers, model.bundles):
        digest.update(_digest_of(states.names))
        for name in name_columns(type(states)):
            digest.update(_little_endian(getattr(states, name)))
    return digest.hexdigest()


@lru_cache(maxsize=4)
def _digest_of(names: tuple[str, ...]) -> bytes:
    """SHA-256 over the names; they change seldom."""
    return hashlib.sha256("\0".join((str(len(names)), *names)).encode()).digest()


def _bytes_of_drivers(drivers: Drivers) -> bytes:
    evidence = drivers.evidence
    arrays = (drivers.share, drivers.unit, evidence.products, evidence.answers)
    numbers = struct.pack("<ddq", drivers.base, drivers.usual_cost, evidence.rounds)
    return b"".join(map(_little_endian, arrays)) + numbers


def _little_endian(values: Floats) -> bytes:
    return np.ascontiguousarray(values, "<f8").tobytes()
