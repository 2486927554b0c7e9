"""`ballast pulsar check`: whether Ballast may send orders to a Pulsar cluster, and what to change. It only reads.

If there are tables of a Pulsar cluster, it says from their journal whether that cluster is adopted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import typer

from controller.agent.cluster.facts import read_broker_facts, uses_failure_domains
from controller.brokers.pulsar.addresses import Members, open_directory
from controller.brokers.pulsar.admin import PulsarAdmin
from controller.brokers.pulsar.outcomes import CallFailed
from controller.brokers.pulsar.policies import Policies, read_policies
from controller.cli.adoption_text import adoption_text
from controller.cli.options import PROBLEM, AsJson, report_errors
from controller.cli.pulsar.connection import Connection, takes_connection
from controller.cli.show import emit_json, emit_table, emit_text
from controller.config.policy_values import placement_settings
from controller.domain.errors import ConfigError
from controller.domain.facts import BROKER, MUST_BE_OFF, find_other_balancer
from controller.domain.observed import Adoption, AdoptionPhase
from controller.domain.pulsar_policies import placement_of
from controller.domain.settings.placement import PlacementSettings
from controller.operations.adoption import read_adoption

OK, WRONG, ADVICE = "ok", "not met", "advice"
RECOMMENDED_PERIOD_MS = 10_000


@dataclass(frozen=True, slots=True)
class Requirement:
    """One line. `state`: OK, WRONG, or ADVICE for what is not needed. `remedy`: what to do unless it is OK. `setting`:
    the dynamic setting that `ballast pulsar adopt` writes to meet it."""

    broker: str
    requirement: str
    found: str
    state: str
    remedy: str = ""
    setting: str = ""


@report_errors
@takes_connection
def check(connection: Connection, as_json: AsJson = False) -> None:
    """Whether Ballast may send orders: each requirement, and its remedy. Exit code 1 if one is not met."""
    settings = connection.settings()
    adopted = _judge_adoption(read_adoption(settings))
    found = asyncio.run(_read(PulsarAdmin(settings.pulsar_cluster), placement_settings(settings)))
    found += [adopted] if adopted is not None else []
    met = all(requirement.state != WRONG for requirement in found)
    if as_json:
        emit_json({"orders_allowed": met, "requirements": [asdict(requirement) for requirement in found]})
    else:
        rows = [(r.broker, r.requirement, r.found, r.state, r.remedy) for r in found]
        emit_table(("broker", "requirement", "found", "", "remedy …"), rows)
        emit_text("Ballast may send orders." if met else "Ballast sends no orders until every requirement is met.")
    raise typer.Exit(0 if met else PROBLEM)


async def _read(admin: PulsarAdmin, configured: PlacementSettings) -> list[Requirement]:
    async with admin:
        return (await read_requirements(admin, configured))[1]


async def read_requirements(admin: PulsarAdmin, configured: PlacementSettings) -> tuple[Members, list[Requirement]]:
    """The brokers, and what Ballast requires of them, judged. Raises CallFailed if no broker answers."""
    directory = await open_directory(admin)
    members = await directory.refresh()
    facts = await read_broker_facts(admin, dict(members.addresses))
    policies: Policies | str
    try:
        policies = await read_policies(admin, directory.cluster, members.addresses, uses_failure_domains(facts))
    except CallFailed as error:
        policies = str(error)
    return members, list(_judge(members, facts, policies, configured))


def _judge_adoption(adoption: Adoption | None) -> Requirement | None:
    """Whether an operator has adopted or released the cluster; None if nobody ever did."""
    if adoption is None:
        return None
    released = adoption.phase is not AdoptionPhase.ADOPTED
    remedy = "ballast pulsar adopt --apply takes it over again" if released else ""
    said = adoption_text(adoption)
    return Requirement("all", "not released", said, WRONG if released else OK, remedy)


def _judge(
    members: Members, facts: Mapping[str, Mapping[str, Any]], policies: Policies | str, configured: PlacementSettings
) -> Iterator[Requirement]:
    """`policies`: those of the cluster, or why they cannot be read."""
    for broker in members.brokers:
        fact = facts.get(f"{BROKER}{broker}")
        if fact is None:
            remedy = "let it answer, or give the credentials of a super-user"
            yield Requirement(broker, "tells its configuration", "no answer", WRONG, remedy)
        else:
            yield from _judge_broker(broker, fact)
    if len({fact.get("manager") for fact in facts.values()}) > 1:
        yield Requirement("all", "one load manager", "several", WRONG, "give all brokers the same loadManagerClassName")
    yield from _judge_policies(policies, configured)


def _judge_broker(broker: str, fact: Mapping[str, Any]) -> Iterator[Requirement]:
    settled = dict.fromkeys(MUST_BE_OFF, False)
    manager, version = str(fact.get("manager")), str(fact.get("version") or "unknown")
    alone = find_other_balancer({f"{BROKER}{broker}": {**fact, **settled}}, [broker])
    remedy = "" if alone is None else f"{alone.partition(': ')[2]}; change it and restart the broker"
    yield Requirement(broker, "load manager and version", f"{manager}, {version}", WRONG if alone else OK, remedy)
    for name, setting in MUST_BE_OFF.items():
        on = fact.get("load_balancer", True) and fact.get(name, True)
        by_hand = f"pulsar-admin brokers update-dynamic-config --config {setting} --value false"
        change = f"ballast pulsar adopt, or {by_hand}" if on else ""
        value = str(fact.get(name, "unknown")).lower()
        yield Requirement(broker, f"{setting}=false", value, WRONG if on else OK, change, setting if on else "")
    period_ms = int(fact.get("stats_period_ms", 0))
    slow = period_ms > RECOMMENDED_PERIOD_MS
    after_s = 2 * period_ms // 1000 + 5
    remedy = f"5 to 10 is better: a broker is not judged for {after_s} s after a move" if slow else ""
    yield Requirement(broker, "statsUpdateFrequencyInSecs", f"{period_ms / 1000:g}", ADVICE if slow else OK, remedy)


def _judge_policies(policies: Policies | str, configured: PlacementSettings) -> Iterator[Requirement]:
    what = "rules of placement can be applied"
    if isinstance(policies, str):
        yield Requirement("all", what, "not read", WRONG, policies)
        return
    try:
        placement_of(policies, configured)
    except ConfigError as error:
        yield Requirement("all", what, "no", WRONG, str(error))
    else:
        yield Requirement("all", what, "yes" if policies else "it has none", OK)
    for key, fact in sorted(policies.items()):
        kind, _, name = key.partition(":")
        yield Requirement("all", f"{kind.replace('_', ' ')} {name}", describe_policy(fact), OK)


def describe_policy(fact: Mapping[str, Any]) -> str:
    """A policy of the cluster in a few words."""
    if "group" in fact:
        return f"group {fact['group']}"
    if "enabled" in fact:
        unused = "" if fact["enabled"] else "; not used: failureDomainsEnabled=false"
        return f"{_listed(fact['brokers'])}{unused}"
    parts = ((key, _listed(fact.get(key))) for key in ("namespaces", "primary", "secondary"))
    return "; ".join(f"{key} {listed}" for key, listed in parts if listed)


def _listed(texts: Any) -> str:
    return ", ".join(map(str, texts)) if isinstance(texts, list) else str(texts or "")
