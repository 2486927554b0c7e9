"""The rights of principals as Kafka's ACLs: lines for `kafka-acls`, or created through the admin API.

A grant allows from any host. Nothing is taken away: rights that a principal has already stay.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from kafka.admin import ACL, ACLOperation, ACLPermissionType, ACLResourcePatternType, ResourcePattern, ResourceType
from kafka.errors import KafkaError

from controller.bus.cluster import NO_SETTINGS, admin_client
from controller.bus.rights import Operation, Right
from controller.domain.errors import BallastError, describe_error

ANY_HOST = "*"
USER = "User:"
_OPERATIONS = {
    Operation.READ: ACLOperation.READ,
    Operation.WRITE: ACLOperation.WRITE,
    Operation.CREATE: ACLOperation.CREATE,
    Operation.DESCRIBE: ACLOperation.DESCRIBE,
    Operation.DESCRIBE_CONFIGS: ACLOperation.DESCRIBE_CONFIGS,
}


class AclsRefused(BallastError):
    """Raised when Kafka does not take the ACLs: no authorizer, or a login that may not change them."""


class Grant(NamedTuple):
    """A right of a principal, as Kafka names it: `User:agent`, `User:CN=agent,O=shop`."""

    principal: str
    right: Right


def principal_of(name: str) -> str:
    """The principal of a user, which may be named with its type already."""
    return name if name.startswith(USER) else f"{USER}{name}"


def command_lines(grants: Iterable[Grant], bootstrap: str, command_config: str) -> Iterator[str]:
    """A line for each grant, for a shell that has Kafka's tools. `command_config`: the file with an admin's login."""
    for principal, right in grants:
        kind = ["--topic", right.name]
        if right.groups:
            kind = ["--group", right.name, "--resource-pattern-type", "prefixed"]
        allowed = [word for operation in right.operations for word in ("--operation", operation.value)]
        words = ["kafka-acls", "--bootstrap-server", bootstrap, "--command-config", command_config, "--add"]
        yield shlex.join([*words, "--allow-principal", principal, *allowed, *kind])


def apply_acls(bootstrap: str, grants: Sequence[Grant], settings: Mapping[str, object] = NO_SETTINGS) -> int:
    """Create the ACLs that do not exist; returns how many there are now. Raises AclsRefused, KafkaUnavailable."""
    wanted = [acl for grant in grants for acl in _acls_of(grant)]
    with admin_client(bootstrap, settings) as admin:
        try:
            failed = admin.create_acls(wanted)["failed"]
        except KafkaError as error:
            raise AclsRefused(_refused(bootstrap, describe_error(error))) from error
    if failed:
        raise AclsRefused(_refused(bootstrap, f"{len(failed)} of {len(wanted)}: {failed[0].__name__}"))
    return len(wanted)


def _refused(bootstrap: str, why: str) -> str:
    return (
        f"Kafka at {bootstrap} does not take the ACLs ({why}): it needs an authorizer (authorizer.class.name), and the "
        "login of kafka.client needs ALTER on the cluster, or to be a super user"
    )


def _acls_of(grant: Grant) -> Iterator[ACL]:
    right = grant.right
    kind, pattern = (
        (ResourceType.GROUP, ACLResourcePatternType.PREFIXED) if right.groups
        else (ResourceType.TOPIC, ACLResourcePatternType.LITERAL)
    )  # fmt: skip
    for operation in right.operations:
        yield ACL(
            principal=grant.principal,
            host=ANY_HOST,
            operation=_OPERATIONS[operation],
            permission_type=ACLPermissionType.ALLOW,
            resource_pattern=ResourcePattern(kind, right.name, pattern),
        )
