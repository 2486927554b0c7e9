"""The controller is killed at every named point of a batch, and its store fails in every way that has a name.

No Spark and no Kafka: those parts are played, all that decides or writes is real (`crash_stage`). Each scenario is a
seeded story of moves, splits, drains, rounds and repeated commands in which one controller after the other dies.
"""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from controller.domain.entries import Kind
from controller.domain.state import ClusterState
from controller.process import failpoints
from tests.component.crash_child import NAMES
from tests.component.crash_stage import KILLED, CrashCluster, orphaned_evidence, stop_and_check

BROKERS = ("a:1", "b:1", "c:1")
KILLS = {
    "control.before_step": (1, 40),
    "control.before_evidence": (1, 40),
    "evidence.write": (1, 2),
    "evidence.step": (1, 6),
    "control.before_journal": (1, 40),
    "journal.append": (1, 12),  # the first is the claim itself
    "journal.appended": (1, 12),
    "control.before_feed": (1, 10),
    "control.before_projection": (1, 40),
    "projection.write": (1, 1),
}
UNKNOWN_THEN_KILLED = "journal.appended=error@{hit}*1;journal.read_log=kill"
FAILURES = (
    "journal.append=error@3*1;control.before_step=kill@30",  # never arrived: the same entries again
    "journal.appended=error@3*1;control.before_step=kill@30",  # arrived, unheard: found in the log
    "journal.append=error@2*9;control.before_step=kill@20",  # more often than one commit tries: blocked, then on
    "journal.appended=error@3*1;journal.read_log=error@1*2;control.before_step=kill@20",
    "journal.append=delay(150)@2*3;journal.appended=delay(150)@2*3;control.before_feed=kill@6",
    "evidence.write=error@1*2;control.before_step=kill@40",  # stored as another attempt, which the journal names
    "evidence.write=error@1*4",  # the process ends with the error, and is started again
    "evidence.step=error@1*2;control.before_step=kill@40",  # bundles are assigned, the rows come with the next ones
    "control.before_journal=error@9*1",
    "projection.write=error@1*2;control.before_step=kill@40",
)


def kills(choice: random.Random) -> list[str]:
    """Every point once, in some order, at some hit."""
    plans = [f"{point}=kill@{choice.randint(*hits)}" for point, hits in KILLS.items()]
    plans.append(UNKNOWN_THEN_KILLED.format(hit=choice.randint(1, 8)))
    choice.shuffle(plans)
    return plans


def play(cluster: CrashCluster, choice: random.Random) -> None:
    """Operators and brokers go about their business until every planned end has come."""
    for broker in BROKERS:
        cluster.start(broker)
    cluster.command("create_namespace", namespace="t/n", bundles=6)
    cluster.run(6_000)
    for turn in range(200):
        if cluster.all_ended and turn > 10:
            break
        disturb(cluster, choice, turn)
        cluster.run(choice.choice([300, 1_000, 2_500]))
    for broker in BROKERS:
        cluster.command("undrain", broker=broker)
    cluster.settle()


def disturb(cluster: CrashCluster, choice: random.Random, turn: int) -> None:
    bundles = [b for ns in sorted(cluster.state.namespaces) for b in cluster.state.namespaces[ns]]
    if not bundles:
        return
    bundle = choice.choice(bundles)
    what = choice.choice(
        ["lookup"] * 3 + ["move"] * 4 + ["split", "drain", "undrain", "namespace", "nonsense", "all", "garbage"]
    )
    if what == "lookup":
        for each in bundles:
            cluster.lookup(each)
    elif what == "move":
        cluster.command("unload_bundle", bundle=str(bundle), to=choice.choice(BROKERS))
    elif what == "split" and len(bundles) < 20:
        cluster.command("split_bundle", bundle=str(bundle), unload=choice.random() < 0.5)
    elif what in ("drain", "undrain"):
        cluster.command(what, broker=choice.choice(BROKERS))
    elif what == "namespace" and len(cluster.state.namespaces) < 4:
        cluster.command("create_namespace", namespace=f"t/m{turn}", bundles=2)
    elif what == "nonsense":
        cluster.command("unload_bundle", bundle="t/n/0x00000001_0x00000002")
    elif what == "garbage":
        cluster.log.garble(choice.choice([NAMES.commands, NAMES.broker_events, NAMES.assign_requests]))
    elif what == "all":
        cluster.command("unload_namespace", namespace="t/n")


def story(seed: int, folder: Path, plans: list[str], lookback: int = 0) -> CrashCluster:
    """Play it to the end and check everything; returns the cluster for what a test wants to know besides."""
    cluster = CrashCluster(seed, folder, plans, lookback)
    try:
        play(cluster, random.Random(seed))
        entries = stop_and_check(cluster)
    finally:
        cluster.close()
    assert cluster.ends.count(KILLED) == sum("kill" in plan for plan in plans), cluster.ends
    assert len({e.instance for e in entries}) >= 2
    return cluster


def test_killed_at_every_point_once(tmp_path: Path) -> None:
    cluster = story(2, tmp_path, kills(random.Random(2)))
    assert cluster.state.rounds > 3


def test_every_point_is_among_them() -> None:
    of_a_batch = {point for point in failpoints.POINTS if not point.startswith("agent.")}
    assert set(KILLS) | {"journal.read_log"} == of_a_batch


@pytest.mark.thorough
def test_a_store_that_fails_in_every_way(tmp_path: Path) -> None:
    cluster = story(3, tmp_path, list(FAILURES))
    assert cluster.ends.count("OSError") == 2, cluster.ends
    assert cluster.merged > 0, "files were merged beside the batches"
    assert set(orphaned_evidence(cluster)), "an attempt at a round left evidence that does not count"
    computed = Counter(result.round_id for result in cluster.results.values())
    assert max(computed.values()) > 1, "a round was computed again, from other loads and so with another plan"


def test_records_read_again_below_the_journaled_offsets_change_nothing(tmp_path: Path) -> None:
    story(4, tmp_path, ["control.before_step=kill@20", "journal.append=kill@5", "control.before_feed=kill@3"], 10_000)


@pytest.mark.parametrize("point", ["journal.appended=kill@2", "control.before_feed=kill"])
def test_a_thaw_is_carried_out_by_whoever_comes_next(point: str, tmp_path: Path) -> None:
    """Four of five brokers are gone for good, the guard holds, an operator overrules it, the controller is killed."""
    cluster = CrashCluster(6, tmp_path, [])
    try:
        for broker in (*BROKERS, "d:1", "e:1"):
            cluster.start(broker)
        cluster.run(5_000)
        cluster.cut.update(dict.fromkeys((*BROKERS, "d:1"), cluster.now_ms + 600_000))
        cluster.run(12_000)
        assert cluster.state.frozen
        cluster.restart_controller()
        cluster.plan(point)
        cluster.run(16_000)  # it is started, has listened for a lease, and the guard holds
        assert cluster.state.frozen
        assert cluster.ends == [KILLED]
        cluster.command("thaw")
        cluster.run(20_000)
        assert cluster.ends == [KILLED, KILLED]
        assert not cluster.state.frozen
        assert {s.broker for s in cluster.state.sessions} == {"e:1"}
        (accepted,) = [e for e in cluster.journal if e.kind is Kind.COMMAND_ACCEPTED]
        thawed = next(e for e in cluster.journal if e.kind is Kind.GUARD and not e.data["frozen"])
        assert (accepted.instance, thawed.instance) == ("i2", "i3")
    finally:
        cluster.close()


@pytest.mark.faults
@pytest.mark.parametrize("seed", range(10, 22))
def test_killed_at_every_point_at_other_hits(seed: int, tmp_path: Path) -> None:
    choice = random.Random(seed)
    plans = kills(choice) + choice.sample(FAILURES, 3)
    choice.shuffle(plans)
    story(seed, tmp_path, plans, lookback=choice.choice([0, 0, 50]))


def test_the_checks_notice_a_lost_command(tmp_path: Path) -> None:
    cluster = CrashCluster(5, tmp_path, [])
    try:
        cluster.command("create_namespace", namespace="t/n", bundles=1)
        cluster.run(2_000)
        cluster.sent.add("never-sent")
        with pytest.raises(AssertionError, match="exactly one answer"):
            stop_and_check(cluster)
    finally:
        cluster.close()
    assert cluster.state != ClusterState()
