"""The two configuration files of the embedded Kafka: broker settings and logging.

One KRaft node is both broker and controller, on the loopback interface only, tuned for few resources and low latency.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from controller.process.setup_java import property_value

# Of every node of a local Kafka, alone or with others.
TUNING = """\
# 50 partitions each by default: seconds of start and a hundred open files for nothing.
offsets.topic.num.partitions=1
transaction.state.log.num.partitions=1
# A consumer group need not wait for members that never come.
group.initial.rebalance.delay.ms=0
# A mistyped topic is an error, not a topic with the wrong timestamp type.
auto.create.topics.enable=false
num.network.threads=2
num.io.threads=4
background.threads=2
num.recovery.threads.per.data.dir=1
# The default of 128 MB would be a third of the heap.
log.cleaner.dedupe.buffer.size=4194304
log.cleaner.io.buffer.size=131072
# A guard for the disk; the topics set their own retention times.
log.retention.bytes=1073741824
log.retention.check.interval.ms=60000
"""


class Door(NamedTuple):
    """An additional listener for clients behind a proxy.

    Kafka listens on `port` and sends clients to `advertised_port`, where a proxy forwards to `port`. So all connections
    of one client can be cut. For protocols other than PLAINTEXT, `settings` configure security; their keys are what
    follows `listener.name.doorN.` in Kafka's names.
    """

    port: int
    advertised_port: int
    protocol: str = "PLAINTEXT"
    settings: Mapping[str, str] = MappingProxyType({})


def server_properties(data: Path, port: int, controller_port: int, doors: Sequence[Door] = ()) -> str:
    """The text of server.properties; comments explain values that differ from Kafka's defaults."""
    listen = "".join(f"DOOR{n}://127.0.0.1:{door.port}," for n, door in enumerate(doors))
    advertise = "".join(f"DOOR{n}://127.0.0.1:{door.advertised_port}," for n, door in enumerate(doors))
    protocols = "".join(f"DOOR{n}:{door.protocol}," for n, door in enumerate(doors))
    locks = "".join(
        f"listener.name.door{n}.{key}={property_value(value)}\n"
        for n, door in enumerate(doors)
        for key, value in door.settings.items()
    )
    return f"""\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller_port}
# Loopback only: this Kafka has no authentication.
listeners={listen}BROKER://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners={advertise}BROKER://127.0.0.1:{port}
listener.security.protocol.map={protocols}BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=BROKER
controller.listener.names=CONTROLLER
log.dirs={property_value(str(data))}
# One node: nothing can be replicated.
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
default.replication.factor=1
min.insync.replicas=1
{TUNING}\
# After a SIGKILL the next start waits until the dead broker's registration has run out:
# 8 s with this, 14 s with the default of 9 s.
broker.session.timeout.ms=6000
broker.heartbeat.interval.ms=1000
{locks}"""


def log4j_properties(log_file: Path) -> str:
    """The text of log4j.properties: warnings and start-up messages go to one file of limited size."""
    return f"""\
log4j.rootLogger=WARN, file
log4j.appender.file=org.apache.log4j.RollingFileAppender
log4j.appender.file.File={property_value(str(log_file))}
log4j.appender.file.MaxFileSize=10MB
log4j.appender.file.MaxBackupIndex=1
log4j.appender.file.layout=org.apache.log4j.PatternLayout
log4j.appender.file.layout.ConversionPattern=%d{{ISO8601}} %p %m (%c)%n
log4j.logger.kafka.server.KafkaRaftServer=INFO
log4j.logger.org.apache.kafka.common.utils.AppInfoParser=ERROR
"""
