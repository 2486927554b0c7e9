"""Records a cluster: a poll every interval, a line for every broker in each, until the time is up or it is stopped.

Polls keep to a fixed beat. What could not be read is recorded as a gap and counted by outcome. The cluster's rules of
placement are recorded at the start and whenever they have changed.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from controller.brokers.pulsar.outcomes import CallFailed
from controller.brokers.pulsar.policies import Policies, read_policies
from controller.brokers.pulsar.poll import ClusterPoll, Polled
from controller.brokers.pulsar.recording.file import RecordingFile
from controller.brokers.pulsar.recording.lines import line_of, policies_line
from controller.brokers.pulsar.recording.names import NameHasher
from controller.domain.errors import BallastError
from controller.process.clock import wall_ms

TELL_EVERY_S = 60.0
POLICIES_EVERY_S = 300.0
DEADLINE = 0.9  # of the interval: a poll ends before the next one begins


@dataclass(slots=True)
class Tally:
    """What has been recorded so far. `gaps`: (broker, outcome) -> polls; `failures`: the newest error of a broker."""

    polls: int = 0
    reports: int = 0
    brokers: set[str] = field(default_factory=set)
    bundles: int = 0  # of the newest report of every broker
    gaps: Counter[tuple[str, str]] = field(default_factory=Counter)
    failures: dict[str, CallFailed] = field(default_factory=dict)
    cpu_unknown: set[str] = field(default_factory=set)
    by_broker: dict[str, int] = field(default_factory=dict)
    topics_failures: dict[str, CallFailed] = field(default_factory=dict)
    policies: Policies | None = None  # as recorded last
    policies_failure: CallFailed | None = None

    def note(self, polled: Polled) -> None:
        """Count a broker's poll."""
        if polled.reported is None:
            if polled.failure is not None:
                self.gaps[polled.broker, polled.failure.outcome.value] += 1
                self.failures[polled.broker] = polled.failure
            return
        self.reports += 1
        self.failures.pop(polled.broker, None)
        self.brokers.add(polled.broker)
        self.by_broker[polled.broker] = len(polled.reported.report["bundles"])
        self.bundles = sum(self.by_broker.values())
        (self.cpu_unknown.add if polled.cpu is None else self.cpu_unknown.discard)(polled.broker)
        if polled.topics_failure is not None:
            self.topics_failures[polled.broker] = polled.topics_failure
        else:
            self.topics_failures.pop(polled.broker, None)


async def record(
    poll: ClusterPoll, file: RecordingFile, *, every_s: float, for_s: float | None, stop: asyncio.Event,
    hasher: NameHasher | None = None, tell: Callable[[Tally], None] = lambda tally: None,
) -> Tally:  # fmt: skip
    """Record until `for_s` seconds have passed or `stop` is set. `poll` has been started.

    `tell` is called about once a minute. Raises BallastError if the file cannot be written any more.
    """
    tally, broken = Tally(), list[BallastError]()

    def take(polled: Polled) -> None:
        line = line_of(polled)
        try:
            file.append(hasher.line(line) if hasher else line)
            tally.note(polled)
        except BallastError as error:
            broken.append(error)
            stop.set()

    stopping, beat = asyncio.ensure_future(stop.wait()), 0
    following = None
    if hasher is None:  # rules have expressions that match names
        await _record_policies(poll, file, tally)
        following = asyncio.ensure_future(_follow_policies(poll, file, tally))
    began = told = time.monotonic()
    while for_s is None or beat * every_s < for_s:
        await asyncio.wait([stopping], timeout=max(began + beat * every_s - time.monotonic(), 0.0))
        if stop.is_set():
            break
        polling = asyncio.ensure_future(poll.poll(DEADLINE * every_s, take))
        await asyncio.wait([polling, stopping], return_when=asyncio.FIRST_COMPLETED)
        if stop.is_set():
            polling.cancel()
            break
        polling.result()
        tally.polls += 1
        beat = max(beat + 1, int((time.monotonic() - began) / every_s))
        if time.monotonic() - told >= TELL_EVERY_S:
            told = time.monotonic()
            tell(tally)
    stopping.cancel()
    if following is not None:
        following.cancel()
        await asyncio.wait([following])
        if not following.cancelled():
            following.result()  # it ends by itself only when the file cannot be written
    if broken:
        raise broken[0]
    return tally


async def _follow_policies(poll: ClusterPoll, file: RecordingFile, tally: Tally) -> None:
    while True:
        await asyncio.sleep(POLICIES_EVERY_S)
        await _record_policies(poll, file, tally)


async def _record_policies(poll: ClusterPoll, file: RecordingFile, tally: Tally) -> None:
    """Record the rules of placement, if they have changed."""
    try:
        enabled = poll.configuration.uses_failure_domains
        policies = await read_policies(poll.admin, poll.cluster, poll.members.addresses, enabled)
    except CallFailed as error:
        tally.policies_failure = error
        return
    tally.policies_failure = None
    if policies != tally.policies:
        file.append(policies_line(wall_ms(), policies))
        tally.policies = policies
