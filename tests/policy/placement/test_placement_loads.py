"""Where bundles go when a round has told of loads: the order, the model between rounds, and how it is packed."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.published.clusters import cluster, loads
from controller.domain.decision import Reason
from controller.domain.holdings import Holdings
from controller.domain.ids import Bundle, Session
from controller.domain.ownership import Ownership, State
from controller.domain.ring import initial_bundles
from controller.domain.round_loads import RoundLoads
from controller.domain.settings.placement import AntiAffinityGroup, PlacementSettings
from controller.policy.placement.assignment import Assigner
from controller.policy.placement.assignment_rules import AssignmentRules
from controller.policy.placement.loads import ExpectedLoads
from controller.policy.round import run_with_challengers


def told(
    brokers: Mapping[str, float],
    bundles: Mapping[str, float],
    *,
    limits: Mapping[str, float] | None = None,
    topics: Mapping[str, int] | None = None,
    most_topics: int | None = None,
) -> RoundLoads:
    """One resource; used and costs in its units, limits 1 unless given. `topics`: a second column, with a cap."""
    capped = most_topics is not None
    used = [[u, *([(topics or {}).get(b, 0)] if capped else [])] for b, u in brokers.items()]
    limit = [[(limits or {}).get(b, 1.0), *([most_topics] if capped else [])] for b in brokers]
    names = sorted(bundles)
    costs = [[bundles[n], *([1] if capped else [])] for n in names]
    return RoundLoads(
        round_id="r1",
        state_seq=0,
        full=0.85,
        scored=1,
        brokers=tuple(brokers),
        used=np.array(used, float).tobytes(),
        limit=np.array(limit, float).tobytes(),
        bundles="\n".join(names).encode(),
        costs=np.array(costs, np.float32).tobytes(),
    )


class World:
    """Bundles and who has them; places and remembers."""

    def __init__(
        self, loads: RoundLoads, rules: PlacementSettings | None = None, max_bundles: int | None = None
    ) -> None:
        self.index = Holdings()
        self.model = ExpectedLoads(loads)
        limits = None
        if rules is not None or max_bundles is not None:
            versions = dict.fromkeys(loads.brokers)
            limits = AssignmentRules(rules or PlacementSettings(), max_bundles, versions, lambda: self.index)
        self.placement = Assigner(lambda: self.index, dict.fromkeys(loads.brokers, 0.0), limits, self.model)

    def place(self, bundle: Bundle) -> str:
        found = self.placement.rank_candidates(bundle.namespace, bundle=str(bundle))
        assert found[0].to_evidence(found[0])["lost_by"] == ""
        self.put(bundle, found[0].broker)
        return found[0].broker

    def put(self, bundle: Bundle, broker: str) -> None:
        self.index.replace(None, Ownership(bundle, State.OWNED, 1, by=Session(broker, 1, "n", 1)))
        self.model.note_move(str(bundle), None, broker)
        self.placement.note_move(bundle.namespace, None, broker)

    def heaviest_first(self, bundles: Sequence[Bundle]) -> list[Bundle]:
        return sorted(bundles, key=lambda b: (-self.model.weight(str(b)), b))

    def scores(self) -> dict[str, float]:
        return {b: self.model.standing(b).score for b in self.placement._scores}


def test_a_hot_broker_gets_none_of_a_dead_brokers_bundles_while_others_have_room() -> None:
    """Eight bundles, three survivors, one of them at 57 %: by count it got four of them."""
    bundles = initial_bundles("shop/orders", 8)
    world = World(told({"b1": 0.57, "b2": 0.17, "b3": 0.08}, {str(b): 0.04 for b in bundles}))
    assert Counter(map(world.place, bundles)) == {"b3": 5, "b2": 3}
    assert world.scores() == pytest.approx({"b1": 0.57, "b2": 0.29, "b3": 0.28}, abs=1e-6)


def test_ten_thousand_orphans_level_two_hundred_brokers() -> None:
    dice = np.random.default_rng(3)
    bundles = [b for n in range(100) for b in initial_bundles(f"t/n{n}", 100)]
    cost = dict(zip(map(str, bundles), dice.lognormal(-6.5, 1.0, len(bundles)).tolist(), strict=True))
    world = World(told({f"b{i:03}": u for i, u in enumerate(dice.uniform(0.1, 0.3, 200).tolist())}, cost))
    for bundle in world.heaviest_first(bundles):
        world.place(bundle)
    scores = world.scores().values()
    assert sum(scores) == pytest.approx(0.2 * 200 + sum(cost.values()), rel=0.05)
    assert max(scores) - min(scores) < 0.02
    assert len(Counter(b for b, _ in world.index.spread("t/n7").items())) > 60, "a namespace is not gathered"


def test_the_bigger_broker_gets_what_would_fill_the_smaller_one() -> None:
    heavy = Bundle("t/n", 0, 0xFFFFFFFF)
    world = World(told({"big": 16.0, "small": 1.9}, {str(heavy): 0.4}, limits={"big": 32.0, "small": 4.0}))
    assert world.model.standing("big").score > world.model.standing("small").score
    assert world.place(heavy) == "big"


def test_an_overloaded_broker_gets_something_only_when_all_are() -> None:
    bundle = Bundle("t/n", 0, 0xFFFFFFFF)
    limits = {"huge": 100.0, "b2": 1.0}
    world = World(told({"huge": 86.0, "b2": 0.84}, {str(bundle): 0.1}, limits=limits))
    found = world.placement.rank_candidates("t/n", bundle=str(bundle))
    assert [one.broker for one in found] == ["b2", "huge"], "although b2 would be the fuller one"
    assert found[1].to_evidence(found[0]) == {"target": "huge", "lost_by": "101_overloaded", "target_after": 8610}
    full = World(told({"huge": 86.0, "b2": 0.9}, {str(bundle): 0.1}, limits=limits))
    assert full.place(bundle) == "huge"


def test_what_no_report_names_counts_as_the_mean_and_spreads() -> None:
    unknown = initial_bundles("t/new", 8)
    known = {str(b): 0.02 for b in initial_bundles("t/old", 4)}
    world = World(told({f"b{i}": 0.20 + 0.01 * i for i in range(4)}, known))
    assert world.model.cost(str(unknown[0])) == pytest.approx((0.02,), abs=1e-6)
    assert Counter(map(world.place, unknown)) == {f"b{i}": 2 for i in range(4)}, "about as loaded: spread"


def test_idle_bundles_do_not_gather_on_the_least_loaded_broker() -> None:
    bundles = initial_bundles("t/idle", 60)
    others = {str(b): 0.03 for b in initial_bundles("t/busy", 40)}
    world = World(told({"b1": 0.30, "b2": 0.31, "b3": 0.32}, {**others, **{str(b): 0.0 for b in bundles}}))
    counts = Counter(map(world.place, bundles))
    assert min(counts.values()) >= 10


def test_a_cap_on_topics_holds_where_loads_are_known() -> None:
    bundles = initial_bundles("t/n", 4)
    load = told({"b1": 0.1, "b2": 0.5}, {str(b): 0.01 for b in bundles}, topics={"b1": 48, "b2": 7}, most_topics=50)
    assert Counter(map(World(load).place, bundles)) == {"b1": 2, "b2": 2}
    world = World(told({"b1": 0.1, "b2": 0.5}, {}, topics={"b1": 50}, most_topics=50))
    (first, second) = world.placement.rank_candidates("t/n")
    assert (first.broker, second.to_evidence(first)["lost_by"]) == ("b2", Reason.BROKER_CAP.value)


def test_a_cap_on_bundles_comes_before_loads() -> None:
    bundles = initial_bundles("t/n", 4)
    world = World(told({"b1": 0.1, "b2": 0.6}, {str(b): 0.01 for b in bundles}), max_bundles=2)
    assert Counter(map(world.place, bundles)) == {"b1": 2, "b2": 2}


def test_an_anti_affinity_group_comes_before_loads() -> None:
    bundles = [Bundle(f"t/{space}", 0, 0xFFFFFFFF) for space in ("x", "y")]
    rules = PlacementSettings(anti_affinity=(AntiAffinityGroup("g", ("t/x", "t/y")),))
    world = World(told({"b1": 0.1, "b2": 0.6}, {str(b): 0.01 for b in bundles}), rules)
    assert [world.place(b) for b in bundles] == ["b1", "b2"]


def test_a_restarted_broker_is_empty_and_an_unknown_one_is_average() -> None:
    load = told({"b1": 0.6, "b2": 0.4, "dumb": np.nan}, {"t/n/0x00000000_0xffffffff": 0.1})
    model = ExpectedLoads(load)
    assert model.standing("dumb").score == pytest.approx(0.5)
    model.note_restart("b1")
    assert model.standing("b1").score == 0.0
    assert model.standing("came-later").score == 0.0
    model.note_move("t/n/0x00000000_0xffffffff", "b2", "b1")
    assert (model.standing("b1").score, model.standing("b2").score) == pytest.approx((0.1, 0.3), abs=1e-6)


def test_halves_of_a_split_bundle_carry_half_of_it() -> None:
    parent = Bundle("t/n", 0, 0xFFFFFFFF)
    halves = [str(half) for half in parent.split_at(parent.middle())]
    model = ExpectedLoads(told({"b1": 0.6}, {str(parent): 0.4}))
    model.note_split(str(parent), halves)
    assert [model.cost(half) for half in halves] == [pytest.approx((0.2,))] * 2


def test_a_round_hands_over_what_it_knew() -> None:
    """Packed by the real round: owners counted, what is under way counted as done, bundles without a name left out."""
    built = loads(60, 20, parts=4).broker("b2", cpu=0).silent("b3")
    moved = str(sorted(built.state.bundles)[0])
    built.state.put(replace(built.state.bundles[moved], state=State.TRANSFERRING, to=built.state.brokers["b1"].session))
    result = built.round()
    assert result.loads is not None
    assert (result.loads.round_id, result.loads.state_seq) == (result.round_id, 7)
    model = ExpectedLoads(pickle.loads(pickle.dumps(result.loads)))
    assert [round(model.standing(b).score, 2) for b in ("b0", "b1", "b2", "b3")] == [0.45, 0.35, 0.0, 0.0]
    assert model.known(moved)
    assert model.weight(moved) == pytest.approx(0.15, abs=0.001)
    assert not model.known("t/ns/0x12340000_0x12350000")


def test_a_broker_that_has_not_reported_yet_has_what_its_bundles_cost() -> None:
    """One that has just joined and been given a bundle: it is no average one."""
    built = loads(80, 60, parts=4).silent("b2")
    to = built.state.brokers["b2"].session
    for name in [str(b) for b in sorted(built.state.bundles)][:1]:
        built.state.put(replace(built.state.bundles[name], by=to))
    result = built.round()
    assert result.loads is not None
    model = ExpectedLoads(result.loads)
    assert model.standing("b2").score == pytest.approx(0.2, abs=0.01)


def test_a_round_without_loads_hands_over_nothing() -> None:
    assert cluster().silent("b0").silent("b1").round().loads is None


def test_challengers_hand_over_nothing() -> None:
    results = run_with_challengers(replace(cluster(challengers=("threshold",)).broker("b0", cpu=5).inputs()))
    assert [result.loads is not None for result in results] == [True, False]
