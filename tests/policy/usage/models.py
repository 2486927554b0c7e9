"""Usage models for tests: of given size, with reproducible numbers or with the oddest that floats have."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from controller.policy.usage.drivers import SIZE, Drivers, Evidence
from controller.policy.usage.kept import Learned
from controller.policy.usage.model import FACTOR_SPREAD, NEVER, BrokerStates, BundleStates, UsageModel, name_columns

ODD = st.floats(width=64) | st.sampled_from([np.nan, -np.nan, np.inf, -0.0, 5e-324, NEVER, 0.1 + 0.2])
NAMES = st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0")), unique=True, max_size=6).map(sorted)


def model_of_size(brokers: int, bundles: int, seed: int = 1) -> UsageModel:
    """A model with something in every field."""
    dice = np.random.default_rng(seed)
    names = tuple(f"t/n/{at:08x}" for at in range(bundles))
    of_bundles = {name: dice.normal(size=bundles) for name in name_columns(BundleStates)}
    of_bundles |= {
        "variance": dice.uniform(0, FACTOR_SPREAD**2, bundles),
        "carrier": dice.integers(-1, brokers, bundles).astype(np.float64),
        "burst": np.maximum(dice.integers(-20, 10, bundles), 0).astype(np.float64),
    }
    of_brokers = {name: dice.normal(size=brokers) for name in name_columns(BrokerStates)}
    evidence = Evidence(dice.normal(size=(SIZE, SIZE)), dice.normal(size=SIZE), 7)
    return UsageModel(
        rounds=60,
        drivers=Drivers(dice.normal(size=SIZE - 1), dice.normal(size=SIZE - 1), 1.5, 2.5, evidence),
        wander=0.001,
        brokers=BrokerStates(names=tuple(f"b{at:04}:8080" for at in range(brokers)), **of_brokers),
        bundles=BundleStates(names=names, **of_bundles),
    )


@st.composite
def odd_models(draw: st.DrawFn) -> Learned:
    """Any names, any floats, and None where a model may have it."""

    def floats(count: int) -> np.ndarray:
        return np.array(draw(st.lists(ODD, min_size=count, max_size=count)), np.float64)

    brokers, bundles = draw(NAMES), draw(NAMES)
    of_bundles = {name: floats(len(bundles)) for name in name_columns(BundleStates)}
    carriers = st.integers(int(NEVER), len(brokers) - 1)
    carrier = draw(st.lists(carriers, min_size=len(bundles), max_size=len(bundles)))
    of_bundles["carrier"] = np.array(carrier, np.float64)
    evidence = Evidence(floats(SIZE * SIZE).reshape(SIZE, SIZE), floats(SIZE), draw(st.integers(0, 2**62)))
    drivers = Drivers(floats(SIZE - 1), floats(SIZE - 1), draw(ODD), draw(ODD), evidence)
    of_brokers = {name: floats(len(brokers)) for name in name_columns(BrokerStates)}
    model = UsageModel(
        rounds=draw(st.integers(0, 2**53)),
        drivers=draw(st.none() | st.just(drivers)),
        noise=draw(ODD),
        wander=draw(st.none() | ODD),
        brokers=BrokerStates(names=tuple(brokers), **of_brokers),
        bundles=BundleStates(names=tuple(bundles), **of_bundles),
    )
    return Learned(model, draw(st.integers(0, 2**62)))
