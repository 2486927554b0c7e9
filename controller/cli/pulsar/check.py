"""`ballast pulsar check`: whether Ballast may send orders to a Pulsar cluster, and what to change. It only reads.

If there are tables of a Pulsar cluster, it says from their journal whether that cluster is adopted.
"""

from __future__ import annotations

import asyncio
from dataclasses import asdict

import typer

from controller.agent.cluster.another_cluster import find_another_cluster
from controller.agent.cluster.facts import read_broker_facts, uses_failure_domains
from controller.brokers.pulsar.addresses import Members, open_directory, read_leader
from controller.brokers.pulsar.admin import PulsarAdmin
from controller.brokers.pulsar.facts import RUNTIME_PATH
from controller.brokers.pulsar.outcomes import CallFailed, Outcome
from controller.brokers.pulsar.policies import Policies, read_policies
from controller.brokers.pulsar.process_cpu import MBEANS_PATH
from controller.cli.options import PROBLEM, AsJson, report_errors
from controller.cli.pulsar.connection import Connection, takes_connection
from controller.cli.show import emit_json, emit_table, emit_text
from controller.config.placement_values import placement_settings
from controller.config.settings import Settings
from controller.domain.facts import LEADER
from controller.domain.settings.placement import PlacementSettings
from controller.domain.state import ClusterState
from controller.operations.adoption import read_state, where_to_look
from controller.operations.pulsar_requirements import (
    WRONG,
    Requirement,
    judge_adoption,
    judge_requirements,
    judge_role,
)

PREFIX = "/admin/v2/"
NOT_ALLOWED = frozenset({Outcome.UNAUTHENTICATED, Outcome.FORBIDDEN})


@report_errors
@takes_connection
def check(connection: Connection, as_json: AsJson = False) -> None:
    """Whether Ballast may send orders: each requirement, and its remedy. Exit code 1 if one is not met."""
    settings = connection.settings()
    state = read_state(settings)
    members, found = asyncio.run(_read(PulsarAdmin(settings.pulsar_cluster), placement_settings(settings)))
    if state is not None and members.brokers:
        found += _judge_journal(settings, state, members)
    met = all(requirement.state != WRONG for requirement in found)
    if as_json:
        emit_json({"orders_allowed": met, "requirements": [asdict(requirement) for requirement in found]})
    else:
        rows = [(r.broker, r.requirement, r.found, r.state, r.remedy) for r in found]
        emit_table(("broker", "requirement", "found", "", "remedy …"), rows)
        emit_text("Ballast may send orders." if met else "Ballast sends no orders until every requirement is met.")
    raise typer.Exit(0 if met else PROBLEM)


def _judge_journal(settings: Settings, state: ClusterState, members: Members) -> list[Requirement]:
    """Whether the journal is that of this cluster, and says that it is adopted."""
    another = find_another_cluster(state, members.cluster, members.brokers)
    if another is not None:
        return [Requirement("all", "the journal's cluster", another, WRONG, where_to_look(settings))]
    adopted = judge_adoption(state.observed.adoption)
    return [adopted] if adopted is not None else []


async def _read(admin: PulsarAdmin, configured: PlacementSettings) -> tuple[Members, list[Requirement]]:
    """As `read_requirements`; without brokers, the role alone, if it may not even read who they are."""
    async with admin:
        try:
            return await read_requirements(admin, configured)
        except CallFailed as error:
            if error.outcome not in NOT_ALLOWED:
                raise
            path = error.about.rpartition(PREFIX)[2]  # of an address with a path
            return Members((), {}), [judge_role({path: error.detail})]


async def read_requirements(admin: PulsarAdmin, configured: PlacementSettings) -> tuple[Members, list[Requirement]]:
    """The brokers, and what Ballast requires of them, judged. Raises CallFailed if no broker answers."""
    directory = await open_directory(admin)
    members = await directory.refresh()
    role = judge_role(await _try_role(admin, members))
    facts = await read_broker_facts(admin, dict(members.addresses))
    try:
        facts[LEADER] = {"broker": await read_leader(admin, members.addresses)}
    except CallFailed as error:
        facts[LEADER] = {"why": str(error)}
    policies: Policies | str
    try:
        policies = await read_policies(admin, directory.cluster, members.addresses, uses_failure_domains(facts))
    except CallFailed as error:
        policies = str(error)
    return members, [role, *judge_requirements(members.brokers, facts, policies, configured)]


async def _try_role(admin: PulsarAdmin, members: Members) -> dict[str, str]:
    """What the role may read, for `judge_role`. One broker is asked for its statistics: roles are the cluster's, and
    each broker's configuration is read in any case. Where they cannot be had for another reason, they do not count."""
    answers = {_short(RUNTIME_PATH): ""}  # it was read, or there would be no members
    for address in list(members.addresses.values())[:1]:
        answer = await admin.get(MBEANS_PATH, address)
        if answer.outcome in NOT_ALLOWED:
            answers[_short(MBEANS_PATH)] = answer.failure().detail
        elif answer.outcome is Outcome.OK:
            answers[_short(MBEANS_PATH)] = ""
    return answers


def _short(path: str) -> str:
    return path.removeprefix(PREFIX)
