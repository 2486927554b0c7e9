"""A topic tried out by hand: lines in, lines out, while its bundle moves; and the doctor on a cluster that runs."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable

import pytest

from controller.testbed.local_cluster import LocalCluster
from tests.e2e.checks import owner, record_of
from tests.e2e.programs import BALLAST, ballast

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

PATIENCE_S = 180.0  # only a hang takes so long


def chosen(cluster: LocalCluster) -> list[str]:
    """The options that choose the cluster's configuration."""
    return ["--conf", str(cluster.config_file), *(word for given in cluster.overrides for word in ("--set", given))]


def test_lines_go_in_and_come_out_while_the_bundle_moves(
    cluster: LocalCluster, served: Callable[[int, int], list[str]]
) -> None:
    (topic,) = served(1, 1)
    conf = chosen(cluster)
    with subprocess.Popen([*BALLAST, "produce", topic, *conf], stdin=subprocess.PIPE, text=True) as sending:
        assert sending.stdin is not None
        sending.stdin.write("before\n")
        sending.stdin.flush()
        first = ballast("consume", topic, "--max", "1", "--json", *conf)
        assert (first.returncode, json.loads(first.stdout)["payload"]) == (0, "before")
        target = next(b.id for b in cluster.state.live_brokers() if b.id != owner(cluster.state, topic))
        bundle = str(record_of(cluster.state, topic).bundle)
        assert cluster.command("unload_bundle", bundle=bundle, to=target).accepted
        cluster.wait_until(lambda state: owner(state, topic) == target, PATIENCE_S, "the transfer", needs="job")
        sending.stdin.write("after\n")
        sending.stdin.close()
        assert sending.wait(60) == 0
    rest = ballast("consume", topic, "--idle", "2s", *conf)
    assert (rest.returncode, rest.stdout) == (0, "after\n"), "the first message was acknowledged"


@pytest.mark.thorough
def test_a_partitioned_topic_is_produced_to_and_consumed_whole(
    cluster: LocalCluster, served: Callable[[int, int], list[str]]
) -> None:
    (topic,) = served(1, 1)
    parted, conf = f"{topic}-parted", chosen(cluster)
    assert ballast("topic", "create", parted, "--partitions", "2", *conf).returncode == 0
    with subprocess.Popen([*BALLAST, "produce", parted, *conf], stdin=subprocess.PIPE, text=True) as sending:
        sending.communicate("one\ntwo\n", timeout=60)
        assert sending.returncode == 0
    for number in (0, 1):
        part = ballast("consume", f"{parted}-partition-{number}", "--idle", "2s", "--subscription", "part", *conf)
        assert len(part.stdout.splitlines()) == 1, "lines without a key go to the partitions in turn"
    whole = ballast("consume", parted, "--idle", "2s", *conf)
    assert sorted(whole.stdout.splitlines()) == ["one", "two"]


def test_the_doctor_finds_nothing_severe_in_a_cluster_that_runs(cluster: LocalCluster) -> None:
    done = ballast("doctor", "--json", *chosen(cluster))
    rows = [row for row in json.loads(done.stdout)["findings"] if row["check"] != "disk"]
    assert [row for row in rows if row["severity"] == "severe"] == []
    assert {row["check"] for row in rows if row["severity"] == "ok"} >= {
        "kafka",
        "topics",
        "lag",
        "controller",
        "spark",
    }


def test_every_round_of_a_cluster_that_runs_comes_to_its_plan(cluster: LocalCluster) -> None:
    done = ballast("replay", "--all", "--json", *chosen(cluster))
    told = json.loads(done.stdout)
    assert done.returncode == 0
    assert told["equal"] == told["compared"]
