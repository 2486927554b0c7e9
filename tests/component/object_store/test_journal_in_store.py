"""The journal's compare-and-set in an object store: one writer for each version, whatever the store does."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from controller.domain.entries import Entry, Kind
from controller.domain.errors import ConfigError, ForeignCommit
from controller.ledger.delta_log import HINT, DeltaLog
from controller.ledger.journal_commit import Journal
from controller.ledger.store.conditional_put import PROBE, check_conditional_put
from controller.ledger.tables import TableRoot
from tests.component.object_store.conftest import Store
from tests.component.object_store.server import BUCKET, Served

RACERS = 4
PRECONDITION_FAILED = 412


def entry(seq: int, instance: str) -> Entry:
    return Entry(seq, Kind.ALARM, instance, seq, 1_000 + seq, reason="test")


@pytest.mark.parametrize("races", [200, pytest.param(1_000, marks=pytest.mark.cluster)])
def test_the_server_has_one_winner_in_every_race(races: int, store: Store) -> None:
    """Of raw puts, without which the tests below would say nothing."""
    barrier = threading.Barrier(RACERS)

    def race(racer: int) -> list[int]:
        client = boto3.client("s3", endpoint_url=store.address, config=Config(retries={"total_max_attempts": 1}))
        codes = []
        for number in range(races):
            barrier.wait()
            try:
                answer = client.put_object(
                    Bucket=BUCKET, Key=f"race-{races}-{number}", Body=str(racer), IfNoneMatch="*"
                )
            except ClientError as error:
                answer = error.response
            codes.append(answer["ResponseMetadata"]["HTTPStatusCode"])
        return codes

    with ThreadPoolExecutor(RACERS) as pool:
        answers = list(zip(*pool.map(race, range(RACERS)), strict=True))
    assert len(answers) == races
    for codes in answers:
        assert sorted(codes) == [200] + [PRECONDITION_FAILED] * (RACERS - 1)


def test_the_servers_work_on_requests_at_once_counts_once() -> None:
    """Else a benchmark would say that a commit takes the server longer than it takes."""
    served, began_s = Served(), time.perf_counter()
    with served.busy(), served.busy():
        time.sleep(0.01)
    assert 0 < served.document()["busy_s"] < time.perf_counter() - began_s


def test_a_store_that_ignores_conditions_is_refused(root: TableRoot, store: Store) -> None:
    check_conditional_put(root)
    store.set(ignore_conditions=True)
    with pytest.raises(ConfigError, match=r"two writes of the same new object \(it ignores If-None-Match\)"):
        check_conditional_put(root)
    assert PROBE not in store.listing(), "the probe is removed again"


def test_of_two_controllers_one_goes_on_and_the_other_stops(root: TableRoot) -> None:
    root.create_all()
    start = threading.Barrier(2)

    def control(instance: str) -> tuple[int, str]:
        journal = Journal(root.again())
        start.wait()
        for done in range(30):
            try:
                journal.commit([entry(journal.last_seq + 1, instance)], instance, journal.last_seq + 1)
            except ForeignCommit:
                return done, "foreign"
        return 30, "went on"

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(control, ("one", "two"))
    assert {first[1], second[1]} == {"went on", "foreign"}
    loser = first if first[1] == "foreign" else second
    written = Journal(root).read_since(0)
    assert [e.seq for e in written] == list(range(1, 31 + loser[0]))


def test_a_commit_whose_answer_was_lost_is_found_in_the_log(root: TableRoot, store: Store) -> None:
    root.create_all()
    journal = Journal(root)
    store.set(method="PUT", part="/journal/_delta_log/", lose=1)
    journal.commit([entry(1, "one")], "one", 1)
    journal.commit([entry(2, "one")], "one", 2)
    assert store.faults().lose == 0
    assert [e.seq for e in Journal(root).read_since(0)] == [1, 2]


def test_a_throttled_and_slow_store_delays_a_commit_and_loses_none(root: TableRoot, store: Store) -> None:
    root.create_all()
    journal = Journal(root)
    store.set(part="/journal/", refuse=3)
    journal.commit([entry(1, "one")], "one", 1)
    assert store.faults().refuse == 0
    store.set(part="/journal/", delay_s=0.1)
    journal.commit([entry(2, "one")], "one", 2)
    assert [e.seq for e in Journal(root).read_since(0)] == [1, 2]


@pytest.mark.parametrize("ahead", [0, 1])
def test_a_look_for_the_next_commit_costs_two_requests(root: TableRoot, store: Store, ahead: int) -> None:
    """While Kafka is silent, every agent looks every second. One request would do, but it would stop all threads."""
    root.create("journal")
    journal, log = Journal(root), root.log("journal")
    journal.commit([entry(1, "one")], "one", 1)
    assert log.exists(journal.version + ahead) == (ahead == 0)
    before = store.requests()
    assert log.exists(journal.version + ahead) == (ahead == 0)
    assert store.requests() == before + 2


def test_a_store_that_has_just_answered_is_not_asked_again(root: TableRoot, store: Store) -> None:
    """Every commit of the journal looks for a checkpoint right after its append."""
    root.create("journal")
    costs = []
    for just_answered in (False, True):
        before = store.requests()
        assert root.log("journal").last_checkpoint(just_answered) == -1
        costs.append(store.requests() - before)
    assert costs == [2, 1]


@pytest.mark.parametrize(
    "look",
    [
        lambda log: log.exists(7),
        lambda log: log.read_file(HINT),
        lambda log: log.open_file("part-0.parquet"),
        lambda log: log.last_checkpoint(),
        lambda log: log.has_log(),
    ],
    ids=["exists", "read_file", "open_file", "last_checkpoint", "has_log"],
)
def test_other_threads_go_on_while_a_store_hangs(look: Callable[[DeltaLog], object], store: Store) -> None:
    """An agent whose interpreter stands still sends no heartbeat: its lease would end with its store's answers."""
    with socket.create_server(("127.0.0.1", 0)) as silent:  # connects, and never answers
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        options = {"aws_endpoint": address, "aws_allow_http": "true", "timeout": "2s", "max_retries": "0"}
        log = TableRoot(f"s3://{BUCKET}/silent", options).log("journal")
        ticks = 0
        with ThreadPoolExecutor(1) as other:
            looking = other.submit(look, log)
            while not looking.done():
                time.sleep(0.01)
                ticks += 1
    assert looking.exception() is not None
    assert ticks > 20
