"""What becomes of reading topics is a metric of the agent: else loads would get old in silence."""

from __future__ import annotations

import asyncio
from typing import Any

from controller.agent.cluster.agent import ClusterAgent
from controller.agent.connections import AgentConnections
from controller.agent.options import AgentOptions
from controller.brokers.pulsar.admin import PulsarAdmin
from controller.brokers.pulsar.poll import ClusterPoll
from controller.brokers.pulsar.topics import TopicReader
from controller.bus.topics import TopicNames
from controller.loads.recorded import Overrides
from tests.unit.brokers.pulsar.stand_in import hang, say, stand_in, status

NOT_RUN: Any = None  # the agent is not started: its poll is


def test_every_reading_of_topics_is_counted_by_what_came_of_it() -> None:
    async def run() -> dict[str, float]:
        async with (
            stand_in(5, extensible=True) as cluster,
            PulsarAdmin(cluster.settings(topics_max_bytes=2_000)) as admin,
            TopicReader(admin, give_up_s=1.0) as topics,
        ):
            for number, broker in enumerate(cluster.brokers):
                broker.held = {f"t/n/0x{number}0000000_0x{number + 1}0000000": 100.0}
            _, large, slow, broken, refused = cluster.brokers
            large.answers["/topics"], slow.answers["/topics"] = say(b" " * 5_000), hang
            broken.answers["/topics"], refused.answers["/topics"] = say(b"{"), status(403)
            poll = ClusterPoll(admin, topics)
            agent = ClusterAgent(
                "n",
                poll,
                AgentConnections(NOT_RUN, NOT_RUN, NOT_RUN, NOT_RUN, TopicNames()),
                AgentOptions(),
                Overrides(),
            )
            try:
                await poll.start()
                poll.with_topics = True
                for _ in range(2):  # no broker is read twice in a statistics period
                    await poll.poll(60.0, lambda polled: None)
            finally:
                await poll.stop()
            families = agent.cluster_metrics.topics_reads.collect()
            return {
                sample.labels["outcome"]: sample.value
                for family in families
                for sample in family.samples
                if sample.name.endswith("_total")
            }

    assert asyncio.run(run()) == {"ok": 1, "too_large": 1, "timed_out": 1, "bad_answer": 1, "forbidden": 1}
