"""Client processes over sockets, and the auditor: it passes what was right and finds what was not."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from controller.brokers.reference.client.consumer import as_ranges, subtract_ranges
from controller.brokers.reference.client.log import ClientLog, DeliveryLog
from controller.brokers.reference.store.engine import StoreEngine
from controller.brokers.reference.store.frames import scan
from controller.brokers.reference.store.messages import (
    Message,
    StoredBodies,
    StoredMessage,
    pack_stored,
    unpack_stored,
)
from controller.brokers.reference.wire import Numbered
from controller.domain.ids import RING_END, Bundle
from controller.testbed.checker.checker import CheckReport, check_store, percentile
from tests.unit.brokers.reference_cluster import WHOLE, Cluster, cluster, topic, until

NAME = "persistent://shop/orders/t"


async def spawn(module: str, *args: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        f"controller.brokers.reference.client.{module}",
        *args,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )


async def finish(process: asyncio.subprocess.Process) -> dict[str, int]:
    process.send_signal(signal.SIGTERM)
    out, _ = await process.communicate()
    assert process.returncode == 0
    summary: dict[str, int] = json.loads(out.splitlines()[-1])
    return summary


def backlog(here: Cluster) -> int:
    return sum(b for t in here.engine.stats().values() for b in t["backlog"].values())


def written(here: Cluster) -> int:
    return sum(t["messages"] for t in here.engine.stats().values())


def test_client_processes_follow_their_bundles_and_the_audit_agrees_with_them(tmp_path: Path) -> None:
    store, logs = tmp_path / "store", [tmp_path / "p.jsonl", tmp_path / "c1.jsonl", tmp_path / "c2.jsonl"]

    async def scenario() -> tuple[dict[str, int], list[dict[str, int]], int]:
        async with cluster(store) as here:
            await here.give(WHOLE, "a")
            url = here.lookup._urls[0]
            topics = [arg for i in range(3) for arg in ("--topic", topic(i))]
            consumers = [
                await spawn(
                    "consumer_program",
                    *("--lookup", url, "--name", f"c{n}", "--subscription", "s", "--type", "failover"),
                    *("--log", str(logs[n]), *topics),
                )
                for n in (1, 2)
            ]
            producer = await spawn(
                "producer_program",
                *("--lookup", url, "--name", "p", "--rate", "100", "--log", str(logs[0]), *topics),
            )
            await until(lambda: written(here) > 100, 60)
            assert producer.stdin is not None
            producer.stdin.write(b'nonsense\n{"topic": "x"}\n{"topic": "%s", "rate": 400}\n' % topic(0).encode())
            for i in range(6):
                before = written(here)
                await here.transfer(WHOLE, *("ab" if i % 2 == 0 else "ba"))
                await until(lambda before=before: written(here) > before + 50)  # type: ignore[misc]
            consumers[0].kill()  # the other one takes over
            await consumers[0].wait()
            before = written(here)
            await until(lambda: written(here) > before + 100)
            summary = await finish(producer)
            await until(lambda: backlog(here) == 0)
            read = [await finish(consumers[1])]
            return summary, read, written(here)

    summary, read, stored = asyncio.run(scenario())
    report = check_store(store, logs, drained=True)
    assert report.findings == []
    assert report.ok
    assert (summary["unacked"], summary["rewound"]) == (0, 0)
    assert summary["acked"] == report.messages_written == report.messages_stored == stored
    assert read[0]["unconfirmed"] == 0
    assert report.handovers >= 6
    assert report.handover_gap_p50_ms is not None
    assert report.sending_interval_p50_ms in (2.5, 10.0), "400 and 100 messages/s were asked for"
    assert report.handover_beyond_interval_p50_ms is not None
    assert report.handover_beyond_interval_p50_ms <= report.handover_gap_p50_ms
    assert report.unwatched_subscriptions == 0


def test_a_gap_is_measured_against_the_producers_own_sending_interval(tmp_path: Path) -> None:
    log = ClientLog(tmp_path / "producer.jsonl")
    for gap_ms, interval_ms in ((300.0, 250.0), (240.0, 250.0), (1_000.0, 400.0)):
        log.write("gap", topic=NAME, cause="moved", gap_ms=gap_ms, interval_ms=interval_ms)
    log.write("gap", topic=NAME, cause="moved", gap_ms=90.0)  # as version 0.1.0 wrote it
    log.write("gap", topic=NAME, cause="lost", gap_ms=7_000.0, interval_ms=250.0)  # a failover is no hand-over
    log.close()
    StoreEngine(tmp_path / "store", clock_ms=lambda: 1).close()
    report = check_store(tmp_path / "store", [tmp_path / "producer.jsonl"], drained=True)
    assert (report.handovers, report.handover_gap_p50_ms) == (4, 240.0)
    assert (report.handover_beyond_interval_p50_ms, report.handover_beyond_interval_max_ms) == (50.0, 600.0)
    assert report.sending_interval_p50_ms == 250.0


class Run:
    """A small correct run: 20 messages by two owners, all delivered and confirmed; then to be spoilt."""

    def __init__(self, folder: Path) -> None:
        self.store, self.log = folder / "store", folder / "client.jsonl"
        engine = StoreEngine(self.store, clock_ms=lambda: 1)
        for epoch, owner, first in ((1, "a", 0), (2, "b", 10)):
            engine.acquire(Bundle("shop/orders", 0, RING_END), epoch, owner)
            engine.append(NAME, epoch, owner, [self.message(s) for s in range(first, first + 10)])
        engine.subscribe(NAME, "s", 2, "b", latest=False)
        engine.close()
        (self.segment,) = self.store.glob("topics/*/*/*.seg")

    @staticmethod
    def message(sequence: int) -> Message:
        return Message("p", sequence, f"k{sequence % 2}", b"x")

    def clients(self, deliveries: list[list[int]], confirmed: list[int], kind: str = "exclusive") -> None:
        log = ClientLog(self.log)
        log.write("topic", i=0, topic=NAME, name="p")
        log.note_acked(0, 0, 20)
        log.flush()
        log.write("topic", i=1, topic=NAME, name="c", subscription="s", type=kind)
        noted = DeliveryLog(log, 1, {}, ordered=kind != "shared")
        for number, offsets in enumerate(deliveries):
            batch: list[Numbered] = [(o, self.message(o)) for o in offsets]
            (noted.note_delivered if number == 0 or not set(offsets) & set(deliveries[0]) else noted.write_redelivered)(
                batch, number
            )
            if number == 0:
                noted.note_confirmed(as_ranges(confirmed), 100)
        noted.flush()
        log.close()

    def rewrite(self, change: Callable[[list[StoredMessage]], list[StoredMessage]]) -> None:
        found = scan(self.segment.read_bytes(), self.segment, StoredBodies(0))
        records = [unpack_stored(body) for _, body in found]
        changed = [r._replace(offset=i) for i, r in enumerate(change(records))]
        self.segment.write_bytes(b"".join(pack_stored(r) for r in changed))

    def check_store(self) -> CheckReport:
        return check_store(self.store, [self.log], drained=True)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


def test_a_correct_run_passes(run: Run) -> None:
    run.clients([list(range(20)), [18, 19]], list(range(18)))
    report = run.check_store()
    assert report.ok
    assert (report.messages_written, report.messages_read, report.redelivered) == (20, 20, 2)


def test_a_message_that_was_never_delivered_is_lost(run: Run) -> None:
    run.clients([[*range(7), *range(8, 20)]], [])
    assert run.check_store().messages_lost == 1


def test_a_message_that_is_not_in_the_store_is_lost(run: Run) -> None:
    run.clients([list(range(18))], [])
    run.rewrite(lambda records: records[:18])
    assert run.check_store().messages_lost == 2
    shutil.rmtree(run.segment.parent)
    assert run.check_store().messages_lost == 20


def test_a_sequence_that_is_stored_twice_is_a_duplicate(run: Run) -> None:
    run.clients([], [])
    run.rewrite(lambda records: [*records[:5], records[4], *records[5:]])
    assert run.check_store().messages_duplicated == 1


def test_a_delivery_after_the_confirmed_acknowledgement_is_a_duplicate(run: Run) -> None:
    run.clients([list(range(20)), [3, 4]], [3])
    report = run.check_store()
    assert (report.messages_duplicated, report.redelivered) == (1, 2)


def test_order_is_judged_per_key_in_the_store_and_in_first_deliveries(run: Run) -> None:
    run.clients([[*range(10), 12, 11, 10, *range(13, 20)]], [])
    assert run.check_store().messages_reordered == 1  # 12 before 10 is one key, 11 is another
    run.log.unlink()
    run.clients([[*range(10), 12, 11, 10, *range(13, 20)]], [], kind="shared")
    assert run.check_store().messages_reordered == 0
    run.rewrite(lambda records: [*records[:2], records[4], records[3], records[2], *records[5:]])
    assert run.check_store().messages_reordered == 1


@pytest.mark.parametrize("change", [{"epoch": 1, "owner": "a"}, {"owner": "c"}, {"epoch": 3}])
def test_a_record_behind_a_fence_is_a_violation(run: Run, change: dict[str, object]) -> None:
    run.clients([], [])
    run.rewrite(lambda records: [*records[:15], records[15]._replace(**change), *records[16:]])  # type: ignore[arg-type]
    report = run.check_store()
    assert report.fence_violations >= 1
    assert not report.ok
    assert "written by" in report.findings[0]


def test_a_delivery_that_is_not_what_is_stored_is_a_mismatch(run: Run) -> None:
    run.clients([list(range(20))], [])
    run.rewrite(lambda records: [*records[:5], records[5]._replace(producer="q"), *records[6:]])
    assert run.check_store().mismatched == 1


def test_ranges_and_percentiles() -> None:
    assert as_ranges([1, 2, 3, 7, 6]) == [(1, 4), (7, 8), (6, 7)]
    assert subtract_ranges([(0, 10), (20, 22)], [(0, 1), (5, 6), (19, 30)]) == [(1, 5), (6, 10)]
    assert percentile([], 0.5) is None
    assert percentile([float(i) for i in range(1, 101)], 0.99) == 99.0
    assert percentile([1.0, 2.0, 3.0], 0.5) == 2.0
