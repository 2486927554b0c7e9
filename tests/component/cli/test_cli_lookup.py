"""`ballast topic lookup` against a real agent's lookup endpoint."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.brokers.reference.client.lookup import Lookup
from controller.cli.act.topic import LookupFailed, ask, full_name
from controller.cli.tryout.reference_client import Asked, whom_to_ask
from controller.config.load import load_settings
from controller.domain.errors import BadRecord
from tests.component.lookup_agent import lookup_agent
from tests.short_run import ShortRun

DEAD = "http://127.0.0.1:1"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> ShortRun:
    """One broker that owns all of shop/orders; shop/idle was never looked up."""
    run = ShortRun(Path(tmp_path_factory.mktemp("lookup")) / "tables")
    run.join("b1:8080")
    run.command("create_namespace", namespace="shop/orders", bundles=2)
    run.command("create_namespace", namespace="shop/idle", bundles=1)
    run.command("create_topic", topic="persistent://shop/orders/parts", partitions=2)
    for record in list(run.state.bundles.values()):
        if record.bundle.namespace == "shop/orders":
            run.look_up(record.bundle)
    return run


@pytest.fixture(scope="module")
def agent(run: ShortRun) -> Iterator[str]:
    """The address of an agent's HTTP server on the run's state."""
    with lookup_agent(lambda: run.state) as url:
        yield url


@pytest.mark.covers("any-broker-answers")
def test_the_owner_is_found_past_a_dead_agent(run: ShortRun, agent: str) -> None:
    found = ask([DEAD, agent], full_name("shop/orders/paid"), 30)
    assert found["broker"] == "b1:8080"
    assert found["address"] == "b1:7002"
    assert found["bundle"] in run.state.bundles
    assert found["seq"] == run.state.seq


def test_partitions_are_told_and_known_to_who_is_asked(run: ShortRun, agent: str) -> None:
    """An agent that lags behind a topic's creation would tell of none."""
    assert ask([agent], full_name("shop/orders/parts"), 30)["partitions"] == 2
    asked = whom_to_ask(load_settings(None, "demo", [f"tables.root={run.root.root}"], env={}), None)
    assert asked == Asked([str(run.state.brokers["b1:8080"].info["lookup_url"])], run.state.seq)
    nowhere = load_settings(None, "demo", ["tables.root=/nowhere"], env={})
    assert whom_to_ask(nowhere, [agent]) == Asked([agent], 0), "an agent's address is enough"


def test_refusals_say_why(agent: str) -> None:
    with pytest.raises(LookupFailed, match="nobody serves shop/idle/0x00000000_0xffffffff"):
        ask([agent], full_name("shop/idle/t"), 30)
    with pytest.raises(LookupFailed, match="namespace shop/none does not exist"):
        ask([agent, DEAD], full_name("shop/none/t"), 30)
    with pytest.raises(LookupFailed, match=DEAD):
        ask([DEAD], full_name("shop/orders/paid"), 30)
    with pytest.raises(LookupFailed, match="no living broker"):
        ask([], full_name("shop/orders/paid"), 30)


def test_names_may_leave_out_the_domain() -> None:
    assert full_name("shop/orders/paid") == "persistent://shop/orders/paid"
    assert full_name("non-persistent://shop/orders/paid") == "non-persistent://shop/orders/paid"
    with pytest.raises(BadRecord, match="is not persistent://"):
        full_name("paid")


@pytest.mark.covers("clients-find-new-owner")
@pytest.mark.parametrize("askers", [1, 2, 3, 4, 8])
def test_clients_that_ask_together_do_not_run_to_the_dead_agent_for_ever(agent: str, askers: int) -> None:
    """All clients of a broker's end look for the next one in the same moment, and go on in step."""

    async def find_all() -> list[str]:
        lookup = Lookup([DEAD, agent])
        try:
            topic = full_name("shop/orders/paid")
            found = await asyncio.wait_for(asyncio.gather(*(lookup.find(topic) for _ in range(askers))), 30)
        finally:
            await lookup.close()
        return [owner.broker for owner in found]

    assert asyncio.run(find_all()) == ["b1:8080"] * askers
