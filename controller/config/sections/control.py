"""The control query: leases, deadlines, the mass-failure breaker, rounds."""

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
        "Minimum time between two micro-batches of the control query.",
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
        "Time that the controller waits after the end of a lease before it reassigns a silent broker's bundles.",
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
        "Time between two ticks of the controller, which keep batches going while no agent sends anything.",
        source=DESIGN,
        unit="ms",
        lo=50,
        hi=10_000,
    )
    assign_deadline_ms: int = key(
        5_000, "How long a grantee may take to serve a bundle.", source=DESIGN, unit="ms", lo=100, hi=600_000
    )
    accept_deadline_ms: int = key(
        5_000, "How long a target may take to accept a transfer.", source=DESIGN, unit="ms", lo=100, hi=600_000
    )
    release_deadline_ms: int = key(
        10_000,
        "How long the release by the owner, and then serving by the next one, may take before the store fences it off.",
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
        "Time between two full lists of the bundles that an agent serves.",
        source=DESIGN,
        unit="ms",
        lo=500,
        hi=3_600_000,
    )
    snapshot_every_entries: int = key(
        5_000,
        "Number of journal entries between two base snapshots; a start folds from the newest one.",
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
        "A broker that is this many journal entries behind is not assigned any bundle.",
        source=DESIGN,
        unit="entries",
        lo=1,
        hi=1_000_000,
    )


class Guard(Section):
    """The mass-failure breaker, which keeps leases alive when many brokers fall silent at once."""

    min_brokers: int = key(
        3,
        "Minimum number of live brokers for the breaker to trip.",
        source=DESIGN,
        unit="brokers",
        lo=1,
        hi=100_000,
    )
    silent_fraction: float = key(
        0.4,
        "The breaker trips when more than this fraction of the brokers that were alive window_s ago is silent; "
        "1: never.",
        source=DESIGN,
        unit="fraction",
        lo=0,
        hi=1,
    )
    window_s: float = key(
        60,
        "How far back the brokers are counted that silent_fraction is a fraction of.",
        source=DESIGN,
        unit="s",
        lo=1,
        hi=3_600,
    )
    thaw_after_s: float = key(
        600,
        "Time after which the breaker resets by itself and the leases of silent brokers end.",
        source=DESIGN,
        unit="s",
        lo=1,
        hi=86_400,
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
    least_interval_s: int = key(
        10,
        "Time after a round from which the next may come early, because load has shifted far (docs/strategies.md). 0, "
        "or round_interval_s and more: never.",
        source=DESIGN,
        unit="s",
        lo=0,
        hi=86_400,
    )
    late_allowance_ms: int = key(
        2_000,
        "How late reports may be: a round at T waits for reports newer than T plus this.",
        source=DESIGN,
        unit="ms",
        lo=0,
        hi=600_000,
    )
    max_report_age_s: float = key(
        30,
        "A broker whose newest report is older than this is silent: it is neither source nor target.",
        source="design: three panes",
        unit="s",
        lo=1,
        hi=86_400,
    )
    mode: Literal["shadow", "live", "paused"] = key(
        "shadow",
        "Mode of a new cluster. Later the mode is in the journal, and `ballast mode` changes it.",
        source="design: nothing moves by default",
    )
    strategy: str = key(
        "steady",
        "The strategy that decides (docs/strategies.md); `ballast strategy` changes it at run time.",
        source=DESIGN,
        pattern=r"^[a-z][a-z0-9_]*$",
        allowed="the name of a strategy: lower-case letters, digits, underscores",
    )
    approve_above: int | None = key(
        None,
        "Moves that a round may make by itself; with more, it waits for `ballast approve`. Empty: rounds never wait.",
        source=DESIGN,
        unit="moves",
        lo=0,
        hi=1_000_000,
    )
    approval_minutes: float = key(
        10,
        "How long such a round waits, and how long a declined one keeps others of its size back.",
        source=DESIGN,
        unit="minutes",
        lo=0.1,
        hi=10_080,
    )
    least_realised: float | None = key(
        0.3,
        "What 50 moves must take off their sources, as a share of what was predicted. Below it, what was learned of "
        "usage is dropped; if the next 50 are no better, an alarm is raised. Empty: never.",
        source=DESIGN,
        unit="fraction",
        lo=0,
        hi=1,
    )
    shadow_when_missed: bool = key(
        False,
        "Whether that alarm also sets mode shadow, unless a broker is over its limit.",
        source=DESIGN,
    )
    challengers: Names = key(
        (),
        "Strategies that decide the same rounds in shadow.",
        source=DESIGN,
        allowed="a list of names of strategies",
    )
