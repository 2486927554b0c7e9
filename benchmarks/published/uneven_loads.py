"""Published cases V01-V13: load that is spread unevenly over the brokers."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

from benchmarks.published.case import NO_TRAFFIC, Case, Played, carry_out, ends_below, fills, first_complaint, no_moves
from benchmarks.published.clusters import ClusterBuilder, cluster, loads, moves
from controller.domain.decision import Decision, DecisionKind, Label, Reason
from controller.policy.round import run_round


def _v01(played: Played) -> str | None:
    said = Reason.BELOW_MINIMUM_LOAD in played.reasons("b0")
    return None if said or played.highest < 8 else "stays at 12 %, and does not say that it is too little to matter"


def _v06(played: Played) -> str | None:
    spread = abs(played.cpu("b0") - played.cpu("b1"))
    late = [m for r in played.results[6:] for m in moves(r)]
    return first_complaint(
        (spread <= 10, f"{spread:.0f} points apart"), (not late, "still moving after both were equal")
    )


def _foreign_load() -> ClusterBuilder:
    built = loads(10, 50).broker("b2", cpu=70, **NO_TRAFFIC)
    return built.bundle("b2", cpu=0.0, name="t/ns/0xf0000000_0xf0010000")


def _v07(played: Played) -> str | None:
    ways = {(m.source, m.target) for m in played.moves}
    return first_complaint(
        (ways == {("b1", "b0")}, f"moves {sorted(ways)}" if ways else "nothing moves"),
        (Reason.EXTERNAL_LOAD in played.reasons("b2"), "does not say that b2's load is not its bundles'"),
    )


def _restart_empty(number: int, built: ClusterBuilder) -> None:
    """In the fourth round b0, overloaded until then, restarts without bundles; the other brokers have taken them."""
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
    return first_complaint((bool(played.moves), "nothing moves"), (over <= 5, f"b1 ends {over:.0f} points above b0"))


def _two_metrics() -> ClusterBuilder:
    built = cluster()
    for at, (cpu, megabytes) in enumerate(((50, 50), (60, 60), (70, 70), (10, 80), (20, 10))):
        size: dict[str, Any] = {"throughput_in": 0.0, "throughput_out": megabytes * 1e6}
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
    return first_complaint(
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
    return no_moves(played) or (None if said or told else "does not say that the cluster is too small")


CASES = (
    Case("V01", "12, 2, 1 and 1 %", "PIP-220", lambda: loads(12, 2, 1, 1), _v01),
    Case("V02", "five at 50 % and a new one", "PIP-220", lambda: loads(*[50] * 5, 0), fills("b5", 0.75), 2),
    Case("V03", "ten at 80 % and a new one", "pulsar#17456", lambda: loads(*[80] * 10, 0), fills("b10", 0.75), 2),
    Case(
        "V04",
        "40 % four times, 69 and 70 %",
        "PIP-364",
        lambda: loads(40, 40, 40, 40, 69, 70),
        ends_below("b0", "b1", "b2", "b3", below=57),
    ),
    Case("V05", "10, 60, 70, 80, 80 %", "PIP-364", lambda: loads(10, 60, 70, 80, 80), ends_below("b0", below=66)),
    Case("V06", "90 and 10 %, equal after the first moves", "PIP-217", lambda: loads(90, 10), _v06, 20),
    Case("V07", "10, 50 and 70 %, the last not its bundles'", "PIP-364", _foreign_load, _v07),
    Case(
        "V08",
        "the controller restarts between rounds",
        "pulsar#13119",
        lambda: loads(65, 40, 40, 40),
        ends_below("b1", "b2", "b3", below=52),
    ),
    Case(
        "V09",
        "a hot broker restarts empty",
        "pulsar#16766",
        lambda: loads(60, 40, 40, 40),
        fills("b0", 0.75),
        10,
        _restart_empty,
    ),
    Case("V10", "all traffic on one of two brokers", "pulsar#21905", lambda: loads(6, 0, parts=6), _v10),
    Case("V11", "two metrics, two rankings", "pulsar#21016", _two_metrics, _v11),
    Case("V12", "bundles that come back", "pulsar#21722", lambda: loads(80, 20, 20, 60), _v12, 29),
    Case("V13", "everybody above 85 %", "PIP-364", lambda: loads(97, 93, 90, 86), _v13),
)
