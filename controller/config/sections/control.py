"""The control query: leases, deadlines, the mass-failure guard, rounds."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Strict

from controller.config.definition import DESIGN, PULSAR, PulsarName, Section, key


def _names(value: object) -> object:
    """A list from YAML, or names separated by commas from the environment and the command line."""
    if isinstance(value, str):
        return tuple(name.strip() for name in value.split(",") if name.strip())
    return value


Names = Annotated[tuple[str, ...], Strict(False), BeforeValidator(_names)]


class Control(Section):
    """Ownership, sessions and leases."""

    trigger_ms: int = key(
        200,
        "Least time between two micro-batches of the control query.",
        source="measured: a small batch takes 270-310 ms",
        unit="ms",
        lo=0,
        hi=10_000,
    )
    lease_ms: int = key(
        6_000,
        "How long a broker may serve after its last acknowledged heartbeat. "
        "Must outlast Kafka's session timeout by 3 s unless Kafka is a single node.",
        source="design: 6 s on one machine, 15 s in the cluster profile",
        unit="ms",
        lo=1_000,
        hi=600_000,
    )
    margin_ms: int = key(
        1_000,
        "What the controller adds to a lease before it gives a silent broker's bundles away.",
        source=DESIGN,
        unit="ms",
        lo=0,
        hi=1_000,
    )
    heartbeat_ms: int = key(
        1_000,
        "Time between two heartbeats of an agent; at most a third of lease_ms.",
        source=DESIGN,
        unit="ms",
        lo=50,
        hi=60_000,
    )
    tick_ms: int = key(
        500,
        "Time between two ticks of the controller, which keep batches coming when no agent says anything.",
        source=DESIGN,
        unit="ms",
        lo=50,
        hi=10_000,
    )
    assign_deadline_ms: int = key(
        5_000, "How long a grantee may take to serve.", source=DESIGN, unit="ms", lo=100, hi=600_000
    )
    accept_deadline_ms: int = key(
        5_000, "How long a target may take to accept a transfer.", source=DESIGN, unit="ms", lo=100, hi=600_000
    )
    release_deadline_ms: int = key(
        10_000,
        "How long an owner may take to release, and the next to serve, before the store fences it off.",
        source=DESIGN,
        unit="ms",
        lo=100,
        hi=600_000,
    )
    split_deadline_ms: int = key(
        15_000, "How long an owner may take to split a bundle.", source=DESIGN, unit="ms", lo=100, hi=600_000
    )
    inventory_interval_ms: int = key(
        10_000,
        "Time between two full lists of what an agent serves.",
        source=DESIGN,
        unit="ms",
        lo=500,
        hi=3_600_000,
    )
    snapshot_every_entries: int = key(
        5_000,
        "Journal entries between two base snapshots, from which a start folds.",
        source=DESIGN,
        unit="entries",
        lo=10,
        hi=1_000_000,
    )
    feed_repeat_ms: int = key(
        1_000,
        "How often the controller repeats its newest seq on the journal feed.",
        source=DESIGN,
        unit="ms",
        lo=100,
        hi=60_000,
    )
    lag_limit_entries: int = key(
        1_000,
        "A broker that has applied less of the journal than this far back is granted nothing.",
        source=DESIGN,
        unit="entries",
        lo=1,
        hi=1_000_000,
    )


class Guard(Section):
    """When many brokers fall silent at once, something else than the brokers has failed: leases are not ended."""

    min_brokers: int = key(3, "With fewer brokers the guard is off.", source=DESIGN, unit="brokers", lo=1, hi=100_000)
    silent_fraction: float = key(
        0.4,
        "The guard freezes when more than this share of the brokers alive a window ago is silent; 1 switches it off.",
        source=DESIGN,
        unit="fraction",
        lo=0,
        hi=1,
    )
    window_s: float = key(60, "How far back it looks for living brokers.", source=DESIGN, unit="s", lo=1, hi=3_600)
    thaw_after_s: float = key(
        600, "When it gives up waiting and ends the leases after all.", source=DESIGN, unit="s", lo=1, hi=86_400
    )


class Rounds(Section):
    """Evaluations of the whole cluster."""

    round_interval_s: int = key(
        60,
        "Record time between two rounds; a multiple of loads.pane_s.",
        source=PULSAR,
        unit="s",
        lo=1,
        hi=86_400,
        pulsar=(PulsarName("loadBalancerSheddingIntervalMinutes", factor=60, unit="minutes"),),
    )
    late_allowance_ms: int = key(
        2_000,
        "A round at T waits for reports newer than T plus this.",
        source=DESIGN,
        unit="ms",
        lo=0,
        hi=600_000,
    )
    max_report_age_s: float = key(
        30,
        "A broker whose newest report is older is silent: neither source nor target, the rest goes on.",
        source="design: three panes",
        unit="s",
        lo=1,
        hi=86_400,
    )
    mode: Literal["shadow", "live", "paused"] = key(
        "shadow",
        "Mode of a new cluster; later the journal knows it and `ballast mode` changes it.",
        source="design: nothing is moved unasked",
    )
    strategy: str = key(
        "steady",
        "The strategy that decides; `ballast strategy` changes it while running (docs/strategies.md).",
        source=DESIGN,
        pattern=r"^[a-z][a-z0-9_]*$",
        allowed="the name of a strategy: lower-case letters, digits, underscores",
    )
    challengers: Names = key(
        (),
        "Strategies that run beside it in the same round, in shadow.",
        source=DESIGN,
        allowed="a list of names of strategies",
    )
