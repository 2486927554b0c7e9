"""`make soak`: the whole system under an hour's worth of events at ten times the normal rate, in 24 minutes.

Normal is what the design calls a busy cluster: one event a second that the journal answers. Ten times that for an hour
are 36,000 entries beside the offsets. BALLAST_SOAK_MINUTES shortens the run (not the rate); less than 20 minutes say
little about slow leaks, and the figures tell how long the run was. Asserted are slopes, never times.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from benchmarks.measure.control.start_up import measure_start
from benchmarks.measure.figures import write
from controller.ledger.tables import TableRoot
from controller.testbed.local_cluster import LocalCluster
from tests.e2e.checks import PATIENCE_S, check_journal, settled
from tests.e2e.lookups import look_up, topics_in
from tests.soak.pressure import ENTRIES_A_MOVE, Pressure
from tests.soak.samples import Samples, family, files_of, rss_mib
from tests.soak.test_short import hasten

BROKERS = ("broker-1", "broker-2", "broker-3", "broker-4")
MINUTES = float(os.environ.get("BALLAST_SOAK_MINUTES", "24"))
ENTRIES = 10 * 3_600  # an hour at ten times the normal rate
MOVES_PER_S = ENTRIES / (24 * 60) / ENTRIES_A_MOVE
SAMPLE_S = 3.0
# What Ballast keeps for 5 and 15 minutes is kept for as long here that half the run shows whether it levels off.
KEPT_S = max(10, round(MINUTES * 60 / 12))
STARTS = 6  # how often a start and a bootstrap are measured during the run
OVERRIDES = (
    "rounds.mode=shadow",
    "rounds.round_interval_s=10",
    "loads.pane_s=10",
    f"retention.cleanup_interval_s={max(2.0, MINUTES * 60 / 72):g}",
    "control.snapshot_every_entries=1000",
    "logging.json_lines=true",
)


@pytest.mark.soak
@pytest.mark.timeout(3_000)
def test_an_hour_of_events_at_ten_times_the_normal_rate(tmp_path: Path) -> None:
    samples = Samples()
    with LocalCluster(tmp_path, overrides=OVERRIDES) as cluster:
        cluster.up(BROKERS)
        hasten(TableRoot(cluster.settings.tables.root), KEPT_S)
        bundles = owned_bundles(cluster, 64)
        began, seq_before = time.monotonic(), cluster.state.seq
        with Pressure(cluster, bundles, MOVES_PER_S) as pressure:
            watch(cluster, samples, MINUTES * 60)
        cluster.wait_until(lambda state: settled(state, "soak/n"), PATIENCE_S, "quiet after the pressure", needs="job")
        minutes, entries = (time.monotonic() - began) / 60, cluster.state.seq - seq_before
        check_journal(cluster)
        alive = [name for name, child in cluster.children.items() if not child.alive]
    assert alive == [], "a process ended"
    figures = {"minutes": round(minutes, 1), "full_length": MINUTES >= 24, "moves_asked": pressure.sent}
    figures |= {"journal_entries": entries, "log_and_dead_files_kept_s": KEPT_S}
    write("soak", {**figures, "entries_per_s": round(entries / minutes / 60, 1), "series": samples.document()})
    assert entries > 0.8 * pressure.sent * ENTRIES_A_MOVE
    judge(samples)


def judge(samples: Samples) -> None:
    """Nothing follows what was journaled. Bulk tables are expected to grow until `ballast maintain` runs."""
    bounded = [f"{kind}.{name}" for kind in ("control_files", "control_log") for name in ("journal", "ownership")]
    assert samples.following("seq", 0.5, bounded) == {}, samples.document()
    memory = [name for name in samples.series if name.startswith("rss")]
    assert samples.growing(0.15, memory) == {}, samples.document()


def watch(cluster: LocalCluster, samples: Samples, seconds: float) -> None:
    """Sample until the time is up; a quarter of the way in everything has warmed up."""
    began = time.monotonic()
    starts = [seconds * (n + 1) / (STARTS + 1) for n in range(STARTS)]
    while (passed := time.monotonic() - began) < seconds:
        seq = cluster.state.seq
        samples.add("seq", seq, seq)
        _disk(cluster, samples, seq)
        _memory(cluster, samples, seq)
        if starts and passed > starts[0]:
            starts.pop(0)
            root = TableRoot(cluster.settings.tables.root)
            for name in ("agent", "fold"):
                found = measure_start(root, name)
                samples.add(f"start_{name}_s", seq, found["seconds"])
        time.sleep(SAMPLE_S)


def _disk(cluster: LocalCluster, samples: Samples, seq: int) -> None:
    root = Path(cluster.settings.tables.root)
    for name in ("journal", "ownership", "control_state"):
        samples.add(f"control_files.{name}", seq, len(list((root / name).glob("*.parquet"))))
        samples.add(f"control_log.{name}", seq, len(list((root / name / "_delta_log").glob("*"))))
    files, size = files_of(root)
    samples.add("all_tables_files", seq, files)
    samples.add("all_tables_mib", seq, size / 2**20)
    samples.add("checkpoint_files", seq, files_of(Path(cluster.settings.tables.checkpoints))[0])


def _memory(cluster: LocalCluster, samples: Samples, seq: int) -> None:
    for name in ("job", "store", *BROKERS):
        for part, mib in _parts(psutil.Process(cluster.children[name].pid)).items():
            samples.add(f"rss_mib.{name}.{part}", seq, mib)


def _parts(process: psutil.Process) -> dict[str, float]:
    """The job is a JVM, its Python driver and the round worker; the others are one process each."""
    found: dict[str, float] = {}
    for one in family(process):
        try:
            words: list[Any] = one.cmdline()
            kind = "jvm" if "java" in words[0] else "rounds" if "spawn_main" in " ".join(words) else "python"
            found[kind] = found.get(kind, 0.0) + rss_mib(one)
        except (psutil.NoSuchProcess, IndexError):
            continue
    return found


def owned_bundles(cluster: LocalCluster, count: int) -> list[str]:
    """A namespace of so many bundles, all of them owned."""
    assert cluster.command("create_namespace", namespace="soak/n", bundles=count).accepted
    look_up(cluster, topics_in(cluster.state, "soak/n", 1))
    state = cluster.wait_until(lambda s: settled(s, "soak/n"), PATIENCE_S, "ownership of soak/n", needs="job")
    return [name for name in state.bundles if name.startswith("soak/n/")]
