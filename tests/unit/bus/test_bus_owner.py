"""The record that says whose topics these are, read and judged without Kafka."""

from __future__ import annotations

import json
from typing import Any

import pytest

from controller.bus.topic_owner import RUNNING, STOPPED, Seen, TopicOwner, resolve
from controller.domain.errors import AnotherController, ConfigError
from controller.domain.state import ClusterState
from controller.service.topic_claim import journal_of, nobody_can_be_alive, refuse_another

KAFKA = {"cluster_id": "k1", "topic_ids": {"commands": "a", "heartbeats": "b"}}
TABLES = "/a/tables"


def owner(journal_id: str = "j1", state: str = RUNNING, instance: str = "one", tables: str = TABLES) -> TopicOwner:
    return TopicOwner(journal_id, instance, tables, state, seq=5)


def record(offset: int, at: int, journal_id: str = "j1", **more: Any) -> tuple[int, bytes]:
    said = {"v": 1, "at": at, "journal_id": journal_id, "instance": "i", "tables": "/t", "state": RUNNING, "seq": 1}
    return offset, json.dumps(said | more).encode()


def named(records: list[tuple[int, bytes | None]], end: int = 9) -> tuple[str | None, bool]:
    seen = resolve(records, end)
    return seen.owner.journal_id if seen.owner else None, seen.settled


def test_of_two_that_had_read_the_same_end_the_first_record_counts() -> None:
    assert named([]) == (None, True)
    assert named([record(0, at=0)]) == ("j1", True)
    assert named([record(0, at=0), record(1, at=0, journal_id="j2")]) == ("j1", False)
    assert named([record(0, at=0), record(1, at=0, journal_id="j2"), record(2, at=2)]) == ("j1", True)


def test_who_has_read_the_other_may_come_after_it() -> None:
    assert named([record(0, at=0), record(1, at=1, journal_id="j2")]) == ("j2", True)


def test_after_compaction_a_void_record_still_says_that_it_is_void() -> None:
    """The winner's record is gone, the loser died before it could write it again."""
    assert named([record(7, at=6, journal_id="j2")]) == (None, False)
    assert named([record(7, at=7, journal_id="j2")]) == ("j2", True)


def test_a_record_without_a_value_changes_nothing() -> None:
    assert named([record(0, at=0), (1, None)]) == ("j1", False)


def test_what_a_newer_version_wrote_is_never_guessed() -> None:
    for value in (b'{"v": 2}', b"[]", b"{", b'{"v": 1, "at": 3, "journal_id": "j"}'):
        with pytest.raises(ConfigError, match="offset 3"):
            resolve([(3, value)], 4)
    assert named([record(0, at=0, added_later=True)]) == ("j1", True)


# ---------------------------------------------------------------- whose journal


def seen(found: TopicOwner | None) -> Seen:
    return Seen(found, True, 1)


def judge(state: ClusterState, found: TopicOwner | None, **more: Any) -> str:
    asked = {
        "spoken": True,
        "kafka": KAFKA,
        "accepted": False,
        "tables": TABLES,
        "take_over": False,
        "new_id": "new",
    } | more
    return journal_of(state, seen(found), **asked)


def journal(journal_id: str | None, seq: int = 9, **offsets: int) -> ClusterState:
    read = {topic: {"0": offset} for topic, offset in offsets.items()}
    return ClusterState(seq=seq, journal_id=journal_id, kafka=KAFKA, offsets=read)


def test_a_new_journal_on_topics_that_no_controller_has_used_gets_an_id() -> None:
    assert judge(ClusterState(), None, spoken=False) == "new"


def test_another_journals_topics_are_refused_and_both_places_named() -> None:
    for state in (ClusterState(), journal("j2", commands=4)):
        for word in (RUNNING, STOPPED):
            with pytest.raises(AnotherController, match=r"journal j1 \(tables /a/tables; controller one.* /b/tables"):
                judge(state, owner(state=word), tables="/b/tables", take_over=True)

    with pytest.raises(AnotherController, match=r"journal j1 \(tables s3://\*\*\*@b/t; controller one"):
        judge(ClusterState(), owner(tables="s3://key:hunter2@b/t"))


def test_before_a_jvm_only_what_is_certain_is_refused() -> None:
    for state in (ClusterState(), journal("j2", commands=4), journal(None, commands=3)):
        with pytest.raises(AnotherController, match=r"journal j1 \(tables /a/tables; controller one.* /b/tables"):
            refuse_another(state, owner(), "/b/tables")
    for state in (journal("j2"), ClusterState()):  # another journal in the same place, or tables that were wiped
        with pytest.raises(AnotherController):
            refuse_another(state, owner(), TABLES)
    refuse_another(journal("j1"), owner(), "/b/tables")
    refuse_another(journal(None, commands=3), owner(), TABLES)  # an older version may have forgotten the id
    refuse_another(journal("j1", seq=4), owner(tables="/moved/to"), TABLES)  # --take-over may be given


def test_the_owner_goes_on() -> None:
    assert judge(journal("j1"), owner()) == "j1"
    assert judge(journal("j1"), owner(tables="/moved/from")) == "j1", "its tables were moved, with all that they hold"


def test_an_older_copy_of_the_tables_is_refused() -> None:
    with pytest.raises(AnotherController, match=r"has reached seq 5, the copy at /a/tables ends at 4"):
        judge(journal("j1", seq=4), owner(tables="/moved/to"))
    assert judge(journal("j1", seq=4), owner()) == "j1", "a backup that was put back in its place"
    as_older = "/b/../a/tables"  # versions up to 0.1.0 kept `..` in it
    assert judge(journal("j1", seq=4), owner(tables=as_older)) == "j1"
    assert judge(journal("j1", seq=4), owner(tables="/moved/to"), take_over=True) == "j1"


def test_a_journal_of_an_older_version_owns_the_topics_that_its_offsets_name() -> None:
    assert judge(journal(None, commands=3), None) == "new"
    assert judge(journal(None), None) == "new", "it has read nothing but heartbeats yet"
    other = ClusterState(seq=9, kafka={**KAFKA, "cluster_id": "k2"}, offsets={"commands": {"0": 3}})
    for state in (ClusterState(), other):
        with pytest.raises(AnotherController, match=r"journal at /a/tables has read nothing from them.*--new-journal"):
            judge(state, None)
    assert judge(other, None, accepted=True) == "new", "an operator named this Kafka for it"


def test_one_that_lost_the_topics_when_it_started_does_not_own_them_because_the_record_is_gone() -> None:
    with pytest.raises(AnotherController):
        judge(journal("loser"), None)
    assert judge(journal("j1", commands=3), None) == "j1", "the topic was deleted, its owner has read the others"


def test_a_journal_that_forgot_its_id_under_an_older_version_takes_it_from_the_record() -> None:
    assert judge(journal(None, commands=3), owner()) == "j1"
    with pytest.raises(AnotherController):
        judge(journal(None, commands=3), owner(tables="/elsewhere"))


def test_only_where_both_sides_say_that_it_stopped_is_nobody_listened_for() -> None:
    stopped = ClusterState(seq=9, journal_id="j1", instance="one")
    assert nobody_can_be_alive(stopped, owner(state=STOPPED), spoken=True)
    assert not nobody_can_be_alive(stopped, owner(state=RUNNING), spoken=True)
    assert not nobody_can_be_alive(stopped, owner(state=STOPPED, instance="another"), spoken=True)
    assert not nobody_can_be_alive(stopped, None, spoken=True), "of an older version"
    running = ClusterState(seq=9, journal_id="j1", instance="one", controller_running=True)
    assert not nobody_can_be_alive(running, owner(state=STOPPED), spoken=True)
    assert not nobody_can_be_alive(running, None, spoken=False), "it may be cut off for the moment"
    assert nobody_can_be_alive(ClusterState(), None, spoken=False), "no controller was ever here"
    assert not nobody_can_be_alive(ClusterState(), None, spoken=True)
