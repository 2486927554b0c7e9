"""The loads query: panes, rolling averages, writers."""

from __future__ import annotations

from typing import Literal

from controller.config.definition import DESIGN, PulsarName, Section, key


class Loads(Section):
    """From load reports to rolling averages."""

    pane_s: int = key(
        10,
        "Length of a pane, the tumbling window over which reports are summed.",
        source=DESIGN,
        unit="s",
        lo=1,
        hi=600,
    )
    short_horizon_s: int = key(
        60,
        "Length of the short rolling average, which rounds use to decide; a multiple of pane_s.",
        source=DESIGN,
        unit="s",
        lo=1,
        hi=3_600,
    )
    long_half_life_s: int = key(
        3_600,
        "Half-life of the long rolling average in bundle_load. It is shown to people only: no decision reads it.",
        source="design: a decayed average over hours",
        unit="s",
        lo=60,
        hi=604_800,
    )
    trigger_ms: int = key(
        2_000,
        "Minimum time between two micro-batches of the loads query.",
        source="measured: a batch by delta-rs takes 1.3 s while the control query runs",
        unit="ms",
        lo=0,
        hi=600_000,
    )
    retention_hours: float = key(
        24,
        "A report that is older than the newest pane by more than this is quarantined as late.",
        source=DESIGN,
        unit="hours",
        lo=0.1,
        hi=8_760,
    )
    writer: Literal["auto", "delta_rs", "spark"] = key(
        "auto",
        "What writes the load tables; auto uses delta_rs below writer_threshold_rows and Spark from there on.",
        source="measured: four small tables take delta-rs 0.1-0.5 s, Spark 2-4 s each",
    )
    writer_threshold_rows: int = key(
        2_000_000,
        "Number of rows in a batch from which Spark computes and writes it; the driver is cheaper with fewer rows.",
        source="measured with up to a million rows (decision 25); the batch must fit into the driver",
        unit="rows",
        lo=1,
        hi=10_000_000,
    )
    tasks_store_files: bool = key(
        False,
        "Whether Spark's tasks store the files of large batches in the object store themselves. Workers then need its"
        " credentials. Without effect for tables in a folder.",
        source="design: a store that is slow to take a file would stop the driver's other threads (decision 58)",
    )
    max_offsets_per_trigger: int = key(
        5_000,
        "Maximum reports per micro-batch, which limits the size of batches while catching up.",
        source="design: five reports of each of 1,000 brokers; 5 million rows at 1,000 bundles per report",
        unit="reports",
        lo=1,
        hi=10_000_000,
    )
    top_k_bundles: int = key(
        100,
        "Number of bundles that a report lists individually, the busiest ones; its tail row sums up all others.",
        source="design: 50 brokers of 100 bundles are measured (Pulsar's default is 10)",
        unit="bundles",
        lo=1,
        hi=10_000,
        pulsar=(PulsarName("loadBalancerMaxNumberOfBundlesInBundleLoadReport"),),
    )
