"""What a process reads before it starts: who owns the topics, and who else says that it is this broker."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import given

from controller.agent.cluster.rivals import ClusterRivals, describe_holder
from controller.agent.session.rivals import Rivals, describe_rival
from controller.bus.topic_owner import Seen, TopicOwner, resolve
from controller.domain.errors import ConfigError
from tests.component.test_agent_watcher import Said
from tests.fuzz.hostile import records
from tests.fuzz.limits import bounded, check_error, fuzzing, read_or_refuse
from tests.fuzz.test_control_records import INFO, WHO

OWNER = TopicOwner("j1", "c1", "/tables", "running", 7, "host", 12, "0.2.0", 5)
OWNERS = [{"v": 1, "at": 0, **asdict(OWNER)}, {"v": 1, "at": 1, **asdict(OWNER)}]
PROCESS = {"host": "h", "pid": 7, "started_ms": 1_700_000_000_000}
BEATS = [{**WHO, "info": {**INFO, **PROCESS}}, {**WHO, "info": {**INFO, **PROCESS, "authority": "metadata"}}]


def owner_of(raw: bytes) -> Seen:
    """What a controller makes of a topic with this record."""
    return resolve([(0, raw)], 1)


@fuzzing(20, 10_000)
@given(records(OWNERS))
def test_an_owner_is_read_or_refused(raw: bytes) -> None:
    """It is never guessed: the controller does not start."""
    seen = read_or_refuse(owner_of, raw, ConfigError, len(raw))
    if seen is not None and seen.owner is not None:
        again = json.dumps({"v": 1, "at": 0, **asdict(seen.owner)}).encode()
        assert owner_of(again).owner == seen.owner
        check_error(seen.owner.text)


@fuzzing(20, 10_000)
@given(records(BEATS))
def test_a_rival_is_told_in_one_line(raw: bytes) -> None:
    rivals, of_cluster = Rivals("a:1", "other"), ClusterRivals("other")
    with bounded(4 * len(raw)):
        rivals.take([Said("t", raw), Said("t", raw + b" ")])  # another one that says the same
        of_cluster.take([Said("t", raw), Said("t", raw + b" ")])
    if rivals.living is not None:
        check_error(describe_rival(rivals.living))
    if of_cluster.living is not None:
        check_error(describe_holder(of_cluster.living))


@pytest.mark.parametrize("started_ms", [10**18, -(10**18), 2**52])
def test_a_rival_may_have_started_at_any_time(started_ms: int) -> None:
    """The year 30 million ended the agent that was to name its rival."""
    raw = json.dumps({**WHO, "info": {**PROCESS, "started_ms": started_ms}}).encode()
    rivals = Rivals("a:1", "other")
    rivals.take([Said("t", raw), Said("t", raw + b" ")])
    assert rivals.living is not None
    check_error(describe_rival(rivals.living))


@pytest.mark.parametrize(
    "changed", [{"tables": 5}, {"seq": "7"}, {"state": None}, {"journal_id": ["j"]}, {"host": "x" * 9_000}]
)
def test_an_owner_of_other_types_is_not_understood(changed: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="does not understand") as refused:
        owner_of(json.dumps({**OWNERS[0], **changed}).encode())
    check_error(refused.value)
