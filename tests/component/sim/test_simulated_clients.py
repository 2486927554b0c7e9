"""The clients of the simulated deployment: what they must see, and bugs that nothing but their messages shows."""

from __future__ import annotations

from typing import Any

import pytest

from controller.brokers.reference.handles import ConsumerHandle, ProducerHandle
from controller.brokers.reference.store.cursor import Cursor
from controller.brokers.reference.store.messages import Message
from controller.brokers.reference.store.producers import ProducerTail
from controller.brokers.reference.subscription import Ranges, Subscription
from controller.brokers.reference.topic import OpenTopic
from controller.domain.ids import topic_hash
from controller.testbed.simulated.deployment import TOPICS, Deployment
from controller.testbed.simulated.messages import ACKNOWLEDGED, CONFIRMED, PUBLISHED, READ, READ_AGAIN, Messages
from controller.testbed.simulated.runs import run_seed

TOPIC = "persistent://t/n/x"


def first_failure(seeds: int = 8) -> str:
    return next(filter(None, (run_seed(seed).failure for seed in range(1, seeds + 1))), "")


def test_clients_publish_and_read_while_bundles_move() -> None:
    run = run_seed(3)
    assert run.failure == ""
    assert run.messages[PUBLISHED] >= run.messages[ACKNOWLEDGED] > 100
    assert run.messages[READ] >= run.messages[ACKNOWLEDGED]
    assert sum(count for name, count in run.messages.items() if name.startswith("hand-over")) > 0


def test_every_bundle_has_a_topic_of_theirs() -> None:
    deployment = Deployment(3)
    try:
        deployment.begin()
        deployment.run(5_000)
        for bundle in deployment.bundles():
            assert any(bundle.contains(topic_hash(topic)) for topic in TOPICS)
        assert {one for bundle in deployment.bundles() for one in deployment.segments.engine.topics(bundle)} == set(
            TOPICS
        )
        assert deployment.messages.counts[READ] > 0
    finally:
        deployment.close()


# ---------------------------------------------------------------- planted bugs: ownership is right, messages are not


@pytest.mark.thorough
def test_a_cursor_that_moves_back_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    accept = Subscription.accept

    def move_back(
        found: Subscription, consumer: ConsumerHandle, ranges: Ranges, below: int | None
    ) -> tuple[Ranges, Ranges]:
        if below is not None:
            found.cursor.mark = min(found.cursor.mark, below)
        return accept(found, consumer, ranges, below)

    monkeypatch.setattr(Subscription, "accept", move_back)
    assert "was acknowledged" in first_failure(120)


def test_an_acknowledgement_before_the_append_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    store = OpenTopic._store

    def acknowledge_first(topic: OpenTopic, producer: ProducerHandle, first: int, body: bytes) -> None:
        offsets = [topic.next_offset]
        producer.connection.send(
            {"op": "sent", "ref": producer.ref, "first": first, "offsets": offsets, "duplicates": []}
        )
        store(topic, producer, first, body)

    monkeypatch.setattr(OpenTopic, "_store", acknowledge_first)
    assert "where nothing is stored" in first_failure()


def test_a_repetition_that_is_stored_again_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The store forgets a producer's last message, which is sent again whenever a connection broke."""
    monkeypatch.setattr(ProducerTail, "note", lambda tail, sequence, offset: setattr(tail, "last", sequence - 1))
    assert first_failure() != ""


# ---------------------------------------------------------------- the record


class Store:
    """What is stored of `TOPIC`."""

    def __init__(self, stored: int, acknowledged: int) -> None:
        self.stored, self.mark = stored, acknowledged

    def holds(self, topic: str, offset: int) -> bool:
        return offset < self.stored

    def acknowledged(self, topic: str) -> Cursor:
        return Cursor(self.mark)


def record(stored: int = 10, acknowledged: int = 10) -> tuple[Messages, list[str]]:
    """A record of messages, and what it complains of."""
    breaches: list[str] = []
    store: Any = Store(stored, acknowledged)
    return Messages(breaches.append, store), breaches


def deliver(found: Messages, *offsets: int, payloads: str = "abcdefgh") -> None:
    found.deliver(TOPIC, [(offset, Message("p", offset, "", payloads[offset].encode())) for offset in offsets])


def test_what_comes_in_order_is_fine() -> None:
    found, breaches = record()
    found.open_consumer(TOPIC, 0)
    deliver(found, 0, 1)
    found.confirm(TOPIC, [(0, 1)])
    found.open_consumer(TOPIC, 1)
    deliver(found, 1, 2)
    found.acknowledge(TOPIC, [b"b", b"c"], [1, 2])
    found.confirm(TOPIC, [(0, 3)])
    assert (breaches, found.backlog()) == ([], "")
    assert found.counts == {ACKNOWLEDGED: 2, READ: 3, READ_AGAIN: 1, CONFIRMED: 3}


@pytest.mark.parametrize(
    ("offsets", "complaint"),
    [
        ((0, 2), "offset 2 is delivered before 1, which is lost or out of order"),
        ((0, 1, 1), "offset 1 is delivered after 1"),
        ((0, 1, 0), "offset 0 is delivered after 1"),
    ],
)
def test_what_comes_out_of_order_is_seen(offsets: tuple[int, ...], complaint: str) -> None:
    found, breaches = record()
    deliver(found, *offsets)
    assert breaches[0] == f"{TOPIC}: {complaint}"


def test_what_comes_again_after_its_confirmation_is_seen() -> None:
    found, breaches = record()
    deliver(found, 0, 1)
    found.confirm(TOPIC, [(0, 1)])
    found.open_consumer(TOPIC, 0)
    deliver(found, 0)
    assert breaches == [
        f"{TOPIC}: is read from 0 on, all below 1 was acknowledged",
        f"{TOPIC}: offset 0 is delivered after its acknowledgement was confirmed",
    ]


def test_another_message_at_the_same_offset_is_seen() -> None:
    found, breaches = record()
    deliver(found, 0, 1)
    found.acknowledge(TOPIC, [b"x"], [1])
    found.acknowledge(TOPIC, [b"y"], [2])
    found.open_consumer(TOPIC, 0)
    deliver(found, 0, payloads="z")
    deliver(found, 2)
    assert breaches == [
        f"{TOPIC}: b'x' is acknowledged at offset 1, where b'b' is",
        f"{TOPIC}: b'z' is delivered at offset 0, where b'a' is",
        f"{TOPIC}: b'c' is delivered at offset 2, where b'y' is",
    ]


def test_what_is_not_stored_is_not_acknowledged() -> None:
    found, breaches = record(stored=1, acknowledged=0)
    deliver(found, 0)
    found.acknowledge(TOPIC, [b"b"], [1])
    found.confirm(TOPIC, [(0, 1)])
    assert breaches == [
        f"{TOPIC}: b'b' is acknowledged at offset 1, where nothing is stored",
        f"{TOPIC}: the acknowledgement of 0 to 1 is confirmed, and not stored",
    ]


def test_a_consumer_that_begins_behind_what_was_never_delivered_is_seen() -> None:
    found, breaches = record()
    found.open_consumer(TOPIC, 2)
    assert breaches == [f"{TOPIC}: is read from 2 on, and 0 was never delivered"]


def test_what_is_still_to_come_is_told() -> None:
    found, _ = record(acknowledged=1)
    found.acknowledge(TOPIC, [b"a", b"b"], [0, 1])
    deliver(found, 0)
    assert found.backlog() == f"{TOPIC}: the acknowledged message at offset 1 was never delivered"
    deliver(found, 1)
    assert found.backlog() == f"{TOPIC}: offset 1 was delivered, and its acknowledgement is not stored"


def test_a_client_that_ends_is_seen() -> None:
    deployment = Deployment(4)
    try:
        deployment.begin()
        assert deployment.clients is not None
        deployment.clients._note_failure(
            deployment.clients.loop, {"message": "client x ended", "exception": ValueError("no such frame")}
        )
        with pytest.raises(Exception, match="client x ended: ValueError: no such frame"):
            deployment.settle()
    finally:
        deployment.close()
