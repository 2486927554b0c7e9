"""One controller: who may start, and what it says first."""

from __future__ import annotations

import pytest

from controller.domain.apply import fold
from controller.domain.entries import Kind
from controller.domain.errors import AnotherController, ConfigError
from controller.domain.settings import ControlSettings
from controller.domain.state import LIVE, SHADOW, ClusterState
from jobs.control_start import check_alone, check_identity, first_entries, last_entries

KAFKA = {"cluster_id": "k1", "topic_ids": {"commands": "a"}}
SETTINGS = ControlSettings(lease_ms=6_000)


def started(**settings: str) -> ClusterState:
    state = ClusterState()
    return fold(state, first_entries(state, "one", 5, ControlSettings(**settings), KAFKA))  # type: ignore[arg-type]


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
    entries = first_entries(state, "two", 6, ControlSettings(initial_mode="shadow"), KAFKA)
    assert [e.kind for e in entries] == [Kind.CONTROLLER_STARTED]
    assert fold(state, entries).mode == LIVE


def test_an_empty_journal_and_a_clean_stop_need_no_listening() -> None:
    check_alone(ClusterState(), False, SETTINGS, never)
    state = started()
    stopped = fold(state, last_entries(state, "one", 3, 9, {"commands": {"0": 4}}, KAFKA))
    check_alone(stopped, False, SETTINGS, never)


def test_after_a_crash_a_lease_of_silence_is_enough() -> None:
    heard: list[int] = []
    check_alone(started(), False, SETTINGS, lambda ms: heard.append(ms))  # type: ignore[func-returns-value]
    assert heard[0] >= SETTINGS.lease_ms


def test_a_living_controller_is_named() -> None:
    with pytest.raises(AnotherController, match=r"controller one is alive .* --take-over"):
        check_alone(started(), False, SETTINGS, lambda ms: "one")
    check_alone(started(), True, SETTINGS, never)


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
