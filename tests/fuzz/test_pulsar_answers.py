"""Answers of Pulsar's admin API, and what Ballast makes of them: figures, owners, rings, facts, rules of placement.

`tests/unit/brokers/pulsar/test_pulsar_parsers.py` has any JSON at all; these begin with answers that brokers gave.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from controller.agent.cluster.calls import PulsarCalls
from controller.agent.cluster.facts import describe_broker, read_broker_facts
from controller.agent.cluster.placing import Placing, lookup_path
from controller.brokers.pulsar.addresses import parse_brokers, read_leader
from controller.brokers.pulsar.facts import parse_runtime_configuration, read_cluster_name
from controller.brokers.pulsar.numbers import LARGEST
from controller.brokers.pulsar.observe import exclude_namespaces, parse_owned, parse_ring
from controller.brokers.pulsar.outcomes import Answer, CallFailed, Outcome, words_of
from controller.brokers.pulsar.policies import _by_name, parse_group
from controller.brokers.pulsar.process_cpu import parse_mbeans
from controller.brokers.pulsar.reports import Reported, parse_load_report, parse_metrics
from controller.brokers.pulsar.switches import MOST_VALUE_CHARS, Switchboard
from controller.brokers.pulsar.topic_rows import NotTopicStats
from controller.brokers.pulsar.topic_stats import parse
from controller.domain.errors import ConfigError
from controller.domain.facts import FAILURE_DOMAIN, ISOLATION, MUST_BE_OFF, find_flaw, find_other_balancer, is_sound
from controller.domain.ids import MAX_BUNDLE_CHARS, Bundle, Session
from controller.domain.pulsar_policies import placement_of
from controller.domain.settings.placement import PlacementSettings
from controller.loads.recorded import Overrides, Recorded, to_load_report
from controller.pulsar.address import origin_of
from tests.fuzz.hostile import DEEP, LONG, TWINS, records
from tests.fuzz.limits import bounded, check_error, fuzzing, read_or_refuse
from tests.fuzz.test_living_sessions import FACTS
from tests.unit.brokers.pulsar.stand_in import recorded

DEFAULT = exclude_namespaces(("public/functions", "*/__kafka"))
OWNED = "t1/ns1/0xe0000000_0xf0000000"
CONFIGURATION = {
    "clusterName": "c", "loadManagerClassName": "x.ModularLoadManagerImpl", "loadBalancerEnabled": "true",
    "loadBalancerSheddingEnabled": "false", "loadBalancerAutoBundleSplitEnabled": "false",
    "failureDomainsEnabled": "true",
    "statsUpdateFrequencyInSecs": "60", "namespaceBundleUnloadingTimeoutMs": "60000",
    "loadBalancerServiceUnitTableViewSyncer": "None", "loadBalancerSheddingExcludedNamespaces": "[t/n, t/m]",
}  # fmt: skip
POLICIES = [
    {"p": FACTS[4]["value"], "q": {**FACTS[4]["value"], "primary": ["b.*"]}},
    {"d": {"brokers": ["a:1", "b:1"]}},
    {},
]
FUZZ = fuzzing(8, 3_000)


def answer(body: bytes) -> Answer:
    return Answer(Outcome.OK, "/path", "http://b:8080", 200, body)


def read(parser: Callable[[Answer], Any], body: bytes) -> Any:
    """What a parser makes of a body, or None where it says that it is none."""
    return read_or_refuse(parser, answer(body), CallFailed, len(body))


class Admin:
    """Of a cluster whose brokers answer so. `bodies`: end of a path -> body; all others are answered with `body`."""

    settings = SimpleNamespace(cluster=None)

    def __init__(self, body: bytes, **bodies: bytes) -> None:
        self._body, self._bodies = body, bodies

    async def get(self, path: str, *_: Any, **__: Any) -> Answer:
        """Any path, of any broker."""
        return answer(self._bodies.get(path.rpartition("/")[2], self._body))


def ask(question: Callable[[Any], Awaitable[Any]], body: bytes, **bodies: bytes) -> Any:
    """What comes of a question to such a cluster, or None where the caller is told that the answer is none."""

    async def wait() -> Any:
        return await question(Admin(body, **bodies))

    return read_or_refuse(lambda _: asyncio.run(wait()), body, CallFailed, len(body))


def check_report(found: Reported | None) -> None:
    """It can be written down, and becomes a load report v1."""
    if found is None:
        return
    json.dumps(found.report, allow_nan=False)
    row = Recorded(5, "", "b:1", found.report, None, found.excluded)
    json.dumps(to_load_report(row, Session("b:1", 1, "n", 1), 1, Overrides()), allow_nan=False)


@FUZZ
@given(records([recorded("modular_brokers")]))
def test_the_list_of_brokers(body: bytes) -> None:
    read(parse_brokers, body)


@FUZZ
@given(records([recorded("modular_ownedNamespaces_b2")]))
def test_what_a_broker_owns(body: bytes) -> None:
    found = read(lambda given: parse_owned(given, DEFAULT), body)
    assert all(len(str(bundle)) <= MAX_BUNDLE_CHARS and str(bundle).isprintable() for bundle in found or ())


@FUZZ
@given(records([recorded("modular_ns_bundles")]))
def test_a_ring(body: bytes) -> None:
    found = read(lambda given: parse_ring(given, "t1/ns1"), body)
    assert found is None or sum(bundle.upper - bundle.lower for bundle in found) == 2**32 - 1


@FUZZ
@given(records([recorded("modular_load-report_b2")]))
def test_a_load_report(body: bytes) -> None:
    check_report(read(lambda given: parse_load_report(given, [Bundle.parse(OWNED)], DEFAULT), body))


@FUZZ
@given(records([recorded("extensible_metrics_b1"), [{"metrics": {"brk_lb_cpu_usage": 30.0}, "dimensions": {}}]]))
def test_metrics(body: bytes) -> None:
    check_report(read(lambda given: parse_metrics(given, None, [Bundle.parse(OWNED)], {}, DEFAULT, 1), body))


@FUZZ
@given(records([recorded("extensible_mbeans_b1")[:6]]))
def test_mbeans(body: bytes) -> None:
    found = read(parse_mbeans, body)
    assert found is None or (found.cpu_s >= 0 and found.processors >= 1)


@fuzzing(16, 9_000)
@given(records([CONFIGURATION]))
def test_a_runtime_configuration_becomes_a_sound_fact(body: bytes) -> None:
    found = read(parse_runtime_configuration, body)
    if found is not None:
        fact = describe_broker(found, "4.0.8")
        assert is_sound("broker:a:1", fact)
        find_other_balancer({"broker:a:1": fact}, ["a:1"])
        assert found.manager is None or found.manager.value


@fuzzing(16, 9_000)
@given(records(POLICIES), st.sampled_from([ISOLATION, FAILURE_DOMAIN]))
def test_policies_are_applied_or_refused_in_one_line(body: bytes, prefix: str) -> None:
    found = read(_by_name, body)
    if found is None:
        return
    facts = {f"{prefix}{name}": {**policy, "enabled": True} for name, policy in found.items()}
    with bounded(len(body)):
        try:
            placement_of(facts, PlacementSettings())
        except ConfigError as error:
            check_error(error)


LEADERS = [{"brokerId": "b:1", "serviceUrl": "http://b:1"}, {"serviceUrl": "http://b-2:8080"}]
ADDRESSES = {"b:1": "http://10.0.0.1:8080", "b-2:8080": "https://b-2:8443"}


@FUZZ
@given(records(LEADERS))
def test_the_leader_is_one_of_the_brokers_or_none(body: bytes) -> None:
    assert ask(lambda admin: read_leader(admin, ADDRESSES), body) in (None, *ADDRESSES)


OVERRIDES: list[Any] = [dict.fromkeys(MUST_BE_OFF.values(), "false"), {"dispatchThrottlingRate": "1"}]


@FUZZ
@example(b'{"loadBalancerSheddingEnabled":"\\u001b[2J"}')
@given(records(OVERRIDES))
def test_overrides_are_shown_as_short_words(body: bytes) -> None:
    configuration = json.dumps(CONFIGURATION).encode()
    found = ask(lambda admin: Switchboard(admin, ADDRESSES).read(MUST_BE_OFF.values()), body, runtime=configuration)
    for switch in found or ():
        text = switch.override
        assert text is None or (len(text) <= MOST_VALUE_CHARS and text.isprintable())
        assert switch.follows(None) == (set(switch.by_broker.values()) != {"false"})


WHOLE = Bundle("t/n", 0, 2**32 - 1)
LISTED: list[Any] = [["persistent://t/n/a", "persistent://t/n/b"], []]


@FUZZ
@given(records(LISTED))
def test_lists_of_topics_are_counted_and_looked_up(body: bytes) -> None:
    calls: Any = SimpleNamespace(_addresses=lambda: ADDRESSES)

    async def read(admin: Any) -> tuple[Any, Any]:
        calls._admin = admin
        listed = await PulsarCalls._list_topics(calls, WHOLE)
        return listed, await PulsarCalls.count_non_persistent(calls, WHOLE, "b:1")

    topics, count = ask(read, body)
    assert (topics is None) == (count is None)
    if topics:
        with bounded(len(body)):
            assert all(lookup_path(topic).isascii() for topic in topics[:9])
        assert len(topics) <= count


def owner_in(body: bytes, scheme: str = "http") -> str | None:
    """Whom a lookup names, in a cluster of this scheme."""
    placing: Any = SimpleNamespace(_source=f"{scheme}://a:1")
    with bounded(len(body)):
        return Placing._owner_in(placing, body)


OWNERS = [{"httpUrl": "http://b-2:8080", "httpUrlTls": "https://b-2:8443", "brokerUrl": "pulsar://b-2:6650"}]


@FUZZ
@given(records(OWNERS), st.sampled_from(["http", "https"]))
def test_the_owner_in_a_lookup_is_an_address_or_nobody(body: bytes, scheme: str) -> None:
    owner = owner_in(body, scheme)
    assert owner is None or origin_of(owner) == owner


@FUZZ
@given(st.binary(max_size=60) | records(["4.0.8", "3.0.0-SNAPSHOT", None, {"reason": "no"}]))
def test_a_version_is_part_of_a_fact_that_the_journal_takes(body: bytes) -> None:
    facts = ask(lambda admin: read_broker_facts(admin, ADDRESSES), json.dumps(CONFIGURATION).encode(), version=body)
    for key, fact in facts.items():
        assert find_flaw(key, fact) is None
        assert len(fact.get("version", "")) <= 100
        assert fact.get("version", "").isprintable()


@FUZZ
@given(st.binary(max_size=60) | records(["group", None, {"reason": "no such cluster"}]))
def test_plain_answers(body: bytes) -> None:
    with bounded(len(body)):
        group, words = parse_group(answer(body)), words_of(body)
    assert group is None or 0 < len(group) <= 256
    assert len(words) <= 500
    assert words.isprintable()


@fuzzing(8, 2_000)
@given(records([recorded("extensible_topics_b2"), recorded("modular_topics_b2")]))
def test_statistics_of_topics(body: bytes) -> None:
    found = read_or_refuse(parse, body, NotTopicStats, len(body))
    for stats in (found or {}).values():
        assert all(isinstance(value, int | float) and 0 <= value <= LARGEST * len(body) for value in stats.values())


@pytest.mark.parametrize("body", [b"[" * DEEP, b'{"a":' * DEEP, b'["' + b"x" * LONG + b'"]', b"9" * 5_000,
b"[1" + b"0" * 400 + b"]",
                                  b'{"a\\u001b\\n":{}}', b"\xff", b""], ids=range(8))  # fmt: skip
def test_a_monstrous_answer_is_a_short_failure(body: bytes) -> None:
    for parser in (parse_brokers, parse_mbeans, parse_runtime_configuration, lambda given: parse_owned(given, DEFAULT)):
        read(parser, body)
    read_or_refuse(parse, body, NotTopicStats, len(body))
    ask(lambda admin: read_leader(admin, ADDRESSES), body)


@pytest.mark.parametrize(
    "body", [b"[" * DEEP, b'{"httpUrl":' * 5_000, b"9" * 5_000, b'{"httpUrl":1e999}', b'{"httpUrl":"http://[::1"}'],
    ids=range(5),
)  # fmt: skip
def test_an_owner_in_a_monstrous_lookup_is_nobody(body: bytes) -> None:
    """Nesting is no ValueError: the thread that looks up ended, and the bundle was placed anywhere."""
    assert owner_in(body) is None


def test_a_cluster_among_many_long_names_is_asked_for_in_one_short_line() -> None:
    admin: Any = Admin(json.dumps([f"{n}{'c' * LONG}\x1b" for n in range(9)]).encode())
    with pytest.raises(CallFailed) as refused:
        asyncio.run(read_cluster_name(admin, parse_runtime_configuration(answer(b"{}"))))
    check_error(refused.value)


@pytest.mark.parametrize("text", ["\u00b2", "\u0663", "9" * 5_000, "-5", "1e9", "60_000"])
def test_a_timeout_in_odd_digits_is_unknown(text: str) -> None:
    """The agent ended at a superscript two."""
    found = parse_runtime_configuration(
        answer(json.dumps({**CONFIGURATION, "namespaceBundleUnloadingTimeoutMs": text}).encode())
    )
    assert "unload_timeout_ms" not in describe_broker(found, "4.0.8")


def test_topics_of_one_hash_count_together() -> None:
    bundle = {"persistent": {f"persistent://t/n/{twin}": {"msgRateIn": 5.0} for twin in TWINS}}
    stats = parse(json.dumps({"t/n": {"0x00000000_0xffffffff": bundle}}).encode())
    assert stats["t/n/0x00000000_0xffffffff"]["msgRateIn"] == 10.0


def test_a_name_as_long_as_an_answer_stays_in_no_cache() -> None:
    """A bundle of a hundred megabytes was remembered, and with it up to 200,000 of its like."""
    Bundle.parse.cache_clear()
    name = f"{'t' * LONG}/n/0x00000000_0xffffffff"
    assert read(lambda given: parse_owned(given, DEFAULT), json.dumps({name: {}}).encode()) == {}
    assert Bundle.parse.cache_info().currsize == 0
