"""Which bundles move between one pair of brokers: the inner loop of TransferShedder.

Traffic is in bytes/s, in + out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from controller.domain.settings.pulsar import PulsarKnobs

SWAP_CEILING = 0.75  # the share of its traffic that the fuller broker may keep after a swap


class TopBundle(NamedTuple):
    """One of a broker's top bundles."""

    name: str
    throughput: float


class Pair(NamedTuple):
    """`budget`: traffic that would balance the two brokers. `bundles_to_return` is called when a swap is tried."""

    highest: str
    lowest: str
    highest_traffic: float
    lowest_traffic: float
    budget: float
    bundles: Sequence[TopBundle]  # of the highest
    bundles_to_return: Callable[[], Sequence[TopBundle]]  # of the lowest


class Offload(NamedTuple):
    """One move. `back`: from the lowest broker to the highest, as part of a swap."""

    bundle: str
    back: bool


@dataclass(slots=True)
class PairPlan:
    """`given`: traffic that leaves the highest broker. `gained`: traffic counted as coming back."""

    moves: list[Offload] = field(default_factory=list)
    given: float = 0.0
    gained: float = 0.0

    @property
    def net(self) -> float:
        """The traffic counted as moved."""
        return self.given - self.gained


def plan_pair(
    pair: Pair,
    may_leave: Callable[[str, str], bool],
    transferable: Callable[[str, str, str], bool],
    knobs: PulsarKnobs,
) -> PairPlan:
    """Go through the highest broker's bundles, smallest first, until the budget is spent or one bundle is left."""
    plan = PairPlan()
    remaining = len(pair.bundles)  # Surprise: includes the bundles skipped below
    spare = _each(pair.bundles_to_return)  # Surprise: shared by all swaps of the pair and never rewound
    for bundle in pair.bundles:
        if not may_leave(bundle.name, pair.highest) or not transferable(bundle.name, pair.highest, pair.lowest):
            continue
        if remaining <= 1:
            break
        swapped: list[TopBundle] = []
        if plan.net + bundle.throughput > pair.budget:
            found = _swap(pair, plan, bundle, spare, transferable) if knobs.load_balancer_transfer_enabled else None
            if found is None:
                break
            swapped = found
        plan.moves += [Offload(one.name, True) for one in swapped]
        plan.moves.append(Offload(bundle.name, False))
        if knobs.load_balancer_debug_mode_enabled:
            # Surprise: only debug mode counts what comes back; otherwise the rest of the budget and the expected
            # spread ignore it
            plan.gained += sum(one.throughput for one in swapped)
        plan.given += bundle.throughput
        remaining -= 1
    return plan


def _each(bundles: Callable[[], Sequence[TopBundle]]) -> Iterator[TopBundle]:
    """Iterate over the bundles, which are requested with the first one."""
    yield from bundles()


def _swap(
    pair: Pair,
    plan: PairPlan,
    bundle: TopBundle,
    spare: Iterator[TopBundle],
    transferable: Callable[[str, str, str], bool],
) -> list[TopBundle] | None:
    """Bundles that the lowest broker returns for one that is too large; None if no swap fits.

    Surprise: neither the owner nor the grace period of the returned bundles is checked.
    """
    highest = pair.highest_traffic - plan.given + plan.gained - bundle.throughput
    lowest = pair.lowest_traffic + plan.given - plan.gained + bundle.throughput
    chosen: list[TopBundle] = []
    for one in spare:
        if not transferable(one.name, pair.lowest, pair.highest):
            continue
        if not (highest + one.throughput < pair.highest_traffic and lowest - one.throughput < pair.highest_traffic):
            continue
        chosen.append(one)
        highest, lowest = highest + one.throughput, lowest - one.throughput
        if lowest <= highest and highest < pair.highest_traffic * SWAP_CEILING:
            return chosen
    return None
