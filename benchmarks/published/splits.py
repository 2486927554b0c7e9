"""Published cases V20-V23: bundles that must be split, or cannot be."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.published.case import Case, Played, first_complaint
from benchmarks.published.clusters import ClusterBuilder, loads
from controller.domain.balanced_boundary import find_balanced_boundary
from controller.domain.ids import Bundle
from controller.domain.ownership import State


def _lone_topic() -> ClusterBuilder:
    return loads(0, 20, 20).broker("b0", cpu=85).bundle("b0", cpu=85, topics=1)


def _v20(played: Played) -> str | None:
    told = [d.evidence.get("advice") for r in played.results for d in r.decisions if d.evidence.get("advice")]
    return first_complaint(
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
    return first_complaint(
        (len(played.splits) == 1, f"{len(played.splits)} splits"),
        (all(s.bundle == big and s.epoch == 3 for s in played.splits), "does not say which epoch it means"),
    )


def _v22(played: Played) -> str | None:
    big = Bundle.parse(str(played.built.bundles[-1]["bundle"]))
    third = (big.upper - big.lower) // 3
    two_as_good = [big.lower + third, big.upper - third]
    chosen = find_balanced_boundary(big, dict.fromkeys([big.lower, *two_as_good], 1.0))  # as its owner would
    inside = all(s.boundary is not None and big.lower < s.boundary < big.upper for s in played.splits)
    return first_complaint(
        (bool(played.splits), "no split"), (inside, "no single boundary"), (chosen in two_as_good, "none taken")
    )


def _v23(played: Played) -> str | None:
    told = sum(bool(d.evidence.get("advice")) for r in played.results for d in r.decisions)
    return first_complaint((not played.splits, "splits beyond the maximum"), (told == 1, f"advises {told} times"))


CASES = (
    Case("V20", "one hot topic alone in its bundle", "pulsar#11937", _lone_topic, _v20),
    Case("V21", "a split decided on an old report", "pulsar#826", _big_bundle, _v21, 4, _splitting_after_the_first),
    Case("V22", "two boundaries proposed", "pulsar#22254", _big_bundle, _v22, 1),
    Case(
        "V23",
        "the namespace is at its maximum",
        "pulsar#9484",
        lambda: _big_bundle(namespace_maximum_bundles=21),
        _v23,
    ),
)
