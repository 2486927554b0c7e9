"""What traffic costs is learned: messages or bytes, in or out, on brokers whose bundles differ in their mix of them."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.published.clusters import ClusterBuilder, cluster
from controller.policy.usage.drivers import DRIVERS, half_and_half
from controller.policy.usage.model import UsageModel
from controller.policy.usage.observe import observe
from controller.policy.view.costs import Floats

BROKERS, BUNDLES = 20, 12
TENDENCY = 0.5  # standard deviation of logarithms
FULLEST = 80.0  # percent of a broker: none is at its limit, where usage would say "at least"
NOISE = 0.03  # of a reading of CPU
CHANGES = 0.1  # of a bundle's traffic, from round to round
BASE = 5.0  # percent of a broker, without any traffic


Shares = tuple[float, float, float, float]  # of DRIVERS
WORLDS: dict[str, Shares] = {
    "messages": (0.5, 0.5, 0, 0),
    "messages_in": (1, 0, 0, 0),
    "bytes_in": (0, 0, 1, 0),
    "some_of_each": (0.1, 0.4, 0.4, 0.1),
}


class Mixed:
    """Brokers of one core. Each bundle's rate of messages, size of messages and fan-out are its own, and those of a
    broker have a tendency in common. `true_share`: of all CPU, by driver."""

    def __init__(self, true_share: Shares, seed: int, base: float = 0.0) -> None:
        self._dice = np.random.default_rng(seed)
        rate, size, fan_out = (
            np.exp(self._dice.normal(0, TENDENCY, (BROKERS, 1)) + self._dice.normal(0, 0.5, (BROKERS, BUNDLES)))
            for _ in range(3)
        )
        messages_in, bytes_in = 100 * rate, 100_000 * rate * size
        self.traffic = np.stack([messages_in, messages_in * fan_out, bytes_in, bytes_in * fan_out], axis=-1)
        totals = self.traffic.sum(axis=(0, 1))
        self.unit = np.array(true_share) / totals
        self.unit *= FULLEST / float((self.traffic @ self.unit).sum(axis=1).max())
        self.base = base
        self.prior = half_and_half(totals)
        self.model = UsageModel()
        self._built = cluster()

    def rounds(self, number: int) -> Floats:
        """[D] the share of the CPU that each driver is taken to account for after so many more rounds."""
        for _ in range(number):
            built: ClusterBuilder = cluster()
            built.at_ms = self._built.later().at_ms
            now = self.traffic * self._dice.uniform(1 - CHANGES, 1 + CHANGES, (BROKERS, BUNDLES, 1))
            for at in range(BROKERS):
                cpu = self.base + float((now[at] * self.unit).sum())
                totals = dict(zip(DRIVERS, now[at].sum(axis=0).tolist(), strict=True))
                built.broker(f"b{at:02}", cpu=cpu * (1 + NOISE * float(self._dice.normal())), **totals)
                for row in now[at].tolist():
                    built.bundle(f"b{at:02}", **dict(zip(DRIVERS, row, strict=True)))
            self.model, _ = observe(self.model, built.snapshot().frame, grace_ms=0)
        assert self.model.drivers is not None
        return self.model.drivers.share


def off(share: Floats, true_share: Shares) -> float:
    """The largest error of a share."""
    return float(np.abs(share - true_share).max())


@pytest.mark.parametrize("seed", range(1, 4))
@pytest.mark.parametrize("name", WORLDS)
def test_what_costs_cpu_is_learned_within_five_rounds(name: str, seed: int) -> None:
    world = Mixed(WORLDS[name], seed)
    assert off(world.prior, WORLDS[name]) > 0.15, "half and half would do"
    assert off(world.rounds(5), WORLDS[name]) < 0.12


@pytest.mark.parametrize("seed", range(1, 4))
@pytest.mark.parametrize("name", WORLDS)
def test_a_common_base_misleads_by_less_than_half_and_half_would(name: str, seed: int) -> None:
    """What brokers use without any traffic looks like what traffic costs that all of them have."""
    world = Mixed(WORLDS[name], seed, BASE)
    assert off(world.rounds(5), WORLDS[name]) < 0.6 * off(world.prior, WORLDS[name])


def test_brokers_of_the_same_mix_leave_half_and_half() -> None:
    """Nothing tells the drivers apart: what is learned is the prior, and not whatever noise would have it."""
    world = Mixed(WORLDS["bytes_in"], seed=1)
    world.traffic[:] = world.traffic.mean(axis=(0, 1)) * np.linspace(0.5, 1.5, BROKERS)[:, None, None]
    assert world.rounds(5) == pytest.approx(world.prior, abs=0.05)
