"""What a simulated cluster is asked to carry, and what its brokers make of it."""

from __future__ import annotations

import numpy as np
import pytest

from controller.domain.errors import ConfigError
from controller.domain.ids import Bundle
from controller.domain.ring import initial_bundles, locate
from controller.sim.load.cost_model import FIELD, RESOURCE, CostModel
from controller.sim.load.move_cost import Arrival, ReconnectStorms
from controller.sim.load.shapes import Diurnal, Drift, Growth, Jitter, Periodic, Shape, Spike
from controller.sim.load.workloads import LoadSpec, TopicMap, Workload
from controller.sim.load.world import NOBODY, LoadWorld, Moment

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
CPU = RESOURCE["cpu"]
COSTS = CostModel()


def workload(*shapes: Shape, seed: int = 1, **spec: object) -> Workload:
    return Workload(LoadSpec(**{"bundles": 24, "tenants": 3, **spec}), shapes, COSTS, 16.0, HOUR_MS, seed)


def rings(load: Workload) -> dict[str, tuple[Bundle, ...]]:
    found: dict[str, list[Bundle]] = {}
    for bundle in load.topics.groups:
        found.setdefault(bundle.namespace, []).append(bundle)
    return {name: tuple(bundles) for name, bundles in found.items()}


def by_group(load: Workload, time_ms: int) -> np.ndarray:
    return np.bincount(load.topics.group, load.at(time_ms).msg_in)


def carried(load: Workload, owner: list[int], cores: float = 8.0, slow: float = 1.0, time_ms: int = 0) -> Moment:
    world = LoadWorld(COSTS, load.topics)
    for number in range(2):
        world.add(f"b{number + 1}", cores, 125e6)
    world.slow[0] = slow
    ring = TopicMap(load.topics, rings(load))
    return world.carry(load.at(time_ms), ring, np.array(owner), np.zeros(2))


@pytest.mark.parametrize("skew", ["equal", "uniform", "linear", "lognormal", "pareto"])
def test_the_start_costs_as_much_cpu_as_the_scenario_says(skew: str) -> None:
    load = workload(skew=skew, utilisation=0.5, sessions=0)
    cost = carried(load, [0] * 24).cost[:, CPU]
    assert cost.sum() == pytest.approx(0.5 * 1600)
    assert (cost.max() > 1.01 * cost.min()) == (skew != "equal")


def test_bundles_may_cost_different_amounts_of_cpu_for_the_same_traffic() -> None:
    dear = CostModel(spread=0.5)
    spec = LoadSpec(bundles=300, tenants=3, sessions=0, utilisation=0.5)
    load, again, even = (Workload(spec, (), costs, 16.0, HOUR_MS, 1) for costs in (dear, dear, COSTS))
    moment = carried(load, [0] * 300, cores=32.0)
    used, traffic = moment.cost[:, CPU], moment.fields[:, FIELD["msg_rate_in"]]
    expected = COSTS.usage(moment.fields, np.ones(300))[:, CPU]
    factors = used / expected
    assert np.log(factors).std() == pytest.approx(0.5, rel=0.15)
    assert used.sum() == pytest.approx(0.5 * 1600)  # the spread changes traffic, not work
    assert used == pytest.approx(carried(even, [0] * 300, cores=32.0).cost[:, CPU])
    assert traffic == pytest.approx(carried(even, [0] * 300, cores=32.0).fields[:, FIELD["msg_rate_in"]] / factors)
    assert np.array_equal(load.topics.cost_factor, again.topics.cost_factor)
    assert moment.topic_work.sum() == pytest.approx(used.sum())


def test_a_negative_spread_of_costs_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"spread=-0.1 of costs"):
        CostModel(spread=-0.1)


def test_both_halves_of_a_split_bundle_cost_what_the_whole_did() -> None:
    load = Workload(LoadSpec(bundles=6, tenants=1, topics=40), (), CostModel(spread=0.5), 16.0, HOUR_MS, 1)
    (name,) = load.topics.namespaces
    whole = rings(load)[name]
    middle = (whole[2].lower + whole[2].upper) // 2
    halves = (Bundle(name, whole[2].lower, middle), Bundle(name, middle, whole[2].upper))
    before = TopicMap(load.topics, {name: whole})
    after = TopicMap(load.topics, {name: (*whole[:2], *halves, *whole[3:])})
    assert len(set(before.cost_factor.tolist())) == 6
    assert after.cost_factor.tolist() == [*before.cost_factor[:3], before.cost_factor[2], *before.cost_factor[3:]]


def test_topics_lie_in_the_bundles_they_belong_to() -> None:
    load = workload()
    found = rings(load)
    for at, hash_ in enumerate(load.topics.hash.tolist()):
        group = load.topics.groups[load.topics.group[at]]
        assert locate(found[group.namespace], hash_) == group
    assert [len(ring) for ring in found.values()] == [8, 8, 8]
    assert found["t1/load"] == tuple(initial_bundles("t1/load", 8))


def test_a_split_parts_a_bundles_topics_and_keeps_their_load() -> None:
    load = workload(topics=40)
    found = rings(load)
    before = TopicMap(load.topics, found)
    parent = found["t0/load"][3]
    halves = parent.split_at(parent.middle())
    found["t0/load"] = tuple(sorted([b for b in found["t0/load"] if b != parent] + list(halves)))
    after = TopicMap(load.topics, found)
    assert not before.still_holds(found)
    assert after.still_holds(found)
    rates = load.at(0).msg_in
    whole = before.sums(rates)[before.index[parent]]
    parts = [after.sums(rates)[after.index[half]] for half in halves]
    assert sum(parts) == pytest.approx(whole)
    assert min(parts) > 0.2 * whole


def test_the_same_seed_draws_the_same_load_and_another_one_another() -> None:
    shapes = (Drift(), Jitter(), Spike(at_ms=1, for_ms=MINUTE_MS))
    one, two, other = workload(*shapes), workload(*shapes), workload(*shapes, seed=2)
    assert one.at(90_000).msg_in.tolist() == two.at(90_000).msg_in.tolist()
    assert one.at(90_000).msg_in.tolist() != other.at(90_000).msg_in.tolist()


def test_periodic_load_rises_in_its_minutes_and_falls_back() -> None:
    load = workload(Periodic(share=0.25, factor=2.0, on_ms=3 * MINUTE_MS, every_ms=12 * MINUTE_MS))
    calm = by_group(load, 5 * MINUTE_MS)
    for time_ms in (0, 2 * MINUTE_MS, 12 * MINUTE_MS, 26 * MINUTE_MS):
        ratio = by_group(load, time_ms) / calm
        assert sorted(set(np.round(ratio, 6))) == [1.0, 2.0]
        assert (ratio > 1.5).sum() == 6
    assert by_group(load, 3 * MINUTE_MS).tolist() == calm.tolist()


def test_a_tenants_spike_hits_all_its_bundles_and_no_other() -> None:
    load = workload(Spike(count=1, factor=4.0, at_ms=MINUTE_MS, for_ms=MINUTE_MS, by="tenant"))
    ratio = by_group(load, MINUTE_MS) / by_group(load, 0)
    hit = load.topics.tenant_of_group[ratio > 2]
    assert len(set(hit.tolist())) == 1
    assert len(hit) == 8
    assert by_group(load, 2 * MINUTE_MS).tolist() == by_group(load, 0).tolist()


def test_a_day_has_its_peak_and_its_night_and_tenants_have_their_own() -> None:
    together = workload(Diurnal(amplitude=0.5, period_ms=HOUR_MS, spread=0.0), skew="equal")
    total = [by_group(together, minute * MINUTE_MS).sum() for minute in range(60)]
    assert int(np.argmax(total)) == 15
    assert int(np.argmin(total)) == 45
    assert max(total) / min(total) == pytest.approx(3.0)
    apart = workload(Diurnal(amplitude=0.5, period_ms=HOUR_MS, spread=1.0), skew="equal", tenants=12)
    spread = [by_group(apart, minute * MINUTE_MS).sum() for minute in range(60)]
    assert max(spread) / min(spread) < 2.0


def test_growth_and_drift_go_as_far_as_they_say() -> None:
    grown = workload(Growth(per_hour=1.0, share=0.5))
    ratio = by_group(grown, HOUR_MS) / by_group(grown, 0)
    assert sorted(np.round(ratio, 6).tolist()) == [1.0] * 12 + [2.0] * 12
    wandered = workload(Drift(per_hour=0.5), bundles=3000, tenants=3)
    logs = np.log(by_group(wandered, HOUR_MS) / by_group(wandered, 0))
    assert logs.std() == pytest.approx(0.5, rel=0.1)


def test_beyond_its_capacity_a_broker_shows_its_limit_and_serves_all_alike() -> None:
    load = workload(utilisation=0.9, skew="uniform")  # 14.4 cores of work on 8
    alone, calm = carried(load, [0] * 24), carried(load, [0, 1] * 12, cores=16.0)
    assert alone.utilisation[0, CPU] == pytest.approx(1.8, rel=0.02)
    assert alone.usage[0, CPU] == alone.limit[0, CPU] == 800
    served = alone.fields[:, FIELD["msg_rate_in"]] / calm.fields[:, FIELD["msg_rate_in"]]
    assert served.tolist() == pytest.approx([1 / alone.utilisation[0, CPU]] * 24)
    assert calm.usage[0, CPU] == calm.demand[0, CPU] < calm.limit[0, CPU]


def test_a_slow_broker_needs_more_for_the_same_work_and_keeps_its_limit() -> None:
    load = workload(utilisation=0.3)
    quick, slow = carried(load, [0, 1] * 12), carried(load, [0, 1] * 12, slow=1.5)
    assert slow.usage[0, CPU] == pytest.approx(1.5 * quick.usage[0, CPU])
    assert slow.limit[0, CPU] == quick.limit[0, CPU]
    assert slow.able[0, CPU] == pytest.approx(quick.able[0, CPU] / 1.5)
    assert slow.usage[1, CPU] == quick.usage[1, CPU]


def test_what_nobody_serves_costs_nobody_anything() -> None:
    load = workload(utilisation=0.3)
    moment = carried(load, [NOBODY] * 12 + [1] * 12)
    assert moment.usage[0, CPU] == COSTS.base_cpu_pct
    assert moment.fields[:12, FIELD["msg_rate_in"]].sum() == 0
    assert moment.cost[:12, CPU].sum() > 0


def test_clients_that_reconnect_cost_cpu_and_wait_in_line() -> None:
    storms = ReconnectStorms(CostModel(reconnect_cpu_ms=5.0, reconnects_per_s=100.0))
    # 3,000 sessions, 1,000 accepted in ten seconds: half a core for three ticks
    first = storms.tick([Arrival(1, 3_000.0, gap_ms=250)], 2, 10_000)
    assert first.tolist() == pytest.approx([0.0, 50.0])
    assert storms.unavailable_bundle_s == pytest.approx(0.25 + 15.0)
    # who comes later waits behind the 2,000 that are left
    storms.tick([Arrival(1, 100.0, gap_ms=0)], 2, 10_000)
    assert storms.unavailable_bundle_s == pytest.approx(15.25 + 20.5)
    assert storms.tick([], 2, 10_000)[1] == pytest.approx(50.0)
    assert storms.tick([], 2, 10_000)[1] == pytest.approx(5.0)
    assert (storms.tick([], 2, 10_000)[1], storms.longest_gap_ms, storms.reconnects) == (0.0, 250, 3_100)
