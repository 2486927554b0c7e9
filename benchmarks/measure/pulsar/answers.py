"""Answers of a large Pulsar cluster, made from recorded ones.

There are as many namespaces as brokers, each with a ring of equal bundles, and every broker owns one bundle of each
namespace, round and round. Topics are partitions, and each lies in the bundle that its name hashes to, so bundles
have unequal numbers of them. Every row of statistics is a recorded one.
"""

from __future__ import annotations

import json
import zlib
from functools import cached_property
from itertools import pairwise
from typing import Any

from controller.domain.ids import RING_END
from controller.process.paths import ROOT

RECORDED = ROOT / "tests" / "data" / "real" / "pulsar_responses"
CLUSTER = "spike"  # of the recorded brokers
MBEANS_BYTES = 110_000  # of a whole answer of Pulsar 4.0.8; the recorded one is an excerpt
PARTITIONS = 4
STATS_PERIOD_S = 3_600  # so long that nothing is read twice, however slow the machine is


def recorded(name: str) -> Any:
    """The body of a recorded answer."""
    return json.loads((RECORDED / f"{name}.json").read_text())["body"]


def dump(document: Any) -> bytes:
    """JSON as Pulsar writes it: without blanks."""
    return json.dumps(document, separators=(",", ":")).encode()


class Answers:
    """What the brokers of one cluster answer. `topics`: of a bundle, in the mean."""

    def __init__(self, brokers: int, bundles: int, topics: int) -> None:
        self.brokers, self.bundles, self.topics = brokers, bundles, topics
        self.ids = [f"broker-{at:04d}:8080" for at in range(brokers)]
        width = (RING_END + 1) // bundles
        bounds = [*(at * width for at in range(bundles)), RING_END]
        self._ranges = [f"0x{low:08x}_0x{high:08x}" for low, high in pairwise(bounds)]
        self._width = width

    def held_by(self, broker: int) -> list[tuple[int, int]]:
        """Namespace and bundle, by number, of what a broker owns."""
        every = range(self.bundles)
        return [((broker + at) % self.brokers, at) for at in every]

    @cached_property
    def runtime(self) -> bytes:
        """The configuration that a broker runs with."""
        manager = "org.apache.pulsar.broker.loadbalance.impl.ModularLoadManagerImpl"
        return dump(
            {"clusterName": CLUSTER, "loadManagerClassName": manager, "statsUpdateFrequencyInSecs": str(STATS_PERIOD_S)}
        )

    @cached_property
    def mbeans(self) -> bytes:
        """The recorded beans, and as many more as a JVM has."""
        beans = recorded("extensible_mbeans_b1")
        more = {"metrics": beans[-1]["metrics"], "dimensions": {"MBean": "java.lang:type=Other"}}
        count = (MBEANS_BYTES - len(dump(beans))) // len(dump(more)) + 1
        return dump([*beans, *[more] * count])

    def owned(self, broker: int) -> bytes:
        """`ownedNamespaces`, with the heartbeat namespaces of the broker."""
        state = next(iter(recorded("modular_ownedNamespaces_b2").values()))
        own = [f"pulsar/{self.ids[broker]}/0x00000000_0xffffffff"]
        return dump(dict.fromkeys([*own, *self._names(broker)], state))

    def load_report(self, broker: int) -> bytes:
        """The recorded report of the modular load manager, with the broker's bundles."""
        report = recorded("modular_load-report_b2")
        rows = list(report["lastStats"].values())
        stats = {name: rows[at % len(rows)] for at, name in enumerate(self._names(broker))}
        return dump({**report, "lastStats": stats, "bundles": list(stats), "numBundles": len(stats)})

    def topic_stats(self, broker: int) -> bytes:
        """`broker-stats/topics`."""
        rows = self._topic_rows
        ranges: dict[int, list[bytes]] = {}
        for namespace, bundle in self.held_by(broker):
            topics = b",".join(
                b'"%b":%b' % (name, rows[at % len(rows)])
                for at, name in enumerate(self._topics_of[namespace].get(bundle, ()))
            )
            ranges.setdefault(namespace, []).append(
                b'"%b":{"persistent":{%b}}' % (self._ranges[bundle].encode(), topics)
            )
        parts = [b'"%b":{%b}' % (_namespace(at).encode(), b",".join(found)) for at, found in ranges.items()]
        return b"{%b}" % b",".join(parts)

    def _names(self, broker: int) -> list[str]:
        return [f"{_namespace(namespace)}/{self._ranges[bundle]}" for namespace, bundle in self.held_by(broker)]

    @cached_property
    def _topic_rows(self) -> list[bytes]:
        bundles = recorded("modular_topics_b2")["t1/ns1"].values()
        return [dump(stats) for bundle in bundles for stats in bundle["persistent"].values()]

    @cached_property
    def _topics_of(self) -> list[dict[int, list[bytes]]]:
        """Namespace -> bundle -> names of topics."""
        found: list[dict[int, list[bytes]]] = []
        for namespace in range(self.brokers):
            by_bundle: dict[int, list[bytes]] = {}
            prefix = f"persistent://{_namespace(namespace)}/orders-"
            for at in range(self.bundles * self.topics):
                name = f"{prefix}{at // PARTITIONS}-partition-{at % PARTITIONS}".encode()
                by_bundle.setdefault(min(zlib.crc32(name) // self._width, self.bundles - 1), []).append(name)
            found.append(by_bundle)
        return found


def _namespace(number: int) -> str:
    return f"shop/orders-{number:04d}"
