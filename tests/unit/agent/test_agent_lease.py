"""The lease and the registration of a session."""

from __future__ import annotations

import pytest

from controller.agent.feed_health import FeedHealth, Hearing
from controller.agent.session.lease import Lease
from controller.agent.session.registration import Standing, first_session, judge, next_session
from controller.domain.ids import Session
from controller.domain.state import Broker, ClusterState

ME = "b1:8080"


def _registered(session: Session, alive: bool = True) -> ClusterState:
    state = ClusterState(brokers={session.broker: Broker(session.broker, session)})
    if alive:
        state.sessions[session] = 1
    return state


def test_lease_counts_from_the_first_send_of_the_acknowledged_heartbeat() -> None:
    lease = Lease(6_000, started_ms=1_000)
    assert lease.renew(first_send_ms=2_000, now_ms=5_000)
    assert lease.until_ms == 8_000
    assert not lease.has_expired(7_999)
    assert lease.has_expired(8_000)


def test_an_older_acknowledgement_never_shortens_a_lease() -> None:
    lease = Lease(6_000, started_ms=0)
    lease.renew(3_000, 3_010)
    lease.renew(2_000, 3_020)
    assert lease.until_ms == 9_000


@pytest.mark.covers("ownership-ends-with-session")
def test_an_expired_lease_never_lives_again() -> None:
    lease = Lease(6_000, started_ms=0)
    assert not lease.renew(first_send_ms=5_999, now_ms=6_000)
    assert lease.has_expired(0)
    assert lease.remaining_ms(0) == 0


def test_a_lease_without_any_acknowledgement_expires_too() -> None:
    assert Lease(6_000, started_ms=100).has_expired(6_100)


def test_lease_length_must_be_positive() -> None:
    with pytest.raises(ValueError, match="lease of 0 ms"):
        Lease(0, 0)


def test_a_starting_process_takes_the_next_incarnation() -> None:
    assert first_session(ClusterState(), ME, "n1") == Session(ME, 1, "n1", 1)
    old = Session(ME, 7, "n0", 3)
    assert first_session(_registered(old, alive=False), ME, "n1") == Session(ME, 8, "n1", 1)


@pytest.mark.parametrize(
    ("journaled", "alive", "standing"),
    [
        (Session(ME, 2, "mine", 1), True, Standing.REGISTERED),
        (Session(ME, 2, "mine", 1), False, Standing.ENDED),
        (Session(ME, 1, "old", 4), True, Standing.WAITING),  # the older process has not ended yet
        (Session(ME, 2, "other", 1), True, Standing.OUTRUN),  # its nonce came first; it may be dead
        (Session(ME, 2, "other", 1), False, Standing.OUTRUN),
        (Session(ME, 3, "newer", 1), True, Standing.LOST),
        (Session(ME, 2, "mine", 2), True, Standing.ENDED),
    ],
)
def test_what_the_journal_says_of_a_session(journaled: Session, alive: bool, standing: Standing) -> None:
    assert judge(_registered(journaled, alive), Session(ME, 2, "mine", 1)).standing is standing


def test_a_session_waits_until_the_journal_names_it() -> None:
    session = Session(ME, 1, "n", 1)
    assert judge(ClusterState(), session).standing is Standing.WAITING
    assert judge(_registered(session, alive=False), next_session(session)).standing is Standing.WAITING


def test_a_seq_that_cannot_be_applied_for_one_lease_cuts_the_session() -> None:
    health = FeedHealth(6_000, now_ms=0)
    health.on_record(0)
    health.on_seq(known_seq=5, applied_seq=4, now_ms=0)
    health.on_record(5_900)
    assert health.judge(5_999) is Hearing.FINE
    assert health.judge(6_000) is Hearing.END_SESSION
    assert "seq 5" in health.reason


def test_progress_behind_a_moving_journal_is_no_cut() -> None:
    health = FeedHealth(6_000, now_ms=0)
    for step in range(40):  # always one behind, but every seq is applied half a second later
        health.on_record(step * 500)
        health.on_seq(known_seq=step + 1, applied_seq=step, now_ms=step * 500)
        assert health.judge(step * 500) is Hearing.FINE


def test_a_forged_seq_that_was_corrected_cuts_nobody_who_goes_on() -> None:
    """The agent is always one entry behind, as when the controller commits all the time; it never reaches the forged
    seq, and need not."""
    health = FeedHealth(6_000, now_ms=0)
    health.on_record(0)
    health.on_seq(known_seq=2**40, applied_seq=4, now_ms=0)
    for step in range(1, 40):
        health.on_record(500 * step)
        health.on_seq(known_seq=5 + step, applied_seq=4 + step, now_ms=500 * step)
        assert health.judge(500 * step) is Hearing.FINE, health.reason


def test_silence_is_probed_and_only_an_acknowledged_probe_that_never_comes_back_cuts() -> None:
    health = FeedHealth(6_000, now_ms=0)
    assert health.judge(1_400) is Hearing.FINE
    assert health.judge(1_500) is Hearing.PROBE
    assert health.judge(9_000) is Hearing.PROBE  # Kafka took nothing: the lease decides, not this
    health.on_probe_acked(9_010)
    assert health.judge(11_000) is Hearing.PROBE
    assert health.judge(12_100) is Hearing.END_SESSION


def test_probes_that_kafka_goes_on_taking_do_not_begin_the_wait_anew() -> None:
    """An agent that fetches nothing sends a probe every third of a lease, and all of them are acknowledged."""
    health = FeedHealth(6_000, now_ms=0)
    for now_ms in range(0, 12_000, 100):
        found = health.judge(now_ms)
        if found is Hearing.PROBE:
            health.on_probe_acked(now_ms + 10)
        if found is Hearing.END_SESSION:
            return
    pytest.fail("it keeps its session, and has fetched nothing for two leases")


def test_a_probe_that_comes_back_is_proof() -> None:
    health = FeedHealth(6_000, now_ms=0)
    assert health.judge(1_500) is Hearing.PROBE
    health.on_probe_acked(1_510)
    health.on_record(1_520)
    assert health.judge(2_900) is Hearing.FINE
    assert health.judge(3_100) is Hearing.PROBE
