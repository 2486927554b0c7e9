"""Storms of faults by seed: what strikes what, when, and for how long. Pure; the same seed gives the same storms."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence

from controller.testbed.chaos.faults import AGENT, FAULTS, Blow, Fault

STORM_S = 12.0  # faults of a storm begin within it
FEWEST, MOST = 2, 4  # faults of a storm
AT_ONCE_EVERY = 4  # storms: then all of `AT_ONCE` strikes at the same moment
AT_ONCE = ("job_killed", "kafka_killed", "store_killed", "agent_killed", "agent_killed")


def storms(seed: int, agents: Sequence[str], kinds: Mapping[str, Fault] = FAULTS) -> Iterator[tuple[Blow, ...]]:
    """Without end. Faults are drawn like cards of a deck, so none of `kinds` waits for long; nothing is struck twice in
    one storm."""
    dice, deck, number = random.Random(seed), list[str](), 0
    while True:
        number += 1
        if number % AT_ONCE_EVERY == 0:
            chosen, spread_s = [name for name in AT_ONCE if name in kinds], 0.0
        else:
            chosen, spread_s = _draw(dice, deck, kinds), STORM_S
        free = dice.sample(list(agents), len(agents))
        yield tuple(
            Blow(
                name,
                free.pop() if kinds[name].target == AGENT else kinds[name].target,
                dice.uniform(0.0, spread_s),
                dice.uniform(kinds[name].least_s, kinds[name].most_s),
                dice.choice((-1, 1)) * kinds[name].step_s,
            )
            for name in chosen
        )


def _draw(dice: random.Random, deck: list[str], kinds: Mapping[str, Fault]) -> list[str]:
    """The next cards whose targets are different ones; agents are many."""
    wanted, chosen = dice.randint(FEWEST, MOST), list[str]()
    if len(deck) < wanted:
        deck += dice.sample(list(kinds), len(kinds))
    for name in list(deck):
        taken = {kinds[other].target for other in chosen} - {AGENT}
        if len(chosen) < wanted and kinds[name].target not in taken:
            chosen.append(name)
            deck.remove(name)
    return chosen
