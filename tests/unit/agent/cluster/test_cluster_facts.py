"""The facts that a cluster's agent keeps current in the journal: rules of placement, and what bundles may not move."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest
from starlette.responses import Response

from controller.agent.cluster.calls import PulsarCalls
from controller.agent.cluster.facts import FORGOTTEN_AFTER_MS, FactReader, describe_broker
from controller.agent.cluster.non_persistent import ASK_AGAIN_S, MOST_TOLD, NonPersistentTopics
from controller.agent.cluster.observer import Observer
from controller.brokers.pulsar.admin import PulsarAdmin
from controller.brokers.pulsar.facts import RuntimeConfiguration, parse_runtime_configuration
from controller.brokers.pulsar.observe import exclude_namespaces
from controller.brokers.pulsar.outcomes import Answer, Outcome
from controller.brokers.pulsar.poll import ClusterPoll
from controller.brokers.pulsar.topics import TopicReader
from controller.domain.facts import MAX_FACT_BYTES
from controller.domain.ids import Bundle
from controller.domain.observed import Observation, Order, OrderKind
from controller.domain.state import ClusterState
from tests.unit.brokers.pulsar.stand_in import StandIn, say, stand_in, status

LEDGER = "shop/ledger"
WHOLE = Bundle(LEDGER, 0, 0xFFFFFFFF)
POLICY = {"namespaces": ["shop/.*"], "primary": ["broker-.*"], "secondary": []}


class Journal:
    """Applies facts at once, in place of speaker and controller."""

    def __init__(self) -> None:
        self.kept = ClusterState()
        self.told: list[str] = []

    def state(self) -> ClusterState:
        return self.kept

    def tell_fact(self, key: str, value: Mapping[str, Any] | None) -> None:
        self.told.append(key)
        if value is None:
            self.kept.observed.facts.pop(key, None)
        else:
            self.kept.observed.facts[key] = value

    def named(self, *kinds: str) -> dict[str, Any]:
        return {key: value for key, value in self.kept.observed.facts.items() if key.startswith(kinds)}


class World:
    """A stand-in cluster, its fact reader, and a journal that knows one namespace."""

    def __init__(self, cluster: StandIn, poll: ClusterPoll) -> None:
        self.cluster, self.now_s, self.journal = cluster, 1000.0, Journal()
        self.calls = PulsarCalls(
            poll.admin, Observer(), exclude_namespaces(()), cluster=lambda: poll.cluster,
            addresses=lambda: poll.members.addresses, timeout_s=lambda broker: 1.0,
            on_denied=lambda why: None, find_stats=poll.find_stats,
        )  # fmt: skip
        self.non_persistent = NonPersistentTopics(True, lambda: self.now_s)
        self.reader = FactReader(poll, self.calls, self.journal, self.non_persistent, lambda: int(self.now_s * 1000))  # type: ignore[arg-type]
        self.reader._groups._now_s = lambda: self.now_s
        self.journal.kept.observed.rings[LEDGER] = (0, 0xFFFFFFFF)

    def answer(self, **answers: Any) -> None:
        for broker in self.cluster.brokers:
            broker.answers |= {f"/{end}": instead for end, instead in answers.items()}

    async def read(self) -> None:
        """What the reader does once a minute."""
        self.now_s += 61
        await self.reader._read()
        await self.reader._read_groups()
        self.reader._tell()


def on_world(scenario: Callable[[World], Awaitable[None]]) -> None:
    async def run() -> None:
        async with stand_in(2) as cluster, PulsarAdmin(cluster.settings()) as admin, TopicReader(admin) as topics:
            poll = ClusterPoll(admin, topics)
            await poll.start()
            await scenario(World(cluster, poll))
            await poll.stop()

    asyncio.run(run())


def test_rules_are_told_changed_and_taken_back() -> None:
    async def scenario(world: World) -> None:
        world.answer(
            namespaceIsolationPolicies=lambda b, r: {"p": POLICY},
            failureDomains=lambda b, r: {"rack-1": {"brokers": ["broker-1:8080"]}},
            antiAffinity=say(b"ledger"),
        )
        await world.read()
        kinds = ("isolation:", "failure_domain:", "anti_affinity:")
        assert world.journal.named(*kinds) == {
            "isolation:p": POLICY,
            "failure_domain:rack-1": {"brokers": ["broker-1:8080"], "enabled": False},
            f"anti_affinity:{LEDGER}": {"group": "ledger"},
        }
        world.answer(
            namespaceIsolationPolicies=lambda b, r: {}, failureDomains=lambda b, r: {},
            antiAffinity=lambda b, r: Response(status_code=204),
        )  # fmt: skip
        await world.read()
        assert world.journal.named(*kinds) == {}

    on_world(scenario)


def test_the_configuration_of_a_broker_that_is_gone_for_good_is_taken_back() -> None:
    """Ids may be addresses of pods: each restart would leave one more fact behind."""

    async def scenario(world: World) -> None:
        world.journal.tell_fact("broker:10.0.0.7:8080", {"manager": "modular"})
        await world.read()
        both = {"broker:broker-1:8080", "broker:broker-2:8080"}
        assert set(world.journal.named("broker:")) == {*both, "broker:10.0.0.7:8080"}, "it may only be restarting"
        world.now_s += FORGOTTEN_AFTER_MS / 1000
        world.answer(runtime=status(500))
        await world.read()
        assert set(world.journal.named("broker:")) == both, "who is listed and does not answer is not gone"
        world.reader._tell()
        world.journal.tell_fact("broker:10.0.0.7:8080", {"manager": "modular"})
        await world.read()
        assert "broker:10.0.0.7:8080" in world.journal.named("broker:"), "it begins anew"

    on_world(scenario)


def test_a_group_that_the_journal_knows_stays_until_the_namespace_was_asked() -> None:
    async def scenario(world: World) -> None:
        world.journal.tell_fact(f"anti_affinity:{LEDGER}", {"group": "ledger"})
        world.journal.tell_fact("anti_affinity:shop/deleted", {"group": "ledger"})
        world.reader._tell()
        assert world.journal.named("anti_affinity:") == {f"anti_affinity:{LEDGER}": {"group": "ledger"}}

    on_world(scenario)


def test_rules_that_cannot_be_read_stop_orders_only_when_they_are_unknown_or_refused() -> None:
    async def scenario(world: World) -> None:
        world.answer(namespaceIsolationPolicies=status(500, "out of order"))
        await world.read()
        assert "out of order" in world.journal.named("denied")["denied"]["why"]
        world.answer(namespaceIsolationPolicies=lambda b, r: {"p": POLICY})
        await world.read()
        assert world.journal.named("denied", "isolation:") == {"isolation:p": POLICY}
        world.answer(namespaceIsolationPolicies=status(500))
        await world.read()
        assert world.journal.named("denied", "isolation:") == {"isolation:p": POLICY}, "the known rules go on holding"
        world.answer(namespaceIsolationPolicies=status(403))
        await world.read()
        assert set(world.journal.named("denied", "isolation:")) == {"denied", "isolation:p"}

    on_world(scenario)


def test_a_version_that_is_not_told_once_stays_the_last_known_one() -> None:
    async def scenario(world: World) -> None:
        await world.read()
        assert "version" not in world.journal.named("broker:")["broker:broker-1:8080"], "it was never told"
        world.answer(version=say('"4.0.8"'))
        await world.read()
        for answers in ({"version": status(500)}, {"version": say('""')}, {"runtime": status(500)}):
            world.answer(**answers)
            await world.read()
            assert {fact["version"] for fact in world.journal.named("broker:").values()} == {"4.0.8"}
            assert world.reader.version_of("broker-1:8080") == "4.0.8"

    on_world(scenario)


def test_a_version_is_known_from_the_journal_after_a_restart() -> None:
    async def scenario(world: World) -> None:
        world.journal.tell_fact("broker:broker-1:8080", {"version": "4.0.8"})
        world.journal.tell_fact("broker:broker-2:8080", {"version": ""})
        await world.read()
        told = world.journal.named("broker:")
        assert [told[f"broker:broker-{at}:8080"].get("version") for at in (1, 2)] == ["4.0.8", None]
        assert [world.reader.version_of(f"broker-{at}:8080") for at in (1, 2)] == ["4.0.8", ""]

    on_world(scenario)


@pytest.mark.parametrize(
    ("name", "policy", "named"),
    [
        ("gold", POLICY | {"namespaces": ["n" * MAX_FACT_BYTES]}, ["isolation:gold", "524288"]),
        ("g" * 600, POLICY, ["isolation:gggg", "512"]),
        ("go\x1bld", POLICY, ["isolation:go", "printable"]),
    ],
)
def test_a_rule_that_the_journal_cannot_take_stops_all_orders(name: str, policy: object, named: list[str]) -> None:
    """It was told again every second, refused each time, and orders went against it."""

    async def scenario(world: World) -> None:
        world.answer(namespaceIsolationPolicies=lambda b, r: {name: policy, "p": POLICY})
        await world.read()
        assert world.journal.named("isolation:") == {"isolation:p": POLICY}, "the others hold"
        why = world.journal.named("denied")["denied"]["why"]
        assert all(word in why for word in named)
        assert world.journal.told[0] == "denied"
        assert f"isolation:{name}" not in world.journal.told
        world.answer(namespaceIsolationPolicies=lambda b, r: {"p": POLICY})
        await world.read()
        assert world.journal.named("denied") == {}

    on_world(scenario)


def test_what_a_broker_is_configured_to_do() -> None:
    domains = {"failureDomainsEnabled": "true", "loadBalancerSheddingExcludedNamespaces": "[shop/audit, shop/log]"}
    fact = describe_broker(RuntimeConfiguration(domains), "4.1.0")
    assert (fact["failure_domains"], fact["excluded_namespaces"]) == (True, ["shop/audit", "shop/log"])
    assert "excluded_namespaces" not in describe_broker(RuntimeConfiguration(), "4.0.8"), "4.0 has no such setting"


def test_a_long_list_of_excluded_namespaces_is_kept_whole() -> None:
    names = [f"tenant-{at}/namespace-{at}" for at in range(100)]
    body = f'{{"loadBalancerSheddingExcludedNamespaces": "[{", ".join(names)}]", "clusterName": "{"x" * 300}"}}'
    found = parse_runtime_configuration(Answer(Outcome.OK, "/p", "http://b", 200, body.encode()))
    assert found.shedding_excluded == tuple(sorted(names))
    assert len(found.values["clusterName"]) == 200


def test_namespaces_of_other_clusters_are_passed_over() -> None:
    async def scenario(world: World) -> None:
        world.answer(bundles=status(412, "Namespace is not served by this cluster"))
        assert await world.calls.read_ring(LEDGER) is None
        assert world.calls.is_elsewhere(LEDGER)
        world.answer(bundles=lambda b, r: Response(status_code=307, headers={"Location": "http://elsewhere:8080/x"}))
        assert await world.calls.read_ring("shop/there") is None
        assert world.calls.is_elsewhere("shop/there")
        world.answer(bundles=status(500))
        assert await world.calls.read_ring("shop/here") is None
        assert not world.calls.is_elsewhere("shop/here")

    on_world(scenario)


def test_a_namespace_of_another_cluster_is_forgotten_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controller.agent.cluster.calls.ELSEWHERE_FOR_S", 0.0)

    async def scenario(world: World) -> None:
        world.answer(bundles=status(412, "Namespace is not served by this cluster"))
        for name in ("shop/here", "shop/there"):
            await world.calls.read_ring(name)
        assert list(world.calls._elsewhere_until_s) == ["shop/there"]

    on_world(scenario)


def order(reason: str = "102_above_mean", **causes: str) -> Order:
    return Order("o", OrderKind.MOVE, WHOLE, "broker-1:8080", "me", 1, "broker-2:8080", reason=reason, **causes)  # type: ignore[arg-type]


def test_only_what_rounds_want_for_balance_is_spared() -> None:
    known = NonPersistentTopics(True, lambda: 0.0)
    assert known.spares(order(decision_id="d"))
    assert not known.spares(order("commanded", command_id="c"))
    assert not known.spares(order("107_drained", decision_id="d"))
    assert not known.spares(order("109_overridden", decision_id="d"))
    assert not NonPersistentTopics(False, lambda: 0.0).spares(order(decision_id="d"))


def test_bundles_with_non_persistent_topics_are_told_and_asked_again() -> None:
    async def scenario(world: World) -> None:
        facts, topics = {f"non_persistent:{LEDGER}": {"ranges": ["0x00000000_0xffffffff"]}}, ["non-persistent://x"]
        world.answer(**{"0x00000000_0xffffffff": lambda b, r: topics})
        world.journal.kept.observed.bundles[str(WHOLE)] = Observation(WHOLE, "broker-1:8080", 1)
        assert await world.calls.count_non_persistent(WHOLE, "broker-1:8080") == 1
        world.non_persistent.note(str(WHOLE), 1)
        await world.read()
        assert world.journal.named("non_persistent:") == facts

        async def ask_again() -> None:
            known = world.journal.kept.observed.bundles
            await world.non_persistent.ask_again(world.reader._count_non_persistent, known)

        topics.clear()
        await ask_again()
        assert world.non_persistent.to_facts() == facts, "it is not asked at once"
        world.now_s += ASK_AGAIN_S
        await ask_again()
        await world.read()
        assert world.journal.named("non_persistent:") == {}

    on_world(scenario)


def test_what_is_unknown_about_topics_changes_nothing() -> None:
    async def scenario(world: World) -> None:
        world.answer(**{"0x00000000_0xffffffff": status(500)})
        assert await world.calls.count_non_persistent(WHOLE, "broker-1:8080") is None
        assert await world.calls.count_non_persistent(WHOLE, "nobody:1") is None
        world.non_persistent.note(str(WHOLE), None)
        assert world.non_persistent.to_facts() == {}

    on_world(scenario)


def test_statistics_of_topics_tell_it_beforehand_and_a_restart_forgets_nothing() -> None:
    known = NonPersistentTopics(True, lambda: 5.0)
    known.note_stats({str(WHOLE): {"nonPersistentTopics": 2}, "t/n/0x00000000_0x80000000": {"topics": 3}})
    facts = known.to_facts()
    assert facts == {f"non_persistent:{LEDGER}": {"ranges": ["0x00000000_0xffffffff"]}}
    again = NonPersistentTopics(True, lambda: 5.0)
    again.restore(facts)
    assert again.to_facts() == facts
    off = NonPersistentTopics(False, lambda: 5.0)
    off.restore(facts)
    off.note_stats({str(WHOLE): {"nonPersistentTopics": 2}})
    assert off.to_facts() == {}, "the setting lets rounds move them"
    known.note_stats({str(WHOLE): {"nonPersistentTopics": 0}})
    assert known.to_facts() == {}


def test_a_fact_about_a_namespace_of_many_bundles_fits_into_a_record() -> None:
    known = NonPersistentTopics(True, lambda: 5.0)
    for at in range(MOST_TOLD + 10):
        known.note(str(Bundle(LEDGER, at * 16, at * 16 + 16)), 1)
    (fact,) = known.to_facts().values()
    assert len(fact["ranges"]) == MOST_TOLD
    assert len(str(fact)) < 65_536
