"""A right that is missing in Kafka is told in one line, whichever client was refused."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer
from kafka.errors import (
    ClusterAuthorizationFailedError,
    GroupAuthorizationFailedError,
    KafkaError,
    KafkaTimeoutError,
    TopicAuthorizationFailedError,
)

from controller.bus import cluster, consumer, reach, scan, topic_owner
from controller.bus.consumer import TopicReader
from controller.bus.failures import (
    READ,
    WRITE,
    NoRight,
    describe_refusal,
    describe_refusal_in_spark,
    principal_of_client,
)
from controller.bus.reach import SourceSettings
from controller.bus.topic_owner import OwnerTopic, Seen, TopicOwner
from controller.cli.options import report_errors
from controller.config.load import load_settings
from controller.operations import operator
from controller.operations.operator import Operator

LOGIN = {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", "sasl_plain_username": "dash",
         "sasl_plain_password": "x"}  # fmt: skip
WHO_TELLS = "`ballast kafka acls` prints the ACLs that each role needs (docs/security.md#kafka)"
ANSWER = "Request 'CreateTopicsRequest_v7(…)' failed with response 'CreateTopicsResponse_v7(…)'."


def refused(right: str, what: str) -> str:
    return f"Kafka refuses it: User:dash (kafka.client) lacks {right} on {what}: {WHO_TELLS}"


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (TopicAuthorizationFailedError({"b", "a"}), refused("the right Read", "topic a, b")),
        (TopicAuthorizationFailedError("heartbeats"), refused("the right Read", "topic heartbeats")),
        (TopicAuthorizationFailedError(ANSWER), refused("the right Read", "topic owner")),
        (GroupAuthorizationFailedError("readers"), refused("the right Read", "group readers")),
        (ClusterAuthorizationFailedError("not authorized to do idempotent sends"), refused("a right", "the cluster")),
        (KafkaTimeoutError("late"), ""),
    ],
)
def test_a_refusal_is_told_with_who_lacks_which_right_on_what(error: Exception, told: str) -> None:
    assert describe_refusal(error, LOGIN, READ, "owner") == told


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("TopicAuthorizationException: Not authorized to access topics: [a, b]\n at", ("the right Read", "topic a, b")),
        (
            "x.GroupAuthorizationException: Not authorized to access group: g-1 SQLSTATE: X",
            ("the right Read", "group g-1"),
        ),
        (
            "ExecutionException: x.TopicAuthorizationException: Topic authorization failed.",
            ("the right Read", "a topic"),
        ),
        ("terminated with exception: Not authorized to access topics: [a]", ("the right Read", "topic a")),
        ("ClusterAuthorizationException: Cluster authorization failed.", ("a right", "the cluster")),
        ("kafka.errors.TopicAuthorizationFailedError: [Error 29]", ("the right Read", "a topic")),
    ],
)
def test_what_spark_says_of_a_refusal_is_understood(text: str, told: tuple[str, str]) -> None:
    assert describe_refusal_in_spark(f"a stack\nCaused by: {text}", LOGIN) == refused(*told)
    assert describe_refusal_in_spark("a stack of something else", LOGIN) == ""


def test_the_principal_is_named_as_far_as_it_is_known() -> None:
    assert principal_of_client({}) == "User:ANONYMOUS"
    assert principal_of_client(LOGIN) == "User:dash"
    certificate = {"security_protocol": "SSL", "ssl_certfile": "/etc/client.pem"}
    assert principal_of_client(certificate) == "the owner of the certificate /etc/client.pem"


def test_a_producer_that_may_write_nothing_is_told_which_topic_it_may_not_write() -> None:
    """Kafka refuses to give it an id, as if it were the cluster that it must not use."""
    error = KafkaError("Unexpected error in InitProducerIdResponse: [Error 31] ClusterAuthorizationFailedError")
    assert describe_refusal(error, LOGIN, WRITE, "commands") == refused("the right Write", "topic commands")


class Refusing:
    """A client of the library that may see the topic and nothing else."""

    def __init__(self, **_: Any) -> None:
        self.closed = False

    def partitions_for_topic(self, topic: str) -> set[int]:
        return {0}

    def assign(self, partitions: list[Any]) -> None:
        pass

    def end_offsets(self, partitions: list[Any]) -> dict[Any, int]:
        raise TopicAuthorizationFailedError({each.topic for each in partitions})

    beginning_offsets = end_offsets

    def describe_topics(self, names: list[str]) -> list[dict[str, Any]]:
        return [{"name": name, "error_code": TopicAuthorizationFailedError.errno} for name in names]

    def describe_cluster(self) -> None:
        raise ClusterAuthorizationFailedError

    def close(self) -> None:
        self.closed = True


def ways() -> dict[str, Callable[[], object]]:
    """Every way on which a process asks Kafka."""
    return {
        "newest": lambda: scan.read_newest("k:1", "owner", LOGIN, timeout_ms=1),
        "scan": lambda: scan.scan("k:1", "owner", lambda offset, value: None, LOGIN),
        "reach": lambda: reach.read_reach(SourceSettings("k:1", ("owner",), LOGIN)),
        "reader": lambda: TopicReader("k:1", ["owner"], lambda batch: None, settings=LOGIN).start(),
    }


@pytest.mark.parametrize("way", ways())
def test_every_way_to_read_tells_it(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (scan, reach, consumer):
        monkeypatch.setattr(module, "open_consumer", lambda *words, **options: Refusing())
    with pytest.raises(NoRight) as caught:
        ways()[way]()
    assert str(caught.value) == refused("the right Read", "topic owner")


class Blind(Refusing):
    """One that does not even see the topic."""

    def partitions_for_topic(self, topic: str) -> set[int]:
        return set()


@pytest.mark.parametrize("exists", [True, False])
def test_a_topic_that_a_login_may_not_see_is_not_taken_for_missing(
    exists: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan, "open_consumer", lambda *words, **options: Blind())
    monkeypatch.setattr(cluster, "KafkaAdminClient", Refusing)
    if exists:
        with pytest.raises(NoRight) as caught:
            ways()["newest"]()
        assert str(caught.value) == refused("the right Read", "topic owner")
    else:
        monkeypatch.setattr(Refusing, "describe_topics", lambda admin, names: [{"name": names[0], "error_code": 3}])
        assert ways()["newest"]() is None


def test_an_admin_that_is_refused_tells_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "KafkaAdminClient", Refusing)
    with pytest.raises(NoRight) as caught:
        cluster.cluster_id("k:1", LOGIN)
    assert str(caught.value) == refused("a right", "the cluster")


class RefusedProducer:
    """A producer whose records Kafka refuses."""

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def send(self, topic: str, *_: object, **__: object) -> Future[tuple[int, int]]:
        sent: Future[tuple[int, int]] = Future()
        sent.set_exception(TopicAuthorizationFailedError({topic}))
        return sent

    def flush(self) -> None:
        pass

    close = flush


def test_a_command_that_may_not_be_sent_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operator, "JsonProducer", RefusedProducer)
    monkeypatch.setattr(operator, "Follower", lambda root: SimpleNamespace(
        bootstrap=lambda: None, state=SimpleNamespace(journal_id="j")))  # fmt: skip
    env = {f"BALLAST_KAFKA__CLIENT__{name.upper()}": value for name, value in LOGIN.items()}
    settings = load_settings(None, overrides=[f"tables.root={tmp_path}"], env=env)
    with Operator(settings) as sending, pytest.raises(NoRight) as caught:
        sending.send("round_now", {}, command_id="c1")
    assert str(caught.value) == f"command c1 was not sent: {refused('the right Write', 'topic commands')}"


def test_an_owner_that_may_not_be_written_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_owner, "JsonProducer", RefusedProducer)
    owner = TopicOwner("j", "i", "tables", "running", 1)
    with pytest.raises(NoRight) as caught:
        OwnerTopic("k:1", "owner", LOGIN).write(owner, Seen(None, True, 0), lambda other: True)
    assert str(caught.value) == refused("the right Write", "topic owner")


def test_what_kafkas_client_raises_in_a_command_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    @report_errors
    def command() -> None:
        raise KafkaTimeoutError("no answer in 3 s")

    with pytest.raises(typer.Exit) as ended:
        command()
    assert (ended.value.exit_code, capsys.readouterr().err) == (1, "ballast: KafkaTimeoutError: no answer in 3 s\n")


@pytest.mark.parametrize("text", ["Bootstrap failed: %s", "Connection failed", "Connection lost"])
def test_the_client_library_does_not_log_every_attempt(text: str, caplog: pytest.LogCaptureFixture) -> None:
    """Whoever needed the connection says once that there is none."""
    logging.getLogger("kafka.net.manager").error(text, "no")
    assert not caplog.records
    logging.getLogger("kafka.net.manager").error("the cluster has no brokers")
    assert len(caplog.records) == 1
