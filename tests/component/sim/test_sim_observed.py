"""A Pulsar that moves bundles by itself, refuses, answers late, never or wrongly; agents and controllers that die.

`ObservedSim` checks its promises after every event and at the end. Both load managers.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping

import pytest

from controller.domain.decision import Decision, DecisionKind, Label, Reason, RoundResult
from controller.domain.entries import Kind
from controller.domain.errors import InvariantBroken
from controller.domain.events import RoundFinished
from controller.domain.facts import MUST_BE_OFF
from controller.domain.observed import Order, OrderOutcome
from controller.sim.observed.cluster import ObservedSim
from controller.sim.observed.pulsar import Whims
from tests.examples import examples

SEEDS, BLOCKS = examples(200), 4
CHANCES = (0.0, 0.1, 0.3)
HAPPENS = (
    *("itself", "split", "split", "isolate", "isolate", "kill", "start", "hang", "hang", "hang", "wake"),
    *("controller", "agent", "rival", "cut", "shed", "release", "release", "adopt", "adopt", "adopt", "adopt"),
)


def begin(seed: int, modular: bool) -> ObservedSim:
    sim = ObservedSim(seed, modular)
    for number in range(4):
        sim.pulsar.start(f"b{number}:1")
    for namespace in ("t/a", "t/b", "t/c"):  # the modular manager takes their ranges for one another's
        sim.pulsar.create(namespace, 4)
    sim.start_agent()
    sim.command("mode", mode="live")
    sim.run(20_000)
    return sim


def order(sim: ObservedSim, dice: random.Random) -> None:
    """An operator's command about a random bundle or broker."""
    names, brokers = sorted(sim.state.observed.bundles), sorted(sim.listed())
    if not names or not brokers:
        return
    bundle, broker = dice.choice(names), dice.choice(brokers)
    what = dice.choice(
        ["move"] * 8 + ["unload"] * 3 + ["split", "namespace", "namespace", "drain", "undrain"] + ["round"] * 4
    )
    if what == "round":
        decide(sim, dice, names, brokers)
    elif what == "move":
        sim.command("unload_bundle", bundle=bundle, to=broker)
    elif what == "unload":
        sim.command("unload_bundle", bundle=bundle)
    elif what == "split":
        where = sim.state.observed.bundles[bundle].bundle
        named = {"boundary": where.lower + (where.upper - where.lower) // 3} if dice.random() < 0.5 else {}
        sim.command("split_bundle", bundle=bundle, **named)
    elif what == "namespace":
        to = {"to": broker} if dice.random() < 0.5 else {}
        sim.command("unload_namespace", namespace=dice.choice(["t/a", "t/b"]), **to)
    else:
        sim.command(what, broker=broker)


def decide(sim: ObservedSim, dice: random.Random, names: list[str], brokers: list[str]) -> None:
    """A round wants more moves than may be open at once; some are halves of swaps. It may want a split as well."""
    chosen = dice.sample(names, min(len(names), dice.randint(1, 8)))
    pairs = dict(zip(chosen[::2], chosen[1::2], strict=False)) if dice.random() < 0.3 else {}
    pairs |= {other: one for one, other in pairs.items()}
    moves = []
    for number, name in enumerate(chosen):
        seen = sim.state.observed.bundles[name]
        evidence = {"swapped_with": pairs[name]} if name in pairs else {}
        what = name, seen.broker, dice.choice(brokers), seen.seq
        reason, id_ = Reason.ABOVE_MEAN, f"r{sim.now_ms}-{number}"
        moves.append(Decision(id_, DecisionKind.TRANSFER, Label.SUCCESS, reason, *what, evidence=evidence))
    if dice.random() < 0.3:
        seen = sim.state.observed.bundles[dice.choice(names)]
        cut = str(seen.bundle), seen.broker, None, seen.seq, seen.bundle.middle()
        id_ = f"r{sim.now_ms}-split"
        moves.append(Decision(id_, DecisionKind.SPLIT, Label.SUCCESS, Reason.SPLIT_TO_BALANCE, *cut))
    result = RoundResult(f"r{sim.now_ms}", sim.now_ms, sim.state.seq, "any", tuple(moves), (), {}, "hash")
    sim.pending.append(RoundFinished(result))


def begin_orders(sim: ObservedSim, dice: random.Random) -> Mapping[str, Order]:
    """A moment in which orders may have been begun; those that are open then, by bundle."""
    order(sim, dice)
    sim.run(dice.randint(0, 1_500))
    return sim.state.observed.orders


def disturb(sim: ObservedSim, dice: random.Random) -> None:
    """Something that happens to Pulsar, to an agent or to the controller."""
    pulsar = sim.pulsar
    well = sorted(pulsar.alive - pulsar.hung)
    what = dice.choice(HAPPENS)
    if what == "itself":
        pulsar.move_by_itself()
    elif what == "split":
        pulsar.split_by_itself(next(iter(begin_orders(sim, dice)), ""))
    elif what == "isolate":
        sim.isolate(*dice.sample([f"b{number}:1" for number in range(5)], dice.choice([0, 2, 3])))
    elif what == "kill" and len(well) > 2:
        sim.kill_broker(dice.choice(well))
    elif what == "start":
        pulsar.start(f"b{dice.randint(0, 4)}:1")
    elif what == "hang" and len(well) > 2:
        busy = sorted({order.source for order in begin_orders(sim, dice).values()}.intersection(well))
        pulsar.hung.add(dice.choice(busy or well))
    elif what == "wake":
        sim.wake()
    elif what == "controller":
        sim.restart_controller()
    elif what == "agent":
        for agent in sim.agents:
            agent.crash()
        sim.start_agent()
    elif what == "rival":
        sim.start_agent()
    elif what == "cut":
        sim.cut[f"n{len(sim.agents) - 1}"] = sim.now_ms + dice.choice([3_000, 20_000])
    elif what == "shed":
        sim.shedding = not sim.shedding and dice.random() < 0.3
    elif what == "release":
        begin_orders(sim, dice)
        order(sim, dice)  # in the same batch
        sim.command("release")
        if dice.random() < 0.8:
            sim.run(dice.randint(0, 300))
            sim.command("end_release")
    elif what == "adopt":
        sim.command("adopt", before=dict.fromkeys(MUST_BE_OFF.values()))


def play(seed: int) -> Counter[str]:
    """One run; the outcomes of its orders."""
    sim, dice = begin(seed, modular=seed % 2 == 0), random.Random(seed)
    sim.pulsar.whims = Whims(*(dice.choice(CHANCES) for _ in Whims.__dataclass_fields__))
    for _ in range(25):
        (order if dice.random() < 0.65 else disturb)(sim, dice)
        sim.run(dice.randint(200, 12_000))
    sim.settle()
    return Counter(entry.data["outcome"] for entry in sim.journal if entry.kind is Kind.ORDER_ENDED)


@pytest.mark.parametrize("block", range(BLOCKS))
def test_no_order_reaches_an_owner_twice_and_all_come_to_an_end(block: int) -> None:
    outcomes: Counter[str] = Counter()
    for seed in range(block * SEEDS // BLOCKS, (block + 1) * SEEDS // BLOCKS):
        try:
            outcomes += play(seed)
        except InvariantBroken as error:
            raise InvariantBroken(f"seed {seed}: {error}") from error
    assert outcomes.keys() == {outcome.value for outcome in OrderOutcome}, "every way to end is played"


@pytest.mark.parametrize("modular", [True, False])
def test_without_faults_every_move_arrives(modular: bool) -> None:
    sim = begin(7, modular)
    for name in sorted(sim.state.observed.bundles):
        target = next(b for b in sorted(sim.listed()) if b != sim.pulsar.owner[name])
        sim.command("unload_bundle", bundle=name, to=target)
        sim.run(8_000)
        assert sim.pulsar.owner[name] == target
    sim.settle()
    ended = [entry.data["outcome"] for entry in sim.journal if entry.kind is Kind.ORDER_ENDED]
    assert set(ended) == {"moved"}
    assert len(ended) == 12


@pytest.mark.parametrize("modular", [True, False])
def test_a_drained_broker_is_emptied_and_stays_empty(modular: bool) -> None:
    sim = begin(3, modular)
    sim.command("drain", broker="b1:1")
    sim.run(90_000)
    assert not sim.pulsar.owned_by("b1:1")
    sim.pulsar.owner[sorted(sim.pulsar.owner)[0]] = "b1:1"
    sim.run(60_000)
    assert not sim.pulsar.owned_by("b1:1")
    sim.settle()


def test_a_bundle_that_stays_is_left_alone_for_longer_each_time() -> None:
    sim = begin(5, modular=False)
    sim.pulsar.whims = Whims(snatch=1.0)
    sim.command("drain", broker="b1:1")
    sim.run(120_000)
    per_bundle = Counter(entry.bundle for entry in sim.journal if entry.kind is Kind.ORDER)
    assert per_bundle
    assert set(per_bundle.values()) == {1}, "rounds' time did not advance, so the back-off holds"
    blocks = sim.state.observed.blocks
    assert {block.failures for block in blocks.values()} == {1}
    sim.settle()
