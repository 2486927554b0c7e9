"""A local Kafka cluster before any server runs: what it is, its nodes' settings, its logins."""

from __future__ import annotations

import json
import re
import shutil
import socket
import ssl
import stat
from pathlib import Path
from unittest.mock import MagicMock

import pytest
import yaml

from controller.bus.security import check_client_settings
from controller.cli.main import main
from controller.config.load import load_settings
from controller.domain.errors import BallastError, ConfigError
from controller.testbed.kafka import EmbeddedKafka, KafkaNotStarted
from controller.testbed.kafka_cluster.cluster import KafkaCluster
from controller.testbed.kafka_cluster.logins import Logins
from controller.testbed.kafka_cluster.node_settings import node_properties
from controller.testbed.kafka_cluster.spec import ClusterSpec, Ports, make_spec, read_spec, write_spec

needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
THREE = ClusterSpec("id", True, (Ports(1, 2, 3), Ports(4, 5, 6), Ports(7, 8, 9)))
ONE = ClusterSpec("id", False, (Ports(1, 2, 3),))


def settings_of(text: str) -> dict[str, str]:
    """Key and value of each line of a properties file; a key that stands twice fails."""
    lines = [line.split("=", 1) for line in text.splitlines() if line and not line.startswith("#")]
    assert len({key for key, _ in lines}) == len(lines)
    return dict(lines)


def test_three_nodes_keep_an_acknowledged_record_when_one_is_lost(tmp_path: Path) -> None:
    found = settings_of(node_properties(THREE, 2, tmp_path / "data", None))
    assert found["node.id"] == "2"
    assert found["controller.quorum.voters"] == "1@127.0.0.1:3,2@127.0.0.1:6,3@127.0.0.1:9"
    assert found["listeners"] == "CLIENT://127.0.0.1:4,BROKER://127.0.0.1:5,CONTROLLER://127.0.0.1:6"
    assert "CONTROLLER" not in found["advertised.listeners"]
    for copies in ("default", "offsets.topic", "transaction.state.log"):
        assert found[f"{copies}.replication.factor"] == "3"
    assert found["min.insync.replicas"] == found["transaction.state.log.min.isr"] == "2"
    assert "broker.session.timeout.ms" not in found, "kafka.session_timeout_ms is Kafka's default"
    alone = settings_of(node_properties(ONE, 1, tmp_path / "data", None))
    assert (alone["default.replication.factor"], alone["min.insync.replicas"]) == ("1", "1")


def test_a_secure_node_lets_nobody_in_without_a_certificate_or_a_password(tmp_path: Path) -> None:
    plain = settings_of(node_properties(THREE, 1, tmp_path / "data", None))
    found = settings_of(node_properties(THREE, 1, tmp_path / "data", Logins(tmp_path / "logins")))
    protocols = dict(pair.split(":") for pair in found["listener.security.protocol.map"].split(","))
    assert protocols == {"CLIENT": "SASL_SSL", "BROKER": "SSL", "CONTROLLER": "SSL"}
    assert {found[f"listener.name.{name}.ssl.client.auth"] for name in ("broker", "controller")} == {"required"}
    assert found["listener.name.client.sasl.enabled.mechanisms"] == "SCRAM-SHA-512"
    assert found["super.users"] == "User:CN=node;User:admin"
    assert "allow.everyone.if.no.acl.found" not in found, "nobody has rights that no ACL gives"
    assert set(plain) <= set(found), "security adds settings and drops none"
    assert not [key for key in plain if "ssl" in key or "sasl" in key or "authorizer" in key]


@needs_openssl
def test_logins_are_made_once_and_only_their_owner_reads_them(tmp_path: Path) -> None:
    logins = Logins(tmp_path / "logins", ["agent-east"])
    logins.make()
    logins.write_files("127.0.0.1:1", {"kafka": {"topic_prefix": "t."}, "control": {"lease_ms": 15_000}})
    assert stat.S_IMODE(logins.folder.stat().st_mode) == 0o700
    secret = [file for file in logins.folder.iterdir() if file.suffix in (".password", ".yaml", ".properties")]
    secret += [logins.key_store, *logins.folder.glob("*.key.pem")]
    assert {stat.S_IMODE(file.stat().st_mode) for file in secret} == {0o600}
    before = {file.name: file.read_bytes() for file in logins.folder.glob("*.p*")}
    logins.make()
    assert {file.name: file.read_bytes() for file in logins.folder.glob("*.p*")} == before
    passwords = {user: logins.client(user)["sasl_plain_password"] for user in logins.users}
    assert len(set(passwords.values())) == len(passwords) == 7
    assert logins.scram_arguments()[0] == f"SCRAM-SHA-512=[name=admin,password={passwords['admin']}]"


@needs_openssl
def test_a_login_works_as_configuration_and_as_environment(tmp_path: Path) -> None:
    logins = Logins(tmp_path / "logins")
    logins.make()
    logins.write_files("127.0.0.1:1,127.0.0.1:2", {"kafka": {"topic_prefix": "t."}, "control": {"lease_ms": 15_000}})
    settings = load_settings(logins.folder / "agent.yaml", env={})
    assert (settings.kafka.bootstrap_servers, settings.kafka.topic_prefix) == ("127.0.0.1:1,127.0.0.1:2", "t.")
    assert settings.control.lease_ms == 15_000
    by_environment = load_settings(None, env=logins.environment("agent"))
    assert settings.kafka.client == by_environment.kafka.client
    check_client_settings(logins.client("agent"))
    lines = settings_of((logins.folder / "agent.properties").read_text())
    password = yaml.safe_load((logins.folder / "agent.yaml").read_text())["kafka"]["client"]["sasl_plain_password"]
    assert re.fullmatch(
        rf'\S+ScramLoginModule required username="agent" password="{password}";', lines["sasl.jaas.config"]
    )
    context = ssl.create_default_context(cafile=lines["ssl.truststore.location"])
    context.load_cert_chain(logins.key_store)  # key and certificate fit each other


def test_a_cluster_stays_what_it_is(tmp_path: Path) -> None:
    cluster = KafkaCluster(tmp_path / "kafka")
    assert not cluster.exists
    with pytest.raises(KafkaNotStarted, match="holds no Kafka cluster"):
        _ = cluster.bootstrap
    cluster.create(3, True, ["extra"])
    spec = cluster.spec
    assert (len(spec.nodes), spec.secure, spec.users) == (3, True, ("extra",))
    assert len({port for ports in spec.nodes for port in ports}) == 9
    cluster.create(3, True, ["extra"], spec.nodes[0].clients)
    assert cluster.spec == spec
    for nodes, secure, users, port in (
        (1, True, ["extra"], 0),
        (3, False, (), 0),
        (3, True, (), 0),
        (3, True, ["extra"], 1),
    ):
        with pytest.raises(ConfigError, match=r"holds another cluster, 3 nodes at .* with logins, users extra"):
            cluster.create(nodes, secure, users, port)
    write_spec(tmp_path / "other", spec)
    assert read_spec(tmp_path / "other") == spec


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ((2, True), "--nodes 2: give 1, 3 or 5, an odd number"),
        ((3, False, ["x"]), "--user x: there are users only with --secure"),
        ((3, True, ["a b"]), "--user 'a b': needed are 1 to 64 letters"),
        ((3, True, [], 65_534), "--port 65534: 3 nodes need 3 ports"),
    ],
)
def test_what_no_cluster_can_be(arguments: tuple[int, bool], why: str) -> None:
    with pytest.raises(BallastError, match=re.escape(why)):
        make_spec(*arguments)


def test_a_port_in_use_leaves_the_folder_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(SystemExit):
            main(["kafka", "up", "--nodes", "3", "--dir", str(tmp_path / "k"), "--port", str(port)])
    assert f"--port {port}: 127.0.0.1:{port} cannot be listened on" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("ran", [False, True])
def test_an_interrupted_start_leaves_no_kafka_and_says_so(
    ran: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`ran`: one that somebody else has started goes on."""
    program = ["sleep", "60"]
    folder = tmp_path / "a b"
    (folder / "data").mkdir(parents=True)
    (folder / "data" / "meta.properties").touch()
    monkeypatch.setattr(EmbeddedKafka, "_command", lambda *_: program)
    monkeypatch.setattr(EmbeddedKafka, "_wait_until_it_answers", lambda *_: None)
    if ran:
        EmbeddedKafka(folder).start()
    monkeypatch.setattr(EmbeddedKafka, "_wait_until_it_answers", MagicMock(side_effect=KeyboardInterrupt))
    with pytest.raises(SystemExit) as ended:
        main(["kafka", "up", "--dir", str(folder)])
    left = f"Kafka runs: `ballast kafka down --dir '{folder}'` stops it" if ran else "no Kafka runs"
    assert ended.value.code == 130
    assert capsys.readouterr().err.strip() == f"ballast: interrupted; {left}"
    assert EmbeddedKafka(folder).stop() is ran


def test_a_single_kafka_is_not_taken_for_a_cluster(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "server.properties").write_text("advertised.listeners=BROKER://127.0.0.1:1\n")
    with pytest.raises(SystemExit):
        main(["kafka", "up", "--nodes", "3", "--dir", str(tmp_path)])
    assert "holds a single Kafka without logins: give another --dir" in capsys.readouterr().err


def test_status_of_a_cluster_that_does_not_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    KafkaCluster(tmp_path).create(3, False)
    with pytest.raises(SystemExit) as ended:
        main(["kafka", "status", "--dir", str(tmp_path), "--json"])
    facts = json.loads(capsys.readouterr().out)
    assert ended.value.code == 1
    assert (facts["up"], facts["nodes"]) == (False, dict.fromkeys(("node-1", "node-2", "node-3"), "stopped"))
