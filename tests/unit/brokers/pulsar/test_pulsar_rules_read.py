"""Rules of placement as they are read from brokers: which requests it takes, and what is known when one fails."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from starlette.responses import RedirectResponse, Response

from controller.brokers.pulsar import policies
from controller.brokers.pulsar.addresses import Directory
from controller.brokers.pulsar.admin import PulsarAdmin
from controller.brokers.pulsar.outcomes import CallFailed, Outcome
from controller.brokers.pulsar.policies import AntiAffinityGroups, read_policies
from tests.unit.brokers.pulsar.stand_in import CLUSTER, StandIn, broken_off, ingress_404, say, stand_in, status

NOTHING = Response(status_code=204)  # what Pulsar answers for a namespace without a group


class Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def on_cluster(scenario: Callable[[StandIn, PulsarAdmin], Awaitable[None]]) -> None:
    async def run() -> None:
        async with stand_in(2) as cluster, PulsarAdmin(cluster.settings()) as admin:
            await scenario(cluster, admin)

    asyncio.run(run())


def answer(cluster: StandIn, **answers: Any) -> None:
    """What every broker answers to a path that ends so; `__` stands for `/`."""
    for broker in cluster.brokers:
        broker.answers |= {f"/{end.replace('__', '/')}": instead for end, instead in answers.items()}


def asked_for_groups(cluster: StandIn) -> list[str]:
    paths = [path for broker in cluster.brokers for path, _ in broker.asked if path.endswith("/antiAffinity")]
    return sorted(path.removeprefix("/admin/v2/namespaces/").removesuffix("/antiAffinity") for path in paths)


def test_the_rules_that_concern_what_brokers_serve() -> None:
    async def scenario(cluster: StandIn, admin: PulsarAdmin) -> None:
        cluster.brokers[0].held = {"shop/pay/0x00000000_0xffffffff": 1.0}
        cluster.brokers[1].held = {"shop/log/0x00000000_0xffffffff": 1.0}
        answer(
            cluster,
            namespaceIsolationPolicies=lambda b, r: {"two": {"namespaces": ["shop/.*"], "primary": ["b.*"]}},
            failureDomains=lambda b, r: {"rack-1": {"brokers": ["broker-1:8080"]}, "odd": 5},
            shop__pay__antiAffinity=say(b"ledger"),
            shop__log__antiAffinity=lambda b, r: NOTHING,
        )
        members = await Directory(admin, CLUSTER).refresh()
        assert await read_policies(admin, CLUSTER, members.addresses, domains_enabled=True) == {
            "isolation:two": {"namespaces": ["shop/.*"], "primary": ["b.*"]},
            "failure_domain:rack-1": {"brokers": ["broker-1:8080"], "enabled": True},
            "anti_affinity:shop/pay": {"group": "ledger"},
        }
        assert asked_for_groups(cluster) == ["shop/log", "shop/pay"]

    on_cluster(scenario)


def test_a_namespace_is_asked_again_when_due_and_seldom_where_there_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(cluster: StandIn, admin: PulsarAdmin) -> None:
        answer(cluster, antiAffinity=lambda b, r: NOTHING)
        clock = Clock()
        for names, pause_s in ((["t/a"], policies.AGAIN_S), (["t/a", "t/b", "t/c"], policies.AGAIN_IF_MANY_S)):
            groups = AntiAffinityGroups(admin, clock)
            before = len(asked_for_groups(cluster))
            for _ in range(3):
                await groups.read_due(names)  # the second finds nothing due
            assert len(asked_for_groups(cluster)) - before == len(names)
            clock.now_s += pause_s - 1
            await groups.read_due(names)
            assert len(asked_for_groups(cluster)) - before == len(names)
            clock.now_s += 2
            for _ in range(3):
                await groups.read_due(names)
            assert len(asked_for_groups(cluster)) - before == 2 * len(names)

    monkeypatch.setattr(policies, "FEW_NAMESPACES", 2)
    monkeypatch.setattr(policies, "MOST_OF_A_READING", 2)
    on_cluster(scenario)


def test_namespaces_of_other_clusters_have_no_group_here() -> None:
    async def scenario(cluster: StandIn, admin: PulsarAdmin) -> None:
        answer(
            cluster,
            t__global__antiAffinity=status(412, "Namespace is not served by this cluster"),
            t__moved__antiAffinity=lambda b, r: RedirectResponse("http://elsewhere:8080/admin", 307),
            t__gone__antiAffinity=status(404),
            t__here__antiAffinity=say(b'"g"'),
        )
        groups = AntiAffinityGroups(admin)
        await groups.read_due(["t/global", "t/moved", "t/gone", "t/here"])
        assert groups.known == {"t/global": None, "t/moved": None, "t/gone": None, "t/here": "g"}
        await groups.read_due(["t/here"])
        assert groups.known == {"t/here": "g"}, "what is not served any more is forgotten"

    on_cluster(scenario)


def test_what_cannot_be_read_stays_as_it_was_known() -> None:
    async def scenario(cluster: StandIn, admin: PulsarAdmin) -> None:
        clock = Clock()
        groups = AntiAffinityGroups(admin, clock)
        answer(cluster, antiAffinity=say(b"g"))
        await groups.read_due(["t/a"])
        for failing in (status(500), broken_off, status(429), ingress_404):
            answer(cluster, antiAffinity=failing)
            clock.now_s += 2 * policies.AGAIN_S
            await groups.read_due(["t/a"])
            assert groups.to_facts() == {"anti_affinity:t/a": {"group": "g"}}

    on_cluster(scenario)


@pytest.mark.parametrize("kind", ["namespaceIsolationPolicies", "failureDomains"])
def test_only_pulsar_itself_can_say_that_there_are_no_rules(kind: str) -> None:
    async def scenario(cluster: StandIn, admin: PulsarAdmin) -> None:
        answer(cluster, **{kind: status(404, "it does not exist")})
        assert await policies.read_cluster_policies(admin, CLUSTER, False) == {}
        for strange in (ingress_404, lambda b, r: Response("default backend - 404", 404)):
            answer(cluster, **{kind: strange})
            with pytest.raises(CallFailed, match="does a proxy answer"):
                await policies.read_cluster_policies(admin, CLUSTER, False)

    on_cluster(scenario)


def test_missing_rights_are_told() -> None:
    async def scenario(cluster: StandIn, admin: PulsarAdmin) -> None:
        answer(cluster, antiAffinity=status(403))
        groups = AntiAffinityGroups(admin)
        with pytest.raises(CallFailed) as failed:
            await groups.read_due(["t/a"])
        assert failed.value.outcome is Outcome.FORBIDDEN
        assert "t/a" not in groups.known

    on_cluster(scenario)
