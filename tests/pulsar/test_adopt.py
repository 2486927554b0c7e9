"""`ballast pulsar adopt` and `release` on a real cluster: with a real agent, Kafka and journal, and with clients.

The controller is the real loop without Spark. What was there before, an override in one key and none in the other, is
there again afterwards, although the adoption was interrupted after its first write.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from controller.brokers.pulsar.addresses import Directory
from controller.brokers.pulsar.admin import PulsarAdmin
from controller.brokers.pulsar.switches import Switch, Switchboard
from controller.bus.topics import TopicNames
from controller.cli.main import main
from controller.config.load import load_settings
from controller.config.sections.pulsar_cluster import PulsarCluster as Connection
from controller.domain.entries import Entry, Kind
from controller.domain.facts import MUST_BE_OFF
from controller.ledger.journal_commit import Journal
from controller.ledger.tables import TableRoot
from controller.operations.commands import send_and_wait
from controller.testbed.kafka import EmbeddedKafka
from controller.testbed.pulsar.cluster import PulsarCluster
from controller.testbed.pulsar.spec import CLUSTER_NAME
from controller.testbed.pulsar.traffic.rates import even_rates, topics_of
from controller.testbed.pulsar.traffic.traffic import Traffic
from tests.e2e.plain_controller import PlainController, cluster_agent, write_settings
from tests.pulsar.waiting import wait_until

pytest.importorskip("pulsar", reason="pulsar-client is not installed")
pytestmark = [pytest.mark.pulsar, pytest.mark.kafka]

SHEDDING, SPLIT = MUST_BE_OFF.values()
NAMESPACE, BUNDLES, TOPICS = "tests/adopt", 4, 12
_T = TypeVar("_T")


class Site:
    """The cluster, a configuration file, and commands as an operator types them."""

    def __init__(self, cluster: PulsarCluster, conf: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.cluster, self.conf, self.capsys = cluster, conf, capsys
        self.settings = load_settings(conf, env={})

    def run(self, line: str, *more: str) -> tuple[int, str]:
        self.capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main([*line.split(), "--conf", str(self.conf), *more])
        said = self.capsys.readouterr()
        return int(ended.value.code or 0), said.out + said.err

    def switches(self) -> dict[str, Switch]:
        async def read(board: Switchboard) -> dict[str, Switch]:
            return {switch.setting: switch for switch in await board.read(MUST_BE_OFF.values())}

        return self._on_board(read)

    def write(self, setting: str, override: str | None) -> None:
        self._on_board(lambda board: board.write(setting, override))

    def overrides(self) -> dict[str, str | None]:
        return {name: switch.override for name, switch in self.switches().items()}

    def owners(self) -> dict[str, str]:
        """Bundle -> broker id, of the namespace."""
        names = self.cluster.spec.broker_names
        owned = {name: self.cluster.admin.owned_bundles(name) or () for name in names}
        return {
            bundle: self.cluster.spec.broker_id(name)
            for name, bundles in owned.items()
            for bundle in bundles
            if bundle.startswith(f"{NAMESPACE}/")
        }

    def entries(self, kind: Kind) -> list[Entry]:
        return [e for e in Journal(TableRoot(self.settings.tables.root)).read_since(0) if e.kind is kind]

    def _on_board(self, work: Callable[[Switchboard], Awaitable[_T]]) -> _T:
        async def run() -> _T:
            async with PulsarAdmin(Connection(service_urls=tuple(self.cluster.web_urls))) as admin:
                members = await Directory(admin, CLUSTER_NAME).refresh()
                return await work(Switchboard(admin, members.addresses))

        return asyncio.run(run())


@pytest.fixture
def site(
    cluster: PulsarCluster, kafka: EmbeddedKafka, topics: TopicNames, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> Iterator[Site]:  # fmt: skip
    """Leaves the cluster without overrides, as `dev up` starts it."""
    one = Site(cluster, write_settings(tmp_path, kafka.bootstrap, topics, cluster.web_urls), capsys)
    yield one
    for setting in MUST_BE_OFF.values():
        one.write(setting, None)


def test_a_cluster_is_adopted_balanced_and_given_back_as_it_was(site: Site, tmp_path: Path) -> None:
    cluster = site.cluster
    cluster.admin.create_namespace("broker1", NAMESPACE, BUNDLES)
    site.write(SHEDDING, "true")
    before = {SHEDDING: "true", SPLIT: None}
    wait_until(site.overrides, lambda found: found == before, "the override")
    code, said = site.run("pulsar check")
    assert code == 1
    assert all(f"{setting}=false" in said for setting in before)
    code, said = site.run("pulsar adopt")
    assert (code, "--apply does it" in said) == (0, True), said
    assert site.overrides() == before

    topics = topics_of(NAMESPACE, TOPICS)
    with Traffic(cluster, tmp_path, topics) as traffic:
        traffic.set_rates(even_rates(topics, 50))
        traffic.wait_until_flowing()
        wait_until(site.owners, lambda owners: len(owners) == BUNDLES, "all bundles to be owned", 300.0)
        with PlainController(site.settings) as controller, cluster_agent(site.conf):
            assert send_and_wait(site.settings, "adopt", "", 60.0, {"before": before}).accepted
            site.write(SHEDDING, "false")  # here the first adoption was interrupted
            code, said = site.run("pulsar adopt --apply")
            assert code == 0, said
            assert all(set(switch.values) == {"false"} for switch in site.switches().values())
            assert site.run("pulsar check")[0] == 0
            _order(site, controller)
            code, said = site.run("pulsar release --apply", "--why", "the test ends")
            assert code == 0, said
            assert "Released" in said
            assert site.overrides() == before
            brokers = {setting: set(switch.values) for setting, switch in site.switches().items()}
            assert brokers == {SHEDDING: {"true"}, SPLIT: {"true"}}, "broker.conf decides again"
            name, owner = next(iter(site.owners().items()))
            code, said = site.run(f"unload {name} --to {_another(site, owner)}")
            assert (code, "was released" in said) == (1, True)
        report = traffic.stop(drain_s=300.0)
    assert report.lost == 0
    assert [entry.data["phase"] for entry in site.entries(Kind.ADOPTION)] == [
        "adopted", "adopted", "releasing", "released",
    ]  # fmt: skip


def _order(site: Site, controller: PlainController) -> None:
    """A bundle moves to exactly the broker that was named. Pulsar may leave one where it is: then another one."""
    wait_until(lambda: controller.state.observed.bundles, lambda seen: len(seen) >= BUNDLES, "the agent to see them")
    assert site.run("mode live")[0] == 0
    for number, (name, owner) in enumerate(sorted(site.owners().items())):
        target = _another(site, owner)
        line = f"unload {name} --to {target}"
        wait_until(lambda line=line: site.run(line)[0], lambda code: code == 0, "the agent to see the settings")
        ended = wait_until(
            lambda: site.entries(Kind.ORDER_ENDED), lambda found, n=number: len(found) > n, "the order to end"
        )[number]
        print(f"{line}: {ended.data}")
        assert ended.data["outcome"] in ("moved", "stayed")
        if ended.data["outcome"] == "moved":
            assert site.owners()[name] == target
            return
    pytest.fail("no bundle moved")


def _another(site: Site, owner: str) -> str:
    brokers = [site.cluster.spec.broker_id(name) for name in site.cluster.spec.broker_names]
    return next(broker for broker in brokers if broker != owner)
