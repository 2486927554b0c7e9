"""Operators' commands over a real Kafka: the command line sends, the real step answers in the journal, the command
line tells. The controller here is the short run's: it reads the topic itself, without Spark."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from controller.bus.consumer import KafkaRecord, TopicReader
from controller.bus.producer import JsonProducer
from controller.bus.topics import TopicNames
from controller.domain.events import Command, parse_command
from controller.domain.ownership import State
from controller.process.paths import ROOT
from controller.testbed.kafka import EmbeddedKafka
from tests.short_run import INSTANCE, ShortRun

pytestmark = pytest.mark.kafka


class Site:
    """A running controller with two brokers, and the command line pointed at it."""

    def __init__(self, kafka: EmbeddedKafka, topics: TopicNames, folder: Path) -> None:
        self.run = ShortRun(folder)
        self.run.join("b1:8080")
        self.run.join("b2:8080")
        self.conf = folder.parent / "ballast.yaml"
        self.conf.write_text(
            json.dumps(
                {
                    "kafka": {"bootstrap_servers": kafka.bootstrap, "topic_prefix": topics.prefix},
                    "tables": {"root": str(folder)},
                }
            )
        )
        self.who: list[Command] = []

    def ballast(self, *words: str) -> tuple[int, str, str]:
        """Run a command as an operator would; exit code, stdout, stderr."""
        argv = [sys.executable, "-m", "controller.cli.main", *words, "--conf", str(self.conf)]
        done = subprocess.run(argv, capture_output=True, text=True, cwd=ROOT, timeout=120)
        return done.returncode, done.stdout, done.stderr

    @contextmanager
    def controlled(self, kafka: EmbeddedKafka, topics: TopicNames) -> Iterator[None]:
        """While inside, commands from Kafka are carried out."""
        arrived: queue.Queue[KafkaRecord | None] = queue.Queue()
        reader = TopicReader(kafka.bootstrap, [topics.commands], lambda batch: [arrived.put(r) for r in batch] and None)
        reader.start()

        def work() -> None:
            while (record := arrived.get()) is not None:
                command = parse_command(record.value)
                self.who.append(command)
                self.run.batch(command)
                self.run.settle()

        thread = threading.Thread(target=work)
        thread.start()
        try:
            yield
        finally:
            reader.stop()
            arrived.put(None)
            thread.join(30)
            assert not thread.is_alive()


@pytest.mark.thorough
@pytest.mark.covers("bundles-at-creation")
def test_commands_are_answered_by_the_journal(kafka: EmbeddedKafka, topics: TopicNames, tmp_path: Path) -> None:
    site = Site(kafka, topics, tmp_path / "tables")
    run = site.run
    with site.controlled(kafka, topics):
        code, out, _ = site.ballast(
            "namespace", "create", "shop/orders", "--bundles", "2", "--why", "new shop", "--json"
        )
        answer = json.loads(out)
        assert (code, answer["accepted"], answer["kind"]) == (0, True, "create_namespace")
        assert run.state.commands[answer["command_id"]] == "accepted"
        assert site.who[0].why == "new shop"
        assert "@" in site.who[0].who

        code, out, err = site.ballast("namespace", "create", "shop/orders")
        assert (code, out) == (1, "")
        assert "rejected: shop/orders exists already" in err
        assert err.count("\n") == 1

        low, high = sorted(run.state.bundles)
        code, _, err = site.ballast("unload", low, "--to", "b9:1")
        assert code == 1
        assert "is no living broker; alive: b1:8080, b2:8080" in err

        code, out, _ = site.ballast("mode", "live")
        assert code == 0
        assert out.startswith("accepted: mode ")
        assert site.ballast("mode")[1] == "live\n"
        assert site.ballast("drain", "b1:8080")[0] == 0
        assert run.state.brokers["b1:8080"].drained
        assert site.ballast("undrain", "b1:8080")[0] == 0
        assert site.ballast("thaw")[0] == 1  # nothing is frozen

        assert site.ballast("strategy", "uniform", "--challengers", "threshold,average")[0] == 0
        assert (run.state.strategy, run.state.challengers) == ("uniform", ("threshold", "average"))
        assert json.loads(site.ballast("strategy", "--json")[1])["strategy_by"] == "command"
        code, _, err = site.ballast("strategy", "best")
        assert (code, run.state.strategy) == (2, "uniform")
        assert "strategy 'best' is none of" in err
        assert site.ballast("strategy", "configured")[0] == 0
        assert run.state.strategy == ""

        code, out, _ = site.ballast("override", "pin", low, "b2:8080", "--minutes", "30", "--why", "rack", "--json")
        wish = run.state.overrides[json.loads(out)["command_id"]]
        assert (code, wish.kind, wish.bundle, wish.broker, wish.why) == (0, "pin", low, "b2:8080", "rack")
        assert site.ballast("override", "avoid", "shop/orders", "b1:8080")[0] == 0
        assert site.ballast("override", "freeze", "shop/orders/0x1_0x2")[0] == 1
        assert len(json.loads(site.ballast("override", "list", "--json")[1])) == 2
        assert site.ballast("override", "end", wish.id)[0] == 0
        assert [w.kind for w in run.state.overrides.values()] == ["avoid"]
        assert run.state.bundles[low].state is run.state.bundles[high].state is State.FREE


def test_without_a_controller_the_command_waits_in_kafka(
    kafka: EmbeddedKafka, topics: TopicNames, tmp_path: Path
) -> None:
    site = Site(kafka, topics, tmp_path / "tables")
    code, out, err = site.ballast("round-now", "--timeout", "1")
    assert (code, out) == (1, "")
    assert "has no answer after 1 s; it stays in Kafka" in err
    code, out, _ = site.ballast("status", "--json")
    controller = json.loads(out)["controller"]
    assert (code, controller["journal_says_running"], controller["alive"]) == (1, True, False)

    producer = JsonProducer(kafka.bootstrap, "test")
    producer.send(topics.journal_feed, {"v": 1, "instance": INSTANCE, "seq": site.run.state.seq})
    producer.close()
    code, out, _ = site.ballast("status", "--json")
    controller = json.loads(out)["controller"]
    assert controller["instance"] == INSTANCE
    assert controller["silent_ms"] is not None
