"""What Ballast requires of a Pulsar cluster before it sends orders: each requirement judged, with its remedy.

`ballast pulsar check` judges what the brokers answer now, the operators' page what the journal says of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from controller.domain.errors import ConfigError
from controller.domain.facts import BROKER, LEADER, MODULAR, MUST_BE_OFF, NO_VERSION, Facts, find_other_balancer
from controller.domain.observed import Adoption, AdoptionPhase
from controller.domain.pulsar_policies import placement_of
from controller.domain.settings.placement import PlacementSettings
from controller.operations.adoption_text import adoption_text

OK, WRONG, ADVICE = "ok", "not met", "advice"
RECOMMENDED_PERIOD_MS = 10_000
ROLE = "role is a super-user's"


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


def judge_adoption(adoption: Adoption | None) -> Requirement | None:
    """Whether an operator has adopted or released the cluster; None if nobody ever did."""
    if adoption is None:
        return None
    released = adoption.phase is not AdoptionPhase.ADOPTED
    remedy = "ballast pulsar adopt --apply takes it over again" if released else ""
    said = adoption_text(adoption)
    return Requirement("all", "not released", said, WRONG if released else OK, remedy)


def judge_role(answers: Mapping[str, str]) -> Requirement:
    """Whether the credentials are those of a super-user, by what was read that only such a role may read.

    `answers`: what was asked for -> why it was refused; empty if it was not. An unload or a split is not tried: Pulsar
    lets the same role do them.
    """
    refused = [f"{asked}: {why}" for asked, why in answers.items() if why]
    if not refused:
        return Requirement("all", ROLE, f"may read {' and '.join(answers)}", OK)
    remedy = (
        "give the credentials of a role in the brokers' superUserRoles (--token-file, --oauth2-key-file, TLS options): "
        "broker-stats, unload and split take one, and nothing less is enough"
    )
    return Requirement("all", ROLE, f"refused {'; '.join(refused)}", WRONG, remedy)


def judge_requirements(
    brokers: Iterable[str], facts: Facts, policies: Facts | str, configured: PlacementSettings
) -> Iterator[Requirement]:
    """What is required of these brokers and of the cluster's policies, judged by what is known of them.

    `facts`: the one about the leader may also say `why` it is not known. `policies`: those of the cluster, or why they
    cannot be read. `configured`: the rules of placement given to Ballast.
    """
    told = {broker: facts.get(f"{BROKER}{broker}") for broker in brokers}
    for broker, fact in told.items():
        if fact is None:
            remedy = "let it answer, or give the credentials of a super-user"
            yield Requirement(broker, "tells its configuration", "no answer", WRONG, remedy)
        else:
            yield from _judge_broker(broker, fact)
    managers = {fact.get("manager") for fact in told.values() if fact is not None}
    if len(managers) > 1:
        yield Requirement("all", "one load manager", "several", WRONG, "give all brokers the same loadManagerClassName")
    if MODULAR in managers:
        yield _judge_leader(facts.get(LEADER, {}))
    yield from _judge_policies(policies, configured)


def _judge_broker(broker: str, fact: Mapping[str, Any]) -> Iterator[Requirement]:
    settled = dict.fromkeys(MUST_BE_OFF, False)
    manager, version = str(fact.get("manager")), str(fact.get("version") or "unknown")
    alone = find_other_balancer({f"{BROKER}{broker}": {**fact, **settled}}, [broker])
    objection = "" if alone is None else alone.partition(": ")[2]
    remedy = f"{objection}; change it and restart the broker" if objection else ""
    if objection == NO_VERSION:
        remedy = "let it answer /admin/v2/brokers/version"
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


def _judge_leader(fact: Mapping[str, Any]) -> Requirement:
    """The modular load manager takes a destination at its leader alone."""
    leader = fact.get("broker")
    if leader:
        return Requirement("all", "leader known", str(leader), OK)
    why = f"{fact['why']}; " if fact.get("why") else ""
    remedy = (
        f"{why}moves go through the leader: let /admin/v2/brokers/leaderBroker name one of these brokers. Pulsar 3.0.0 "
        "to 3.0.2 and 3.1.0 to 3.1.2 name only its address: upgrade them if that is none of theirs"
    )
    return Requirement("all", "leader known", "unknown", WRONG, remedy)


def _judge_policies(policies: Facts | str, configured: PlacementSettings) -> Iterator[Requirement]:
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
