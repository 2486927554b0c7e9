"""`ballast kafka acls`: the rights that each principal needs, as lines for `kafka-acls`, or given at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated

import typer

from controller.bus.acls import Grant, apply_acls, command_lines, principal_of
from controller.bus.rights import Role, rights_of
from controller.bus.topics import TopicNames
from controller.cli.options import AsJson, Conf, Profile, Sets, report_errors, settings_of
from controller.cli.show import emit_json
from controller.domain.errors import ConfigError
from controller.domain.settings.agent_groups import NO_GROUP

ADMIN_FILE = "admin.properties"
Agents = Annotated[
    list[str] | None,
    typer.Option(
        "--agent",
        help="Principal of agents, or GROUP=PRINCIPAL for those of a group of kafka.agent_groups; repeatable.",
        show_default=False,
    ),
]
Controllers = Annotated[
    list[str] | None, typer.Option("--controller", help="Principal of the job; repeatable.", show_default=False)
]
Operators = Annotated[
    list[str] | None,
    typer.Option("--operator", help="Principal that sends commands; repeatable.", show_default=False),
]
Viewers = Annotated[
    list[str] | None, typer.Option("--viewer", help="Principal that only looks; repeatable.", show_default=False)
]
Apply = Annotated[bool, typer.Option("--apply", help="Create them, with the login of kafka.client, instead.")]
CommandConfig = Annotated[
    str, typer.Option("--command-config", help="File with an admin's login, for the lines that are printed.")
]


@report_errors
def acls(
    agent: Agents = None, controller: Controllers = None, operator: Operators = None, viewer: Viewers = None,
    apply: Apply = False, command_config: CommandConfig = ADMIN_FILE, as_json: AsJson = False,
    conf: Conf = None, profile: Profile = None, sets: Sets = None,
) -> None:  # fmt: skip
    """Print the ACLs that Ballast's principals need, as `kafka-acls` lines; with --apply, create them."""
    settings = settings_of(conf, profile, sets)
    names, kafka = settings.kafka.topics, settings.kafka
    grants = [
        *agent_grants(agent or (), names),
        *grants_of(Role.CONTROLLER, controller or (), names),
        *grants_of(Role.OPERATOR, operator or (), names),
        *grants_of(Role.VIEWER, viewer or (), names),
    ]
    if not grants:
        raise ConfigError("whose rights? Give --agent, --controller, --operator or --viewer, each with a principal")
    if apply:
        count = apply_acls(kafka.bootstrap_servers, grants, kafka.client)
        typer.echo(f"{count} ACLs at {kafka.bootstrap_servers}", err=as_json)
    if as_json:
        emit_json([{"principal": g.principal, **_row(g)} for g in grants])
    elif not apply:
        for line in command_lines(grants, kafka.bootstrap_servers, command_config):
            typer.echo(line)


def grants_of(role: Role, principals: Iterable[str], names: TopicNames) -> Iterator[Grant]:
    """The rights of a role, for each of the principals."""
    for name in principals:
        yield from (Grant(principal_of(name), right) for right in rights_of(role, names))


def agent_grants(given: Iterable[str], names: TopicNames) -> Iterator[Grant]:
    """The rights of agents: `PRINCIPAL` speaks for brokers in no group, `GROUP=PRINCIPAL` for those of a group.

    Raises ConfigError for a group that does not exist.
    """
    for word in given:
        group, equals, name = word.partition("=")
        if not equals or group.startswith("User:") or group.isupper():  # a distinguished name, such as CN=agent
            group, name = NO_GROUP, word
        if not name:
            raise ConfigError(f"--agent {word}: give a principal after the group, {group}=PRINCIPAL")
        if group not in names.groups.all:
            known = ", ".join(names.groups.all[1:]) or "there are none"
            raise ConfigError(f"--agent {word}: {group!r} is no group of kafka.agent_groups ({known})")
        yield from (Grant(principal_of(name), right) for right in rights_of(Role.AGENT, names, group))


def _row(grant: Grant) -> dict[str, object]:
    right = grant.right
    kind = "group_prefix" if right.groups else "topic"
    return {kind: right.name, "operations": [operation.value for operation in right.operations]}
