"""The real job is killed at every named point of a batch, and finds Kafka wiped or its tables elsewhere.

What the journal must then look like is checked in all detail, at many more hits, without Spark
(`tests/component/test_crash_points.py`); lost, old and damaged checkpoints in `tests/spark/test_control_query.py`.
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.bus.topics import TopicNames, ensure_topics, live_topics
from controller.config.load import load_settings
from controller.testbed.kafka import EmbeddedKafka
from tests.faults.site import START_S, Site, settled, starters
from tests.spark.control_bench import Journal

pytestmark = [pytest.mark.faults, pytest.mark.kafka, pytest.mark.e2e, pytest.mark.timeout(900)]

BEFORE_THE_COMMIT = (
    "control.before_step=kill@9",
    "control.before_evidence=kill@8",
    "evidence.write=kill",
    "control.before_journal=kill@7",
    "journal.append=kill@4",
)
FROM_THE_COMMIT_ON = (
    "journal.appended=kill@4",
    "journal.appended=error@4*1;journal.read_log=kill",
    "control.before_feed=kill@3",
    "control.before_projection=kill@8",
    "projection.write=kill@3",
)


@pytest.mark.parametrize("points", [BEFORE_THE_COMMIT, FROM_THE_COMMIT_ON], ids=["before", "after"])
def test_killed_at_each_point_and_started_again(site: Site, points: tuple[str, ...]) -> None:
    first = site.started()
    site.serve(6)
    assert first.stop() == 0
    for point in points:
        job = site.started(failpoints=point)
        limit = time.monotonic() + START_S
        while not job.ends_within(0.7):
            assert time.monotonic() < limit, f"{point} was not reached"
            site.stir()
        assert job.process.returncode != 0
        job.end()
    last = site.started()
    site.stir()
    site.wait(settled, "every bundle owned again", last)
    entries = site.check()
    assert len(starters(entries)) == len(points) + 2
    site.check_projections()
    assert not any(e.kind.value == "session_ended" for e in entries), "brokers lived through all of it"
    assert last.stop() == 0


def test_a_slow_store_and_unknown_outcomes_stop_nothing(site: Site) -> None:
    job = site.started(
        failpoints="journal.append=delay(400)@3*4;journal.appended=error@9*2;journal.append=error@14*9;"
        "projection.write=error@2*2"
    )
    site.serve(4)
    limit = time.monotonic() + START_S
    while not all(words in job.said() for words in ("outcome unknown", "blocked: ")):  # how many batches, Spark knows
        assert time.monotonic() < limit, job.said()[-1500:]
        site.stir()
        job.ends_within(0.5)
    site.wait(settled, "every bundle owned", job)
    entries = site.check()
    assert "outcome unknown" in job.said()
    assert len(starters(entries)) == 1
    site.check_projections()
    assert job.stop() == 0


def test_moved_tables_go_on_where_they_are(site: Site) -> None:
    """Stopped, copied, started at the new place: same journal, same brokers, and what was sent meanwhile is done."""
    first = site.started()
    site.serve(4)
    assert first.stop() == 0
    moved = site.folder / "elsewhere" / "tables"
    shutil.copytree(site.settings.tables.root, moved)
    waiting = site.command("create_namespace", namespace="t/meanwhile", bundles=1)
    before = site.journal.state.seq
    there = Journal(load_settings(site.folder / "ballast.yaml", overrides=[f"tables.root={moved}"], env={}))
    second = site.start("--set", f"tables.root={moved}")
    state = there.wait(lambda s: waiting in s.commands, f"the command at the new place; see {second.log}", 120)
    assert state.commands[waiting] == "accepted"
    assert state.seq > before
    assert settled(state) or "t/meanwhile" in state.namespaces
    assert second.stop() == 0
    assert site.journal.state.seq == before, "nothing was written at the old place"
    assert len({e.command_id for e in there.of_kind("command_accepted")}) == len(there.of_kind("command_accepted"))


@pytest.fixture
def own_kafka(tmp_path: Path) -> Iterator[EmbeddedKafka]:
    """One that may be wiped."""
    with EmbeddedKafka(tmp_path / "kafka") as server:
        yield server


def test_a_wiped_kafka_is_refused_until_an_operator_accepts_it(own_kafka: EmbeddedKafka, tmp_path: Path) -> None:
    names = TopicNames("")
    ensure_topics(own_kafka.bootstrap, live_topics(names))
    with Site(tmp_path, own_kafka.bootstrap, names) as site:
        first = site.started()
        site.serve(4)
        assert first.stop() == 0
        before = site.journal.state

        own_kafka.stop()
        shutil.rmtree(own_kafka.data)
        own_kafka.start()
        ensure_topics(own_kafka.bootstrap, live_topics(names))
        refused = site.start()
        assert refused.wait() == 2
        cluster = re.search(r"--accept-new-kafka (\S+)", refused.said())
        assert cluster is not None, refused.said()[-1500:]
        assert before.kafka["cluster_id"] in refused.said()
        mistaken = site.start("--accept-new-kafka", str(before.kafka["cluster_id"]))
        assert mistaken.wait() == 2
        assert "name that one if it is the new Kafka" in mistaken.said()
        assert site.journal.state.seq == before.seq, "a refused start writes nothing"

        waiting = site.command("create_namespace", namespace="t/new", bundles=1)  # the operator's first word there
        second = site.started("--accept-new-kafka", cluster[1])
        state = site.wait(lambda s: waiting in s.commands, "the command in the new Kafka", second)
        assert state.kafka["cluster_id"] == cluster[1]
        assert set(before.bundles) < set(state.bundles)
        assert second.stop() == 0

        third = site.started()  # without the option: the journal knows this Kafka now
        site.stir()
        site.check()
        assert third.stop() == 0
