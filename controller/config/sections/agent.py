"""The agent beside each broker."""

from __future__ import annotations

from controller.config.definition import DESIGN, PULSAR, PulsarName, Section, key


class Agent(Section):
    """Reporting, watching the journal, answering lookups."""

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
        "Report the machine's CPU, memory, network and disk instead of what the broker's model says: for a broker that "
        "has the machine to itself.",
        source="the demo's brokers share one machine, whose figures would be the same for all",
    )
    override_broker_nic_speed_gbps: float | None = key(
        None,
        "Speed of the network card, the limit of both bandwidths; empty: what the system says.",
        source=PULSAR,
        unit="Gbit/s",
        lo=0.000001,
        hi=10_000,
        pulsar=(PulsarName("loadBalancerOverrideBrokerNicSpeedGbps"),),
    )
    message_throughput_as_bandwidth: bool = key(
        False,
        "Take message throughput as bandwidth where the network card is unknown (recordings of several brokers on "
        "one machine, whose traffic crosses no card).",
        source="measured: real Pulsar brokers on one host report limit -1000 and no traffic",
    )
    journal_poll_ms: int = key(
        1_500,
        "How often the journal table is polled when Kafka brings nothing; at most a third of the shortest deadline.",
        source=DESIGN,
        unit="ms",
        lo=100,
        hi=600_000,
    )
    lookup_wait_ms: int = key(
        5_000,
        "How long a lookup waits for an unowned bundle's assignment before it answers 503.",
        source=DESIGN,
        unit="ms",
        lo=0,
        hi=60_000,
    )
    bind_host: str = key(
        "127.0.0.1",
        "Address the broker and its agent listen on.",
        source="nothing is opened to the network unasked",
        pattern=r"^\S+$",
        allowed="a host name or address",
    )
    advertised_host: str | None = key(
        None,
        "Name or address at which clients reach the broker and its agent; empty: bind_host, or this machine's name "
        "where that is a wildcard.",
        source=DESIGN,
        pattern=r"^\S+$",
        allowed="a host name or address",
    )
