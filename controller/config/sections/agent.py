"""The agent of each broker."""

from __future__ import annotations

from controller.config.definition import DESIGN, PULSAR, PulsarName, Section, key


class Agent(Section):
    """How an agent reports, follows the journal and answers lookups."""

    report_interval_ms: int = key(
        5_000,
        "Time between two load reports.",
        source=PULSAR,
        unit="ms",
        lo=100,
        hi=3_600_000,
        pulsar=(PulsarName("loadBalancerReportUpdateMinIntervalMillis"),),
    )
    host_figures: bool = key(
        False,
        "Report CPU, memory, network and disk of the machine instead of the broker's modelled usage; for a broker that "
        "has a machine to itself.",
        source="the demo's brokers share one machine, whose figures would be the same for all",
    )
    override_broker_nic_speed_gbps: float | None = key(
        None,
        "Speed of the network card, the limit of both bandwidths; empty: as the system reports it.",
        source=PULSAR,
        unit="Gbit/s",
        lo=0.000001,
        hi=10_000,
        pulsar=(PulsarName("loadBalancerOverrideBrokerNicSpeedGbps"),),
    )
    message_throughput_as_bandwidth: bool = key(
        False,
        "Use message throughput as bandwidth if the network card is unknown (recordings of several brokers on one "
        "machine, whose traffic crosses no card).",
        source="measured: real Pulsar brokers on one host report limit -1000 and no traffic",
    )
    journal_poll_ms: int = key(
        1_500,
        "Interval at which the journal table is polled while nothing arrives from Kafka; at most a third of the "
        "shortest deadline.",
        source=DESIGN,
        unit="ms",
        lo=100,
        hi=600_000,
    )
    lookup_wait_ms: int = key(
        5_000,
        "How long a lookup waits until a bundle without an owner is assigned, before it returns 503.",
        source=DESIGN,
        unit="ms",
        lo=0,
        hi=60_000,
    )
    bind_host: str = key(
        "127.0.0.1",
        "Address that the broker and its agent listen on.",
        source="nothing is opened to the network by default",
        pattern=r"^\S+$",
        allowed="a host name or address",
    )
    advertised_host: str | None = key(
        None,
        "Name or address at which clients reach the broker and its agent; empty: bind_host, or this machine's name if "
        "bind_host is a wildcard.",
        source=DESIGN,
        pattern=r"^\S+$",
        allowed="a host name or address",
    )
