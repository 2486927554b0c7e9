"""What `ballast agent` makes of the configuration; each switch on and off."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from concurrent.futures import Future
from itertools import count
from pathlib import Path

import pytest

from controller.agent.cluster.rivals import ClusterRivals
from controller.agent.lifecycle import Ending
from controller.agent.metrics import AgentMetrics
from controller.agent.reports.reporter import Reporter
from controller.agent.session.rivals import Rivals, describe_rival
from controller.brokers.host_load import GBIT_BYTES
from controller.brokers.memory.fences import MemoryFences
from controller.brokers.memory.runtime import MemoryRuntime
from controller.brokers.pulsar.auth import CredentialsMissing
from controller.brokers.pulsar.facts import Manager
from controller.brokers.pulsar.outcomes import CallFailed, Outcome
from controller.bus.cluster import KafkaUnavailable, check_answers
from controller.bus.consumer import KafkaRecord
from controller.bus.failures import NoRight, TopicUnreadable
from controller.cli.main import main
from controller.cli.run import agent as cmd_agent
from controller.cli.run import agent_wiring
from controller.cli.run.agent import (
    advertised_host,
    capacity_of,
    host_of,
    make_split_watch,
    parse_capacity,
)
from controller.cli.run.cluster_agent import reads_topics
from controller.config.load import load_settings
from controller.config.sections.pulsar_cluster import PulsarCluster
from controller.config.settings import Settings
from controller.domain.errors import BadRecord, BallastError, ConfigError, StoreError
from controller.domain.ids import Session
from controller.domain.state import METADATA
from controller.testbed.units import AGENT, PULSAR_AGENT, final_codes


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
    assert (
        agent_wiring.options_of(settings("agent.override_broker_nic_speed_gbps=0.5")).nic_bytes_per_s
        == 0.5 * GBIT_BYTES
    )
    both = settings("agent.override_broker_nic_speed_gbps=0.5", "agent.host_figures=true")
    assert agent_wiring.options_of(both).nic_bytes_per_s is None


def test_clients_are_never_told_a_wildcard_address() -> None:
    assert advertised_host(settings()) == "127.0.0.1"
    cluster = load_settings(None, "cluster", ["kafka.bootstrap_servers=k:9092"], env={})
    assert cluster.agent.bind_host == "0.0.0.0"
    assert advertised_host(cluster) not in ("", "0.0.0.0")
    assert advertised_host(settings("agent.bind_host=0.0.0.0", "agent.advertised_host=b1.example")) == "b1.example"


@pytest.mark.covers("split-switch")
def test_splits_are_proposed_only_when_switched_on() -> None:
    assert make_split_watch(settings()) is not None
    assert make_split_watch(settings("loadBalancerAutoBundleSplitEnabled=false")) is None


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


def test_without_a_kafka_one_line_says_so_until_it_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    tried = 0

    def count(bootstrap: str, client: object) -> None:
        nonlocal tried
        tried += 1
        if tried < 60:
            check_answers(bootstrap)

    monkeypatch.setattr(agent_wiring, "TRY_AGAIN_S", 0.001)
    monkeypatch.setattr(agent_wiring, "check_answers", count)
    monkeypatch.setattr(agent_wiring.log, "warning", lambda text, **more: said.append(f"{text}: {more['reason']}"))
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        asyncio.run(agent_wiring.wait_for_kafka(settings(f"kafka.bootstrap_servers={address}")))
    (line,) = said
    assert line.startswith(f"waiting for Kafka: no Kafka answers at {address}")
    assert tried == 60


def test_without_the_topics_one_line_says_so_until_the_controller_has_created_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said: list[str] = []
    asked: list[list[str]] = []

    def ask(bootstrap: str, names: list[str], client: object) -> dict[str, str]:
        asked.append(names)
        if len(asked) == 2:
            raise KafkaUnavailable("it restarts")
        there = names if len(asked) == 60 else names[:1]
        return dict.fromkeys(there, "id")

    monkeypatch.setattr(agent_wiring, "TRY_AGAIN_S", 0.001)
    monkeypatch.setattr(agent_wiring, "topic_ids", ask)
    monkeypatch.setattr(agent_wiring.log, "warning", lambda text, **more: said.append(f"{text}: {more['reason']}"))
    asyncio.run(agent_wiring.wait_for_topics(settings("kafka.topic_prefix=zz."), "b1:8080"))
    (line,) = said
    assert line.startswith("waiting for the topics: topic zz.broker-events, zz.heartbeats, zz.load-reports does not")
    assert "the controller creates the topics" in line
    assert "kafka.topic_prefix" in line
    assert len(asked) == 60
    assert asked[0] == ["zz.journal-feed", "zz.broker-events", "zz.load-reports", "zz.heartbeats"]


def test_an_agent_of_a_group_waits_for_its_groups_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def ask(bootstrap: str, names: list[str], client: object) -> dict[str, str]:
        asked.extend(names)
        return dict.fromkeys(names, "id")

    monkeypatch.setattr(agent_wiring, "topic_ids", ask)
    asyncio.run(agent_wiring.wait_for_topics(settings('kafka.agent_groups={"east": ["b1"]}'), "b1"))
    assert asked == ["journal-feed", "broker-events", "broker-events.east", "load-reports.east", "heartbeats.east"]


def test_the_client_library_tells_of_single_connections_at_debug_only() -> None:
    logger = logging.getLogger("kafka.net.connection")
    shown: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: shown.append(record.getMessage())  # type: ignore[method-assign]
    root, before = logging.getLogger(), logging.getLogger().level
    logger.addHandler(handler)
    try:
        for level in (logging.INFO, logging.DEBUG):
            root.setLevel(level)
            logger.error("%s: Connection lost: refused", "b1")
            logger.error("Authentication failed")
    finally:
        root.setLevel(before)
        logger.removeHandler(handler)
    assert shown == ["Authentication failed", "b1: Connection lost: refused", "Authentication failed"]


SENT = count()  # no two heartbeats are sent at the same time


def beat(broker: str = "a:1", nonce: str = "old", **more: object) -> KafkaRecord:
    said = {"v": 1, "broker": broker, "incarnation": 3, "nonce": nonce, "session": 2, "applied_seq": 9} | more
    return KafkaRecord("heartbeats", 0, 0, 0, json.dumps({**said, "sent_ms": next(SENT)}).encode())


def test_a_process_that_is_heard_twice_is_a_rival() -> None:
    rivals = Rivals("a:1", "mine")
    rivals.take([beat(), beat(nonce="mine"), beat(nonce="mine"), beat(broker="b:1"), beat(broker="b:1")])
    rivals.take([KafkaRecord("heartbeats", 0, 0, 0, b"{"), beat(nonce="third")])
    assert rivals.living is None, "one heartbeat may have been on its way when the process was killed"
    rivals.take([beat()])
    assert rivals.living is not None
    assert rivals.living.session == Session("a:1", 3, "old", 2)


def test_a_heartbeat_that_is_read_again_is_one_heartbeat() -> None:
    rivals, of_cluster, last = Rivals("a:1", "mine"), ClusterRivals("mine"), beat(info={"authority": METADATA})
    for _ in range(3):  # the connection was made anew
        rivals.take([last])
        of_cluster.take([last])
    assert (rivals.living, of_cluster.living, of_cluster.heard) == (None, None, 1)
    for heard in (rivals, of_cluster):
        heard.take([beat(info={"authority": METADATA})])
        assert heard.living is not None


def test_a_rival_is_named_by_what_is_known_of_it() -> None:
    def text(**info: object) -> str:
        rivals = Rivals("a:1", "mine")
        rivals.take([beat(info=info), beat(info=info)])
        assert rivals.living is not None
        return describe_rival(rivals.living).split(": ", 1)[1].split("; ")[0]

    whole = text(host="h", pid=7, started_ms=1_700_000_000_000)
    assert whole == "pid 7 on h since 2023-11-14 22:13:20 UTC, session a:1#3.old.2"
    assert text(lookup_url="http://h:1") == "http://h:1, session a:1#3.old.2"
    assert text() == "an agent of an older version, session a:1#3.old.2"


def test_why_it_was_refused_is_said_once(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    async def refused(*given: object) -> Ending:
        return Ending(3, "another process is broker b")

    monkeypatch.setattr(cmd_agent, "_run", refused)
    with pytest.raises(SystemExit) as ended:
        main(["agent", "--broker-id", "b", "--set", f"tables.root={tmp_path}/t", "--set", "http.agent_port=0"])
    out, err = capfd.readouterr()
    assert (ended.value.code, out, err.count("another process is broker b")) == (3, "", 1)
    assert err.endswith("ballast agent: another process is broker b\n")


def test_topics_are_read_in_every_period_where_nothing_else_tells_loads_or_where_it_is_configured() -> None:
    usual, wanted = PulsarCluster(), PulsarCluster(modular_topics=True)
    assert [reads_topics(Manager.EXTENSIBLE, configured) for configured in (usual, wanted)] == [True, True]
    assert [reads_topics(Manager.MODULAR, configured) for configured in (usual, wanted)] == [False, True]


@pytest.mark.parametrize(
    ("error", "started_again"),
    [
        (StoreError("no segment store answers"), True),
        (KafkaUnavailable("no Kafka answers"), True),
        (TopicUnreadable("topic journal-feed cannot be read"), True),
        (NoRight("lacks the right Read"), True),  # it may be granted
        (CallFailed(Outcome.UNREACHABLE, "brokers of the cluster"), True),
        (CredentialsMissing("the OAuth2 endpoint does not answer"), True),
        (ConfigError("tables.root is empty"), False),
        (BadRecord("bad_broker", "no broker id"), False),
    ],
)
@pytest.mark.parametrize("unit", [AGENT, PULSAR_AGENT])
def test_only_what_another_start_cannot_change_keeps_the_unit_from_it(
    error: BallastError,
    started_again: bool,
    unit: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def fail(*_: object, **options: object) -> Ending:
        raise error

    monkeypatch.setattr(cmd_agent, "_run", fail)
    monkeypatch.setattr(cmd_agent, "run_cluster_agent", fail)
    which = ["--broker-id", "b1:8080"] if unit == AGENT else ["--runtime", "pulsar"]
    with pytest.raises(SystemExit) as ended:
        main(["agent", *which, "--profile", "local", "--set", "http.agent_port=0"])
    assert (ended.value.code not in final_codes(unit)) is started_again
    assert capsys.readouterr().err.endswith(f"ballast agent: {error}\n")
