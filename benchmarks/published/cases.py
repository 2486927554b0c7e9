"""V01-V33: inputs that other balancers got wrong in public, as data: a cluster, what happens to it, what is good.

`outcome(case, strategy)` plays one case with any strategy and says in a few words what it did; `test_published_cases`
asserts all of them for `steady`, and the table in docs/strategies.md is made of the same words. Rounds are a minute
apart; moves are carried out as the journal would, before the next round.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from benchmarks.published.clusters import MESSAGES_A_POINT, ClusterBuilder, cluster, loads, moves, splits
from controller.domain.balanced_boundary import balanced_boundary
from controller.domain.decision import Decision, DecisionKind, Label, Reason, RoundResult
from controller.domain.ids import Bundle
from controller.domain.load import BUNDLE_FIELDS
from controller.domain.ownership import State
from controller.policy.round import run_round

Script = Callable[[int, ClusterBuilder], None]
NO_TRAFFIC = dict.fromkeys(("msg_rate_in", "msg_rate_out", "throughput_in", "throughput_out"), 0.0)


@dataclass
class Played:
    """What a strategy did: the rounds in order, and the cluster afterwards."""

    built: ClusterBuilder
    results: list[RoundResult] = field(default_factory=list)

    @property
    def moves(self) -> list[Decision]:
        """Of all rounds."""
        return [m for result in self.results for m in moves(result)]

    @property
    def splits(self) -> list[Decision]:
        """Of all rounds."""
        return [s for result in self.results for s in splits(result)]

    def cpu(self, broker: str) -> float:
        """The broker's CPU at the end, in percent."""
        row = self.built.brokers[broker]
        return float(100 * row["cpu_usage"] / row["cpu_limit"])

    @property
    def highest(self) -> float:
        """The highest CPU at the end, in percent."""
        return max(map(self.cpu, self.built.brokers))

    def reasons(self, broker: str) -> set[Reason]:
        """Why this broker gave nothing away, over all rounds."""
        return {
            d.reason for r in self.results for d in r.decisions if d.source == broker and d.kind is DecisionKind.SKIP
        }

    def touched(self) -> set[str | None]:
        """Brokers that gave or took anything."""
        return {broker for m in self.moves for broker in (m.source, m.target)}


@dataclass(frozen=True)
class Case:
    """`judge` gives None when what was played is good, else what is wrong. `script` runs before each round."""

    name: str
    title: str
    source: str
    build: Callable[[], ClusterBuilder]
    judge: Callable[[Played], str | None]
    rounds: int = 10
    script: Script = lambda number, built: None


def play(case: Case, strategy: str) -> Played:
    """Play the case's rounds; the memory goes through JSON between rounds, as the journal's does."""
    played = Played(case.build())
    played.built.settings = replace(played.built.settings, strategy=strategy)
    for number in range(case.rounds):
        case.script(number, played.built)
        result = played.built.round()
        played.built.state.round_memory = json.loads(json.dumps(dict(result.memory)))
        played.results.append(result)
        for move in moves(result):
            carry_out(played.built, move)
        played.built.later()
    return played


def outcome(case: Case, strategy: str) -> str:
    """In a few words what the strategy does with the case, and whether that is what a good balancer does."""
    played = play(case, strategy)
    ways = Counter(f"{m.source}→{m.target}" for m in played.moves)
    shown = [f"{way} ×{n}" if n > 1 else way for way, n in ways.most_common(3)]
    more = len(ways) - len(shown)
    parts = [", ".join(shown) + (f" and {more} more" if more > 0 else "")] if shown else []
    if played.splits:
        parts.append(f"{len(played.splits)} split{'s' if len(played.splits) > 1 else ''}")
    complaint = case.judge(played)
    verdict = "good" if complaint is None else complaint
    return f"{'; '.join(parts) or 'nothing'}: {verdict}"


def carry_out(built: ClusterBuilder, move: Decision) -> None:
    """The bundle and its load are the target's."""
    row = next(b for b in built.bundles if b["bundle"] == move.bundle)
    points = (row["msg_rate_in"] + row["msg_rate_out"]) / MESSAGES_A_POINT
    for broker, sign in ((row["broker"], -1.0), (str(move.target), 1.0)):
        table = built.brokers[broker]
        table["cpu_usage"] += sign * points
        for name in BUNDLE_FIELDS:
            table[name] = max(0.0, table[name] + sign * row[name])
        for way in ("in", "out"):
            table[f"bandwidth_{way}_usage"] += sign * row[f"throughput_{way}"]  # NaN stays unknown
    row["broker"] = move.target
    record = built.state.bundles[str(move.bundle)]
    session = built.state.brokers[str(move.target)].session
    built.state.bundles[str(move.bundle)] = replace(record, by=session, epoch=record.epoch + 1, moved_at_ms=built.at_ms)


def set_cpu(built: ClusterBuilder, broker: str, percent: float) -> None:
    """Load of the broker's bundles and its own becomes what `percent` needs, all in proportion."""
    row = built.brokers[broker]
    factor = percent / (100 * row["cpu_usage"] / row["cpu_limit"])
    row["cpu_usage"] *= factor
    for name in NO_TRAFFIC:
        row[name] *= factor
        for bundle in built.bundles:
            if bundle["broker"] == broker:
                bundle[name] *= factor


def _all(*checks: tuple[bool, str]) -> str | None:
    return next((wrong for good, wrong in checks if not good), None)


def _no_moves(played: Played) -> str | None:
    return f"{len(played.moves)} moves" if played.moves else None


def _v01(played: Played) -> str | None:
    said = Reason.BELOW_MINIMUM_LOAD in played.reasons("b0")
    return None if said or played.highest < 8 else "stays at 12 %, and does not say that it is too little to matter"


def _filled(broker: str, share: float) -> Callable[[Played], str | None]:
    def judge(played: Played) -> str | None:
        fair = sum(played.cpu(b) for b in played.built.brokers) / len(played.built.brokers)
        got = played.cpu(broker)
        return None if got >= share * fair else f"{broker} has {got:.0f} % where {fair:.0f} % is its part"

    return judge


def _only_to(*allowed: str, below: float) -> Callable[[Played], str | None]:
    def judge(played: Played) -> str | None:
        grown = {m.target for m in played.moves if m.after[str(m.target)] > m.before[str(m.target)]}
        others = grown - set(allowed)  # of an exchange, the lighter half goes back to a fuller broker
        return _all(
            (bool(played.moves), "nothing moves"),
            (not others, f"moves to {', '.join(sorted(map(str, others)))}"),
            (played.highest <= below, f"{played.highest:.0f} % at the end"),
        )

    return judge


def _v06(played: Played) -> str | None:
    spread = abs(played.cpu("b0") - played.cpu("b1"))
    late = [m for r in played.results[6:] for m in moves(r)]
    return _all((spread <= 10, f"{spread:.0f} points apart"), (not late, "still moving after both were equal"))


def _foreign_load() -> ClusterBuilder:
    built = loads(10, 50).broker("b2", cpu=70, **NO_TRAFFIC)
    return built.bundle("b2", cpu=0.0, name="t/ns/0xf0000000_0xf0010000")


def _v07(played: Played) -> str | None:
    ways = {(m.source, m.target) for m in played.moves}
    return _all(
        (ways == {("b1", "b0")}, f"moves {sorted(ways)}" if ways else "nothing moves"),
        (Reason.EXTERNAL_LOAD in played.reasons("b2"), "does not say that b2's load is not its bundles'"),
    )


def _restart_empty(number: int, built: ClusterBuilder) -> None:
    """In the fourth round b0, hot until then, is a new process without bundles; the others took them."""
    if number == 3:
        mine = [b for b in built.bundles if b["broker"] == "b0"]
        for at, bundle in enumerate(mine):
            carry_out(built, _move_of(str(bundle["bundle"]), f"b{1 + at % 3}"))
            record = built.state.bundles[str(bundle["bundle"])]
            built.state.bundles[str(bundle["bundle"])] = replace(record, moved_at_ms=0)
        built.broker("b0", incarnation=2)


def _move_of(bundle: str, target: str) -> Decision:
    return Decision("", DecisionKind.TRANSFER, Label.SUCCESS, Reason.ORPHANED, bundle, target=target)


def _v10(played: Played) -> str | None:
    over = played.cpu("b1") - played.cpu("b0")
    return _all((bool(played.moves), "nothing moves"), (over <= 5, f"b1 ends {over:.0f} points above b0"))


def _two_metrics() -> ClusterBuilder:
    built = cluster()
    for at, (cpu, megabytes) in enumerate(((50, 50), (60, 60), (70, 70), (10, 80), (20, 10))):
        size = {"throughput_in": 0.0, "throughput_out": megabytes * 1e6}
        name = f"b{at}"
        built.broker(name, cpu=cpu, bandwidth_out_usage=megabytes * 1e6, bandwidth_out_limit=100e6, **size)
        for _ in range(10):
            built.bundle(name, cpu=cpu / 10, throughput_in=0.0, throughput_out=megabytes * 1e5)
    return built


def _v11(played: Played) -> str | None:
    shuffled = _two_metrics()
    shuffled.settings = played.built.settings
    shuffled.brokers = dict(sorted(shuffled.brokers.items(), reverse=True))
    shuffled.bundles.reverse()
    again = run_round(shuffled.inputs())
    first = played.results[0]
    source = next((m.source for m in played.moves), None)
    return _all(
        ([d.bundle for d in moves(again)] == [d.bundle for d in moves(first)], "depends on the order of its input"),
        (source in ("b2", "b3"), f"{source} is relieved first" if source else "nothing moves"),
        (played.cpu("b3") <= 70 and not {m.target for m in played.moves} & {"b2", "b3"}, "moves to a full broker"),
    )


def _v12(played: Played) -> str | None:
    names = Counter(m.bundle for m in played.moves)
    return None if not names or max(names.values()) == 1 else f"{names.most_common(1)[0][0]} moves more than once"


def _v13(played: Played) -> str | None:
    said = {d.reason for d in played.results[-1].decisions} & {Reason.UNDER_PROVISIONED}
    told = any(d.evidence.get("under_provisioned") for d in played.results[-1].decisions)
    return _no_moves(played) or (None if said or told else "does not say that the cluster is too small")


def _gateways() -> ClusterBuilder:
    built = cluster()
    for at in range(50):
        built.broker(f"busy{at:02d}", cpu=50).bundle(f"busy{at:02d}", cpu=25).bundle(f"busy{at:02d}", cpu=25)
    for at in range(100):
        built.broker(f"gateway{at:03d}", drained=True)
    return built


def _v15(played: Played) -> str | None:
    return None if len(played.moves) == 1 else f"{len(played.moves)} moves"


def _v16(played: Played) -> str | None:
    return _all((bool(played.moves), "nothing moves"), ("gone" not in played.touched(), "moves to the dead broker"))


def _slow() -> ClusterBuilder:
    """b3 gets through little, so its CPU is low and its bundles' backlog is high."""
    built = loads(90, 60, 60).broker("b3", cpu=15)
    for _ in range(10):
        built.bundle("b3", cpu=1.5, backlog_bytes=2e9)
    built.brokers["b3"]["backlog_bytes"] = 2e10
    return built


def _v17(played: Played) -> str | None:
    return "feeds the slow broker" if "b3" in {m.target for m in played.moves} else None


def _misread() -> ClusterBuilder:
    built = loads(90, 30, 30, 30)
    return built.broker("odd", cpu=1000).bundle("odd", cpu=10)


def _v18(played: Played) -> str | None:
    return _all(
        ("b0" in played.touched(), "b0 is not relieved"),
        (played.cpu("b0") <= 55, f"b0 stays at {played.cpu('b0'):.0f} %"),
    )


def _v19(played: Played) -> str | None:
    return _all((bool(played.moves), "nothing moves"), ("quiet" not in played.touched(), "the silent one takes part"))


def _lone_topic() -> ClusterBuilder:
    return loads(0, 20, 20).broker("b0", cpu=85).bundle("b0", cpu=85, topics=1)


def _v20(played: Played) -> str | None:
    told = [d.evidence.get("advice") for r in played.results for d in r.decisions if d.evidence.get("advice")]
    return _all(
        (not played.splits, "splits a bundle of one topic"),
        (not played.moves, "moves it about"),
        (len(told) == 1, f"says {len(told)} times that it cannot be split"),
    )


def _big_bundle(**namespace: int) -> ClusterBuilder:
    built = loads(0, 20, 20).with_settings(split={"max_msg_rate_per_s": None, "max_bandwidth_bytes_per_s": None})
    built.broker("b0", cpu=85).bundle("b0", cpu=85, topics=50)
    return built.with_settings(split=namespace) if namespace else built


def _splitting_after_the_first(number: int, built: ClusterBuilder) -> None:
    if number == 1:
        name = str(built.bundles[-1]["bundle"])
        record = built.state.bundles[name]
        built.state.bundles[name] = replace(record, state=State.SPLITTING, epoch=record.epoch + 1)


def _v21(played: Played) -> str | None:
    big = str(played.built.bundles[-1]["bundle"])
    return _all(
        (len(played.splits) == 1, f"{len(played.splits)} splits"),
        (all(s.bundle == big and s.epoch == 3 for s in played.splits), "does not say which epoch it means"),
    )


def _v22(played: Played) -> str | None:
    big = Bundle.parse(str(played.built.bundles[-1]["bundle"]))
    third = (big.upper - big.lower) // 3
    two_as_good = [big.lower + third, big.upper - third]
    chosen = balanced_boundary(big, dict.fromkeys([big.lower, *two_as_good], 1.0))  # as its owner would
    inside = all(s.boundary is not None and big.lower < s.boundary < big.upper for s in played.splits)
    return _all(
        (bool(played.splits), "no split"), (inside, "no single boundary"), (chosen in two_as_good, "none taken")
    )


def _v23(played: Played) -> str | None:
    told = sum(bool(d.evidence.get("advice")) for r in played.results for d in r.decisions)
    return _all((not played.splits, "splits beyond the maximum"), (told == 1, f"advises {told} times"))


def _target_fills_up(number: int, built: ClusterBuilder) -> None:
    """What was the best target in the first round is busy in the second."""
    if number == 1:
        set_cpu(built, "b1", 80)


def _v24(played: Played) -> str | None:
    late = {m.target for result in played.results[1:] for m in moves(result)}
    return _all((bool(played.moves), "nothing moves"), ("b1" not in late, "still moves to the target of before"))


def _v26(played: Played) -> str | None:
    return None if all(m.epoch is not None for m in played.moves) and played.moves else "moves without an epoch"


def _late_report() -> ClusterBuilder:
    """b0's last reports still contain a bundle that is b1's by now."""
    built = loads(60, 30)
    built.broker("b0", cpu=90, age_ms=20_000)
    return built.bundle("b0", cpu=30, owner="b1")


def _v28(played: Played) -> str | None:
    for result in played.results:
        names = Counter(d.bundle for d in result.decisions if d.kind is not DecisionKind.SKIP)
        if names and max(names.values()) > 1:
            return f"{names.most_common(1)[0][0]} is named twice in a round"
    return None if played.moves else "nothing moves"


def _system() -> ClusterBuilder:
    built = cluster().broker("a", cpu=90).broker("b")
    for space in ("pulsar/system", "pulsar/broker-1:8080", "sla-monitor/c1"):
        built.bundle("a", cpu=30, namespace=space)
    return built


def _nowhere_to_go() -> ClusterBuilder:
    built = loads(90, 20, 20).with_settings(caps={"max_topics": 150})
    for name in ("b1", "b2"):
        built.brokers[name]["topics"] = 150.0
    return built


def _job(number: int, built: ClusterBuilder) -> None:
    """Every twelve minutes a job of three minutes doubles what b0's first three bundles carry."""
    factor = 2.0 if number % 12 in (6, 7, 8) else 1.0
    for bundle in built.bundles[:3]:
        for name in NO_TRAFFIC:
            extra = bundle.setdefault(f"plain_{name}", bundle[name]) * factor - bundle[name]
            bundle[name] += extra
            built.brokers["b0"][name] += extra
    usual = sum(bundle["plain_msg_rate_in"] for bundle in built.bundles[:3]) * 2 / MESSAGES_A_POINT
    built.brokers["b0"]["cpu_usage"] = 50.0 + (factor - 1) * usual


def _heap() -> ClusterBuilder:
    built = loads(20, 20, 20)
    built.brokers["b0"] |= {"memory_usage": 9.9e9, "memory_limit": 10e9}
    return built


def _one_strong() -> ClusterBuilder:
    built = cluster()
    for at, cores in enumerate((1.0, 1.0, 1.0, 4.0)):
        built.broker(f"b{at}", cpu=60 / cores, cores=cores)
        for _ in range(20):
            built.bundle(f"b{at}", cpu=3)
    return built


def _v33(played: Played) -> str | None:
    used = [played.cpu(b) for b in played.built.brokers]
    spread = (max(used) - min(used)) / float(np.mean(used))
    return None if spread <= 0.15 else f"ends between {min(used):.0f} and {max(used):.0f} %"


CASES = tuple(
    Case(f"V{number:02d}", *rest)
    for number, rest in enumerate(
        (
            ("12, 2, 1 and 1 %", "PIP-220", lambda: loads(12, 2, 1, 1), _v01),
            ("five at 50 % and a new one", "PIP-220", lambda: loads(*[50] * 5, 0), _filled("b5", 0.75), 2),
            ("ten at 80 % and a new one", "pulsar#17456", lambda: loads(*[80] * 10, 0), _filled("b10", 0.75), 2),
            (
                "40 % four times, 69 and 70 %",
                "PIP-364",
                lambda: loads(40, 40, 40, 40, 69, 70),
                _only_to("b0", "b1", "b2", "b3", below=57),
            ),
            ("10, 60, 70, 80, 80 %", "PIP-364", lambda: loads(10, 60, 70, 80, 80), _only_to("b0", below=66)),
            ("90 and 10 %, equal after the first moves", "PIP-217", lambda: loads(90, 10), _v06, 20),
            ("10, 50 and 70 %, the last not its bundles'", "PIP-364", _foreign_load, _v07),
            (
                "the controller restarts between rounds",
                "pulsar#13119",
                lambda: loads(65, 40, 40, 40),
                _only_to("b1", "b2", "b3", below=52),
            ),
            (
                "a hot broker restarts empty",
                "pulsar#16766",
                lambda: loads(60, 40, 40, 40),
                _filled("b0", 0.75),
                10,
                _restart_empty,
            ),
            ("all traffic on one of two brokers", "pulsar#21905", lambda: loads(6, 0, parts=6), _v10),
            ("two metrics, two rankings", "pulsar#21016", _two_metrics, _v11),
            ("bundles that come back", "pulsar#21722", lambda: loads(80, 20, 20, 60), _v12, 29),
            ("everybody above 85 %", "PIP-364", lambda: loads(97, 93, 90, 86), _v13),
            ("idle brokers that take no part", "crdb#162590", _gateways, _no_moves),
            (
                "two equal hot bundles, one empty target",
                "pd#5021",
                lambda: cluster().broker("a", cpu=80).bundle("a", cpu=40).bundle("a", cpu=40).broker("b"),
                _v15,
            ),
            (
                "a dead broker looks idle",
                "redpanda#2092",
                lambda: loads(90, 50, 50).broker("gone", cpu=0, alive=False),
                _v16,
            ),
            ("a slow broker looks idle", "automq#1120", _slow, _v17),
            ("a usage of 1000 %", "pulsar#16937", _misread, _v18),
            ("one silent broker", "TransferShedder", lambda: loads(90, *[40] * 8).silent("quiet"), _v19),
            ("one hot topic alone in its bundle", "pulsar#11937", _lone_topic, _v20),
            ("a split decided on an old report", "pulsar#826", _big_bundle, _v21, 4, _splitting_after_the_first),
            ("two boundaries proposed", "pulsar#22254", _big_bundle, _v22, 1),
            ("the namespace is at its maximum", "pulsar#9484", lambda: _big_bundle(namespace_maximum_bundles=21), _v23),
            ("the planned target fills up", "pulsar#26246", lambda: loads(75, 10, 40, 40), _v24, 10, _target_fills_up),
            ("the assignee restarts while it is being assigned", "pulsar#25379", lambda: loads(50, 50), _no_moves),
            ("two brokers that both think they own it", "pulsar#24478", lambda: loads(90, 10), _v26),
            ("a report from before the move", "crdb#93540", _late_report, _no_moves, 1),
            ("one bundle, two targets", "automq#867", lambda: loads(99, 95, 5, 5), _v28),
            ("only system bundles", "datastax/pulsar#24", _system, _no_moves),
            ("nobody else may have it", "pulsar#16476", _nowhere_to_go, _no_moves),
            ("a job of three minutes in twelve", "PIP-364", lambda: loads(50, 50, 50, 50), _no_moves, 48, _job),
            ("a full heap", "PIP-358", _heap, _no_moves),
            ("one broker four times as strong", "AvgShedder's own text", _one_strong, _v33, 20),
        ),
        start=1,
    )
)
