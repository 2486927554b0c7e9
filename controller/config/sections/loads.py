"""The loads query: panes, rolling averages, writers."""

from __future__ import annotations

from typing import Literal

from controller.config.definition import DESIGN, PulsarName, Section, key


class Loads(Section):
    """From load reports to rolling averages."""

    pane_s: int = key(
        10, "Length of a pane, the tumbling window that reports are summed in.", source=DESIGN, unit="s", lo=1, hi=600
    )
    short_horizon_s: int = key(
        60,
        "Length of the short rolling average, the one that decides; a multiple of pane_s.",
        source=DESIGN,
        unit="s",
        lo=1,
        hi=3_600,
    )
    long_half_life_s: int = key(
        3_600,
        "Half-life of the long average, which only ranks how steady a bundle is "
        "(a long average as the trigger is the best-known cause of over-unloading).",
        source="design: a decayed average over hours",
        unit="s",
        lo=60,
        hi=604_800,
    )
    trigger_ms: int = key(
        2_000,
        "Least time between two micro-batches of the loads query.",
        source="measured: a batch by delta-rs takes 1.3 s beside the control query",
        unit="ms",
        lo=0,
        hi=600_000,
    )
    retention_hours: float = key(
        24,
        "A report older than this before the newest pane is quarantined as late.",
        source=DESIGN,
        unit="hours",
        lo=0.1,
        hi=8_760,
    )
    writer: Literal["auto", "delta_rs", "spark"] = key(
        "auto",
        "Who writes the load tables: auto takes delta_rs below writer_threshold_rows and Spark from there on.",
        source="measured: four small tables take delta-rs 0.1-0.5 s, Spark 2-4 s each",
    )
    writer_threshold_rows: int = key(
        200_000,
        "Rows of a batch from which Spark computes and writes; below, the driver does, which is quicker.",
        source=DESIGN,
        unit="rows",
        lo=1,
        hi=10_000_000,
    )
    max_offsets_per_trigger: int = key(
        5_000,
        "Most reports one micro-batch reads, so that catching up never makes a batch without end.",
        source="design: what 1,000 brokers send in five reports each; 5 million rows at 1,000 bundles a report",
        unit="reports",
        lo=1,
        hi=10_000_000,
    )
    top_k_bundles: int = key(
        100,
        "Bundles a report lists one by one, the busiest; all others are summed in its tail row.",
        source="design: 50 brokers of 100 bundles are measured (Pulsar's default is 10)",
        unit="bundles",
        lo=1,
        hi=10_000,
        pulsar=(PulsarName("loadBalancerMaxNumberOfBundlesInBundleLoadReport"),),
    )
