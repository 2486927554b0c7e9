"""ACLs that every node knows: each of them authorizes by its own copy, which may lag behind on a busy machine."""

from __future__ import annotations

import time
from collections.abc import Sequence

from kafka.admin import (
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    KafkaAdminClient,
    ResourcePatternFilter,
    ResourceType,
)
from kafka.errors import KafkaError

from controller.bus.acls import Grant, apply_acls
from controller.bus.cluster import admin_client
from controller.testbed.kafka_cluster.cluster import KafkaCluster
from controller.testbed.kafka_cluster.logins import ADMIN

WITHIN_S = 60.0

Listed = set[tuple[ResourceType, str, ACLResourcePatternType, ACLOperation, ACLPermissionType, str]]


def put_in_force(kafka: KafkaCluster, grants: Sequence[Grant]) -> None:
    """Create the ACLs, and return when they are in force."""
    apply_acls(kafka.bootstrap, grants, kafka.client(ADMIN))
    wait_until_in_force(kafka, grants)


def wait_until_in_force(kafka: KafkaCluster, grants: Sequence[Grant]) -> None:
    """Until all nodes list all of them."""
    wanted = {(g.principal, g.right.name, operation.value.lower()) for g in grants for operation in g.right.operations}
    with admin_client(kafka.bootstrap, kafka.client(ADMIN)) as admin:
        behind = {broker["broker_id"] for broker in admin.describe_cluster()["brokers"]}
        assert len(behind) == len(kafka.spec.nodes)
        until_s = time.monotonic() + WITHIN_S
        while behind:
            assert time.monotonic() < until_s, f"nodes {behind} do not list all of {wanted}"
            behind = {node for node in behind if not wanted <= _listed_by(admin, node, {g.principal for g in grants})}
            time.sleep(0.1)


def listed_for(admin: KafkaAdminClient, principal: str) -> Listed:
    """What a node lists for a principal."""
    anything = ResourcePatternFilter(ResourceType.ANY, None, ACLResourcePatternType.ANY)
    wanted = ACLFilter(principal, None, ACLOperation.ANY, ACLPermissionType.ANY, anything)
    found, _ = admin.describe_acls(wanted)
    return {
        (p.resource_type, p.resource_name, p.pattern_type, acl.operation, acl.permission_type, acl.host)
        for acl in found
        for p in [acl.resource_pattern]
    }


def _listed_by(admin: KafkaAdminClient, node: int, principals: set[str]) -> set[tuple[str, str, str]]:
    """Principal, name and operation, by one node: the client has no public way to choose whom it asks."""
    admin._manager.least_loaded_node = lambda: node
    try:
        return {
            (principal, name, operation.name.replace("_", "").lower())
            for principal in principals
            for _, name, _, operation, _, _ in listed_for(admin, principal)
        }
    except KafkaError:
        return set()  # it is still connecting
