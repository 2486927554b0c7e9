"""Cases of the state channel whose steps are sentences. They are played on the channel model and answered in its words.

A step that matches none of the rules below is an error; none is ignored. Every answer comes from the model after the
step that the case asks about.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.conformance.values import BadCase
from controller.domain.settings.pulsar import PulsarKnobs
from controller.pulsar.channel.lookup import Answer, after_waiting
from controller.pulsar.channel.protocol import Channel, child_name, halves
from controller.pulsar.channel.states import ServiceUnitState, ServiceUnitStateData

BUNDLE = "tenant/namespace/0x00000000_0xffffffff"
HERE, THERE = "broker1", "broker2"
CLEANUPS = ("inactive_broker_cleanup", "orphan_su_cleanup", "su_tombstone_cleanup", "scheduled")
S = ServiceUnitState
Rule = tuple[str, Callable[["Story", re.Match[str]], None]]


def play(steps: Sequence[str], knobs: PulsarKnobs | None = None) -> dict[str, Any]:
    """Play the steps and return everything observed. Raises BadCase for a step that matches no rule."""
    story = Story(knobs or PulsarKnobs())
    for step in steps:
        for pattern, rule in RULES:
            found = re.fullmatch(pattern, step)
            if found:
                rule(story, found)
                break
        else:
            raise BadCase(f"step {step!r} is not understood")
    story.finish()
    return story.seen


class Story:
    """Two brokers and one bundle. `seen` collects all that the case may ask about."""

    def __init__(self, knobs: PulsarKnobs) -> None:
        self.knobs = knobs
        self.channel = Channel((HERE, THERE), knobs)
        self.seen: dict[str, Any] = {}
        self.planned_split: tuple[str, str] | None = None
        self.owners: list[str | None] = []

    def owner(self, asked: str = HERE) -> str | None:
        """The bundle's owner according to this broker."""
        return self.channel.look_up(BUNDLE, asked).broker

    def assign(self, broker: str) -> None:
        """Assign the bundle to the broker by a lookup on it."""
        sent = self.channel.assign(broker, BUNDLE, broker)
        self.seen[f"{broker}_future"] = "succeeded" if sent else "failed"
        self.channel.settle()
        if sent:
            self.owners.append(self.owner())

    def finish(self) -> None:
        """Carry out what waited for the last step, and observe the end."""
        if self.planned_split is not None:
            self._split(self.planned_split)
        channel = self.channel
        looked_up = channel.lookups.copy()
        self.seen["owner"] = self.owner()
        self.seen["same_owner_seen_by_both"] = self.seen["owner"] == self.owner(THERE)
        pending = channel.state(BUNDLE) in (S.ASSIGNING, S.RELEASING)  # a lookup waits while the bundle is in flight
        self.seen["pending_owner_requests"] = int(pending)
        self.seen["handled_events"] = dict(channel.handled)
        for broker in (HERE, THERE):
            counted = {event: n for (who, event), n in channel.published.items() if who == broker}
            self.seen[f"published_events_on_{broker}"] = counted
        if len(self.owners) > 1:
            self.seen["second_owner"] = self.owners[1]
        if channel.cleanups:
            self.seen["counters"] = {name: channel.cleanups[name] for name in CLEANUPS}
        if looked_up:
            self.seen["owner_lookup_total"] = dict(looked_up)

    def _split(self, children: tuple[str, str]) -> None:
        channel = self.channel
        channel.split(HERE, BUNDLE, children)
        channel.settle()
        owners = {channel.look_up(child_name(BUNDLE, child), HERE).broker for child in children}
        self.seen["children_owner"] = owners.pop() if len(owners) == 1 else sorted(map(str, owners))
        self.seen["parent_state"] = channel.state(BUNDLE).value
        self.seen["attempts"] = channel.split_attempts


def _concurrent_assigns(story: Story, found: re.Match[str]) -> None:
    for broker in (found[1], found[2]):
        story.channel.assign(broker, BUNDLE, broker)
    story.channel.settle()


def _failing_assign(story: Story, found: re.Match[str]) -> None:
    story.channel.mute.add(found[1])
    story.assign(found[1])
    story.channel.mute.clear()


def _assign(story: Story, found: re.Match[str]) -> None:
    story.assign(found[1])


def _unload_to(story: Story, found: re.Match[str]) -> None:
    story.channel.unload(found[1], BUNDLE, found[2])
    story.channel.settle()


def _unload(story: Story, found: re.Match[str]) -> None:
    story.channel.unload(HERE, BUNDLE)
    story.channel.settle()
    state = story.channel.state(BUNDLE)
    story.seen["after_unload"] = state.value
    story.seen[f"lookup_when_{state.value}"] = story.owner()


def _monitor_after_tombstone_delay(story: Story, found: re.Match[str]) -> None:
    delay_s = story.channel.knobs.load_balancer_service_unit_state_tombstone_delay_time_in_seconds
    story.channel.now_ms += delay_s * 1_000 + 1
    story.channel.run_monitor()
    state = story.channel.state(BUNDLE)
    story.seen["after_monitor"] = "Init (tombstoned)" if BUNDLE not in story.channel.entries else state.value


def _plan_split(story: Story, found: re.Match[str]) -> None:
    story.planned_split = halves(BUNDLE)


def _bad_versions(story: Story, found: re.Match[str]) -> None:
    story.channel.bad_versions = {"one": 1, "two": 2, "three": 3, "seven": 7}.get(found[1] or "one", 0)


def _transfer_to_mute(story: Story, found: re.Match[str]) -> None:
    """Transfer to a target that cannot answer; then the leader's monitor runs."""
    channel = story.channel
    channel.mute.add(found[1])
    channel.unload(HERE, BUNDLE, found[1])
    channel.settle()
    for broker in (HERE, THERE):
        answer = channel.look_up(BUNDLE, broker)
        if answer.answer is not Answer.PENDING:
            story.seen[f"lookup_on_{broker}"] = f"returns {answer.broker} immediately"
            continue
        later = after_waiting(channel.entries.get(BUNDLE), channel.active)
        outcome = "fails" if later.answer is Answer.ERROR else f"returns {later.broker}"
        story.seen[f"lookup_on_{broker}"] = f"pends then {outcome} after inFlightStateWaitingTimeInMillis"
    stuck = channel.entries[BUNDLE]
    channel.now_ms += channel.knobs.load_balancer_in_flight_service_unit_state_waiting_time_in_millis + 1
    channel.run_monitor()
    done = "leader reassigns" if channel.entries[BUNDLE] != stuck else "nothing"
    story.seen["after_monitor"] = f"{done}; owner {story.owner()}"


def _owner_not_registered(story: Story, found: re.Match[str]) -> None:
    """Look up a bundle whose owner runs but is not registered, then run the leader's cleanup."""
    owner = found[1]
    channel = _with_lost_owner(owner, story.knobs)
    answer = channel.look_up(BUNDLE, HERE)
    later = after_waiting(channel.entries.get(BUNDLE), channel.active)
    waits = answer.answer is Answer.PENDING and later.answer is Answer.ERROR
    failure = "fails with IllegalStateException after inFlightStateWaitingTime"
    story.seen["lookup"] = failure if waits else f"returns {answer.broker}"
    channel.active.discard(HERE)
    unchecked = channel.look_up(BUNDLE, HERE)
    story.seen["when_this_broker_not_registered"] = (
        f"returns {unchecked.broker} immediately without activeness check"
        if unchecked.answer is Answer.OWNER
        else unchecked.answer.value
    )
    channel.clean_up(owner)  # no registered broker could take the bundle
    gone = channel.look_up(BUNDLE, HERE).answer is Answer.NOBODY
    story.seen["after_leader_cleanup_no_broker"] = f"{'empty' if gone else 'owned'} ({channel.state(BUNDLE).value})"
    again = _with_lost_owner(owner, story.knobs)
    again.clean_up(owner)
    story.seen[f"after_leader_cleanup_with_{HERE}"] = again.look_up(BUNDLE, HERE).broker


def _with_lost_owner(owner: str, knobs: PulsarKnobs) -> Channel:
    channel = Channel((HERE, THERE), knobs)
    channel.entries[BUNDLE] = ServiceUnitStateData(S.OWNED, owner)
    channel.active.discard(owner)
    return channel


def _lookups(story: Story, found: re.Match[str]) -> None:
    """Look up a bundle in this state the given number of times."""
    state = S(found[2])
    story.channel.entries.pop(BUNDLE, None)
    if state is not S.INIT:
        story.channel.entries[BUNDLE] = ServiceUnitStateData(state, HERE)
    for _ in range(int(found[1])):
        story.channel.look_up(BUNDLE, HERE)


RULES: Sequence[Rule] = (
    (
        r"(\w+) publishes Assign\(bundle->\1\) and (\w+) publishes Assign\(bundle->\2\) concurrently",
        _concurrent_assigns,
    ),
    (r"(\w+) publish fails", _failing_assign),
    (r"\w+ publishes Assign\(bundle->(\w+)\)", _assign),
    (r"Assign(?:\(bundle)?->(\w+)\)?", _assign),
    (r"owner (\w+)", _assign),
    (r"Unload\((\w+), bundle, dest=(\w+)\)", _unload_to),
    (r"Unload without dest", _unload),
    (r"monitor with tombstone delay elapsed", _monitor_after_tombstone_delay),
    (r"Split into two children", _plan_split),
    (r"first (?:(\w+) )?metadata updates? fails? with BadVersion", _bad_versions),
    (r"transfer to (\w+) whose publishes fail", _transfer_to_mute),
    (r"Owned by (\w+), \1 registry entry missing", _owner_not_registered),
    (r"(\d+)x (\w+)", _lookups),
)
