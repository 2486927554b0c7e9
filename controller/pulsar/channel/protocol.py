"""The extensible manager's channel and its brokers in memory: who publishes what on which event.

There is one log that every broker reads, filtered by the conflict rule, and each broker answers what it reads: bundles
are assigned, transferred, unloaded, split and tombstoned exactly as the messages say. Messages are delivered in the
order in which they were published; `settle` delivers until none is left. The caller advances the clock, `now_ms`.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from controller.domain.ids import Bundle
from controller.domain.settings.pulsar import PulsarKnobs
from controller.pulsar.channel.cleanup import cleanup_order, monitor, override
from controller.pulsar.channel.conflicts import should_keep_existing
from controller.pulsar.channel.lookup import Lookup, look_up
from controller.pulsar.channel.states import (
    ServiceUnitState,
    ServiceUnitStateData,
    StorageType,
    next_version,
    state_of,
)

MAX_SPLIT_ATTEMPTS = 7  # metadata updates of a split that may fail with BadVersion
S = ServiceUnitState
Select = Callable[[Sequence[str]], "str | None"]


def first_by_name(candidates: Sequence[str]) -> str | None:
    """Select a broker without any load data."""
    return min(candidates, default=None)


class Channel:
    """`active`: brokers in the registry. `running`: brokers that read the channel and answer, registered or not."""

    def __init__(
        self,
        brokers: Collection[str],
        knobs: PulsarKnobs | None = None,
        storage: StorageType = StorageType.SYSTEM_TOPIC,
        select: Select = first_by_name,
    ) -> None:
        self.active, self.running = set(brokers), set(brokers)
        self.knobs, self.storage, self.select = knobs or PulsarKnobs(), storage, select
        self.mute: set[str] = set()  # brokers whose publishes fail
        self.entries: dict[str, ServiceUnitStateData] = {}
        self.now_ms = 0
        self.bad_versions = 0  # metadata updates of splits that will fail before one succeeds
        self.split_attempts = 0
        self.handled: Counter[str] = Counter()  # events by state, as each broker counts them
        self.published: Counter[tuple[str, str]] = Counter()  # (broker, Assign | Unload | Split)
        self.lookups: Counter[str] = Counter()  # by the state that was found
        self.cleanups: Counter[str] = Counter()
        self._log: deque[tuple[str, ServiceUnitStateData | None]] = deque()

    # what a broker or its admin requests -------------------------------------------------------------------------

    def assign(self, publisher: str, bundle: str, to: str) -> bool:
        """Assign a bundle on a lookup. False: the publish failed, and the lookup with it."""
        return self._ask("Assign", publisher, bundle, S.ASSIGNING, dst_broker=to)

    def unload(self, publisher: str, bundle: str, to: str | None = None) -> bool:
        """Release the bundle, to a destination or to nobody."""
        owner = self.entries[bundle].dst_broker
        return self._ask("Unload", publisher, bundle, S.RELEASING, dst_broker=to, source_broker=owner)

    def split(self, publisher: str, bundle: str, children: Sequence[str]) -> bool:
        """Split the bundle into these ranges, which stay with the owner."""
        owner = self.entries[bundle].dst_broker
        parts = tuple((child, None) for child in children)
        return self._ask("Split", publisher, bundle, S.SPLITTING, source_broker=owner, children=parts)

    def look_up(self, bundle: str, asked: str) -> Lookup:
        """The immediate answer of the broker `asked`."""
        data = self.entries.get(bundle)
        self.lookups[state_of(data).value] += 1
        return look_up(data, asked, self.active)

    def state(self, bundle: str) -> ServiceUnitState:
        """The state that every reader sees."""
        return state_of(self.entries.get(bundle))

    def settle(self) -> None:
        """Deliver all messages, including the replies to them."""
        while self._log:
            bundle, data = self._log.popleft()
            if should_keep_existing(self.entries.get(bundle), data, self.storage):
                continue
            self.handled[state_of(data).value] += 1
            if data is None:
                self.entries.pop(bundle, None)
            else:
                self.entries[bundle] = data
                self._answer(bundle, data)

    # what the leader does ----------------------------------------------------------------------------------------

    def clean_up(self, broker: str) -> None:
        """Take all bundles from a broker that is gone."""
        self.cleanups["inactive_broker_cleanup"] += 1
        for bundle in cleanup_order(self.entries, broker):
            self._override(bundle, excluded=broker)
        self.settle()

    def run_monitor(self) -> None:
        """Run the leader's ownership monitor once, including its cleanups."""
        found = monitor(self.entries, self.active, self.now_ms, self.knobs)
        for bundle in found.tombstones:
            self.cleanups["su_tombstone_cleanup"] += 1
            self._log.append((bundle, None))
        for bundle in found.orphans:
            self._override(bundle, excluded=None)
        self.settle()
        for broker in found.inactive_brokers:
            self.cleanups["scheduled"] += 1
            self.clean_up(broker)

    def _override(self, bundle: str, excluded: str | None) -> None:
        selected = self.select(sorted(self.active - {excluded}))
        self.cleanups["orphan_su_cleanup"] += 1
        self._log.append((bundle, override(self.entries[bundle], selected, self.now_ms)))

    # what brokers answer -----------------------------------------------------------------------------------------

    def _answer(self, bundle: str, data: ServiceUnitStateData) -> None:
        match data.state:
            case S.ASSIGNING:
                self._reply(data.dst_broker, bundle, replace(data, state=S.OWNED))
            case S.RELEASING:
                # its topics are closed by now
                self._reply(data.source_broker, bundle, replace(data, state=S.ASSIGNING if data.dst_broker else S.FREE))
            case S.SPLITTING:
                self._carry_out_split(bundle, data)
            case S.DELETED:
                self._reply(data.source_broker, bundle, None)
            case S.FREE if data.force:  # no broker could take it: its last owner, if still running, closes and drops it
                self._reply(data.source_broker, bundle, None)

    def _carry_out_split(self, bundle: str, data: ServiceUnitStateData) -> None:
        owner = data.source_broker
        if owner not in self.running or owner in self.mute:
            return
        for child, destination in data.children:
            name = child_name(bundle, child)
            if name not in self.entries:
                entry = ServiceUnitStateData(S.OWNED, dst_broker=destination or owner, timestamp_ms=self.now_ms)
                self._log.append((name, entry))
        for _ in range(MAX_SPLIT_ATTEMPTS):
            self.split_attempts += 1
            if self.bad_versions == 0:
                self._reply(owner, bundle, replace(data, state=S.DELETED, children=()))
                return
            self.bad_versions -= 1

    def _ask(
        self,
        event: str,
        publisher: str,
        bundle: str,
        state: ServiceUnitState,
        dst_broker: str | None = None,
        source_broker: str | None = None,
        children: tuple[tuple[str, str | None], ...] = (),
    ) -> bool:
        self.published[publisher, event] += 1
        version = next_version(self.entries.get(bundle))
        data = ServiceUnitStateData(state, dst_broker, source_broker, children, False, self.now_ms, version)
        return self._publish(publisher, bundle, data)

    def _reply(self, broker: str | None, bundle: str, data: ServiceUnitStateData | None) -> None:
        if data is not None:
            data = replace(data, force=False, version_id=next_version(data), timestamp_ms=self.now_ms)
        if broker is not None and broker in self.running:
            self._publish(broker, bundle, data)

    def _publish(self, broker: str, bundle: str, data: ServiceUnitStateData | None) -> bool:
        if broker in self.mute:
            return False
        self._log.append((bundle, data))
        return True


def child_name(parent: str, child_range: str) -> str:
    """The full name of a child, from its parent's name and its range."""
    return f"{parent.rpartition('/')[0]}/{child_range}"


def halves(bundle: str) -> tuple[str, str]:
    """The ranges of a bundle's two halves."""
    parent = Bundle.parse(bundle)
    lower, upper = (str(child).rpartition("/")[2] for child in parent.split_at(parent.middle()))
    return lower, upper
