"""The service URL names one Pulsar cluster and the configuration another one's journal: nothing is written."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from controller.agent.cluster.another_cluster import find_another_cluster
from controller.brokers.pulsar.addresses import open_directory
from controller.brokers.pulsar.admin import PulsarAdmin
from controller.domain.entries import Entry, Kind
from controller.domain.errors import ConfigError
from controller.domain.facts import MUST_BE_OFF
from controller.domain.state import METADATA
from controller.ledger.journal_commit import Journal
from controller.ledger.tables import TableRoot
from controller.process.clock import wall_ms
from tests.unit.brokers.pulsar.stand_in import CLUSTER, StandIn, say, stand_in
from tests.unit.brokers.pulsar.test_pulsar_recording import ballast, cluster
from tests.unit.control.observed_driver import ObservedDriver

__all__ = ["cluster"]
SHEDDING, SPLIT = MUST_BE_OFF.values()
BEFORE = {SHEDDING: "true", SPLIT: None}
HERE, ELSEWHERE = "broker-2:8080", "a:1"


def journal_of(*brokers: str, adopted: str | None = None) -> ObservedDriver:
    """A journal that knows these brokers. `adopted`: the name of the cluster that was adopted, empty as in older
    versions."""
    driver = ObservedDriver()
    for broker in brokers:
        driver.join(broker, nonce="agent", authority=METADATA, runtime="pulsar", can_fence=False)
    if adopted is not None:
        driver.command("adopt", before=BEFORE, **({"cluster": adopted} if adopted else {}))
    return driver


class Site:
    """Brokers that answer, the tables, and commands; no Kafka answers."""

    def __init__(self, brokers: StandIn, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.brokers, self.tables, self._capsys = brokers, folder / "tables", capsys
        brokers.overrides = {SHEDDING: "false", SPLIT: "false"}
        for broker in brokers.brokers:
            broker.answers |= {"/brokers/version": say('"4.0.8"'), "/leaderBroker": self._leader}

    def _leader(self, *_: Any) -> Any:
        return {"brokerId": self.brokers.brokers[0].id}

    def keep(self, driver: ObservedDriver) -> None:
        root = TableRoot(str(self.tables))
        root.create("journal")
        entries = [Entry(1, Kind.CONTROLLER_STARTED, "i", 0, 0), *driver.journal]
        Journal(root).commit([replace(entry, at_ms=wall_ms()) for entry in entries], "i", 0)

    def run(self, line: str) -> tuple[int, str]:
        self._capsys.readouterr()
        settings = (f"tables.root={self.tables}", "kafka.bootstrap_servers=127.0.0.1:1")
        sets = [word for one in settings for word in ("--set", one)]
        code = ballast("pulsar", *line.split(), "--service-url", self.brokers.brokers[0].url, *sets)
        said = self._capsys.readouterr()
        return code, " ".join((said.out + said.err).split())


@pytest.fixture
def site(cluster: StandIn, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Site:
    return Site(cluster, tmp_path, capsys)


@pytest.mark.parametrize("line", ["release", "release --apply", "adopt", "adopt --apply"])
def test_a_cluster_of_another_name_is_refused(site: Site, line: str) -> None:
    site.keep(journal_of(HERE, adopted="east"))
    code, said = site.run(line)
    assert (code, site.brokers.changes) == (1, [])
    assert f"the journal's Pulsar cluster is east, not {CLUSTER}" in said
    assert all(word in said for word in ("--service-url", "tables.root", site.brokers.brokers[0].url))
    assert "would be written" not in said, "what it would do there is of no interest"


@pytest.mark.parametrize("line", ["release", "release --apply", "adopt", "adopt --apply"])
@pytest.mark.parametrize("adopted", ["", CLUSTER])
def test_a_cluster_of_other_brokers_is_refused_whatever_its_name(site: Site, line: str, adopted: str) -> None:
    site.keep(journal_of(ELSEWHERE, "b:1", adopted=adopted))
    code, said = site.run(line)
    assert (code, site.brokers.changes) == (1, [])
    assert "a:1, b:1: none of these" in said
    assert f"{site.brokers.brokers[0].url} was asked" in said
    assert "broker-1:8080, broker-2:8080, broker-3:8080" in said


@pytest.mark.parametrize("adopted", ["", CLUSTER])
def test_the_journals_own_cluster_is_released(site: Site, adopted: str) -> None:
    site.keep(journal_of(HERE, ELSEWHERE, adopted=adopted))
    code, said = site.run("release --apply")
    assert (code, "Still to do: Kafka does not answer" in said) == (1, True), said
    assert site.brokers.overrides == {SHEDDING: "true"}


def test_an_adopted_cluster_whose_brokers_have_the_settings_is_not_adopted_again(site: Site) -> None:
    """The journal's entry would say that they were there before. A release goes by the first one all the same."""
    site.keep(journal_of(HERE, adopted=CLUSTER))
    code, said = site.run("adopt --apply --why again")
    assert (code, site.brokers.changes) == (0, []), said
    assert "Nothing was changed: it is adopted, and every broker has the settings." in said


def test_check_says_that_the_journal_is_anothers(site: Site) -> None:
    site.keep(journal_of(HERE, adopted="east"))
    code, said = site.run("check")
    assert (code, f"the journal's Pulsar cluster is east, not {CLUSTER}" in said) == (1, True), said


def test_what_speaks_against_a_cluster() -> None:
    def find(driver: ObservedDriver) -> str | None:
        return find_another_cluster(driver.state, CLUSTER, [HERE])

    assert find(journal_of()) is None, "nothing is known yet"
    assert find(journal_of(HERE, ELSEWHERE)) is None, "one of them is enough: brokers come and go"
    assert find(journal_of(HERE, adopted=CLUSTER)) is None
    released = journal_of(HERE, adopted="east")
    for kind in ("release", "end_release"):
        assert find(released) is not None
        released.command(kind)
    assert find(released) is None, "a journal may be used for another cluster once its first is given back"


def test_a_broker_that_was_registered_by_mistake_and_is_gone_proves_nothing() -> None:
    """Once it had been, the settings of its cluster could be written in place of those of the right one."""
    driver = journal_of(HERE, ELSEWHERE)
    driver.tell(HERE, "goodbye")
    found = find_another_cluster(driver.state, CLUSTER, [HERE])
    assert found is not None
    assert f"the brokers {HERE}, and the journal's live brokers are {ELSEWHERE}: none of these" in found
    assert find_another_cluster(driver.state, CLUSTER, [HERE], by_living=False) is None, "an agent may come back to it"
    driver.tell(ELSEWHERE, "goodbye")
    assert find_another_cluster(driver.state, CLUSTER, [HERE]) is None, "no agent runs: all that are known count"


def test_a_configured_name_that_the_brokers_contradict_is_an_error() -> None:
    async def run() -> None:
        async with stand_in(1) as brokers, PulsarAdmin(brokers.settings(cluster="east")) as admin:
            with pytest.raises(ConfigError, match=rf"pulsar_cluster.cluster is east, .* call their cluster {CLUSTER}"):
                await open_directory(admin)

    asyncio.run(run())
