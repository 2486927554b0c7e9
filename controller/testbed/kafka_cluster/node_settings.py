"""The server.properties of one node of a cluster; comments explain values that differ from Kafka's defaults."""

from __future__ import annotations

from pathlib import Path

from controller.bus.security import LOGIN_MODULES
from controller.process.setup_java import property_value
from controller.testbed.kafka_cluster.logins import ADMIN, MECHANISM, NODE, Logins
from controller.testbed.kafka_cluster.spec import LOOPBACK, ClusterSpec
from controller.testbed.kafka_settings import TUNING


def node_properties(spec: ClusterSpec, number: int, data: Path, logins: Logins | None) -> str:
    """The text for node `number`. `logins`: of a secure cluster."""
    ports = spec.nodes[number - 1]
    voters = ",".join(f"{n}@{LOOPBACK}:{each.quorum}" for n, each in zip(spec.numbers, spec.nodes, strict=True))
    protocols = "CLIENT:SASL_SSL,BROKER:SSL,CONTROLLER:SSL" if logins else (
        "CLIENT:PLAINTEXT,BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT"
    )  # fmt: skip
    for_brokers = f"CLIENT://{LOOPBACK}:{ports.clients},BROKER://{LOOPBACK}:{ports.brokers}"
    return f"""\
process.roles=broker,controller
node.id={number}
controller.quorum.voters={voters}
listeners={for_brokers},CONTROLLER://{LOOPBACK}:{ports.quorum}
advertised.listeners={for_brokers}
listener.security.protocol.map={protocols}
inter.broker.listener.name=BROKER
controller.listener.names=CONTROLLER
log.dirs={property_value(str(data))}
offsets.topic.replication.factor={spec.copies}
transaction.state.log.replication.factor={spec.copies}
transaction.state.log.min.isr={spec.least_in_sync}
default.replication.factor={spec.copies}
# An acknowledged record survives the loss of a node.
min.insync.replicas={spec.least_in_sync}
{TUNING}{_security(logins) if logins else ""}"""


def _security(logins: Logins) -> str:
    """Nodes know each other by their certificate, because passwords are in the metadata that the quorum itself keeps;
    clients have passwords."""
    return f"""\
ssl.keystore.type=PEM
ssl.keystore.location={property_value(str(logins.key_store))}
ssl.truststore.type=PEM
ssl.truststore.location={property_value(str(logins.authority))}
listener.name.broker.ssl.client.auth=required
listener.name.controller.ssl.client.auth=required
listener.name.client.sasl.enabled.mechanisms={MECHANISM}
listener.name.client.{MECHANISM.lower()}.sasl.jaas.config={LOGIN_MODULES[MECHANISM]} required;
# Without an ACL nobody but these may do anything.
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:CN={NODE};User:{ADMIN}
"""
