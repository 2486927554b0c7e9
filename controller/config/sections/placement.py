"""Where bundles may be at all: hard rules of every round and of the assignment of orphans. All off by default."""

from __future__ import annotations

from pydantic import with_config
from typing_extensions import NotRequired, TypedDict

from controller.config.definition import DESIGN, PULSAR, STRICT, PulsarName, Section, key
from controller.config.sections.control import Names


@with_config(STRICT)
class Isolation(TypedDict):
    """One isolation policy as it is written in the file; regular expressions that match whole names."""

    namespaces: Names
    primary: Names
    secondary: NotRequired[Names]
    min_available: NotRequired[int]


class Placement(Section):
    """Hard rules on where bundles may be, in every strategy and for orphans; what they mean is in docs/placement.md."""

    isolation: dict[str, Isolation] = key(
        {},
        "Isolation policies by name: namespaces, primary brokers, secondary ones (optional) that help while fewer than "
        "min_available (1) primaries are available. Regular expressions; brokers' are matched with the host, with "
        "host:port where they have a colon. The first policy that matches a namespace counts.",
        source=DESIGN,
        allowed="names and policies, such as {alpha: {namespaces: [alpha/.*], primary: ['broker-[12]'], "
        "secondary: [broker-3], min_available: 1}}",
    )
    failure_domains: dict[str, Names] = key(
        {},
        "Failure domains by name, with their brokers (host:port, or a host for all brokers there).",
        source=DESIGN,
        allowed="names and brokers, such as {rack-1: ['broker-1:8080', broker-2], rack-2: [broker-3]}",
    )
    failure_domains_enabled: bool = key(
        True,
        "Whether anti-affinity groups are spread over the failure domains that there are.",
        source="design: off in Pulsar, where domains may be listed for other reasons",
        pulsar=(PulsarName("failureDomainsEnabled"),),
    )
    anti_affinity: dict[str, Names] = key(
        {},
        "Anti-affinity groups by name, with their namespaces: their bundles are kept apart, over failure domains first "
        "and over brokers.",
        source=DESIGN,
        allowed="names and namespaces, such as {payments: [shop/orders, shop/refunds]}",
    )
    prefer_later_versions: bool = key(
        False,
        "Whether only brokers of the newest version take bundles; as long as a broker tells no version, all do.",
        source=PULSAR,
        pulsar=(PulsarName("preferLaterVersions"),),
    )
