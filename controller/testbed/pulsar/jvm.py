"""The command lines of Pulsar's programs, as its `bin/pulsar` builds them, with small heaps.

They are built here because `bin/pulsar` splits paths at spaces, runs two more JVMs a start, and sets heaps of
gigabytes.
"""

from __future__ import annotations

from pathlib import Path

from controller.process.setup_java import find_java

_OPENED = (
    "java.base/java.io",
    "java.base/java.util.zip",
    "java.management/sun.management",
    "jdk.management/com.sun.management.internal",
    "java.base/java.nio",
    "java.base/jdk.internal.misc",
    "java.base/jdk.internal.platform",  # by which a broker reads the CPU quota of its cgroup
)
_DRIVERS = "org.apache.pulsar.metadata.bookkeeper.PulsarMetadata"
_SHARED = (
    "-XX:+UseSerialGC",
    "-XX:-UsePerfData",
    "-Djava.net.preferIPv4Stack=true",
    "-Djute.maxbuffer=10485760",
    "-Dzookeeper.clientTcpKeepAlive=true",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dorg.apache.pulsar.shade.io.netty.tryReflectionSetAccessible=true",
    "-Dlog4j2.is.webapp=false",
    f"-Dbookkeeper.metadata.bookie.drivers={_DRIVERS}BookieDriver",
    f"-Dbookkeeper.metadata.client.drivers={_DRIVERS}ClientDriver",
    "--enable-native-access=ALL-UNNAMED",
    *(word for package in _OPENED for word in ("--add-opens", f"{package}=ALL-UNNAMED")),
)
ZOOKEEPER_JVM = ("-Xms64m", "-Xmx192m", "-Dzookeeper.snapshot.trust.empty=true", "-Dzookeeper.tcpKeepAlive=true")
BOOKIE_JVM = ("-Xms128m", "-Xmx384m", "-XX:MaxDirectMemorySize=384m")
BROKER_JVM = (
    "-Xms256m",
    "-Xmx512m",
    "-XX:MaxDirectMemorySize=384m",
    "-Dlog4j.shutdownHookEnabled=false",
    "-Dio.netty.recycler.maxCapacityPerThread=4096",
)
TOOL_JVM = ("-Xmx192m", "-XX:TieredStopAtLevel=1")


def java_command(home: Path, logging: Path, temporary: Path, jvm: tuple[str, ...], *program: str) -> list[str]:
    """The command that runs a class of the Pulsar in `home`. `temporary` is where it unpacks native libraries."""
    return [
        find_java().binary,
        *_SHARED,
        *jvm,
        f"-Dlog4j.configurationFile={logging.as_uri()}",
        f"-Djava.io.tmpdir={temporary}",
        "-cp",
        f"{home / 'conf'}:{home / 'lib'}/*",
        *program,
    ]


def zookeeper_program(conf: Path) -> tuple[str, ...]:
    return ("org.apache.zookeeper.server.quorum.QuorumPeerMain", str(conf))


def bookie_program(conf: Path) -> tuple[str, ...]:
    return ("org.apache.bookkeeper.server.Main", "--conf", str(conf))


def broker_program(conf: Path) -> tuple[str, ...]:
    return ("org.apache.pulsar.PulsarBrokerStarter", "--broker-conf", str(conf))
