"""What `ballast agent` makes of the configuration; each switch on and off."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future

import pytest

from controller.broker.agent_metrics import AgentMetrics
from controller.broker.host_load import GBIT_BYTES
from controller.broker.memory_runtime import MemoryFences, MemoryRuntime
from controller.broker.reporter import Reporter
from controller.config.load import load_settings
from controller.config.settings import Settings
from controller.domain.ids import Session
from controller.ops.cmd_agent import advertised_host, capacity_of, host_of, options_of, parse_capacity, split_watch


def settings(*sets: str) -> Settings:
    return load_settings(None, "local", sets, env={})


@pytest.mark.covers("system-metrics", "nic-fraction")
def test_host_figures_are_reported_only_when_asked_for() -> None:
    assert host_of(settings()) is None
    host = host_of(settings("agent.host_figures=true", "agent.override_broker_nic_speed_gbps=0.5"))
    assert host is not None
    assert host.sample()["bandwidth_in"][1] % (0.5 * GBIT_BYTES) == 0


@pytest.mark.covers("nic-override")
def test_with_host_figures_the_override_is_counted_once() -> None:
    assert options_of(settings("agent.override_broker_nic_speed_gbps=0.5")).nic_bytes_per_s == 0.5 * GBIT_BYTES
    both = settings("agent.override_broker_nic_speed_gbps=0.5", "agent.host_figures=true")
    assert options_of(both).nic_bytes_per_s is None


def test_clients_are_never_told_a_wildcard_address() -> None:
    assert advertised_host(settings()) == "127.0.0.1"
    cluster = load_settings(None, "cluster", ["kafka.bootstrap_servers=k:9092"], env={})
    assert cluster.agent.bind_host == "0.0.0.0"
    assert advertised_host(cluster) not in ("", "0.0.0.0")
    assert advertised_host(settings("agent.bind_host=0.0.0.0", "agent.advertised_host=b1.example")) == "b1.example"


@pytest.mark.covers("split-switch")
def test_splits_are_proposed_only_when_switched_on() -> None:
    assert split_watch(settings()) is not None
    assert split_watch(settings("loadBalancerAutoBundleSplitEnabled=false")) is None


def test_capacity_comes_from_the_configuration_and_options_win() -> None:
    base = capacity_of(settings("reference.cpu_pct=150", "reference.cpu_us_per_message=7"))
    assert (base.cpu_pct, base.cpu_us_per_message) == (150, 7)
    assert parse_capacity(["cpu_pct=50"], base).cpu_pct == 50
    assert parse_capacity(["cpu_pct=50"], base).cpu_us_per_message == 7


@pytest.mark.covers("system-metrics")
def test_the_hosts_figures_win_over_the_runtimes() -> None:
    sent: list[dict] = []

    class Sender:
        def send(self, topic: str, value: dict, key: str | None = None) -> Future:
            sent.append(value)
            done: Future = Future()
            done.set_result((0, 0))
            return done

    class Host:
        def sample(self) -> dict[str, tuple[float, float]]:
            return {"cpu": (42.0, 400.0)}

    async def run() -> None:
        runtime = MemoryRuntime(MemoryFences())
        common = {"top_k": 10, "wall_ms": lambda: 0, "metrics": AgentMetrics()}
        for host in (Host(), None):
            await Reporter(runtime, Sender(), "load-reports", host=host, **common).report(Session("a:1", 1, "n", 1))

    asyncio.run(run())
    assert sent[0]["resources"]["cpu"] == {"usage": 42.0, "limit": 400.0}
    assert sent[1]["resources"].get("cpu") != {"usage": 42.0, "limit": 400.0}
