"""Stored rounds of every strategy, from simulated stories and from clusters built by hand.

Each story is a scenario (docs/simulator.md) that one strategy leads and all others challenge, so that every round gives
a row of each. Kept are the rows that show something new: `shows_of` says what a row shows, and each of it is kept up to
KEPT_OF_EACH times a strategy. The rows are those of the table `rounds`, with `shows` beside them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from benchmarks.published.clusters import ClusterBuilder, cluster, loads
from controller.control.context import Evidence
from controller.domain.decision import DecisionKind, RoundResult
from controller.domain.overrides import Override
from controller.domain.settings.placement import PlacementSettings
from controller.ledger.evidence import round_row
from controller.policy.strategies import STRATEGIES
from controller.sim.scenario.commands import Script
from controller.sim.scenario.parser import parse
from controller.sim.scenario.scenario import Scenario
from controller.sim.simulation import Simulation

KEPT_OF_EACH = 2
Row = dict[str, Any]

_CLUSTER = """
gen_cluster brokers=6 cores=8 place={place}
gen_load bundles=48 tenants=3 topics=12 skew=lognormal sigma={sigma} topic_sigma=0.8 utilisation={utilisation}
reports noise=0.03
set strategy={lead}
"""
_RULES = """
isolation own namespaces=t0/.* primary=b[12] secondary=b3 min_available=1
failure_domain rack-1 brokers=b3,b4
failure_domain rack-2 brokers=b5,b6
anti_affinity ledger namespaces=t1/load,t2/load
set max_bundles=14
"""
_WISHES = """
operator override override=pin bundle=t0/load/0x00000000_0x10000000 broker=b5 at=2m
operator override override=avoid bundle=t1/load/0x10000000_0x20000000 broker=b1 at=3m
operator override override=avoid bundle=t1/load/0x10000000_0x20000000 broker=b2 at=3m
operator override override=avoid bundle=t1/load/0x10000000_0x20000000 broker=b3 at=3m
operator override override=avoid bundle=t1/load/0x10000000_0x20000000 broker=b4 at=3m
operator override override=freeze bundle=t2/load/0x20000000_0x30000000 at=2m
operator override override=exclude_namespace namespace=t2/load at=9m
operator drain broker=b4 at=6m
operator undrain broker=b4 at=10m
"""
# name -> (what of the cluster, the rest of the story, minutes, who leads)
STORIES: dict[str, tuple[dict[str, object], str, int, tuple[str, ...]]] = {
    "packed": (
        {"place": "packed", "sigma": 1.0, "utilisation": 0.55},
        "fault broker=b2 crash at=6m for=4m",
        16,
        ("steady", "headroom", "transfer", "uniform"),
    ),
    "full": (
        {"place": "random", "sigma": 0.8, "utilisation": 0.8},
        "set memory=1.0\nfault broker=b1 slow at=4m for=6m factor=2.5",
        14,
        ("weighted", "overload", "threshold"),
    ),
    "splits": (
        {"place": "spread", "sigma": 0.6, "utilisation": 0.4},
        "shape spike count=2 factor=20 at=3m\nset max_msg_rate_per_s=6000",
        14,
        ("steady", "average"),
    ),
    "rules": ({"place": "random", "sigma": 0.8, "utilisation": 0.5}, _RULES, 14, ("steady", "simple")),
    "wishes": ({"place": "spread", "sigma": 1.0, "utilisation": 0.5}, _WISHES, 14, ("steady", "headroom")),
    "joins": (
        {"place": "spread", "sigma": 0.7, "utilisation": 0.5},
        "fault broker=b7 join at=3m\nfault broker=b3 silent at=6m for=3m\noperator mode mode=shadow at=10m",
        14,
        ("steady", "transfer"),
    ),
    "few": (
        {"place": "random", "sigma": 0.3, "utilisation": 0.6},
        "gen_load bundles=12 tenants=3 topics=3\nset max_msg_rate_per_s=none",
        16,
        ("steady", "transfer"),
    ),
}


def varied_rounds(tell: Callable[[str], None]) -> Iterator[Row]:
    """The rows kept, story by story."""
    kept: Counter[tuple[str, str]] = Counter()
    for name, results in _all_stories(tell):
        for number, result in enumerate(results):
            shows = shows_of(result)
            fresh = [show for show in shows if kept[result.strategy, show] < KEPT_OF_EACH]
            if fresh:
                kept.update((result.strategy, show) for show in shows)
                evidence = Evidence(result, {}, f"{name}-{number:04d}", result.inputs["frame"]["mode"])
                yield {**round_row(evidence, result.at_ms, None), "story": name, "shows": shows}


def shows_of(result: RoundResult) -> list[str]:
    """What there is to see in a round: kinds of decisions with their reasons, exchanges, rules and wishes in force."""
    frame, settings = result.inputs["frame"], result.inputs["settings"]
    shows = {f"{d.kind.value} {d.reason.value}" for d in result.decisions}
    shows |= {"exchange" for d in result.decisions if d.swapped_with is not None}
    shows |= {f"override {wish['kind']}" for wish in frame["overrides"]}
    shows |= {f"rule {rule}" for rule in _rules(settings)}
    shows |= {f"mode {frame['mode']}"}
    if any(d.kind is not DecisionKind.SKIP for d in result.decisions):
        shows |= {f"acts under {what}" for what in {*(w["kind"] for w in frame["overrides"]), *_rules(settings)}}
    return sorted(shows)


def _rules(settings: Row) -> list[str]:
    """Rules of placement that a round was held to."""
    rules = [name for name, value in settings["placement"].items() if value]
    return [*rules, "max_bundles"] if settings["caps"]["max_bundles"] is not None else rules


def _all_stories(tell: Callable[[str], None]) -> Iterator[tuple[str, list[RoundResult]]]:
    for name, (of_cluster, rest, minutes, leads) in STORIES.items():
        for seed, lead in enumerate(leads, start=1):
            tell(f"{name}, led by {lead}")
            scenario = _scenario(_CLUSTER.format(lead=lead, **of_cluster) + rest, minutes)
            yield f"{name}-{lead}", _Recorded(scenario, seed).results_of_all()
    for lead in sorted(STRATEGIES):
        for name, build in BUILT.items():
            yield f"{name}-{lead}", _rounds_of(build(), lead)


def _scenario(text: str, minutes: int) -> Scenario:
    script = Script()
    for command in parse(text, "story"):
        script.carry_out(command)
    policy = script.scenario.policy
    others = tuple(name for name in STRATEGIES if name != policy.strategy)
    return replace(
        script.scenario, policy=replace(policy, challengers=others), duration_ms=minutes * 60_000, end_ms=60_000
    )


class _Recorded(Simulation):
    """A run whose rounds are kept."""

    def results_of_all(self) -> list[RoundResult]:
        self.results: list[RoundResult] = []
        self.run()
        return self.results

    def _round(self) -> None:
        before = len(self.cluster.pending)
        super()._round()
        self.results += [event.result for event in self.cluster.pending[before:]]


# ------------------------------------------------------------ by hand


def _versions() -> ClusterBuilder:
    made = cluster(placement=PlacementSettings(prefer_later_versions=True))
    for at, (cpu, version) in enumerate([(90, "4.0.7"), (5, "4.0.7"), (20, "4.0.8")]):
        name = f"b{at}"
        made.broker(name, cpu=cpu)
        made.state.brokers[name] = replace(made.state.brokers[name], info={"version": version})
        for _ in range(10):
            made.bundle(name, cpu=cpu / 10)
    return made


def _exchange() -> ClusterBuilder:
    made = cluster().broker("a", cpu=80).broker("b", cpu=50)
    return made.bundle("a", cpu=40).bundle("a", cpu=40).bundle("b", cpu=25).bundle("b", cpu=25)


def _troubled() -> ClusterBuilder:
    """Somebody silent, gone, drained, lagging; a bundle in flight, one displaced, one too big; wishes."""
    made = loads(90, 70, 20, 10, 5).silent("quiet").broker("gone", alive=False).broker("empty", drained=True)
    made.lagging.add("b4")
    made.bundle("b1", cpu=5, owner="b2", reports=6).bundle("b2", cpu=4, topics=5_000, namespace="t/big")
    first = str(made.bundles[0]["bundle"])
    for wish in (
        Override("c1", "pin", bundle=first, broker="b3"),
        Override("c2", "avoid", namespace="t/ns", broker="b2"),
    ):
        made.state.overrides[wish.id] = wish
    return made


def _full() -> ClusterBuilder:
    return loads(96, 92, 90, 88)


def _foreign() -> ClusterBuilder:
    """CPU that no bundle accounts for: of somebody else on one machine, of a slow machine on another."""
    made = loads(50, 50, 20, 20)
    made.brokers["b2"]["cpu_usage"] = 95.0
    made.brokers["b3"]["cpu_usage"] = 50.0
    return made


def _giant() -> ClusterBuilder:
    made = loads(0, 20, 20).with_settings(split={"max_msg_rate_per_s": None})
    return made.broker("b0", cpu=85).bundle("b0", cpu=85, topics=50)


BUILT: dict[str, Callable[[], ClusterBuilder]] = {
    "versions": _versions, "exchange": _exchange, "troubled": _troubled, "full-by-hand": _full, "giant": _giant,
    "foreign": _foreign,
}  # fmt: skip


def _rounds_of(made: ClusterBuilder, lead: str) -> list[RoundResult]:
    """Some rounds running, nothing of which is carried out."""
    made.settings = replace(made.settings, strategy=lead)
    return [made.later().round() for _ in range(6)]
