"""The configuration files of the servers: Pulsar's shipped files with our values on top. Pure text.

Only what makes a cluster small, local and quick to fail over differs from the shipped values. In particular Pulsar
balances by itself, as shipped: what turns that off is the user's choice.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from controller.process.setup_java import property_value
from controller.testbed.pulsar.spec import BOOKIE, CLUSTER_NAME, ZOOKEEPER, ClusterSpec

SESSION_TIMEOUT_MS = 10_000  # shipped: 30 s, for which a killed broker's bundles are served by nobody
STATS_INTERVAL_S = 5  # shipped: 60 s, the resolution of every rate that Pulsar reports
_SETTING = re.compile(r"^\s*#?\s*(?P<key>[\w.\-]+)\s*=")


def overlay(shipped: str, changes: Mapping[str, str]) -> str:
    """The shipped file without the lines of changed keys, followed by the changes; comments stay."""
    kept = [
        line
        for line in shipped.splitlines()
        if line.lstrip().startswith("#") or line.partition("=")[0].strip() not in changes
    ]
    return "\n".join([*kept, "", "# Changed for a small cluster on one machine:", *_lines(changes)]) + "\n"


def known_settings(shipped: str) -> set[str]:
    """The keys of a shipped file, those in comments too."""
    return {found["key"] for line in shipped.splitlines() if (found := _SETTING.match(line))}


def zookeeper_conf(spec: ClusterSpec, data: Path) -> str:
    """A file of its own: the shipped one opens an admin and a metrics port on all interfaces."""
    return "\n".join(
        _lines(
            {
                "tickTime": "2000",
                "initLimit": "10",
                "syncLimit": "5",
                "dataDir": str(data),
                "clientPort": str(spec.ports(ZOOKEEPER).client),
                "clientPortAddress": "127.0.0.1",
                "admin.enableServer": "false",
                "forceSync": "no",  # a crash of the machine may lose data; a killed process does not
                "maxClientCnxns": "0",
            }
        )
    )


def bookie_changes(spec: ClusterSpec, data: Path) -> dict[str, str]:
    """What differs from the shipped bookkeeper.conf."""
    return {
        "bookiePort": str(spec.ports(BOOKIE).client),
        "listeningInterface": "lo",
        "advertisedAddress": "127.0.0.1",
        "allowLoopback": "true",
        "metadataServiceUri": f"metadata-store:{metadata_store(spec)}",
        "journalDirectory": str(data / "journal"),
        "ledgerDirectories": str(data / "ledgers"),
        "statsProviderClass": "org.apache.bookkeeper.stats.NullStatsProvider",
        "prometheusStatsHttpEnable": "false",
        "httpServerEnabled": "false",
        "autoRecoveryDaemonEnabled": "false",
        "journalSyncData": "false",  # a crash of the machine may lose data; a killed process does not
        "journalMaxSizeMB": "256",
        "logSizeLimit": "268435456",
        "dbStorage_writeCacheMaxSizeMb": "64",
        "dbStorage_readAheadCacheMaxSizeMb": "32",
        "dbStorage_rocksDB_blockCacheSize": "33554432",
        "numReadWorkerThreads": "2",
        "numHighPriorityWorkerThreads": "2",
        "numJournalCallbackThreads": "1",
        "diskUsageThreshold": "0.99",
        "diskUsageWarnThreshold": "0.98",
    }


def broker_changes(spec: ClusterSpec, name: str, credentials: Path) -> dict[str, str]:
    """What differs from the shipped broker.conf; the user's own settings win. `credentials`: where keys are."""
    ports = spec.ports(name)
    client, web = str(ports.client), str(ports.web)
    return {
        "clusterName": CLUSTER_NAME,
        "metadataStoreUrl": metadata_store(spec),
        "configurationMetadataStoreUrl": metadata_store(spec),
        "metadataStoreSessionTimeoutMillis": str(SESSION_TIMEOUT_MS),
        "bindAddress": spec.host(name),
        "advertisedAddress": spec.host(name),
        "brokerServicePort": "" if spec.tls else client,
        "webServicePort": "" if spec.tls else web,
        "brokerServicePortTls": client if spec.tls else "",
        "webServicePortTls": web if spec.tls else "",
        "managedLedgerDefaultEnsembleSize": "1",
        "managedLedgerDefaultWriteQuorum": "1",
        "managedLedgerDefaultAckQuorum": "1",
        "managedLedgerCacheSizeMB": "48",
        "numIOThreads": "2",
        "numHttpServerThreads": "8",
        "brokerShutdownTimeoutMs": "10000",
        "brokerDeleteInactiveTopicsEnabled": "false",  # topics of a try-out stay while their clients are away
        "loadManagerClassName": spec.load_manager,
        "statsUpdateFrequencyInSecs": str(STATS_INTERVAL_S),
        "statsUpdateInitialDelayInSecs": str(STATS_INTERVAL_S),
        **_tls_changes(spec, credentials),
        **_auth_changes(spec, credentials),
        **spec.settings,
    }


def _tls_changes(spec: ClusterSpec, credentials: Path) -> dict[str, str]:
    if not spec.tls:
        return {}
    return {
        "tlsCertificateFilePath": str(credentials / "server.cert.pem"),
        "tlsKeyFilePath": str(credentials / "server.key.pem"),
        "tlsTrustCertsFilePath": str(credentials / "ca.cert.pem"),
        "tlsRequireTrustedClientCertOnConnect": "true" if spec.auth == "tls" else "false",
        "brokerClientTlsEnabled": "true",
        "brokerClientTrustCertsFilePath": str(credentials / "ca.cert.pem"),
    }


def _auth_changes(spec: ClusterSpec, credentials: Path) -> dict[str, str]:
    if spec.auth == "none":
        return {}
    kind = "Token" if spec.auth == "token" else "Tls"
    certificate, key = credentials / "broker.cert.pem", credentials / "broker.key.pem"
    return {
        "authenticationEnabled": "true",
        "authorizationEnabled": "true",
        "superUserRoles": "admin,broker",
        "authenticationProviders": f"org.apache.pulsar.broker.authentication.AuthenticationProvider{kind}",
        "tokenSecretKey": (credentials / "secret.key").as_uri() if spec.auth == "token" else "",
        "brokerClientAuthenticationPlugin": f"org.apache.pulsar.client.impl.auth.Authentication{kind}",
        "brokerClientAuthenticationParameters": (
            (credentials / "broker.token").as_uri()
            if spec.auth == "token"
            else f"tlsCertFile:{certificate},tlsKeyFile:{key}"
        ),
    }


def metadata_store(spec: ClusterSpec) -> str:
    """The address of ZooKeeper, as Pulsar writes it."""
    return f"zk:127.0.0.1:{spec.ports(ZOOKEEPER).client}"


LOG4J = """\
status = error
appender.console.type = Console
appender.console.name = Console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{yyyy-MM-dd'T'HH:mm:ss,SSSZ} [%t] %-5level %logger{36} - %msg%n
rootLogger.level = info
rootLogger.appenderRef.console.ref = Console
"""


def _lines(values: Mapping[str, str]) -> list[str]:
    return [f"{key}={property_value(value)}" for key, value in values.items()]
