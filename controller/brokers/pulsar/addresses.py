"""Which brokers a Pulsar cluster lists, at which web address each of them answers, and which of them leads.

A broker's id is no address: it may have another port than TLS, and nobody may resolve its name. The address is what
Pulsar itself redirects to for that broker's `ownedNamespaces`, in the scheme in use. A service URL may be a load
balancer or a proxy, so it is only used to find brokers: what answers there directly is asked for at another broker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from urllib.parse import quote, urlsplit

from controller.brokers.pulsar.admin import PulsarAdmin
from controller.brokers.pulsar.facts import read_cluster_name, read_runtime_configuration
from controller.brokers.pulsar.outcomes import BEFORE_ANSWER, Answer, CallFailed, Outcome
from controller.domain.errors import BadRecord, label
from controller.domain.ids import check_broker_id
from controller.pulsar.address import origin_of

MOST_ASKED = 3  # brokers, one after the other: each may take long not to answer
LEADER_PATH = "/admin/v2/brokers/leaderBroker"


@dataclass(frozen=True, slots=True)
class Members:
    """The brokers that Pulsar lists, sorted. `addresses`: broker -> web address; `failures`: why one has none.
    `cluster`: its name."""

    brokers: tuple[str, ...]
    addresses: Mapping[str, str]
    failures: Mapping[str, CallFailed] = field(default_factory=dict)
    cluster: str = ""


def owned_path(cluster: str, broker: str) -> str:
    """The path of what a broker owns."""
    return f"/admin/v2/brokers/{quote(cluster, safe='')}/{quote(broker, safe=':')}/ownedNamespaces"


def parse_brokers(answer: Answer) -> tuple[str, ...]:
    """The ids in a list of brokers. Raises CallFailed for what is none."""
    try:
        return tuple(
            sorted({check_broker_id(broker if isinstance(broker, str) else "") for broker in answer.listing()})
        )
    except BadRecord as error:
        raise answer.failure(Outcome.BAD_ANSWER, error.text[:200]) from None


async def read_leader(admin: PulsarAdmin, addresses: Mapping[str, str]) -> str:
    """Which of these brokers leads the cluster's load management. Raises CallFailed, also if it is none of them."""
    answer = await admin.get(LEADER_PATH)
    named = answer.mapping()
    broker, url = named.get("brokerId"), named.get("serviceUrl")
    if isinstance(broker, str) and broker in addresses:
        return broker
    found = _broker_at(url, addresses) if isinstance(url, str) else None
    if found is None:
        text = label(str(broker or url or "nobody"))
        raise answer.failure(
            Outcome.BAD_ANSWER, f"it names {text}, which is none of the brokers whose address is known"
        )
    return found


def _broker_at(url: str, addresses: Mapping[str, str]) -> str | None:
    """The broker at an address, by which Pulsar names the leader alone in 3.0.0 to 3.0.2 and 3.1.0 to 3.1.2: a broker's
    id with a scheme, that of http even if https is in use."""
    origin = origin_of(url)
    if origin is None:
        return None
    id_ = urlsplit(origin).netloc
    return next((broker for broker, at in addresses.items() if origin == at or id_ == broker.lower()), None)


class Directory:
    """Brokers and addresses of a cluster; an address once found is kept until `forget`."""

    def __init__(self, admin: PulsarAdmin, cluster: str) -> None:
        self._admin, self.cluster = admin, cluster
        self._addresses: dict[str, str] = {}

    def forget(self, broker: str) -> None:
        """Look the broker's address up again, as it did not answer there."""
        self._addresses.pop(broker, None)

    async def refresh(self) -> Members:
        """Ask for the list of brokers, and for the addresses that are not known. Raises CallFailed without a list."""
        answer = await self._admin.get(f"/admin/v2/brokers/{quote(self.cluster, safe='')}")
        brokers = parse_brokers(answer)
        self._addresses = {broker: at for broker, at in self._addresses.items() if broker in brokers}
        unknown = [broker for broker in brokers if broker not in self._addresses]
        failures: dict[str, CallFailed] = {}
        direct = await self._ask(unknown, None, failures)
        direct = await self._ask_others(direct, failures)
        for broker, answered_at in direct.items():
            await self._take_directly(broker, answered_at, len(brokers), failures)
        return Members(brokers, dict(self._addresses), failures, self.cluster)

    async def _ask_others(self, direct: dict[str, str], failures: dict[str, CallFailed]) -> dict[str, str]:
        """The service URL answered for these itself: another broker knows where they are, the first that answers."""
        if not direct:
            return direct
        first, *rest = direct  # one that hangs is asked for the first alone
        for other in list(self._addresses.values())[:MOST_ASKED]:
            found = await self._ask([first], other, failures)
            if first not in failures or failures[first].outcome not in BEFORE_ANSWER:
                return found | await self._ask(rest, other, failures)
        return direct

    async def _ask(self, brokers: Iterable[str], at: str | None, failures: dict[str, CallFailed]) -> dict[str, str]:
        """Ask for each broker's address; return those that were answered without a redirect, with who answered."""
        direct: dict[str, str] = {}

        async def ask(broker: str) -> None:
            path = owned_path(self.cluster, broker)
            answer = await self._admin.get(path, at, follow=False)
            failures.pop(broker, None)
            if answer.outcome is Outcome.OK:
                direct[broker] = answer.address
            elif answer.outcome is not Outcome.REDIRECTED:
                failures[broker] = answer.failure()
            else:
                self._take_location(broker, answer, failures)

        await asyncio.gather(*(ask(broker) for broker in brokers))
        self._admin.trust(self._addresses.values())
        return direct

    def _take_location(self, broker: str, answer: Answer, failures: dict[str, CallFailed]) -> None:
        location = answer.redirects[-1]
        origin = origin_of(location)
        if origin is None or urlsplit(location).path.rpartition("/")[2] != "ownedNamespaces":
            failures[broker] = answer.failure(Outcome.BAD_ANSWER, f"redirected to {location[:200]}")
        elif urlsplit(origin).scheme != self._admin.scheme:
            failures[broker] = answer.failure(Outcome.REDIRECTED, f"from {self._admin.scheme} to {origin}")
        else:
            self._addresses[broker] = origin

    async def _take_directly(self, broker: str, answered_at: str, listed: int, failures: dict[str, CallFailed]) -> None:
        """Nobody redirects to the broker: it is the only one behind a service URL, or that follows redirects itself."""
        address = answered_at
        if listed > 1:
            address = f"{self._admin.scheme}://{broker}"
            self._admin.trust([*self._addresses.values(), address])
            answer = await self._admin.get(owned_path(self.cluster, broker), address, follow=False)
            if answer.outcome is not Outcome.OK:
                about = f"{answered_at} follows redirects itself, so it hides brokers' addresses, and {address}"
                detail = answer.detail or answer.outcome.value
                failures[broker] = CallFailed(Outcome.UNREACHABLE, about, f"{detail}; give a broker's --service-url")
                return
        failures.pop(broker, None)
        self._addresses[broker] = address
        self._admin.trust(self._addresses.values())


async def open_directory(admin: PulsarAdmin) -> Directory:
    """Of the cluster that answers at the service URLs. Raises CallFailed; ConfigError if another one is configured."""
    return Directory(admin, await read_cluster_name(admin, await read_runtime_configuration(admin)))
