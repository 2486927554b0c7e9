"""`kafka.agent_groups`: which brokers a group has, and what is refused."""

from __future__ import annotations

import re

import pytest

from controller.config.load import load_settings
from controller.config.policy_values import control_settings
from controller.domain.errors import ConfigError
from controller.domain.settings.agent_groups import AgentGroups

GROUPS = AgentGroups.of_mapping({"east": ["east-*", "b7:8080"], "west": ["*.west.example.com", "b7", "[::1]:9"]})


@pytest.mark.parametrize(
    ("broker", "group"),
    [
        ("east-1:8080", "east"),
        ("east-1", "east"),
        ("north-east-1:8080", ""),
        ("b7:8080", "east"),  # the first group that names it
        ("b7:8081", "west"),
        ("b70:8080", ""),
        ("x.west.example.com:1", "west"),
        ("xwestexampleXcom:1", ""),  # a dot is a dot
        ("[::1]:9", "west"),
        ("[::1]:8", ""),
    ],
)
def test_a_broker_is_in_the_first_group_that_names_it(broker: str, group: str) -> None:
    assert GROUPS.of(broker) == group


def test_every_layer_can_give_groups() -> None:
    given = {"BALLAST_KAFKA__AGENT_GROUPS": "{east: ['a:1']}"}
    settings = load_settings(None, overrides=["kafka.agent_groups.west=b,c"], env=given)
    assert settings.kafka.topics.groups == AgentGroups((("east", ("a:1",)), ("west", ("b", "c"))))
    assert control_settings(settings).agent_groups == settings.kafka.topics.groups
    assert settings.kafka.topics.of_broker("b:1").heartbeats == "heartbeats.west"
    assert settings.kafka.topics.of_broker("x:1").heartbeats == "heartbeats"


@pytest.mark.parametrize(
    ("groups", "why"),
    [
        ("{East: [a]}", "kafka.agent_groups (override): group 'East': needed are 1 to 63 lower-case letters"),
        ("{east: []}", "group east names no broker: list broker ids"),
        ("{east: ['a b']}", "group east: 'a b' is no broker id (host:port), no host, and no pattern"),
        ("{east: [a], west: [a]}", "a is in two groups, east and west: keep it in one"),
        ("[a]", "kafka.agent_groups = [a] in override is not allowed: give names of lower-case letters"),
    ],
)
def test_what_is_refused(groups: str, why: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(why)):
        load_settings(None, overrides=[f"kafka.agent_groups={groups}"], env={})
