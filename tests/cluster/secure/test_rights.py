"""Kafka's own answer to every principal, topic and operation: as the table of rights says, and not more."""

from __future__ import annotations

import shlex
import subprocess
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kafka import TopicPartition
from kafka.errors import TopicAuthorizationFailedError

from controller.bus.acls import AclsRefused, Grant, apply_acls, command_lines, principal_of
from controller.bus.cluster import KafkaUnavailable, admin_client, cluster_id, open_consumer
from controller.bus.producer import JsonProducer
from controller.bus.rights import Operation, Role, all_topics, rights_of
from controller.bus.topic_owner import OwnerTopic, TopicOwner, newest_owner
from controller.bus.topics import TopicNames, describe_topics, ensure_topics, live_topics
from controller.domain.settings.agent_groups import AgentGroups
from controller.operations.liveness import last_word
from controller.testbed.kafka import TOOL_JVM, kafka_command
from controller.testbed.kafka_cluster.cluster import KafkaCluster
from controller.testbed.kafka_cluster.logins import ADMIN, CLIENT
from tests.cluster.secure.acls_in_force import listed_for, put_in_force, wait_until_in_force
from tests.cluster.secure.conftest import EAST, WEST

GROUPED = TopicNames("swept.", AgentGroups((("east", ("broker-1",)), ("west", ("broker-2",)))))
READ_S = 15.0
ACL_TOOL = "kafka.admin.AclCommand"  # what the script kafka-acls runs
READ, WRITE = Operation.READ, Operation.WRITE


def grants_of(principals: Iterable[tuple[str, Role, str]], names: TopicNames) -> list[Grant]:
    """(user, role, agent group) -> what they may do."""
    return [
        Grant(principal_of(user), right) for user, role, group in principals for right in rights_of(role, names, group)
    ]


@pytest.fixture(scope="module")
def swept() -> list[tuple[str, Role | None, str]]:
    """Every user, with its role and group."""
    plain = [(role.value, role, "") for role in Role]
    return [*plain, (EAST, Role.AGENT, "east"), (WEST, Role.AGENT, "west"), (CLIENT, None, "")]


def test_every_principal_may_read_and_write_what_the_table_says_and_nothing_else(
    secured: KafkaCluster, swept: list[tuple[str, Role | None, str]]
) -> None:
    ensure_topics(secured.bootstrap, [replace(s, partitions=1) for s in live_topics(GROUPED)], secured.client(ADMIN))
    _write(secured, ADMIN)
    known = [(user, role, group) for user, role, group in swept if role is not None]
    put_in_force(secured, grants_of(known, GROUPED))
    put_in_force(secured, grants_of(known, GROUPED))  # a second time changes nothing
    for user, role, group in swept:
        rights = {} if role is None else {r.name: r.operations for r in rights_of(role, GROUPED, group)}
        stated = {topic: [o for o in rights.get(topic, ()) if o in (READ, WRITE)] for topic in all_topics(GROUPED)}
        read, written = _read(secured, user), _write(secured, user)
        found = {t: [*[READ] * (t in read), *[WRITE] * (t in written)] for t in all_topics(GROUPED)}
        assert found == stated, user


def _write(kafka: KafkaCluster, user: str) -> set[str]:
    """The topics that took a record of the user; from all others it was told that it may not."""
    producer = JsonProducer(kafka.bootstrap, "probe", kafka.client(user), idempotent=False)
    try:
        sent = {topic: producer.send(topic, {"probe": user}, key=user) for topic in all_topics(GROUPED)}
        answers = {topic: answer.exception(60) for topic, answer in sent.items()}
    finally:
        producer.close()
    strange = {t: e for t, e in answers.items() if e is not None and not isinstance(e, TopicAuthorizationFailedError)}
    assert strange == {}, user
    return {topic for topic, error in answers.items() if error is None}


def _read(kafka: KafkaCluster, user: str) -> set[str]:
    """The topics of which the user got a record."""
    consumer = open_consumer(kafka.bootstrap, "probe", kafka.client(user), 30_000, auto_offset_reset="earliest")
    try:
        return {topic for topic in all_topics(GROUPED) if _reads(consumer, topic)}
    finally:
        consumer.close()


def _reads(consumer: Any, topic: str) -> bool:
    place = TopicPartition(topic, 0)
    if not consumer.partitions_for_topic(topic):
        return False  # it does not even learn that there is such a topic
    deadline = time.monotonic() + READ_S
    try:
        consumer.assign([place])
        consumer.seek(place, 0)
        while time.monotonic() < deadline:
            if consumer.poll(timeout_ms=500):
                return True
    except TopicAuthorizationFailedError:
        return False
    raise AssertionError(f"{topic}: neither a record nor a refusal")


def test_each_principal_does_its_work_with_its_rights(secured: KafkaCluster) -> None:
    """With the functions that job, command line and page call: idempotent producers, the owner's record, facts."""
    names, bootstrap = TopicNames("work."), secured.bootstrap
    put_in_force(secured, grants_of([(role.value, role, "") for role in Role], names))
    job = secured.client(Role.CONTROLLER.value)
    facts = ensure_topics(bootstrap, live_topics(names), job)
    assert {(f.replication_factor, f.min_insync_replicas) for f in facts.values()} == {(3, 2)}
    topic = OwnerTopic(bootstrap, names.owner, job)
    owner = TopicOwner("journal", "instance", "tables", "running", 1)
    assert topic.write(owner, topic.read(), lambda other: True) == owner
    _send(secured, Role.CONTROLLER, names.journal_feed, {"v": 1, "instance": "i", "seq": 1})
    _send(secured, Role.OPERATOR, names.commands, {"v": 1})
    for role in (Role.OPERATOR, Role.VIEWER):
        client = secured.client(role.value)
        assert set(describe_topics(bootstrap, facts, client)) == set(facts)
        assert newest_owner(bootstrap, names.owner, client, 10_000) == owner
        heard = last_word(bootstrap, client, names, 10_000)
        assert heard is not None
        assert heard.instance == "i"


def _send(kafka: KafkaCluster, role: Role, topic: str, value: dict[str, object]) -> None:
    producer = JsonProducer(kafka.bootstrap, "work", kafka.client(role.value))
    try:
        assert producer.send(topic, value).exception(60) is None
    finally:
        producer.close()


def test_kafkas_own_tool_takes_the_lines_that_are_printed(secured: KafkaCluster, tmp_path: Path) -> None:
    """One after the other, as an operator pastes them: then the principals may do what `--apply` lets them do."""
    told, made = ["told", "CN=told,O=shop"], ["made", "CN=made,O=shop"]
    secured.prepare(TopicNames("tool."), [])
    admin = secured.folder / "logins" / f"{ADMIN}.properties"
    for line in command_lines(_job_and_agent(told), secured.bootstrap, str(admin)):
        program, *words = shlex.split(line)
        assert program == "kafka-acls"
        tool = subprocess.run(
            kafka_command(tmp_path, TOOL_JVM, ACL_TOOL, *words), capture_output=True, text=True, check=False
        )
        assert tool.returncode == 0, tool.stdout + tool.stderr
        assert "Error" not in tool.stdout, tool.stdout
    wait_until_in_force(secured, _job_and_agent(told))
    put_in_force(secured, _job_and_agent(made))
    with admin_client(secured.bootstrap, secured.client(ADMIN)) as asking:
        for one, other in zip(told, made, strict=True):
            given = listed_for(asking, principal_of(one))
            assert given
            assert given == listed_for(asking, principal_of(other))


def _job_and_agent(users: list[str]) -> list[Grant]:
    return grants_of([(users[0], Role.CONTROLLER, ""), (users[1], Role.AGENT, "")], TopicNames("tool."))


def test_who_may_not_change_rights_is_told(secured: KafkaCluster) -> None:
    grants = grants_of([("operator", Role.CONTROLLER, "")], TopicNames("stolen."))
    with pytest.raises(AclsRefused, match=r"does not take the ACLs \(.*ClusterAuthorizationFailed"):
        apply_acls(secured.bootstrap, grants, secured.client("operator"))


def test_nobody_comes_in_with_another_password_or_without_tls(secured: KafkaCluster) -> None:
    login = secured.client("agent")
    for wrong in ({"sasl_plain_password": "wrong"}, {"security_protocol": "SASL_PLAINTEXT"}):
        with pytest.raises(KafkaUnavailable):
            cluster_id(secured.bootstrap, {**login, **wrong}, timeout_ms=5_000)
    with pytest.raises(KafkaUnavailable):
        cluster_id(secured.bootstrap, timeout_ms=5_000)
