"""The extensible manager's state channel: which write counts, who answers what, what the leader cleans up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.conformance.stories import play
from benchmarks.conformance.values import BadCase
from controller.domain.settings.pulsar import PulsarKnobs
from controller.pulsar.channel.cleanup import (
    MAX_CLEAN_UP_DELAY_MS,
    CleanupJobs,
    MetadataState,
    cleanup_order,
    metadata_state,
    monitor,
    override,
)
from controller.pulsar.channel.conflicts import should_keep_existing
from controller.pulsar.channel.lookup import Answer, after_waiting, look_up
from controller.pulsar.channel.protocol import Channel, child_name, halves
from controller.pulsar.channel.states import (
    TRANSITIONS,
    ServiceUnitState,
    ServiceUnitStateData,
    StorageType,
    is_valid_transition,
    next_version,
)

S = ServiceUnitState
TOPIC, STORE = StorageType.SYSTEM_TOPIC, StorageType.METADATA_STORE
BUNDLE = "tenant/namespace/0x00000000_0xffffffff"
LONG_MAX, LONG_MIN = 2**63 - 1, -(2**63)
entries = st.builds(
    ServiceUnitStateData,
    st.sampled_from(S),
    st.sampled_from([None, "", "a", "b"]),
    st.sampled_from([None, "", "a", "b"]),
    force=st.booleans(),
    version_id=st.integers(1, 6),
)


def owned(by: str, version: int = 1) -> ServiceUnitStateData:
    return ServiceUnitStateData(S.OWNED, by, version_id=version)


# which write counts ---------------------------------------------------------------------------------------------------


@given(st.none() | entries, entries, st.sampled_from(StorageType))
def test_the_version_rule_goes_before_everything(
    old: ServiceUnitStateData | None, new: ServiceUnitStateData, storage: StorageType
) -> None:
    kept = should_keep_existing(old, new, storage)
    if old is None:
        assert storage is TOPIC or kept is (new.version_id != 1)
    elif new.version_id <= old.version_id:
        assert kept
    elif new.version_id > old.version_id + 1:
        assert kept is (storage is STORE)
    elif new.force:
        assert not kept
    elif not is_valid_transition(old.state, new.state, storage):
        assert kept


@given(st.lists(entries, max_size=8), st.sampled_from(StorageType))
def test_every_reader_of_the_same_messages_comes_to_the_same_entry(
    messages: list[ServiceUnitStateData], storage: StorageType
) -> None:
    """The rule looks at nothing but the entry and the message, and what it takes without force is a legal step."""
    entry: ServiceUnitStateData | None = None
    for message in messages:
        if should_keep_existing(entry, message, storage):
            continue
        consecutive = entry is not None and message.version_id == entry.version_id + 1
        if entry is not None and consecutive and not message.force:
            assert message.state in TRANSITIONS[storage][entry.state]
        entry = message


def test_a_gap_in_a_topics_versions_is_taken_for_compaction_unseen() -> None:
    nonsense = ServiceUnitStateData(S.DELETED, version_id=7)
    assert not should_keep_existing(owned("a"), nonsense, TOPIC)
    assert should_keep_existing(owned("a"), nonsense, STORE)
    assert not should_keep_existing(None, ServiceUnitStateData(S.DELETED), STORE)  # a first write is taken unseen


def test_versions_wrap_round_as_a_java_long_does() -> None:
    last = owned("a", LONG_MAX)
    assert next_version(last) == LONG_MIN
    releasing = ServiceUnitStateData(S.RELEASING, "b", "a", version_id=LONG_MIN)
    assert not should_keep_existing(last, releasing)
    assert should_keep_existing(last, replace(releasing, dst_broker="a"))  # the checks behind it still hold


def test_a_tombstone_is_always_taken() -> None:
    assert not any(should_keep_existing(ServiceUnitStateData(state), None, kind) for state in S for kind in StorageType)


# lookups --------------------------------------------------------------------------------------------------------------


def test_an_owner_that_is_not_registered_makes_the_lookup_wait_unless_one_is_not_registered_oneself() -> None:
    assert look_up(owned("a"), "b", {"a", "b"}) == (Answer.OWNER, "a")
    assert look_up(owned("a"), "b", {"b"}).answer is Answer.PENDING
    assert look_up(owned("a"), "b", set()) == (Answer.OWNER, "a")
    splitting = ServiceUnitStateData(S.SPLITTING, None, "a")
    assert look_up(splitting, "b", {"b"}).answer is Answer.PENDING


def test_after_waiting_there_is_an_active_owner_nobody_or_an_error() -> None:
    assert after_waiting(owned("a"), {"a"}) == (Answer.OWNER, "a")
    assert after_waiting(owned("a"), {"b"}).answer is Answer.ERROR
    assert after_waiting(None, {"a"}).answer is Answer.NOBODY
    assert after_waiting(ServiceUnitStateData(S.FREE, None, "a"), {"a"}).answer is Answer.NOBODY
    assert after_waiting(ServiceUnitStateData(S.ASSIGNING, "a"), {"a"}).answer is Answer.ERROR


# the protocol ---------------------------------------------------------------------------------------------------------


def running(storage: StorageType, brokers: Sequence[str] = ("a", "b", "c")) -> Channel:
    channel = Channel(brokers, storage=storage)
    assert channel.assign("a", BUNDLE, "a")
    channel.settle()
    return channel


@pytest.mark.covers("manager-extensible")
@pytest.mark.parametrize("storage", StorageType)
def test_a_bundle_goes_round_and_ends_where_it_was_sent(storage: StorageType) -> None:
    channel = running(storage)
    for target in ("b", "c", "a"):
        channel.unload("a", BUNDLE, target)
        channel.settle()
        assert channel.entries[BUNDLE].dst_broker == target
    channel.unload("a", BUNDLE)
    channel.settle()
    assert channel.state(BUNDLE) is S.FREE
    channel.assign("c", BUNDLE, "c")
    channel.settle()
    assert channel.look_up(BUNDLE, "b") == (Answer.OWNER, "c")


@pytest.mark.parametrize("storage", StorageType)
def test_the_first_of_two_assignments_wins(storage: StorageType) -> None:
    channel = Channel("ab", storage=storage)
    channel.assign("b", BUNDLE, "b")
    channel.assign("a", BUNDLE, "a")
    channel.settle()
    assert channel.entries[BUNDLE].dst_broker == "b"
    assert channel.handled == {"Assigning": 1, "Owned": 1}


def test_a_bundle_that_is_owned_already_is_neither_assigned_again_nor_sent_where_it_is() -> None:
    channel = running(TOPIC)
    channel.assign("b", BUNDLE, "b")
    channel.unload("a", BUNDLE, "a")
    channel.settle()
    assert channel.entries[BUNDLE].dst_broker == "a"
    assert channel.state(BUNDLE) is S.OWNED


@pytest.mark.parametrize("storage", StorageType)
@pytest.mark.parametrize(("failures", "done"), [(0, True), (6, True), (7, False)])
def test_a_split_is_tried_seven_times(storage: StorageType, failures: int, done: bool) -> None:
    channel = running(storage)
    channel.bad_versions = failures
    channel.split("a", BUNDLE, halves(BUNDLE))
    channel.settle()
    assert channel.state(BUNDLE) is (S.INIT if done else S.SPLITTING)
    assert channel.split_attempts == min(failures + 1, 7)
    for child in halves(BUNDLE):  # they are owned before the namespace's bundles change
        assert channel.entries[child_name(BUNDLE, child)].dst_broker == "a"


def test_a_publish_that_fails_changes_nothing() -> None:
    channel = Channel("ab")
    channel.mute.add("a")
    assert not channel.assign("a", BUNDLE, "a")
    channel.settle()
    assert channel.state(BUNDLE) is S.INIT


# what the leader cleans up --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reached", [S.OWNED, S.RELEASING, S.ASSIGNING, S.SPLITTING])
def test_a_lost_brokers_bundle_is_owned_by_another_in_the_end(reached: ServiceUnitState) -> None:
    channel = Channel(("a", "b", "c"))
    children = tuple((child, None) for child in halves(BUNDLE)) if reached is S.SPLITTING else ()
    source, target = (None, "a") if reached in (S.OWNED, S.ASSIGNING) else ("a", None)
    channel.entries[BUNDLE] = ServiceUnitStateData(reached, target, source, children)
    channel.active.discard("a")
    channel.running.discard("a")
    channel.clean_up("a")
    names = [child_name(BUNDLE, child) for child, _ in children] or [BUNDLE]
    assert {channel.look_up(name, "b") for name in names} == {(Answer.OWNER, "b")}
    assert channel.state(BUNDLE) is (S.INIT if children else S.OWNED)


@pytest.mark.parametrize(("alive", "state"), [(True, S.INIT), (False, S.FREE)])
def test_with_nobody_to_take_it_a_bundle_is_free_and_its_last_owner_forgets_it_if_it_runs(
    alive: bool, state: ServiceUnitState
) -> None:
    channel = running(TOPIC, ["a"])
    channel.active.clear()
    if not alive:
        channel.running.clear()
    channel.clean_up("a")
    assert channel.state(BUNDLE) is state


def test_an_override_keeps_who_still_has_to_close_topics() -> None:
    transferring = ServiceUnitStateData(S.ASSIGNING, "b", "a", version_id=5)
    assert override(transferring, "c", 9) == ServiceUnitStateData(
        S.OWNED, "c", "a", force=True, timestamp_ms=9, version_id=6
    )
    assert override(transferring, "a", 9).source_broker is None  # the source takes it back
    assert override(owned("a"), "b", 9, graceful=True).state is S.RELEASING
    assert override(owned("a"), None, 9) == ServiceUnitStateData(
        S.FREE, None, "a", force=True, timestamp_ms=9, version_id=2
    )


def test_system_bundles_are_taken_away_last() -> None:
    system = "pulsar/system/0x00000000_0xffffffff"
    held = {system: owned("a"), BUNDLE: owned("a"), "t/n/0x00000000_0xffffffff": owned("b")}
    assert cleanup_order(held, "a") == [BUNDLE, system]


def test_the_monitor_finds_the_lost_the_stuck_and_the_old() -> None:
    knobs = PulsarKnobs()
    held = {
        "lost": owned("gone"),
        "half": ServiceUnitStateData(S.RELEASING, "gone", "a", timestamp_ms=0),
        "stuck": ServiceUnitStateData(S.ASSIGNING, "a", timestamp_ms=0),
        "moving": ServiceUnitStateData(S.ASSIGNING, "a", timestamp_ms=3_600_000),
        "free": ServiceUnitStateData(S.FREE, None, "gone", timestamp_ms=0),
        "fine": owned("a"),
    }
    found = monitor(held, {"a"}, 3_600_001, knobs)
    assert found == (("gone",), ("stuck",), ("free",))
    assert monitor(held, {"a"}, 30_000, knobs).orphans == ()


def test_how_far_the_metadata_store_is_trusted() -> None:
    now_ms = 10 * MAX_CLEAN_UP_DELAY_MS
    assert metadata_state(True, 0, now_ms) is MetadataState.UNSTABLE
    assert metadata_state(False, now_ms - MAX_CLEAN_UP_DELAY_MS, now_ms) is MetadataState.JITTERY
    assert metadata_state(False, now_ms - MAX_CLEAN_UP_DELAY_MS - 1, now_ms) is MetadataState.STABLE


def test_a_planned_cleanup_is_called_off_by_a_healthy_return_alone() -> None:
    jobs = CleanupJobs()
    for broker in ("back", "sick", "sick"):
        jobs.on_broker_deleted(broker, MetadataState.JITTERY, is_leader=True, now_ms=0)
    jobs.on_broker_deleted("unheard", MetadataState.UNSTABLE, is_leader=True, now_ms=0)
    jobs.on_broker_deleted("not mine", MetadataState.STABLE, is_leader=False, now_ms=0)
    jobs.on_broker_created("back")
    jobs.on_broker_created("sick", healthy=False)
    assert jobs.take_due(MAX_CLEAN_UP_DELAY_MS - 1) == []
    assert jobs.take_due(MAX_CLEAN_UP_DELAY_MS) == ["sick"]
    assert jobs.take_due(MAX_CLEAN_UP_DELAY_MS) == []
    assert jobs.counter == {"Schedule": 2, "Cancel": 1, "Skip": 1, "Success": 1}


def test_a_story_with_a_step_that_is_not_understood_is_refused() -> None:
    with pytest.raises(BadCase, match="levitates"):
        play(["owner broker1", "broker1 levitates"])
