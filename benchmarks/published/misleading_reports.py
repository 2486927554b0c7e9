"""Published cases V14-V19: brokers whose reports mislead, because they are drained, dead, slow, silent or wrong."""

from __future__ import annotations

from benchmarks.published.case import Case, Played, first_complaint, no_moves
from benchmarks.published.clusters import ClusterBuilder, cluster, loads


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
    return first_complaint(
        (bool(played.moves), "nothing moves"), ("gone" not in played.touched, "moves to the dead broker")
    )


def _slow() -> ClusterBuilder:
    """b3 is slow: its CPU usage is low and the backlog of its bundles is high."""
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
    return first_complaint(
        ("b0" in played.touched, "b0 is not relieved"),
        (played.cpu("b0") <= 55, f"b0 stays at {played.cpu('b0'):.0f} %"),
    )


def _v19(played: Played) -> str | None:
    return first_complaint(
        (bool(played.moves), "nothing moves"), ("quiet" not in played.touched, "the silent one takes part")
    )


CASES = (
    Case("V14", "idle brokers that take no part", "crdb#162590", _gateways, no_moves),
    Case(
        "V15",
        "two equal hot bundles, one empty target",
        "pd#5021",
        lambda: cluster().broker("a", cpu=80).bundle("a", cpu=40).bundle("a", cpu=40).broker("b"),
        _v15,
    ),
    Case(
        "V16",
        "a dead broker looks idle",
        "redpanda#2092",
        lambda: loads(90, 50, 50).broker("gone", cpu=0, alive=False),
        _v16,
    ),
    Case("V17", "a slow broker looks idle", "automq#1120", _slow, _v17),
    Case("V18", "a usage of 1000 %", "pulsar#16937", _misread, _v18),
    Case("V19", "one silent broker", "TransferShedder", lambda: loads(90, *[40] * 8).silent("quiet"), _v19),
)
