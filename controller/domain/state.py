"""The cluster state: a fold of the journal. Changed only by `controller.domain.apply.fold`; its values are immutable.

Dicts are keyed by text (bundle names, broker ids), so that the state prints, diffs and serialises as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from controller.domain.decision import KeptPlan
from controller.domain.facts import is_modular
from controller.domain.holdings import Holdings
from controller.domain.ids import Bundle, Session
from controller.domain.observed import ObservedCluster
from controller.domain.overrides import Override
from controller.domain.ownership import Ownership, State

SHADOW, LIVE, PAUSED = "shadow", "live", "paused"
MODES = (SHADOW, LIVE, PAUSED)
JOURNAL, METADATA = "journal", "metadata"  # who decides ownership: this journal, or the brokers' own metadata


def is_foreign(ours: str | None, theirs: str | None) -> bool:
    """Whether `theirs` is another journal than ours. A sender without one follows none yet or is of an older
    version."""
    return bool(ours and theirs and ours != theirs)


def authority_of(info: Mapping[str, Any]) -> str:
    """JOURNAL or METADATA: who decides ownership of a broker's bundles, by what it said when it registered."""
    older = METADATA if info.get("runtime") == "pulsar" else JOURNAL  # version 0.1.0 named the runtime only
    return str(info.get("authority") or older)


@dataclass(frozen=True, slots=True)
class Broker:
    """A registered broker. `session` is its newest one, alive while it is in `state.sessions`."""

    id: str
    session: Session
    info: Mapping[str, Any] = field(default_factory=dict)
    drained: bool = False
    leaving: bool = False
    seq: int = 0

    @property
    def runtime(self) -> str:
        """The kind of broker, such as `reference` or `pulsar`, for people."""
        return str(self.info.get("runtime", "reference"))

    @property
    def authority(self) -> str:
        """JOURNAL or METADATA: who decides ownership of the broker's bundles."""
        return authority_of(self.info)

    @property
    def skips_unknown_kinds(self) -> bool:
        """Whether its agent goes on at an entry of a kind that it does not know. Those of version 0.1.0, which do not
        say who decides ownership, stop there."""
        return self.authority == METADATA or "authority" in self.info

    @property
    def can_fence(self) -> bool:
        """Whether the broker can fence an older owner off in its store."""
        return bool(self.info.get("can_fence", True))


_COPIED = (dict, Holdings, ObservedCluster)


@dataclass(slots=True)
class ClusterState:
    """The state after the journal's entries up to `seq`."""

    seq: int = 0
    instance: str = ""
    journal_id: str | None = None  # None until a controller of a version with journal ids has started
    epoch_floor: int = 0  # first epoch of new bundles: above all that an earlier journal granted on the same brokers
    controller_running: bool = False
    mode: str = SHADOW
    frozen: bool = False
    silent: tuple[str, ...] = ()  # brokers that were silent when the mass-failure breaker tripped
    brokers: dict[str, Broker] = field(default_factory=dict)
    sessions: dict[Session, int] = field(default_factory=dict)  # living sessions -> seq of their registration
    bundles: dict[str, Ownership] = field(default_factory=dict)
    holdings: Holdings = field(default_factory=Holdings, repr=False)  # derived from `bundles`
    namespaces: dict[str, tuple[Bundle, ...]] = field(default_factory=dict)  # living bundles in ring order
    topics: dict[str, int] = field(default_factory=dict)  # created topics -> partitions
    commands: dict[str, str] = field(default_factory=dict)  # newest ids -> accepted | rejected
    offsets: dict[str, dict[str, int]] = field(default_factory=dict)  # topic -> partition -> next offset
    kafka: dict[str, Any] = field(default_factory=dict)  # cluster id, topic ids
    observed: ObservedCluster = field(default_factory=ObservedCluster, repr=False)  # of brokers of authority METADATA
    round_at_ms: int = 0  # event time of the newest round
    round_memory: dict[str, Any] = field(default_factory=dict)  # hits and other strategy memory
    round_id: str = ""  # the newest round
    round_seq: int = 0  # its entry
    rounds: int = 0
    round_wanted: str = ""  # the newest accepted `round_now` that no round has answered yet
    round_wanted_seq: int = 0  # of its entry: answered by a round that was computed at this seq or later
    strategy: str = ""  # set by command; empty: as configured
    challengers: tuple[str, ...] | None = None  # set by command; None: as configured
    policy_seq: int = 0  # newest entry that changed strategy or overrides: rounds computed before it are void
    overrides: dict[str, Override] = field(default_factory=dict)  # by id, oldest first
    plan: KeptPlan | None = None  # of a round that was too large to be carried out by itself
    thawing: bool = False  # an operator reset the mass-failure breaker: leases expire at the next check

    def copy(self) -> ClusterState:
        """A copy to apply entries to: containers are copied, values are shared."""
        result = object.__new__(ClusterState)
        for name in self.__slots__:
            value = getattr(self, name)
            setattr(result, name, value.copy() if isinstance(value, _COPIED) else value)
        return result

    def put(self, record: Ownership) -> None:
        """Replace a bundle's record and update the index."""
        name = str(record.bundle)
        self.holdings.replace(self.bundles.get(name), record)
        self.bundles[name] = record

    def alive(self, session: Session | None) -> bool:
        """Whether the session has not ended, according to the journal."""
        return session is not None and session in self.sessions

    def session_of(self, broker: str) -> Session | None:
        """The broker's newest session if it is alive."""
        record = self.brokers.get(broker)
        return record.session if record and record.session in self.sessions else None

    @property
    def modular(self) -> bool:
        """Whether a living broker of an observed cluster runs the modular load manager, or an unknown one."""
        return is_modular(self.observed.facts, self.living)

    @property
    def living(self) -> frozenset[str]:
        """The brokers with a session that is alive."""
        return frozenset(session.broker for session in self.sessions)

    def live_brokers(self) -> list[Broker]:
        """The brokers whose newest session is alive, by id. The cost grows with these, not with all brokers ever
        seen."""
        living = sorted({session.broker for session in self.sessions})
        return [b for name in living if (b := self.brokers[name]).session in self.sessions]

    @property
    def authority(self) -> str | None:
        """Who decides ownership in this cluster; None before the first registration. A cluster has one authority."""
        return next((broker.authority for broker in self.brokers.values()), None)

    def in_namespace(self, namespace: str) -> int:
        """The number of the namespace's bundles, with splits in flight counted as done."""
        ring = self.observed.rings.get(namespace)
        if ring is not None:
            return len(ring) - 1 + self.observed.open_splits(namespace)
        bundles = self.namespaces.get(namespace, ())
        return len(bundles) + sum(self.bundles[str(b)].state is State.SPLITTING for b in bundles)
