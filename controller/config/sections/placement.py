"""Where bundles may be: hard rules for every round and for the assignment of orphans. All are off by default."""

from __future__ import annotations

from pydantic import with_config
from typing_extensions import NotRequired, TypedDict

from controller.config.definition import DESIGN, PULSAR, STRICT, PulsarName, Section, key
from controller.config.sections.control import Names


@with_config(STRICT)
class Isolation(TypedDict):
    """One isolation policy as in the configuration file. Its regular expressions match whole names."""

    namespaces: Names
    primary: Names
    secondary: NotRequired[Names]
    min_available: NotRequired[int]


class PlacementSection(Section):
    """Hard rules on where bundles may be, for every strategy and for orphans; docs/placement.md explains them."""

    isolation: dict[str, Isolation] = key(
        {},
        "Isolation policies by name: namespaces, primary brokers, and optional secondary brokers that help while fewer "
        "than min_available (1) primaries are available. All are regular expressions; those of brokers match the host, "
        "or host:port if they have a colon. The first policy that matches a namespace applies.",
        source=DESIGN,
        allowed="names and policies, such as {alpha: {namespaces: [alpha/.*], primary: ['broker-[12]'], "
        "secondary: [broker-3], min_available: 1}}",
    )
    failure_domains: dict[str, Names] = key(
        {},
        "Failure domains by name, with their brokers (host:port, or a host for all brokers on it).",
        source=DESIGN,
        allowed="names and brokers, such as {rack-1: ['broker-1:8080', broker-2], rack-2: [broker-3]}",
    )
    failure_domains_enabled: bool = key(
        True,
        "Whether anti-affinity groups are spread over the failure domains.",
        source="design: off in Pulsar, where domains may be listed for other reasons",
        pulsar=(PulsarName("failureDomainsEnabled"),),
    )
    anti_affinity: dict[str, Names] = key(
        {},
        "Anti-affinity groups by name, with their namespaces, whose bundles are kept apart: first by failure domain, "
        "then by broker.",
        source=DESIGN,
        allowed="names and namespaces, such as {payments: [shop/orders, shop/refunds]}",
    )
    prefer_later_versions: bool = key(
        False,
        "Whether only brokers of the newest version take bundles; all do while any broker does not report its version.",
        source=PULSAR,
        pulsar=(PulsarName("preferLaterVersions"),),
    )
