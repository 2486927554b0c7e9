"""`ballast pulsar adopt` and `release` with a real Kafka, journal and agent; brokers answer like recorded ones."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from controller.bus.cluster import KafkaUnavailable
from controller.bus.topics import TopicNames
from controller.config.load import load_settings
from controller.config.settings import Settings
from controller.domain.entries import Entry, Kind
from controller.domain.facts import BROKER, MUST_BE_OFF
from controller.domain.observed import AdoptionPhase
from controller.domain.state import ClusterState
from controller.ledger.journal_commit import Journal
from controller.ledger.tables import TableRoot
from controller.operations.adoption import read_adoption
from controller.operations.operator import Operator
from controller.operations.reading import Reader
from controller.testbed.kafka import EmbeddedKafka
from tests.e2e.plain_controller import PlainController, cluster_agent, write_settings
from tests.e2e.waiting import wait_until
from tests.unit.agent.cluster.test_cluster_calls import BUNDLE, Cluster
from tests.unit.brokers.pulsar.stand_in import StandIn, say, status
from tests.unit.brokers.pulsar.test_pulsar_recording import ballast, cluster

__all__ = ["cluster"]
pytestmark = [pytest.mark.kafka, pytest.mark.thorough]
SHEDDING, SPLIT = MUST_BE_OFF.values()
NOWHERE = ("--set", "kafka.bootstrap_servers=127.0.0.1:1")
SOON_S = 300.0


class Site:
    """The brokers, the settings of everything around them, and commands as an operator types them."""

    def __init__(self, brokers: StandIn, conf: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.brokers, self.conf, self.capsys = brokers, conf, capsys
        self.settings: Settings = load_settings(conf, env={})
        for broker in brokers.brokers:
            broker.held.clear()
            broker.answers["/brokers/version"] = say('"4.0.8"')
        self.pulsar = Cluster(brokers, modular=True)

    def run(self, line: str, *more: str) -> tuple[int, str]:
        self.capsys.readouterr()
        code = ballast(*line.split(), "--conf", str(self.conf), *more)
        said = self.capsys.readouterr()
        return code, said.out + said.err

    def document(self, line: str) -> Any:
        self.capsys.readouterr()
        code = ballast(*line.split(), "--conf", str(self.conf), "--json")
        said = self.capsys.readouterr()
        assert code == 0, said.err
        return json.loads(said.out)

    @property
    def state(self) -> ClusterState:
        return Reader(self.settings).state()

    @property
    def phase(self) -> AdoptionPhase | None:
        adoption = read_adoption(self.settings)
        return adoption.phase if adoption is not None else None

    def entries(self, *kinds: Kind) -> list[Entry]:
        everything = Journal(TableRoot(self.settings.tables.root)).read_since(0)
        return [entry for entry in everything if entry.kind in kinds]

    def wait_until_ready(self, controller: PlainController) -> None:
        """Until the agent has seen the bundle, and that no other balancer is on."""

        def is_ready() -> bool:
            observed, sessions = controller.state.observed, controller.state.sessions
            told = [fact for key, fact in observed.facts.items() if key.startswith(BROKER)]
            still = all(fact["shedding"] is False for fact in told)
            return str(BUNDLE) in observed.bundles and len(told) == len(sessions) == 3 and still

        wait_until(is_ready, SOON_S)


@pytest.fixture
def site(
    cluster: StandIn, kafka: EmbeddedKafka, topics: TopicNames, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Site:
    return Site(cluster, write_settings(tmp_path, kafka.bootstrap, topics, [cluster.brokers[0].url]), capsys)


@pytest.fixture
def controller(site: Site) -> Iterator[PlainController]:
    with PlainController(site.settings) as running:
        yield running


def test_a_dry_run_shows_what_would_be_written_and_changes_nothing(site: Site) -> None:
    site.brokers.overrides = {SHEDDING: "true"}
    found = site.document("pulsar adopt")
    assert [(one["setting"], one["override"], one["change"]) for one in found["settings"]] == [
        (SHEDDING, "true", "false"), (SPLIT, None, "false"),
    ]  # fmt: skip
    code, said = site.run("pulsar adopt")
    assert (code, "--apply does it" in said, "SECRET" in said) == (0, True, False)
    assert site.run("pulsar release")[0] == 0
    assert (site.brokers.changes, site.phase) == ([], None)


def test_what_no_dynamic_setting_can_mend_stops_an_adoption(site: Site, controller: PlainController) -> None:
    site.brokers.brokers[1].answers["/brokers/version"] = say('"2.10.1"')
    code, said = site.run("pulsar adopt --apply")
    assert code == 1
    assert "broker-2:8080" in said
    assert "needed is 3.0 or newer" in said
    assert (site.brokers.changes, site.phase) == ([], None)


def test_an_adoption_needs_a_controller(site: Site) -> None:
    code, said = site.run("pulsar adopt --apply")
    assert (code, "no controller runs" in said) == (1, True)
    code, said = site.run("pulsar adopt --apply", *NOWHERE)
    assert (code, "no Kafka answers" in said) == (1, True)
    assert site.brokers.changes == []


def test_adopt_an_order_release(site: Site, controller: PlainController) -> None:
    site.brokers.overrides = {SHEDDING: "true"}
    code, said = site.run("pulsar adopt --apply", "--why", "shadow looked right")
    assert (code, "ballast mode live" in said) == (0, True), said
    assert site.brokers.overrides == {SHEDDING: "false", SPLIT: "false"}
    assert "shadow looked right" in site.run("pulsar check")[1]
    with cluster_agent(site.conf):
        site.wait_until_ready(controller)
        assert site.run("mode live")[0] == 0
        assert site.run(f"unload {BUNDLE} --to broker-3:8080")[0] == 0
        wait_until(lambda: bool(site.entries(Kind.ORDER_ENDED)), SOON_S)
        assert site.entries(Kind.ORDER_ENDED)[0].data["outcome"] == "moved"

        code, said = site.run("pulsar release --apply", "--why", "enough")
        assert code == 0, said
        assert f"{SHEDDING}: override true put back; in force: true." in said
        assert f"{SPLIT}: override removed" in said
        assert site.brokers.overrides == {SHEDDING: "true"}
        assert site.phase is AdoptionPhase.RELEASED
        code, said = site.run(f"unload {BUNDLE} --to broker-1:8080")
        assert (code, "was released by" in said) == (1, True)
    assert "released by" in site.run("status")[1]
    assert "There is nothing to do" in site.run("pulsar release --apply")[1]
    journal = site.run("journal --kind adoption")[1]
    assert all(f"{phase} by" in journal for phase in ("adopted", "releasing", "released"))
    adopted, releasing, released = site.document("journal --kind adoption")
    assert adopted["data"]["before"] == {SHEDDING: "true", SPLIT: None}
    assert (adopted["data"]["why"], releasing["data"]["why"]) == ("shadow looked right", "enough")
    assert released["data"]["phase"] == "released"
    code, said = site.run("pulsar check")
    assert (code, "not released" in said) == (1, True)


def test_an_interrupted_adoption_is_run_again(site: Site, controller: PlainController) -> None:
    site.brokers.overrides = {SHEDDING: "true"}
    for broker in site.brokers.brokers:
        broker.answers[f"/{SHEDDING}/false"] = status(412, "not now")
    code, said = site.run("pulsar adopt --apply")
    assert (code, "not now" in said) == (1, True)
    assert site.brokers.overrides == {SHEDDING: "true", SPLIT: "false"}, "one was written before"
    for broker in site.brokers.brokers:
        del broker.answers[f"/{SHEDDING}/false"]
    assert site.run("pulsar adopt --apply")[0] == 0
    site.brokers.configured = {SHEDDING: "true", SPLIT: "true"}
    assert site.run("pulsar release --apply")[0] == 0
    assert site.brokers.overrides == {SHEDDING: "true"}, "as before the first of them"


def test_a_kafka_that_is_slow_to_tell_is_no_reason_to_leave_a_release_unsaid(
    site: Site, controller: PlainController, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert site.run("pulsar adopt --apply")[0] == 0

    def too_late(*asked: object) -> None:
        raise KafkaUnavailable("no answer within 3 s")

    monkeypatch.setattr("controller.operations.adoption.last_word", too_late)
    monkeypatch.setattr("controller.operations.commands.newest_owner", too_late)
    code, said = site.run("pulsar release --apply")
    assert (code, site.phase) == (0, AdoptionPhase.RELEASED), said


def test_a_release_waits_for_open_orders(site: Site, controller: PlainController) -> None:
    assert site.run("pulsar adopt --apply")[0] == 0

    async def unload_late(broker: Any, request: Any) -> Any:
        while not controller.state.observed.released:
            await asyncio.sleep(0.1)
        await asyncio.sleep(1)
        return site.pulsar.unload(broker, request)

    with cluster_agent(site.conf):
        site.wait_until_ready(controller)
        site.run("mode live")
        for broker in site.brokers.brokers:
            broker.answers["/unload"] = unload_late
        assert site.run(f"unload {BUNDLE} --to broker-3:8080")[0] == 0
        code, said = site.run("pulsar release --apply")
    assert (code, "1 order is open: waiting" in said) == (0, True), said
    (ended,), released = site.entries(Kind.ORDER_ENDED), site.entries(Kind.ADOPTION)[-1]
    assert (ended.data["outcome"], ended.seq < released.seq) == ("moved", True)


def test_without_a_controller_the_settings_are_put_back_and_the_next_one_sends_no_order(site: Site) -> None:
    with cluster_agent(site.conf):
        with PlainController(site.settings) as first:
            assert site.run("pulsar adopt --apply")[0] == 0
            site.wait_until_ready(first)
            site.run("mode live")
            first.crash()
        with Operator(site.settings, "somebody@else") as operator:
            unload = operator.send("unload_bundle", {"bundle": str(BUNDLE), "to": "broker-3:8080"})
        code, said = site.run("pulsar release --apply", "--timeout", "2")
        assert (code, "the next controller carries it out before any order" in said) == (0, True), said
        assert site.brokers.overrides == {}
        assert site.phase is AdoptionPhase.ADOPTED
        with PlainController(site.settings) as second:
            wait_until(lambda: unload in second.state.commands, SOON_S)
            wait_until(lambda: site.phase is AdoptionPhase.RELEASED, SOON_S)
            assert second.state.commands[unload] == "rejected"
            assert not site.entries(Kind.ORDER)


def test_without_kafka_the_settings_are_put_back_and_the_rest_is_said(site: Site) -> None:
    site.brokers.overrides = {SHEDDING: "true"}
    with PlainController(site.settings):
        assert site.run("pulsar adopt --apply")[0] == 0
    code, said = site.run("pulsar release --apply", *NOWHERE)
    assert (code, "Still to do: Kafka does not answer" in said) == (1, True), said
    assert site.brokers.overrides == {SHEDDING: "true"}
    assert site.phase is AdoptionPhase.ADOPTED
    with PlainController(site.settings):
        assert site.run("pulsar release --apply")[0] == 0
    assert site.phase is AdoptionPhase.RELEASED
