"""The Apache Pulsar cluster that Ballast reads: addresses, credentials, and how its figures are taken."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator

from controller.config.definition import DESIGN, Section, key
from controller.config.sections.control import Names
from controller.domain.errors import ConfigError
from controller.pulsar.address import check_web_address


def _addresses(urls: tuple[str, ...]) -> tuple[str, ...]:
    try:
        return tuple(check_web_address(url) for url in urls)
    except ConfigError as error:
        raise ValueError(str(error)) from None


Addresses = Annotated[Names, AfterValidator(_addresses)]


class PulsarCluster(Section):
    """How Ballast reaches a Pulsar cluster and reads it. Pulsar's own settings are in `pulsar`."""

    service_urls: Addresses = key(
        (),
        "Web service addresses, tried in turn. They are used to find the brokers, which are then asked one by one.",
        source="the cluster's; there is no default",
        allowed="addresses such as http://broker-1:8080 or https://pulsar:8443, without user, password and path",
    )
    cluster: str | None = key(
        None,
        "Name of the Pulsar cluster; empty: as its brokers say. Needed if the role may not read their configuration "
        "and several clusters are known to each other.",
        source=DESIGN,
        pattern=r"^[A-Za-z0-9_.\-]{1,128}$",
        allowed="the name of a cluster",
    )
    token_file: str | None = key(
        None, "File with a token; it is read again when it changes.", source=DESIGN, allowed="a path", is_path=True
    )
    tls_ca_file: str | None = key(
        None,
        "Certificates that brokers' certificates are checked against; empty: those that the system trusts. Files of "
        "TLS and OAuth2 are read again when they change.",
        source=DESIGN,
        allowed="a path",
        is_path=True,
    )
    tls_cert_file: str | None = key(
        None, "Certificate of this client, for mutual TLS.", source=DESIGN, allowed="a path", is_path=True
    )
    tls_key_file: str | None = key(
        None, "Key of that certificate, without a passphrase.", source=DESIGN, allowed="a path", is_path=True
    )
    oauth2_issuer_url: str | None = key(
        None,
        "OAuth2 issuer, whose token endpoint is found by itself; empty: as the key file says.",
        source=DESIGN,
        pattern=r"^https?://[^\s@]+$",
        allowed="an address such as https://accounts.example.com",
    )
    oauth2_key_file: str | None = key(
        None,
        "OAuth2 key file in Pulsar's format: client_id, client_secret, issuer_url.",
        source=DESIGN,
        allowed="a path",
        is_path=True,
    )
    oauth2_client_id: str | None = key(
        None, "OAuth2 client, if there is no key file.", source=DESIGN, pattern=r"^\S+$", allowed="a client's id"
    )
    oauth2_secret_file: str | None = key(
        None, "File with that client's secret.", source=DESIGN, allowed="a path", is_path=True
    )
    oauth2_audience: str | None = key(
        None, "OAuth2 audience.", source=DESIGN, pattern=r"^\S+$", allowed="an identifier"
    )
    oauth2_scope: str | None = key(
        None, "OAuth2 scope.", source=DESIGN, pattern=r"^\S(.*\S)?$", allowed="scopes, separated by spaces"
    )
    connect_timeout_s: float = key(3.0, "How long a connection may take.", source=DESIGN, unit="s", lo=0.1, hi=60)
    read_timeout_s: float = key(
        8.0,
        "How long an answer may take. A slow broker delays nobody else.",
        source="measured: answers of a busy broker took up to 0.2 s",
        unit="s",
        lo=0.1,
        hi=120,
    )
    host_cpu: bool = key(
        False,
        "Take Pulsar's figure of CPU, which is that of the whole host or container. Off: the CPU of the broker's own "
        "process, of all its processors.",
        source="measured: brokers on one host all report the same CPU",
    )
    nic_gbps: float | None = key(
        None,
        "Speed of a broker's network, against which message throughput counts as bandwidth where Pulsar does not know "
        "the network card: virtual machines, and every broker of the extensible load manager. Empty: bandwidth is "
        "unknown there, and CPU alone counts.",
        source="Pulsar's brokers report a limit of -1000 or a usage of 0",
        unit="Gbit/s",
        lo=0.000001,
        hi=10_000,
    )
    excluded_namespaces: Names = key(
        ("public/functions", "*/__kafka"),
        "Namespaces whose bundles are left where they are, besides those that brokers use for themselves; * stands "
        "for any tenant or namespace.",
        source="internal topics of Pulsar Functions and of Kafka-on-Pulsar",
        allowed="a list of namespaces",
    )
    topics_max_bytes: int = key(
        134_217_728,
        "Largest answer of broker-stats/topics that is read; a broker with a larger one has no figures by topic.",
        source="design: about 60,000 topics",
        unit="bytes",
        lo=1_024,
        hi=4_294_967_296,
    )
    modular_topics: bool = key(
        False,
        "Whether the agent reads broker-stats/topics once per statistics period with the modular load manager as well. "
        "Unacknowledged messages and backlog then count in what a move disrupts, brokers whose backlog piles up are "
        "seen, and non-persistent topics are known beforehand. Off: it is read just before a split, to cut where half "
        "of the load lies. The extensible load manager tells loads by topics alone: there it is always read.",
        source="measured: 5 µs of CPU and 1.4 KB for each topic",
    )
    move_non_persistent: bool = key(
        False,
        "Whether rounds move bundles that hold non-persistent topics. A move loses the messages of such topics that "
        "are under way. Off: rounds leave these bundles where they are; commands and drains move them either way.",
        source="Pulsar: non-persistent topics keep no message for clients that reconnect",
    )
    orders_in_flight: int = key(
        8,
        "Most orders (moves and splits) that may be open in the cluster at once.",
        source=DESIGN,
        unit="orders",
        lo=1,
        hi=1_000,
    )
    orders_per_broker: int = key(
        2,
        "Most open orders that one broker takes part in, as source or target. Exchanges of bundles need two.",
        source=DESIGN,
        unit="orders",
        lo=1,
        hi=100,
    )
    order_back_off_s: float = key(
        120.0,
        "How long rounds leave a bundle alone after an order that Pulsar refused, or that left it where it was; twice "
        "as long after each further one, up to 64 times.",
        source=DESIGN,
        unit="s",
        lo=1,
        hi=86_400,
    )
