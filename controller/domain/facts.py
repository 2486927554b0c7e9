"""Facts that an agent reads from a cluster which decides ownership itself: named, journaled when they change.

`broker:ID`: its configuration, as `manager` (modular, extensible, or a class), `version` (missing until it was told),
`load_balancer`, `shedding`, `auto_split`, `failure_domains`, `excluded_namespaces`, `syncer`, `unload_timeout_ms`,
`stats_period_ms`. `leader`: its `broker`. `suspect:ID`: the broker is listed but does not answer; `why`. `denied`: the
cluster refused orders, or what they depend on; `why`. `isolation:NAME`: a policy as Pulsar answers it.
`failure_domain:NAME`: its `brokers`, and whether Pulsar uses it (`enabled`). `anti_affinity:NAMESPACE`: its `group`.
`non_persistent:NAMESPACE`: the `ranges` of bundles that hold non-persistent topics, which rounds do not move. A missing
key states nothing. Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from controller.domain.errors import BadRecord
from controller.domain.strict_json import is_whole, parse_strictly

BROKER, SUSPECT, LEADER, DENIED = "broker:", "suspect:", "leader", "denied"
ISOLATION, FAILURE_DOMAIN, ANTI_AFFINITY = "isolation:", "failure_domain:", "anti_affinity:"
POLICIES = (ISOLATION, FAILURE_DOMAIN, ANTI_AFFINITY)  # they become settings of placement
NON_PERSISTENT = "non_persistent:"
MODULAR, EXTENSIBLE = "modular", "extensible"
UNLOAD_TIMEOUT_MS = 60_000  # Pulsar's default of namespaceBundleUnloadingTimeoutMs
STATS_PERIOD_MS = 60_000  # Pulsar's default of statsUpdateFrequencyInSecs
ANSWER_ALLOWANCE_MS = 30_000  # beyond the time that the broker may take
ANSWER_SLACK_MS = 10_000  # the same, of the request alone
STUCK_ALLOWANCE_MS = 120_000  # of the extensible load manager, which leaves a bundle in one state for that long
# A policy of 10,000 namespaces fits. Half of a control record (`controller.domain.events`): whatever fits can be sent.
MAX_FACT_BYTES, MAX_KEY_CHARS = 524_288, 512
OLDEST_VERSION = (3, 0)  # older brokers ignore the destination of an unload
NO_VERSION = "its version is not known, needed is Pulsar 3.0 or newer"
MUST_BE_OFF = {"shedding": "loadBalancerSheddingEnabled", "auto_split": "loadBalancerAutoBundleSplitEnabled"}

_RANGE = re.compile(r"0x[0-9a-fA-F]{8}_0x[0-9a-fA-F]{8}")
_NUMBER_OF_VERSION = re.compile(r"[0-9]{1,9}")

Facts = Mapping[str, Mapping[str, Any]]


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_switch(value: object) -> bool:
    return isinstance(value, bool)


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) for text in value)


def _is_ranges(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) and _RANGE.fullmatch(text) for text in value)


_SOUND: dict[str, dict[str, Callable[[object], bool]]] = {
    BROKER: {
        **dict.fromkeys(("manager", "version", "syncer"), _is_text),
        **dict.fromkeys(("load_balancer", "failure_domains", *MUST_BE_OFF), _is_switch),
        **dict.fromkeys(("unload_timeout_ms", "stats_period_ms"), is_whole),
        "excluded_namespaces": _is_texts,
    },
    LEADER: {"broker": _is_text},
    SUSPECT: {"why": _is_text},
    DENIED: {"why": _is_text},
    ANTI_AFFINITY: {"group": _is_text},
    NON_PERSISTENT: {"ranges": _is_ranges},
}


def is_sound(key: str, value: Mapping[str, Any]) -> bool:
    """Whether the parts of a fact have the types that its readers count on; unknown parts may be anything.

    Isolation policies and failure domains are Pulsar's own words, which `controller.domain.pulsar_policies` judges.
    """
    parts = next((parts for prefix, parts in _SOUND.items() if key.startswith(prefix)), {})
    return all(is_right(value[name]) for name, is_right in parts.items() if name in value)


def find_flaw(key: object, value: object) -> str | None:
    """Why the journal takes no such fact; None if it does. The agent asks before it tells one, the controller after."""
    if not isinstance(key, str) or not key.isprintable() or not 0 < len(key) <= MAX_KEY_CHARS:
        return f"its name is no printable text of at most {MAX_KEY_CHARS} characters"
    if value is None:
        return None
    if not isinstance(value, Mapping) or not is_sound(key, value):
        return "its parts are not of the types that are expected"
    try:
        parse_strictly(json.dumps({"data": {"key": key, "value": value}}).encode(), MAX_FACT_BYTES)
    except BadRecord as error:
        return error.text
    except RecursionError:
        return "it is nested too deeply"
    return None


def is_suspect(facts: Facts, broker: str) -> bool:
    """Whether the broker is listed but has not answered lately."""
    return f"{SUSPECT}{broker}" in facts


def is_modular(facts: Facts, brokers: Iterable[str]) -> bool:
    """Whether any of these brokers runs the modular load manager, or an unknown one: its stricter rules then hold for
    all. Facts about brokers that are gone say nothing of a cluster that was migrated."""
    managers = {fact.get("manager") for broker in brokers if (fact := facts.get(f"{BROKER}{broker}")) is not None}
    return not managers or managers != {EXTENSIBLE}


def find_other_balancer(facts: Facts, brokers: Iterable[str]) -> str | None:
    """Why no order may be sent: the first of these brokers whose configuration lets another balancer act, with the
    setting and its value; None when none does. A broker that has not reported its configuration counts as one."""
    known = [(broker, facts.get(f"{BROKER}{broker}")) for broker in sorted(brokers)]
    managers = {str(fact.get("manager")) for _, fact in known if fact is not None}
    for broker, fact in known:
        if fact is None:
            return f"{broker} has not reported its configuration"
        found = _find_objection(fact)
        if found is not None:
            return f"{broker}: {found}"
    if len(managers) > 1:
        return f"brokers run different load managers: {', '.join(sorted(managers))}"
    return None


def _find_objection(fact: Mapping[str, Any]) -> str | None:
    manager = str(fact.get("manager"))
    if manager not in (MODULAR, EXTENSIBLE):
        return f"loadManagerClassName is {manager}, wanted is the modular or the extensible load manager"
    if not fact.get("version"):
        return NO_VERSION
    if _version_of(fact) < OLDEST_VERSION:
        return f"Pulsar {fact.get('version')}, needed is 3.0 or newer"
    if fact.get("syncer"):
        return f"loadBalancerServiceUnitTableViewSyncer is {fact['syncer']}"
    if not fact.get("load_balancer", True):
        return None
    for name, setting in MUST_BE_OFF.items():
        if fact.get(name, True):
            return f"{setting} is {'true' if name in fact else 'unknown'}"
    return None


def _version_of(fact: Mapping[str, Any]) -> tuple[int, ...]:
    parts = str(fact.get("version") or "").split("-")[0].split(".")
    return tuple(int(part) for part in parts if _NUMBER_OF_VERSION.fullmatch(part))


def unload_timeout_ms(facts: Facts, broker: str) -> int:
    """The time that the broker takes at most to close the topics of a bundle."""
    return int(facts.get(f"{BROKER}{broker}", {}).get("unload_timeout_ms") or UNLOAD_TIMEOUT_MS)


def answer_timeout_ms(facts: Facts, broker: str) -> int:
    """How long the agent waits for the answer to an order's request: longer than the broker may take, and shorter than
    the order may stay open, so that the rest is left for looking who owns the bundle."""
    return unload_timeout_ms(facts, broker) + ANSWER_SLACK_MS


def order_allowance_ms(facts: Facts, broker: str, modular: bool) -> int:
    """How long an order to the broker may stay open: as long as the broker may take, and some more. `modular`: what
    `is_modular` says of the cluster."""
    stuck_ms = 0 if modular else STUCK_ALLOWANCE_MS
    return unload_timeout_ms(facts, broker) + ANSWER_ALLOWANCE_MS + stuck_ms


def stats_period_ms(facts: Facts, broker: str) -> int:
    """How often the broker computes its load anew."""
    return int(facts.get(f"{BROKER}{broker}", {}).get("stats_period_ms") or STATS_PERIOD_MS)


def excluded_namespaces(facts: Facts, brokers: Iterable[str]) -> frozenset[str]:
    """The namespaces that Pulsar's own shedding leaves alone, by the configuration of any of these brokers."""
    lists = (facts.get(f"{BROKER}{broker}", {}).get("excluded_namespaces") for broker in brokers)
    return frozenset(name for listed in lists if isinstance(listed, list) for name in listed)


def lossy_bundles(facts: Facts) -> list[str]:
    """The bundles that are known to hold non-persistent topics, and that rounds are to leave where they are."""
    found = ((key.removeprefix(NON_PERSISTENT), fact) for key, fact in facts.items() if key.startswith(NON_PERSISTENT))
    return [f"{namespace}/{range_}" for namespace, fact in found for range_ in fact.get("ranges") or ()]
