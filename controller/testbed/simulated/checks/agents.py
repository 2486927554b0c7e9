"""What agents may say, beside the rules of leases.

- A session that has said goodbye says nothing more, and one that was never registered says none.
- A broker leaves before its time is over only once its journal names it nowhere. The process after it does not count as
  leaving.
- A session ends that cannot follow the journal, or fetches nothing although Kafka takes its records. One that ends
  before its lease, and before the journal says so, says goodbye: its last heartbeats may still arrive.
- A process that has read of another one in its place says nothing more. One that gives way to another is right, or has
  heard of it more than once.
- An operator's split is at the boundary that was named, and strictly inside.
- A broker begins to serve only what the journal, as far as its agent has read, still names it for.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from controller.agent.lifecycle import LOST, Ending
from controller.domain.entries import Entry, Kind
from controller.domain.events import Heartbeat
from controller.domain.ids import Bundle, Session
from controller.domain.ownership import State
from controller.domain.settings.policy import ControlSettings
from controller.domain.state import ClusterState
from controller.testbed.simulated.broker import SimBroker
from controller.testbed.simulated.world import World

CLOCK = 1.1  # an agent's time, at most, against true time
SLACK_MS = 2_500.0  # for timers, and for what is under way
HEARD_TWICE = 2  # heartbeats of another process that one must have heard before it gives way


class Agents:
    """Of one run. `breach` is told of what must not be."""

    def __init__(self, world: World, settings: ControlSettings, breach: Callable[[str], None]) -> None:
        self._world, self._settings, self._breach = world, settings, breach
        self._registered: set[str] = set()
        self._left: set[str] = set()  # sessions that have said goodbye
        self._behind: dict[SimBroker, tuple[int, float]] = {}  # applied seq, and since when it stays behind
        self._acted_ms: dict[SimBroker, float] = {}  # when a session was last seen to live
        self._begun: dict[SimBroker, int] = {}  # the newest session that has sent a heartbeat
        self._since: dict[SimBroker, tuple[int, float]] = {}  # session, and since when it is seen to live
        self._leases_ms: dict[str, int] = {}  # session -> the end of its lease, when it spoke last
        self.boundaries: dict[str, int] = {}  # command of an operator -> the boundary that it names

    def send(self, one: SimBroker, record: Mapping[str, Any]) -> None:
        """An agent sends a heartbeat or a broker event."""
        sessions = one.agent.sessions
        assert sessions is not None
        session = str(sessions.current)
        kind = record.get("kind", "heartbeat")
        if session in self._left:
            self._breach(f"{session} speaks after its goodbye: {kind}")
        if (other := _in_its_place(one.agent.watcher.state, sessions.current)) is not None:
            self._breach(f"{session} says {kind!r} although it has read that {other} is in its place")
        if record.get("kind") == "goodbye":
            self._left.add(session)
            self._judge_goodbye(one, session)
        if "kind" not in record and sessions.current.number > 1:
            self._judge_beginning(one, sessions.current)
        if sessions.may_act():
            self._acted_ms[one] = self._world.now_ms
            self._leases_ms[session] = sessions.lease.until_ms
            self._judge_hearing(one)
        else:
            self._behind.pop(one, None)

    def serve(self, one: SimBroker, bundles: Collection[Bundle], by_split: bool) -> None:
        """A broker begins to serve these. A split is carried out whatever has become of its parts meanwhile."""
        if one.agent.sessions is None:
            return
        session, records = one.agent.sessions.current, one.agent.watcher.state.bundles
        for bundle in bundles:
            record, epoch = records.get(str(bundle)), one.runtime.serving().get(bundle, 0)
            if record is None or not record.names(session) or record.state is State.RETIRED:
                self._breach(f"{session} begins to serve {bundle}, which the journal has taken back: {record}")
            elif not by_split and (
                (record.to == session and record.epoch > epoch)
                or (record.state is State.RELEASING and record.by == session)
            ):
                self._breach(f"{session} begins to serve {bundle} at epoch {epoch}, which it is not to: {record}")

    def commits(self, entries: Sequence[Entry], after: ClusterState) -> None:
        """A controller has committed these entries."""
        left = {entry.broker for entry in entries if entry.kind is Kind.DRAIN}
        for entry in entries:
            if entry.kind is Kind.REGISTERED:
                session = Session.parse(str(entry.session))
                self._registered.add(str(session))
                broker = after.brokers[session.broker]
                if broker.leaving and session.number == 1 and broker.session == session and broker.id not in left:
                    self._breach(f"{session} counts as leaving from its first moment on")
            elif entry.kind is Kind.OWNERSHIP and entry.state == State.SPLITTING:
                bundle, boundary = Bundle.parse(str(entry.bundle)), int(entry.data["boundary"])
                if not bundle.lower < boundary < bundle.upper:
                    self._breach(f"{bundle} is split at 0x{boundary:08x}, which is not inside")
            elif entry.kind is Kind.SPLIT and entry.command_id in self.boundaries:
                boundary = self.boundaries[entry.command_id]
                if all(Bundle.parse(name).lower != boundary for name in entry.data["children"]):
                    self._breach(f"{entry.bundle} is split into {entry.data['children']}, not at 0x{boundary:08x}")

    def end(self, one: SimBroker, ending: Ending, others: bool, beats: Iterable[Heartbeat]) -> None:
        """A process has ended by itself. `others`: whether there are others of its broker; `beats`: all heartbeats of
        it since the start of the process."""
        sessions = one.agent.sessions
        if ending.code != LOST or others:
            return
        newer = None if sessions is None else _in_its_place(one.agent.watcher.state, sessions.current)
        if sessions is not None and newer is not None and newer.incarnation > sessions.current.incarnation:
            return
        of_others = Counter(beat.session.process for beat in beats if beat.session.nonce != one.nonce)
        if max(of_others.values(), default=0) < HEARD_TWICE:
            self._breach(f"a process of {one.broker} gives way to another one that is not there: {ending.text}")

    def _judge_goodbye(self, one: SimBroker, session: str) -> None:
        sessions, state = one.agent.sessions, one.agent.watcher.state
        assert sessions is not None
        if session not in self._registered:
            self._breach(f"{session} says goodbye and was never registered")
        if not sessions.over:  # it goes on with the next session, as it could not follow the journal
            return
        if self._cannot_follow(one):  # then it ends the session at once, whoever asked it to leave meanwhile
            return
        in_time = self._world.now_ms - one.asked_to_leave_ms < one.leave_timeout_ms / CLOCK - SLACK_MS
        records = state.bundles.values()
        named = [str(r.bundle) for r in records if r.names(sessions.current) and r.state is not State.RETIRED]
        if in_time and named:
            self._breach(f"{session} leaves although it has time, and the journal names it for {named}")

    def _judge_beginning(self, one: SimBroker, session: Session) -> None:
        """After a goodbye because of the journal, the next session waits until that is followed again."""
        before = session._replace(number=session.number - 1)
        if self._begun.get(one) == session.number:
            return
        self._begun[one] = session.number
        ended_early = self._leases_ms.get(str(before), 0) > one.boot_ms() and before in one.agent.watcher.state.sessions
        if ended_early and str(before) not in self._left:
            self._breach(f"{session} begins, and {before}, whose lease was valid, never said goodbye")
        if str(before) in self._left and one.heard_ms <= self._acted_ms.get(one, 0.0):
            self._breach(f"{session} begins, and {one.broker} still fetches nothing")

    def _cannot_follow(self, one: SimBroker) -> bool:
        """Whether it may have been behind the journal, or have fetched nothing, for a lease of its clock."""
        behind = self._behind.get(one)
        since_ms = min(one.heard_ms, behind[1] if behind is not None else math.inf)
        return self._world.now_ms - since_ms > self._settings.lease_ms / CLOCK - SLACK_MS

    def _judge_hearing(self, one: SimBroker) -> None:
        if self._world.now_ms - one.loop.paused_until_ms < SLACK_MS:  # it has had no time to judge this itself
            return
        now_ms, lease_ms, watcher = self._world.now_ms, self._settings.lease_ms * CLOCK, one.agent.watcher
        silent_ms = now_ms - max(one.heard_ms, self._living_since(one))
        if silent_ms > 2 * lease_ms + SLACK_MS:
            self._breach(f"{one.broker} keeps its session, and has fetched nothing for {silent_ms:.0f} ms")
        applied, known = watcher.state.seq, watcher.known_seq
        before = self._behind.get(one)
        if applied >= known:
            self._behind.pop(one, None)
        elif before is None or before[0] != applied:
            self._behind[one] = (applied, now_ms)
        elif now_ms - before[1] > lease_ms + SLACK_MS:
            self._breach(f"{one.broker} keeps its session, and has not applied seq {known} since {before[1]:.0f} ms")

    def _living_since(self, one: SimBroker) -> float:
        assert one.agent.sessions is not None
        number = one.agent.sessions.current.number
        if one not in self._since or self._since[one][0] != number:
            self._since[one] = (number, self._world.now_ms)
        return self._since[one][1]


def _in_its_place(state: ClusterState, session: Session) -> Session | None:
    """The session of another process that is this broker, by the journal: a newer one, or the first of its number."""
    known = state.brokers.get(session.broker)
    if known is None or known.session.incarnation < session.incarnation or known.session.process == session.process:
        return None
    return known.session
