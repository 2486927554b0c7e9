"""What judges a simulated deployment finds what is wrong, and nothing else."""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from controller.agent.lifecycle import LOST, Lifecycle
from controller.agent.watcher import Watcher
from controller.brokers.reference.store.fences import Fences
from controller.control import step
from controller.domain import apply, ownership
from controller.domain.apply import fold
from controller.domain.entries import Entry, Kind
from controller.domain.errors import ForeignCommit, InvariantBroken
from controller.domain.ids import Bundle, Session
from controller.domain.settings.policy import ControlSettings
from controller.domain.state import ClusterState
from controller.ledger.journal_commit import Journal
from controller.testbed.simulated.checks.answers import Answers
from controller.testbed.simulated.checks.breaker import Breaker
from controller.testbed.simulated.checks.fences import ConfirmedFences
from controller.testbed.simulated.checks.refusals import check_commit_refusals, check_refusals
from controller.testbed.simulated.deployment import RESTART_MS, Deployment
from controller.testbed.simulated.faults.false_records import FalseRecords
from controller.testbed.simulated.runs import run_seed
from controller.testbed.simulated.runtime import SimRuntime
from controller.testbed.simulated.tables import SimFollower, SimJournal, SimStore, Version
from controller.testbed.simulated.world import World

BUNDLE = Bundle.parse("t/n/0x00000000_0xffffffff")
SESSIONS = [Session(f"{name}:1", 1, "n", 1) for name in "abcd"]
FIRST = SESSIONS[0]
PAUSE_MS = 6_000


def journal(*steps: tuple[Kind, dict[str, Any]]) -> list[Entry]:
    return [Entry(seq, kind, "c1", 0, 0, **fields) for seq, (kind, fields) in enumerate(steps, 1)]


def registered(session: Session) -> tuple[Kind, dict[str, Any]]:
    return Kind.REGISTERED, {"broker": session.broker, "session": str(session)}


def ended(session: Session, reason: str = "lease") -> tuple[Kind, dict[str, Any]]:
    return Kind.SESSION_ENDED, {"broker": session.broker, "session": str(session), "reason": reason}


def owned(state: str, epoch: int, **fields: Any) -> tuple[Kind, dict[str, Any]]:
    return Kind.OWNERSHIP, {"bundle": str(BUNDLE), "state": state, "epoch": epoch, **fields}


BEGIN = (
    (Kind.NAMESPACE_CREATED, {"data": {"namespace": "t/n", "bundles": [str(BUNDLE)]}}),
    *map(registered, SESSIONS),
)
GRANTED = journal(*BEGIN, owned("assigning", 1, to=str(FIRST)), owned("owned", 1, by=str(FIRST)))


def breaker_of(found: list[str], *living: Session, **settings: Any) -> Breaker:
    return Breaker(ControlSettings(**settings), found.append, lambda session: session in living)


def commit(breaker: Breaker, known: list[Entry], entries: list[Entry], now_ms: float = 0.0) -> list[Entry]:
    breaker.commits(entries, fold(ClusterState(), known), now_ms)
    return [*known, *entries]


def following(known: list[Entry], *steps: tuple[Kind, dict[str, Any]]) -> list[Entry]:
    return journal(*[(entry.kind, {}) for entry in known], *steps)[len(known) :]


def guard(frozen: bool, silent: list[str], alive: int) -> tuple[Kind, dict[str, Any]]:
    return Kind.GUARD, {"data": {"frozen": frozen, "silent": silent, "alive": alive}}


@pytest.mark.parametrize(("epoch", "wrong"), [(1, 0), (2, 1)])
def test_a_bundle_is_owned_once_its_grantee_says_so_at_that_epoch(epoch: int, wrong: int) -> None:
    found: list[str] = []
    answers = Answers(found.append, dict)
    answers.say(FIRST, {"kind": "serving", "bundle": str(BUNDLE), "epoch": epoch})
    answers.commits(GRANTED, ClusterState())
    assert len(found) == wrong


def test_a_released_that_the_owner_never_said_is_found() -> None:
    found: list[str] = []
    answers = Answers(found.append, dict)
    answers.say(SESSIONS[1], {"kind": "released", "bundle": str(BUNDLE), "epoch": 2})
    parties = {"by": str(FIRST), "to": str(SESSIONS[1])}
    entries = following(
        GRANTED, owned("transferring", 2, **parties), owned("releasing", 2, **parties, data={"released": True})
    )
    answers.commits(entries, fold(ClusterState(), GRANTED))
    assert [text for text in found if "'released'" in text]


@pytest.mark.parametrize(("said", "data", "wrong"), [(False, {}, 1), (True, {}, 0), (False, {"fence": True}, 0)])
def test_a_grant_without_a_fence_beside_a_silent_owner_is_found(said: bool, data: dict[str, Any], wrong: int) -> None:
    found: list[str] = []
    answers = Answers(found.append, dict)
    parties = {"by": str(FIRST), "to": str(SESSIONS[1])}
    known = [*GRANTED, *following(GRANTED, owned("releasing", 2, **parties))]
    if said:
        answers.say(FIRST, {"kind": "released", "bundle": str(BUNDLE), "epoch": 2})
    answers.commits(following(known, owned("releasing", 3, **parties, data=data)), fold(ClusterState(), known))
    assert len([text for text in found if "without a fence" in text]) == wrong


@pytest.mark.parametrize(("served", "wrong"), [({BUNDLE: 1}, 1), ({}, 0)])
def test_what_counts_as_missing_and_is_served_is_found(served: dict[Bundle, int], wrong: int) -> None:
    found: list[str] = []
    answers = Answers(found.append, lambda: {FIRST: served})
    missing = owned("releasing", 2, by=str(FIRST), reason="missing_from_inventory")
    answers.commits(following(GRANTED, missing), fold(ClusterState(), GRANTED))
    assert len(found) == wrong


def test_what_a_split_left_that_failed_is_in_doubt_until_it_is_dropped_or_served() -> None:
    """The broker may serve it, and its agent does not count on it: so it lists it in no inventory."""

    class Broker:
        async def split(self, parent: Bundle, children: dict[Bundle, int]) -> None:
            raise OSError("the store's disk failed")

        async def drop(self, bundle: Bundle) -> None: ...

        async def serve(self, bundle: Bundle, epoch: int) -> None: ...

    async def run() -> None:
        broker: Any = Broker()
        runtime, (low, high) = SimRuntime(broker, Random(1), True, Counter()), BUNDLE.split_at(BUNDLE.middle())
        with pytest.raises(OSError, match="disk"):
            await runtime.split(BUNDLE, {low: 2, high: 2})
        assert runtime.half_split == {low, high}
        await runtime.drop(low)
        assert runtime.half_split == {high}
        await runtime.serve(high, 2)
        assert runtime.half_split == set()

    asyncio.run(run())


def test_leases_that_end_beyond_the_limit_are_found() -> None:
    found: list[str] = []
    breaker = breaker_of(found)
    known = commit(breaker, GRANTED, following(GRANTED, ended(SESSIONS[0])))
    assert found == []
    known = commit(breaker, known, following(known, ended(SESSIONS[1])), 50_000)
    assert len(found) == 1


def test_what_ended_before_the_window_does_not_count() -> None:
    found: list[str] = []
    breaker = breaker_of(found)
    known = commit(breaker, GRANTED, following(GRANTED, ended(SESSIONS[0])))
    commit(breaker, known, following(known, ended(SESSIONS[1])), 70_000)
    assert found == []


def test_whoever_has_come_back_does_not_count() -> None:
    found: list[str] = []
    breaker = breaker_of(found)
    again = SESSIONS[0]._replace(incarnation=2)
    known = commit(breaker, GRANTED, following(GRANTED, ended(SESSIONS[0]), registered(again)))
    commit(breaker, known, following(known, ended(SESSIONS[1])), 10_000)
    assert found == []


@pytest.mark.parametrize(
    ("silent", "alive", "living", "wrong"),
    [
        (["a:1", "b:1"], 2, [], 0),
        (["a:1"], 3, [], 1),  # too few
        (["a:1", "b:1"], 2, [SESSIONS[0]], 1),  # lives
        (["a:1", "e:1"], 2, [], 1),  # ended long ago
    ],
)
def test_a_breaker_that_trips_for_nothing_is_found(
    silent: list[str], alive: int, living: list[Session], wrong: int
) -> None:
    found: list[str] = []
    commit(breaker_of(found, *living), GRANTED, following(GRANTED, guard(True, silent, alive)))
    assert len(found) == wrong


def test_a_sound_journal_refuses_what_is_spoilt() -> None:
    found: list[str] = []
    check_refusals(GRANTED, ClusterState(), found.append)
    assert found == []


def test_a_journal_that_takes_falling_epochs_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apply, "check_transition", lambda old, new: None)
    found: list[str] = []
    check_refusals(GRANTED, ClusterState(), found.append)
    assert any("an epoch that falls" in text for text in found)
    assert any("a grant at the epoch before" in text for text in found)
    assert ownership.check_transition is not apply.check_transition


def test_a_writer_that_commits_gaps_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    store, found = SimStore(World(1)), list[str]()
    store.append(Version("c1", 0, tuple(GRANTED)))
    check_commit_refusals(store, found.append)
    assert found == []
    monkeypatch.setattr(Journal, "_check", lambda journal, entries, instance: None)
    check_commit_refusals(store, found.append)
    assert len(found) == 2


def test_what_is_stored_under_another_fence_is_found() -> None:
    found: list[str] = []
    fences = ConfirmedFences(found.append)
    topic = "persistent://t/n/x"
    fences.confirm(BUNDLE, 3, "a")
    fences.judge("messages", topic, 3, "a")
    assert found == []
    lower, upper = BUNDLE.split_at(BUNDLE.middle())
    fences.confirm(lower, 4, "b")
    fences.confirm(upper, 4, "b")
    fences.judge("messages", topic, 3, "a")
    assert len(found) == 1


def test_a_store_without_fences_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Fences, "require", lambda *args: None)
    assert any("the store takes" in run_seed(seed).failure for seed in (12, 13, 17, 21))


def test_a_feed_of_nobody_that_is_followed_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Watcher, "_follows", lambda watcher, entry: True)
    assert any(run_seed(seed).failure for seed in (23, 27, 45, 46))


def test_answers_of_others_that_count_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def take(ctx: Any, event: Any, record: Any) -> None:
        if record.state in (ownership.State.ASSIGNING, ownership.State.RELEASING):
            ctx.move(record, ownership.State.OWNED, by=event.session)

    monkeypatch.setitem(step._ANSWERS, "serving", take)
    assert any("never said it" in run_seed(seed).failure for seed in range(1, 9))


def test_a_follower_that_is_told_of_no_news_beyond_a_log_that_was_cleaned_up_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Watcher, "_catch_up", lambda watcher, known_seq: list(watcher._journal.catch_up()))
    assert any("I6" in run_seed(seed).failure for seed in (12, 18))


def test_the_simulated_log_is_followed_as_the_real_one_is() -> None:
    store = SimStore(World(1))
    for entry in GRANTED[:-2]:
        store.append(Version("c1", 0, (entry,)))
    follower = SimFollower(store, lambda: True)
    follower.bootstrap()
    store.checkpoint = len(store.versions)
    follower.offer(GRANTED[-2:-1])
    for entry in GRANTED[-2:]:
        store.append(Version("c1", 0, (entry,)))
    store.checkpoint = len(store.versions) - 1
    assert follower.catch_up() == [], "a version that was cleaned up looks like one that is not there yet"
    follower.hear(GRANTED[-1].seq)
    assert follower.catch_up() == GRANTED[-1:]


def test_a_writer_that_slept_until_its_next_entries_expired_gives_way() -> None:
    store = SimStore(World(1))
    journal = SimJournal(store, SimpleNamespace(sleep=lambda ms: None), store.world.random)  # type: ignore[arg-type]
    for entry in GRANTED:
        store.append(Version("c2", entry.seq, (entry,)))
    store.checkpoint, store.first_seq = len(store.versions) - 1, len(GRANTED)
    with pytest.raises(ForeignCommit, match="have expired meanwhile"):
        journal.commit(GRANTED[:1], "c1", 1)


@pytest.mark.parametrize("planted", [False, True])
def test_a_process_that_gives_way_for_good_to_one_that_may_be_dead_is_found(
    planted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The controller registers the process whose heartbeat it reads first, which has been killed meanwhile."""
    if planted:
        monkeypatch.setattr(Lifecycle, "give_way", lambda life, verdict: life.end(LOST, verdict.text))
    deployment = Deployment(1)
    try:
        deployment.begin()
        (one,), controller = deployment.living("a:1"), deployment.controller()
        assert controller is not None
        one.leave()
        assert one.agent.sessions is not None
        while one.agent.sessions.current in deployment.store.state.sessions:
            deployment.run(10)
        controller.pause(PAUSE_MS)
        deployment.restart_broker("a:1")
        deployment.run(PAUSE_MS / 3)
        deployment.living("a:1")[0].kill()
        deployment.restart_broker("a:1")
        if planted:
            with pytest.raises(InvariantBroken, match="gives way to another one that is not there"):
                deployment.run(PAUSE_MS)
        else:
            deployment.settle()
    finally:
        deployment.close()


def test_a_broker_whose_last_process_has_ended_for_good_is_not_started_again() -> None:
    deployment = Deployment(1)
    try:
        deployment.begin()
        (one,) = deployment.living("a:1")
        deployment.units.give_up("a:1")
        one.kill()
        deployment.run(RESTART_MS[1] + 1_000)
        assert deployment.living("a:1") == []
        deployment.start_broker("a:1")
        deployment.living("a:1")[0].kill()
        deployment.run(RESTART_MS[1] + 1_000)
        assert len(deployment.living("a:1")) == 1, "whose unit goes on"
    finally:
        deployment.close()


def test_every_kind_of_false_record_can_be_sent() -> None:
    deployment = Deployment(2)
    try:
        deployment.begin()
        false = FalseRecords(deployment, lambda: deployment.world.random)
        deployment.command("unload_bundle", bundle=str(deployment.bundles()[0]), to="a:1")
        for name, (_, strike) in false.kinds.items():
            for _ in range(200):
                if (what := strike()) is not None:
                    break
                deployment.run(50)
            assert what is not None, name
        deployment.settle()
    finally:
        deployment.close()
