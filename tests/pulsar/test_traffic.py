"""Real clients on a real cluster: nothing is lost when a bundle moves or a broker is killed, and the gap shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.process.clock import wall_ms
from controller.testbed.pulsar.cluster import PulsarCluster
from controller.testbed.pulsar.server_files import SESSION_TIMEOUT_MS
from controller.testbed.pulsar.traffic.owners import Served, locate_topics
from controller.testbed.pulsar.traffic.rates import even_rates, heat, topics_of
from controller.testbed.pulsar.traffic.report import gaps_between
from controller.testbed.pulsar.traffic.traffic import Traffic
from tests.pulsar.waiting import wait_until

pytest.importorskip("pulsar", reason="pulsar-client is not installed")
pytestmark = [pytest.mark.pulsar, pytest.mark.testbed]

NAMESPACE, BUNDLES, TOPICS = "tests/traffic", 16, 24
# A bundle is owned again when a client asks for it. Clients back off for up to a minute, a subscription that got no
# answer from a busy broker tries again after 30 s, and a topic that does not load is given up after 60 s.
RECOVERY_S = 300.0


def test_clients_lose_nothing_when_a_bundle_moves_and_a_broker_is_killed(
    cluster: PulsarCluster, tmp_path: Path
) -> None:
    cluster.admin.create_namespace("broker1", NAMESPACE, BUNDLES)
    topics = topics_of(NAMESPACE, TOPICS)

    def served() -> dict[str, Served]:
        return locate_topics(cluster, NAMESPACE, topics)

    def all_served(places: dict[str, Served]) -> bool:
        return all(place.broker for place in places.values())

    rates = even_rates(topics, 200)
    with Traffic(cluster, tmp_path, topics) as traffic:
        traffic.set_rates(rates)
        traffic.wait_until_flowing()
        places = served()
        brokers = [place.broker for place in places.values()]
        source = max(cluster.spec.broker_names, key=brokers.count)
        hot = {topic: place.bundle for topic, place in places.items() if place.broker == source}
        traffic.set_rates(heat(rates, hot, 100))

        topic, moved = next(iter(hot.items()))
        target = next(name for name in cluster.spec.broker_names if name != source)
        path = f"/admin/v2/namespaces/{moved}/unload?destinationBroker={cluster.spec.broker_id(target)}"
        since_ms = wall_ms()
        assert cluster.admin.request("PUT", source, path, timeout_s=90).status_code == 204
        wait_until(served, lambda places: places[topic].broker == target, "the move to the named broker")
        moved_ms = wall_ms()

        assert cluster.kill(target)
        try:
            wait_until(served, all_served, "new owners after the crash", RECOVERY_S)
            report = traffic.stop(drain_s=RECOVERY_S)
            killed_ms = wall_ms()
        finally:
            cluster.start(target)
    assert (report.lost, report.reordered, report.unconfirmed) == (0, 0, 0), report.texts
    assert report.sent == report.acknowledged > 0
    of_moved = [topic for topic, place in places.items() if place.bundle == moved]
    assert gaps_between(report.publish_gaps, of_moved, since_ms, moved_ms + 5_000) > 0
    # nobody serves a killed broker's bundles before its session has ended
    assert gaps_between(report.publish_gaps, of_moved, moved_ms, killed_ms) > SESSION_TIMEOUT_MS / 2
    assert gaps_between(report.consume_gaps, of_moved, moved_ms, killed_ms) > SESSION_TIMEOUT_MS / 2
