"""One controller: who may start, and what it says first."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from controller.bus.reach import Reach, SourceSettings
from controller.bus.topic_owner import Seen
from controller.bus.topics import TopicNames
from controller.config.settings import Settings
from controller.domain.apply import fold
from controller.domain.entries import Kind
from controller.domain.errors import AnotherController, ConfigError
from controller.domain.settings.policy import ControlSettings
from controller.domain.state import LIVE, SHADOW, ClusterState
from controller.service import prepare, start
from controller.service.arguments import parse_arguments
from controller.service.kafka_identity import check_identity, settle_kafka
from controller.service.reach import starting_offsets
from controller.service.start import check_alone, first_entries, last_entries, listen_for_another, ticking_instance

KAFKA = {"cluster_id": "k1", "topic_ids": {"commands": "a"}}
SETTINGS = ControlSettings(lease_ms=6_000)
JOURNAL = "j1"


def started(**settings: str) -> ClusterState:
    state = ClusterState()
    return fold(state, first_entries(state, "one", 5, ControlSettings(**settings), KAFKA, JOURNAL))  # type: ignore[arg-type]


def silence(listen_ms: int) -> str | None:
    return None


def never(listen_ms: int) -> str | None:
    raise AssertionError("nobody needs to be listened for")


def test_a_new_cluster_is_told_its_mode_and_its_kafka() -> None:
    state = started(initial_mode="live")
    assert (state.mode, state.kafka, state.instance, state.controller_running) == (LIVE, KAFKA, "one", True)
    assert started().mode == SHADOW


def test_a_later_start_leaves_the_mode_alone() -> None:
    state = started(initial_mode="live")
    entries = first_entries(state, "two", 6, ControlSettings(initial_mode="shadow"), KAFKA, JOURNAL)
    assert [e.kind for e in entries] == [Kind.CONTROLLER_STARTED]
    assert fold(state, entries).mode == LIVE


def test_where_nobody_can_be_alive_nobody_is_listened_for() -> None:
    check_alone(started(), True, False, SETTINGS, never)


def test_after_a_crash_a_lease_of_silence_is_enough() -> None:
    heard: list[int] = []
    check_alone(started(), False, False, SETTINGS, lambda ms: heard.append(ms))  # type: ignore[func-returns-value]
    assert heard[0] >= SETTINGS.lease_ms


def test_a_living_controller_is_named() -> None:
    with pytest.raises(AnotherController, match=r"controller one is alive .* --take-over"):
        check_alone(started(), False, False, SETTINGS, lambda ms: "one")
    check_alone(started(), False, True, SETTINGS, never)


@pytest.mark.parametrize("grows", [True, False], ids=["a controller goes on", "records are lost"])
def test_a_journal_that_grows_while_it_is_read_is_not_ahead_of_kafka(
    grows: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a second controller would be told that Kafka has lost records, instead of who is alive."""
    end = 9

    def ends_now(source: SourceSettings) -> dict[str, dict[str, Reach]]:
        return {topic: {"0": Reach(0, end)} for topic in source.topics}

    monkeypatch.setattr(prepare, "read_reach", ends_now)
    claimant: Any = SimpleNamespace(look=lambda: Seen(None, True, 0))
    begins = prepare.Preparation(Settings(), parse_arguments([]), claimant, KAFKA, "two")
    state, end = replace(started(), offsets={"commands": {"0": 15}}), 20 if grows else 9
    if grows:
        assert [entry.kind for entry in begins(state, True)] == [Kind.CONTROLLER_STARTED]
        assert begins.reach["commands"] == {"0": Reach(0, 20)}
    else:
        with pytest.raises(ConfigError, match="commands ends at offset 9, but the journal has read it up to 15"):
            begins(state, True)


def test_only_a_tick_of_this_journal_or_of_an_older_version_is_one_to_give_way_to() -> None:
    tick = {"v": 1, "kind": "tick", "instance": "one", "seq": 5}
    assert ticking_instance(json.dumps(tick).encode(), JOURNAL) == "one"
    assert ticking_instance(json.dumps(tick | {"journal_id": JOURNAL}).encode(), JOURNAL) == "one"
    assert ticking_instance(json.dumps(tick | {"journal_id": "j2"}).encode(), JOURNAL) is None
    beat = {"v": 1, "broker": "b:1", "incarnation": 1, "nonce": "n", "session": 1, "applied_seq": 0}
    assert ticking_instance(json.dumps(beat).encode(), JOURNAL) is None
    assert ticking_instance(b"{", JOURNAL) is None


def tick(instance: str, sent_ms: int) -> bytes:
    return json.dumps({"v": 1, "kind": "tick", "instance": instance, "seq": 5, "sent_ms": sent_ms}).encode()


@pytest.mark.parametrize(
    ("read", "living"),
    [
        ([tick("dead", 1)], None),  # its last request, which Kafka took after it had been killed
        ([tick("dead", 1), tick("dead", 1)], None),  # the same one, sent or read again
        ([tick("dead", 1), tick("dying", 2)], None),
        ([tick("dead", 1), tick("one", 2), tick("one", 3)], "one"),
    ],
)
def test_a_controller_lives_once_two_different_ticks_of_it_are_heard(
    read: list[bytes], living: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Reader:
        def __init__(self, bootstrap: str, topics: list[str], take: Callable[[list[Any]], None], **_: object) -> None:
            self._take = take

        def start(self) -> None:
            for value in read:
                self._take([SimpleNamespace(value=value)])

        def stop(self) -> None: ...

    monkeypatch.setattr(start, "TopicReader", Reader)
    assert listen_for_another("k:1", {}, TopicNames(), JOURNAL, 1) == living


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (
            {"cluster_id": "k2", "topic_ids": {"commands": "a"}},
            r"is cluster k2, but .* are of cluster k1",
        ),
        ({"cluster_id": "k1", "topic_ids": {"commands": "b"}}, "commands was deleted and created again"),
        ({"cluster_id": "k1", "topic_ids": {"x.commands": "a"}}, "kafka.topic_prefix"),
    ],
)
def test_offsets_of_another_kafka_are_refused(found: dict[str, object], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        check_identity(KAFKA, found, "127.0.0.1:9")


def test_the_same_kafka_and_a_journal_without_one_are_fine() -> None:
    check_identity(KAFKA, dict(KAFKA), "127.0.0.1:9")
    check_identity({}, KAFKA, "127.0.0.1:9")


def reading(**offsets: int) -> ClusterState:
    """A journal that has read so far in these topics of KAFKA."""
    topics = {topic: {"0": offset} for topic, offset in offsets.items()}
    return ClusterState(kafka={"cluster_id": "k1", "topic_ids": dict.fromkeys(offsets, "a")}, offsets=topics)


def reach(**held: tuple[int, int]) -> dict[str, dict[str, Reach]]:
    return {topic: {"0": Reach(*bounds)} for topic, bounds in held.items()}


def identity(cluster: str = "k1", **topic_ids: str) -> dict[str, object]:
    return {"cluster_id": cluster, "topic_ids": topic_ids}


def test_in_the_journals_own_kafka_nothing_is_settled_whatever_was_accepted() -> None:
    state, found = reading(commands=5), identity(commands="a")
    assert settle_kafka(state, found, reach(commands=(0, 9)), "b:1", None) is None
    assert settle_kafka(state, found, reach(commands=(7, 9)), "b:1", "k1") is None


def test_another_kafka_must_be_accepted_by_its_id_and_is_read_from_its_beginning() -> None:
    state, found = reading(commands=5), identity("k2", commands="z")
    held = reach(commands=(2, 9))
    with pytest.raises(ConfigError, match=r"cluster k2, .* --accept-new-kafka k2 \(docs/recovery.md\)"):
        settle_kafka(state, found, held, "b:1", None)
    with pytest.raises(ConfigError, match="--accept-new-kafka k1: b:1 is cluster k2"):
        settle_kafka(state, found, held, "b:1", "k1")
    positions = settle_kafka(state, found, held, "b:1", "k2")
    assert positions == {"commands": {"0": 2}}
    after = fold(state, first_entries(state, "two", 6, SETTINGS, found, JOURNAL, positions))
    assert (after.kafka, after.offsets) == (found, {"commands": {"0": 2}})
    assert settle_kafka(after, found, held, "b:1", None) is None


def test_lost_records_are_told_and_what_is_left_of_a_known_topic_is_not_read_again() -> None:
    state, found = reading(commands=50, events=4), identity(commands="a", events="new")
    held = reach(commands=(0, 9), events=(0, 3))
    with pytest.raises(ConfigError, match="events was deleted and created again"):
        settle_kafka(state, found, held, "b:1", None)
    found = identity(commands="a", events="a")
    with pytest.raises(ConfigError, match="commands ends at offset 9, but the journal has read it up to 50"):
        settle_kafka(state, found, reach(commands=(0, 9), events=(0, 4)), "b:1", None)
    found = identity(commands="a", events="new")
    assert settle_kafka(state, found, held, "b:1", "k1") == {"commands": {"0": 9}, "events": {"0": 0}}


def test_reading_starts_at_the_journaled_offset_and_heartbeats_at_their_end() -> None:
    held = reach(commands=(3, 9), events=(0, 9), heartbeats=(0, 70))
    held["requests"] = {"0": Reach(2, 5), "1": Reach(0, 0)}
    applied = {"commands": {"0": 1}, "events": {"0": 4}, "heartbeats": {"0": 12}}
    starting = starting_offsets(held, applied, from_end=("heartbeats",))
    assert starting == {
        "commands": {"0": 3},  # what was between is gone, and the batch will say so
        "events": {"0": 4},
        "heartbeats": {"0": 70},
        "requests": {"0": 2, "1": 0},
    }


def test_the_stop_tells_how_far_was_read() -> None:
    state = started()
    stopped = last_entries(state, "one", 3, 9, {"commands": {"0": 4}}, KAFKA)
    assert [e.kind for e in stopped] == [Kind.OFFSETS, Kind.CONTROLLER_STOPPED]
    assert fold(state, stopped).offsets == {"commands": {"0": 4}}
    assert [e.kind for e in last_entries(state, "one", 3, 9, {}, KAFKA)] == [Kind.CONTROLLER_STOPPED]
