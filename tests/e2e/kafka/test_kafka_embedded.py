"""The embedded Kafka on its own: start, stop, crash, start again on the same data; two at once; refusals."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.bus.cluster import KafkaUnavailable, cluster_id, topic_ids
from controller.bus.consumer import KafkaRecord, TopicReader
from controller.bus.producer import JsonProducer
from controller.bus.topics import TopicNames, ensure_topics, live_topics
from controller.testbed.kafka import EmbeddedKafka, KafkaNotStarted
from tests.e2e.waiting import wait_until

pytestmark = pytest.mark.kafka
NAMES = TopicNames()


@pytest.fixture
def own_kafka(tmp_path: Path) -> Iterator[EmbeddedKafka]:
    """A Kafka that the test may stop and kill."""
    with EmbeddedKafka(tmp_path / "kafka") as server:
        yield server


def test_a_restart_keeps_address_identity_and_data(own_kafka: EmbeddedKafka) -> None:
    specs = live_topics(NAMES)
    before = ensure_topics(own_kafka.bootstrap, specs), own_kafka.bootstrap, cluster_id(own_kafka.bootstrap)
    producer = JsonProducer(own_kafka.bootstrap, "test")
    assert producer.send(NAMES.commands, {"n": 1}).result(60) == (0, 0)
    producer.close()
    first_pid = own_kafka.pid

    assert own_kafka.stop() is True
    assert own_kafka.pid is None
    assert own_kafka.stop() is False
    with pytest.raises(KafkaUnavailable, match=r"no Kafka answers at 127\.0\.0\.1:"):
        cluster_id(own_kafka.bootstrap, timeout_ms=500)
    own_kafka.start()

    assert own_kafka.pid not in (None, first_pid)
    after = ensure_topics(own_kafka.bootstrap, specs), own_kafka.bootstrap, cluster_id(own_kafka.bootstrap)
    assert after == before
    assert read_all(own_kafka.bootstrap, NAMES.commands, 1) == [b'{"n":1}']


def test_a_crash_loses_no_acknowledged_record_and_clients_come_back_by_themselves(own_kafka: EmbeddedKafka) -> None:
    ensure_topics(own_kafka.bootstrap, live_topics(NAMES))
    seen: list[KafkaRecord] = []
    reader = TopicReader(own_kafka.bootstrap, [NAMES.broker_events], seen.extend)
    reader.start()
    producer = JsonProducer(own_kafka.bootstrap, "test")
    for number in range(50):
        producer.send(NAMES.broker_events, {"n": number}).result(60)
    own_kafka.kill()
    during = producer.send(NAMES.broker_events, {"n": 50})
    contact_before = reader.last_contact_ms
    own_kafka.start()
    assert during.result(60) == (0, 50)
    assert producer.send(NAMES.broker_events, {"n": 51}).result(60) == (0, 51)
    wait_until(lambda: len(seen) >= 52 and reader.last_contact_ms > contact_before, 60)
    assert [record.value for record in seen] == [f'{{"n":{n}}}'.encode() for n in range(52)]
    assert reader.gaps == 0
    reader.stop()
    producer.close()


def test_a_record_that_cannot_be_delivered_is_reported(own_kafka: EmbeddedKafka) -> None:
    ensure_topics(own_kafka.bootstrap, live_topics(NAMES))
    reported: list[str] = []
    producer = JsonProducer(
        own_kafka.bootstrap,
        "test",
        delivery_timeout_ms=1_000,
        max_block_ms=1_000,
        idempotent=False,  # as heartbeats are sent: an idempotent one ends with a record that expires in flight
        on_error=lambda topic, error: reported.append(topic),
    )
    producer.send(NAMES.heartbeats, {"n": 0}).result(60)
    own_kafka.stop()
    assert producer.send(NAMES.heartbeats, {"n": 1}).exception(60) is not None
    assert (producer.failed, reported) == (1, [NAMES.heartbeats])
    own_kafka.start()
    wait_until(lambda: producer.send(NAMES.heartbeats, {"n": 2}).exception(60) is None, 60)  # the same producer goes on
    producer.close()


@pytest.mark.thorough
def test_a_wiped_kafka_has_another_identity(tmp_path: Path) -> None:
    identities = []
    for folder in ("one", "two"):
        with EmbeddedKafka(tmp_path / folder) as server:
            ensure_topics(server.bootstrap, live_topics(NAMES))
            identities.append((cluster_id(server.bootstrap), topic_ids(server.bootstrap, [NAMES.heartbeats])))
    assert identities[0][0] != identities[1][0]
    assert identities[0][1][NAMES.heartbeats] != identities[1][1][NAMES.heartbeats]


def test_a_stale_pid_file_of_another_program_is_not_ours(tmp_path: Path) -> None:
    server = EmbeddedKafka(tmp_path)
    server.pid_file.write_text(f"{os.getpid()} 1.0\n")
    assert server.pid is None
    assert server.stop() is False
    with pytest.raises(KafkaNotStarted, match="was never started"):
        _ = server.bootstrap


def test_a_server_that_dies_at_the_start_says_why(tmp_path: Path) -> None:
    server = EmbeddedKafka(tmp_path)
    (tmp_path / "server.properties").write_text(
        "process.roles=broker,controller\nnode.id=1\nadvertised.listeners=BROKER://127.0.0.1:1\nlisteners=nonsense\n"
    )
    with pytest.raises(KafkaNotStarted, match="cannot format"):
        server.start()


def test_the_command_line_starts_it_beyond_its_own_life(tmp_path: Path) -> None:
    def ballast(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", "from controller.cli.main import main; main()", "kafka", *arguments]
        return subprocess.run(
            [*command, "--dir", str(tmp_path)], capture_output=True, text=True, timeout=120, check=False
        )

    try:
        up = ballast("up")
        assert up.returncode == 0, up.stderr
        assert "cluster_id: " in up.stdout
        assert ballast("up").stdout == up.stdout, "a second `up` finds it running"
        assert set(topic_ids(EmbeddedKafka(tmp_path).bootstrap, [NAMES.commands])) == {NAMES.commands}
        refused = ballast("up", "--port", "1")
        assert refused.returncode == 2
        assert "drop the port" in refused.stderr
    finally:
        assert ballast("down").stdout == "stopped\n"
    assert ballast("status").returncode == 1


@pytest.mark.thorough
def test_any_folder_keeps_its_data_in_any_locale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Java reads properties with escapes, and paths by the locale."""
    monkeypatch.setenv("LC_ALL", "C")
    folder = tmp_path / "kä\\test #1"
    program = f"from controller.testbed.kafka import EmbeddedKafka\nEmbeddedKafka(Path({str(folder)!r})).start()"
    command = [sys.executable, "-c", f"from pathlib import Path\n{program}"]
    identities = []
    for _ in range(2):
        try:
            started = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
            assert started.returncode == 0, started.stderr
            identities.append(cluster_id(EmbeddedKafka(folder).bootstrap))
        finally:
            EmbeddedKafka(folder).stop()
    assert identities[0] == identities[1]
    assert list(tmp_path.iterdir()) == [folder], "nothing is written beside it"
    assert {"data", "kafka.log"} <= {file.name for file in folder.iterdir()}


def read_all(bootstrap: str, topic: str, count: int) -> list[bytes]:
    values: list[bytes] = []
    done = threading.Event()

    def take(batch: list[KafkaRecord]) -> None:
        values.extend(record.value for record in batch)
        if len(values) >= count:
            done.set()

    reader = TopicReader(bootstrap, [topic], take, start="beginning")
    reader.start()
    assert done.wait(60)
    reader.stop()
    return values
