"""A short live run whose tables, checkpoints and Kafka are kept: the job, agents and clients as processes.

In five minutes: a skew that rounds relieve, a split that an agent proposes and one by command, overrides, a
challenger, a drain, a killed broker, a refused command, a bad record. The job stops cleanly, so that the next version
can go on where this one ended.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from controller.bus.producer import JsonProducer
from controller.bus.topics import TopicNames
from controller.domain.entries import Kind
from controller.domain.ownership import State
from controller.domain.state import ClusterState
from controller.testbed.demo.workload import HOT_SHARE, TOPICS, Workload, bundle_of, heat_rates, topics_of
from controller.testbed.local_cluster import LocalCluster

BROKERS = ("broker-1", "broker-2", "broker-3")
SETTINGS = ("rounds.challengers=[headroom]", "loads.pane_s=10", "rounds.round_interval_s=10")
RATE_PER_S = 2.0
Tell = Callable[[str], None]


def run_live(folder: Path, tell: Tell) -> None:
    """Play the story in the folder; `tables`, `checkpoints` and `kafka` are left there. Raises ProcessFailed."""
    with LocalCluster(folder, overrides=SETTINGS) as cluster:
        tell("starting Kafka, store, job and agents")
        cluster.up(BROKERS)
        workload = Workload(cluster)
        workload.create()
        workload.start(dict.fromkeys(TOPICS, RATE_PER_S))
        cluster.wait_until(_all_served, 120, "service of every topic")
        tell("skew")
        _skew(cluster, workload)
        tell("overrides, a challenger, a command that is refused, a bad record")
        _commands(cluster)
        _bad_record(cluster)
        tell("splits and a drain")
        _split_by_agent(cluster, workload)
        _split_by_command(cluster)
        cluster.command("drain", broker="broker-3")
        cluster.wait_until(lambda s: not _held(s, "broker-3"), 60, "the drain")
        cluster.command("undrain", broker="broker-3")
        _rounds(cluster, 1)
        tell("kill")
        _kill(cluster)
        _rounds(cluster, 2)
        tell("stopping")


def _commands(cluster: LocalCluster) -> None:
    owned = {n: r.by for n, r in sorted(cluster.state.bundles.items()) if r.state is State.OWNED and r.by}
    bundles = list(owned)
    cluster.command("override", override="pin", bundle=bundles[0], broker=owned[bundles[0]].broker)
    cluster.command("override", override="freeze", bundle=bundles[1])
    cluster.command("override", override="avoid", bundle=bundles[2], broker="broker-2")
    cluster.command("strategy", challengers=["threshold"])
    refused = cluster.command("unload_bundle", bundle=bundles[0], to="nobody")
    assert not refused.accepted, "a move to a broker that does not exist was accepted"


def _bad_record(cluster: LocalCluster) -> None:
    """One that the loads query, one that the control query quarantines."""
    names = TopicNames(cluster.settings.kafka.topic_prefix)
    producer = JsonProducer(cluster.settings.kafka.bootstrap_servers, "bad-record", cluster.settings.kafka.client)
    try:
        for topic in (names.load_reports, names.commands):
            producer.send(topic, {"v": 99}, key="nobody")
        producer.flush()
    finally:
        producer.close()


def _skew(cluster: LocalCluster, workload: Workload) -> None:
    """Make one broker hot until a round has moved something off it."""
    state = cluster.state
    counts = {broker: len(topics_of(state, broker)) for broker in BROKERS}
    hot = max(counts, key=lambda broker: counts[broker])
    held = {t: _bundle_name(state, t) for t in topics_of(state, hot)}
    reference = cluster.settings.reference
    operations_per_s = HOT_SHARE * reference.cpu_pct / 100 * 1e6 / max(1.0, reference.cpu_us_per_message)
    before = _moved_by_rounds(cluster)
    workload.set_rates(heat_rates(held, workload.rates, operations_per_s))
    cluster.wait_until(lambda _: _moved_by_rounds(cluster) > before, 240, "a move by a round", needs="job")
    workload.set_rates(dict.fromkeys(TOPICS, RATE_PER_S))


def _split_by_agent(cluster: LocalCluster, workload: Workload) -> None:
    """The bundle with most topics, of those that may be split, gets more traffic than a bundle may have."""
    state = cluster.state
    wished = {wish.bundle for wish in state.overrides.values()}
    counts = Counter(name for name in (_bundle_name(state, topic) for topic in TOPICS) if name not in wished)
    name, count = counts.most_common(1)[0]
    topics = [topic for topic in TOPICS if _bundle_name(state, topic) == name]
    most_per_s = cluster.settings.split.max_msg_rate_per_s or 400.0
    workload.set_rates(dict.fromkeys(topics, 1.3 * most_per_s / 2 / count))  # in, and at least once out
    cluster.wait_until(lambda s: s.bundles[name].state is State.RETIRED, 180, f"the split of {name}", needs="job")
    workload.set_rates(dict.fromkeys(topics, RATE_PER_S))


def _split_by_command(cluster: LocalCluster) -> None:
    owned = sorted(n for n, r in cluster.state.bundles.items() if r.state is State.OWNED)
    assert cluster.command("split_bundle", bundle=owned[-1]).accepted
    cluster.wait_until(lambda s: s.bundles[owned[-1]].state is State.RETIRED, 60, "the split")


def _kill(cluster: LocalCluster) -> None:
    owned = Counter(r.by.broker for r in cluster.state.bundles.values() if r.by)
    victim = owned.most_common(1)[0][0]
    cluster.children[victim].kill()
    cluster.wait_until(lambda s: not _held(s, victim), 60, f"the failover of {victim}")
    cluster.wait_until(_all_served, 60, "service after the failover")


def _rounds(cluster: LocalCluster, count: int) -> None:
    wanted = _round_entries(cluster) + count
    cluster.wait_until(lambda _: _round_entries(cluster) >= wanted, 120, f"{count} rounds", needs="job")
    time.sleep(2)  # projections and feed behind the last one


def _round_entries(cluster: LocalCluster) -> int:
    return sum(e.kind is Kind.ROUND for e in cluster.entries)


def _moved_by_rounds(cluster: LocalCluster) -> int:
    return sum(e.kind is Kind.OWNERSHIP and e.state == "releasing" and bool(e.decision_id) for e in cluster.entries)


def _held(state: ClusterState, broker: str) -> list[str]:
    return [n for n, r in state.bundles.items() if r.by is not None and r.by.broker == broker]


def _all_served(state: ClusterState) -> bool:
    """Whether no bundle with topics is between two owners."""
    if not state.namespaces:
        return False
    return all(state.bundles[_bundle_name(state, t)].state is State.OWNED for t in TOPICS)


def _bundle_name(state: ClusterState, topic: str) -> str:
    return str(bundle_of(state, topic))
