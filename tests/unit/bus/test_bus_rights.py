"""What each principal may do, as ACLs: enough for its work, and nothing of others'."""

from __future__ import annotations

import re
import shlex

import pytest

from controller.bus.acls import Grant, command_lines, principal_of
from controller.bus.rights import SPARK_GROUPS, Operation, Right, Role, all_topics, rights_of
from controller.bus.topics import TopicNames, live_topics
from controller.cli.run.kafka_acls import agent_grants
from controller.domain.errors import ConfigError
from controller.domain.settings.agent_groups import AgentGroups
from controller.process.paths import CODE

PLAIN = TopicNames("x.")
GROUPED = TopicNames("x.", AgentGroups((("east", ("a",)), ("west", ("b",)))))
READ, WRITE, CREATE = Operation.READ, Operation.WRITE, Operation.CREATE
WORDS = {READ: "read", WRITE: "write", CREATE: "create", Operation.DESCRIBE: "describe"}


def allowed(role: Role, operation: Operation, names: TopicNames = PLAIN, group: str = "") -> set[str]:
    """The topics on which the role may do it, without their prefix."""
    rights = rights_of(role, names, group)
    return {right.name.removeprefix("x.") for right in rights if operation in right.operations and not right.groups}


def test_every_topic_of_a_cluster_is_known() -> None:
    for names in (PLAIN, GROUPED):
        assert sorted(all_topics(names)) == sorted(spec.name for spec in live_topics(names))
        for role in Role:
            topics = [right.name for right in rights_of(role, names) if not right.groups]
            assert len(topics) == len(set(topics)), "each topic once"
            assert set(topics) <= set(all_topics(names))


def test_who_may_write_what() -> None:
    """A topic that two roles write has records that the reader tells apart by what is in them."""
    assert allowed(Role.AGENT, WRITE) == {"load-reports", "heartbeats", "broker-events", "assign-requests"}
    assert allowed(Role.CONTROLLER, WRITE) == {"heartbeats", "journal-feed", "owner"}
    assert allowed(Role.OPERATOR, WRITE) == {"commands"}
    assert allowed(Role.VIEWER, WRITE) == set()


def test_who_may_read_what() -> None:
    assert allowed(Role.AGENT, READ) == {"heartbeats", "broker-events", "journal-feed"}
    assert allowed(Role.CONTROLLER, READ) == {topic.removeprefix("x.") for topic in all_topics(PLAIN)}
    assert allowed(Role.OPERATOR, READ) == allowed(Role.VIEWER, READ) == {"heartbeats", "journal-feed", "owner"}


def test_only_the_controller_creates_topics_and_names_consumer_groups() -> None:
    assert [role for role in Role if allowed(role, CREATE)] == [Role.CONTROLLER]
    assert allowed(Role.CONTROLLER, CREATE) == {topic.removeprefix("x.") for topic in all_topics(PLAIN)}
    assert [(role, right) for role in Role for right in rights_of(role, PLAIN) if right.groups] == [
        (Role.CONTROLLER, Right(SPARK_GROUPS, (READ,), groups=True))
    ]


def test_an_agent_of_a_group_writes_to_its_groups_topics_alone_and_hears_all() -> None:
    writes = allowed(Role.AGENT, WRITE, GROUPED, "east")
    assert writes == {"load-reports.east", "heartbeats.east", "broker-events.east", "assign-requests"}
    suffixes = ("", ".east", ".west")
    heard = {f"{base}{suffix}" for base in ("heartbeats", "broker-events") for suffix in suffixes}
    assert allowed(Role.AGENT, READ, GROUPED, "east") == {*heard, "journal-feed"}
    assert allowed(Role.CONTROLLER, WRITE, GROUPED) == {
        "heartbeats", "heartbeats.east", "heartbeats.west", "journal-feed", "owner",
    }  # fmt: skip


def test_the_lines_are_what_kafkas_tool_takes() -> None:
    grants = [
        Grant("User:agent", Right("x.heartbeats", (READ, WRITE))),
        Grant("User:CN=job,O=shop", Right(SPARK_GROUPS, (READ,), groups=True)),
    ]
    begin = "kafka-acls --bootstrap-server k1:9092 --command-config admin.properties --add --allow-principal"
    assert list(command_lines(grants, "k1:9092", "admin.properties")) == [
        f"{begin} User:agent --operation Read --operation Write --topic x.heartbeats",
        f"{begin} User:CN=job,O=shop --operation Read --group spark-kafka-source --resource-pattern-type prefixed",
    ]
    (line,) = command_lines([Grant("User:two words", Right("t", (READ,)))], "k:1", "c")
    assert shlex.split(line)[7] == "User:two words"


@pytest.mark.parametrize(("given", "principal"), [("agent", "User:agent"), ("User:CN=a,O=b", "User:CN=a,O=b")])
def test_principals_are_users(given: str, principal: str) -> None:
    assert principal_of(given) == principal


def test_agents_are_named_with_their_group() -> None:
    def writers(*given: str) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for principal, right in agent_grants(given, GROUPED):
            if WRITE in right.operations and "heartbeats" in right.name:
                found.setdefault(principal, set()).add(right.name)
        return found

    assert writers("east=e", "west=User:CN=w,O=x", "rest") == {
        "User:e": {"x.heartbeats.east"},
        "User:CN=w,O=x": {"x.heartbeats.west"},
        "User:rest": {"x.heartbeats"},
    }
    assert writers("CN=agent,O=shop") == {"User:CN=agent,O=shop": {"x.heartbeats"}}
    for wrong, why in (("north=a", r"is no group of kafka.agent_groups \(east, west\)"), ("east=", "give a principal")):
        with pytest.raises(ConfigError, match=why):
            list(agent_grants([wrong], GROUPED))


def test_the_page_on_security_has_this_table() -> None:
    """Rows are topics, columns roles; DESCRIBE_CONFIGS, which all but agents have on every topic, stands below it."""
    page = (CODE / "docs" / "security.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([a-z-]+)` \| ([^|]*) \| ([^|]*) \| ([^|]*) \| ([^|]*) \|$", page, re.MULTILINE)
    stated = {topic: dict(zip(Role, cells, strict=True)) for topic, *cells in rows if topic in all_topics(TopicNames())}
    assert set(stated) == set(all_topics(TopicNames()))
    for role in Role:
        found = {right.name: right.operations for right in rights_of(role, TopicNames()) if not right.groups}
        for topic, cells in stated.items():
            words = ", ".join(WORDS[o] for o in found.get(topic, ()) if o in WORDS and o is not CREATE) or "–"
            assert cells[role] == words, (topic, role)
        configs = {topic for topic, operations in found.items() if Operation.DESCRIBE_CONFIGS in operations}
        assert configs == (set() if role is Role.AGENT else set(stated))
