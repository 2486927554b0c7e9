"""What Ballast runs on: the cluster's name, Kafka, the tables, the segment store, logs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import AfterValidator, SecretStr

from controller.bus.security import wrap_secrets
from controller.config.definition import DESIGN, Section, key
from controller.config.sections.control import Names
from controller.domain.settings.agent_groups import AgentGroups

if TYPE_CHECKING:
    from controller.bus.topics import TopicNames

PORT = r"([0-9]{1,4}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"  # up to 65535
HOST_PORT = rf"[A-Za-z0-9._\-]+:{PORT}"


class Cluster(Section):
    """Which cluster this is."""

    name: str = key(
        "ballast",
        "Name of the cluster, in logs, metrics and the controller's entries.",
        source=DESIGN,
        pattern=r"^[a-z0-9][a-z0-9\-]{0,62}$",
        allowed="1 to 63 lower-case letters, digits and hyphens",
    )


class Kafka(Section):
    """The Kafka that carries reports, heartbeats, events, commands and the journal feed."""

    bootstrap_servers: str = key(
        "127.0.0.1:9092",
        "Addresses of Kafka.",
        source="Kafka's own port, on this machine",
        pattern=rf"^{HOST_PORT}(,{HOST_PORT})*$",
        allowed="host:port with a port up to 65535, several separated by commas without spaces",
    )
    topic_prefix: str = key(
        "",
        "Prefix of every topic name, so that several clusters can share one Kafka.",
        source=DESIGN,
        pattern=r"^[A-Za-z0-9._\-]{0,100}$",
        allowed="up to 100 letters, digits, dots, underscores and hyphens",
    )
    client: Annotated[dict[str, str | int | float | bool | SecretStr], AfterValidator(wrap_secrets)] = key(
        {},
        "SASL and TLS options by kafka-python's names, for every Kafka client including Spark's.",
        source=DESIGN,
        allowed="names and values, such as {security_protocol: SSL, ssl_cafile: /etc/kafka/ca.pem}",
        path_entries=("ssl_cafile", "ssl_certfile"),
    )
    session_timeout_ms: int = key(
        9_000,
        "The broker.session.timeout.ms of the Kafka brokers. Ballast does not read it from them, so keep both equal. "
        "A lease must outlast it by 3 s, so that no lease ends when a Kafka broker is lost.",
        source="Kafka's default (KRaft)",
        unit="ms",
        lo=1_000,
        hi=600_000,
    )
    replication_factor: int | None = key(
        None,
        "Copies of each topic that Ballast creates; empty: Kafka's default.",
        source="Kafka's own setting",
        unit="copies",
        lo=1,
        hi=9,
    )
    load_report_partitions: int = key(
        4,
        "Partitions of the topic load-reports, which the loads query reads in parallel; of each agent group.",
        source="design: enough for one machine's cores",
        unit="partitions",
        lo=1,
        hi=1_000,
    )
    agent_groups: dict[str, Names] = key(
        {},
        "Groups of agents by name, with their brokers (host:port, or a host for all brokers on it; * stands for any "
        "characters). The agents of a group write load reports, heartbeats and broker events to topics of their own, "
        "so that an ACL can bind a principal to the group's brokers. The same for all processes.",
        source=DESIGN,
        allowed="names of lower-case letters, digits and hyphens, and brokers, such as {east: ['east*'], "
        "west: ['b7:8080']}",
    )

    @property
    def topics(self) -> TopicNames:
        """The names of the topics."""
        from controller.bus.topics import TopicNames  # the Kafka client takes long to import, and few commands need it

        return TopicNames(self.topic_prefix, AgentGroups.of_mapping(self.agent_groups))


class Tables(Section):
    """The Delta tables and the checkpoints of the two queries."""

    root: str = key(
        "run/tables",
        "Folder or object-store address of the Delta tables.",
        source=DESIGN,
        pattern=r"^\S(.*\S)?$",
        allowed="a path or an address such as s3://bucket/ballast",
        is_path=True,
    )
    checkpoints: str = key(
        "run/checkpoints",
        "Folder or object-store address of the streaming checkpoints.",
        source=DESIGN,
        pattern=r"^\S(.*\S)?$",
        allowed="a path or an address such as s3://bucket/ballast",
        is_path=True,
    )

    storage_options: dict[str, str] = key(
        {},
        "What an object store needs to be told, by delta-rs's names, such as its endpoint and its region. Credentials "
        "come from the environment, the credentials file or the machine's role.",
        source=DESIGN,
        allowed="names and text values without credentials, such as {aws_region: eu-west-1, aws_allow_http: 'true'}",
    )


class Store(Section):
    """The segment store of the reference brokers."""

    address: str = key(
        "127.0.0.1:7650",
        "Address at which the segment store listens and brokers reach it; port 0 takes a free one.",
        source=DESIGN,
        pattern=rf"^{HOST_PORT}$",
        allowed="host:port with a port up to 65535",
    )
    fsync: bool = key(
        False,
        "Force each append to the disk before it is acknowledged. "
        "Without it an acknowledged message survives a killed process, but not a power cut.",
        source=DESIGN,
    )


class Logging(Section):
    """Logs of every process."""

    level: Literal["debug", "info", "warning", "error"] = key("info", "Lowest level that is logged.", source=DESIGN)
    json_lines: bool = key(True, "One JSON object per line; off: text for a terminal.", source=DESIGN)
