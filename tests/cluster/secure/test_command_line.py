"""`ballast kafka` as a person uses it: up, with logins in files, rights for a new principal, down."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from controller.bus.producer import JsonProducer
from controller.bus.topics import TopicNames, describe_topics, live_topics
from controller.config.load import load_settings
from controller.testbed.kafka_cluster.cluster import KafkaCluster

NAMES = TopicNames("cli.")


def ballast(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "controller.cli.main", "kafka", *words], capture_output=True, text=True, timeout=300
    )


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_a_secure_kafka_from_the_command_line(short_lived_jvms: None, tmp_path: Path) -> None:
    folder = tmp_path / "kafka"
    try:
        up = ballast("up", "--secure", "--user", "newcomer", "--prefix", NAMES.prefix, "--dir", str(folder), "--json")
        assert up.returncode == 0, up.stderr
        facts = json.loads(up.stdout)
        assert (facts["up"], facts["nodes"]) == (True, {"node-1": "running"})
        again = ballast("up", "--prefix", NAMES.prefix, "--dir", str(folder), "--json")
        assert json.loads(again.stdout) == facts, "without options, what is there is started"

        logins = Path(facts["logins"])
        viewer = load_settings(logins / "viewer.yaml", env={}).kafka
        assert viewer.topics == NAMES
        seen = describe_topics(viewer.bootstrap_servers, [s.name for s in live_topics(NAMES)], viewer.client)
        assert len(seen) == len(live_topics(NAMES))
        passwords = {file.read_text() for file in logins.glob("*.password")}
        said = up.stdout + up.stderr + "".join(f.read_text(errors="replace") for f in folder.glob("node-1/kafka.*"))
        assert not [password for password in passwords if password in said]

        newcomer = load_settings(logins / "newcomer.yaml", env={}).kafka
        assert not describe_topics(newcomer.bootstrap_servers, [NAMES.commands], newcomer.client)
        given = ballast("acls", "--operator", "newcomer", "--apply", "--conf", str(logins / "admin.yaml"))
        assert given.returncode == 0, given.stderr
        producer = JsonProducer(newcomer.bootstrap_servers, "newcomer", newcomer.client)
        assert producer.send(NAMES.commands, {"v": 1}).exception(60) is None
        producer.close()
        refused = ballast("acls", "--agent", "newcomer", "--apply", "--conf", str(logins / "newcomer.yaml"))
        assert (refused.returncode, refused.stderr.count("\n")) == (1, 1)
        assert "needs ALTER on the cluster, or to be a super user" in refused.stderr
        lines = ballast("acls", "--viewer", "dash", "--conf", str(logins / "viewer.yaml")).stdout.splitlines()
        assert len(lines) == len(live_topics(NAMES))
        assert all(line.startswith("kafka-acls --bootstrap-server 127.0.0.1:") for line in lines)
    finally:
        KafkaCluster(folder).stop()
    assert ballast("status", "--dir", str(folder)).returncode == 1
