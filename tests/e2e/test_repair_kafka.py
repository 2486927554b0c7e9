"""`ballast repair` with a real Kafka: it refuses beside a live controller, and takes lost entries from the feed."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from controller.bus.producer import JsonProducer
from controller.bus.topics import TopicNames
from controller.cli.main import main
from controller.domain.state import ClusterState
from controller.service.feed import Feed
from controller.service.topic_claim import TopicClaim
from controller.testbed.kafka import EmbeddedKafka
from tests.component.repair.damaged_tables import (
    END,
    HISTORY,
    LAST,
    WHOLE,
    Tables,
    cut,
    state_text,
    stored,
    write_tables,
)

pytestmark = pytest.mark.kafka

JOURNAL_ID = "journal-of-e2e"
Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    write_tables(tmp_path / "pristine")
    return Tables(tmp_path / "pristine", tmp_path / "tables")


@pytest.fixture
def call(tables: Tables, kafka: EmbeddedKafka, topics: TopicNames, capsys: pytest.CaptureFixture[str]) -> Call:
    def run_command(line: str) -> tuple[int, str, str]:
        given = {
            "tables.root": tables.root.root,
            "kafka.bootstrap_servers": kafka.bootstrap,
            "kafka.topic_prefix": topics.prefix,
        }
        sets = [word for name, value in given.items() for word in ("--set", f"{name}={value}")]
        with pytest.raises(SystemExit) as ended:
            main([*line.split(), *sets])
        said = capsys.readouterr()
        return int(ended.value.code or 0), said.out, said.err

    return run_command


@pytest.fixture
def controller(tables: Tables, kafka: EmbeddedKafka, topics: TopicNames) -> Iterator[Feed]:
    """What a controller says on Kafka: it owns the topics, has published everything, and ticks."""
    claim = TopicClaim(kafka.bootstrap, topics.owner, {}, "i", tables.root.root)
    claim.look()
    claim.claim(ClusterState(seq=LAST, instance="i", journal_id=JOURNAL_ID))
    feed = Feed(
        JsonProducer(kafka.bootstrap, "test-feed"),
        topics,
        "i",
        journal_id=JOURNAL_ID,
        tick_ms=200,
        repeat_ms=1_000,
        wall_ms=lambda: int(time.time() * 1000),
    )
    feed.start(LAST)
    feed.publish(HISTORY.entries)
    yield feed
    feed.stop()


@pytest.mark.thorough
def test_refused_beside_a_controller_and_then_taken_from_the_feed(tables: Tables, call: Call, controller: Feed) -> None:
    cut(tables.data_file(LAST), "half")
    cut(tables.commit_file(-1), "empty")
    code, out, err = call("repair")
    assert (code, err) == (1, "")
    assert f"entries {END} to {LAST} from the journal feed" in out
    code, out, err = call("repair --execute")
    assert (code, out) == (1, "")
    assert "controller i is alive" in err
    controller.stop()
    code, out, err = call("repair --execute --json")
    assert (code, err) == (0, "")
    assert json.loads(out)["executed"] is True
    assert state_text(tables.root) == WHOLE
    assert stored(tables.root) == HISTORY.entries
    code, out, _ = call("repair")
    assert (code, out.splitlines()[0]) == (0, "no table is damaged")


def test_a_feed_of_another_journal_is_not_used(
    tables: Tables, call: Call, kafka: EmbeddedKafka, topics: TopicNames, controller: Feed
) -> None:
    """The tables lie elsewhere than the topics' owner says, so nothing tells that the feed is theirs."""
    controller.stop()
    claim = TopicClaim(kafka.bootstrap, topics.owner, {}, "i", "/elsewhere/tables")
    seen = claim.look()
    claim.claim(ClusterState(seq=LAST, instance="i", journal_id="another"), seen.owner)
    cut(tables.data_file(LAST), "half")
    code, out, _ = call("repair")
    assert code == 1
    assert "cannot be mended" in out
    assert "no record of the journal feed has them" in out
