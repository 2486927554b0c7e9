"""An index of bundles by session or broker, and bundle counts by broker: updated entry by entry, never by a scan.

Derived from `ClusterState.bundles` and `ClusterState.observed`, and always equal to `Holdings.of_records` of them (a
property test and `controller/sim/ownership/invariants.py` compare them). A grant or an order in flight counts for its
target. Copies share inner containers until one of them writes, so that a copy costs per session and namespace, not per
bundle.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field

from controller.domain.ids import Bundle, Session
from controller.domain.observed import ObservedCluster
from controller.domain.ownership import Ownership

_NOTHING: frozenset[str] = frozenset()
_NOWHERE: Mapping[str, int] = {}


@dataclass(slots=True)
class Holdings:
    """Read with `bundles_naming`, `observed_at`, `total` and `spread`. Its containers are never empty.

    Written by `replace` for owned bundles, by `count_observed` and `list_observed` for observed ones.
    """

    _named: dict[Session, set[str]] = field(default_factory=dict)
    _totals: dict[str, int] = field(default_factory=dict)
    _spread: dict[str, dict[str, int]] = field(default_factory=dict)
    _observed: dict[str, set[str]] = field(default_factory=dict)  # broker -> bundles that it lists
    _own_observed: set[str] = field(default_factory=set, compare=False)
    _own_sessions: set[Session] = field(default_factory=set, compare=False)  # inner containers that no copy shares
    _own_namespaces: set[str] = field(default_factory=set, compare=False)

    @classmethod
    def of_records(cls, records: Iterable[Ownership], observed: ObservedCluster | None = None) -> Holdings:
        """Build the index from all records and observations."""
        return cls.of_bundles({str(record.bundle): record for record in records}, observed)

    @classmethod
    def of_bundles(cls, records: Mapping[str, Ownership], observed: ObservedCluster | None = None) -> Holdings:
        """Build the index from all records by their bundle's name, and observations."""
        found = cls()
        for name, record in records.items():
            found._add(name, record)
        if observed is not None:
            for name, seen in observed.bundles.items():
                found.list_observed(name, None, seen.broker)
                found.count_observed(seen.bundle, None, observed.holder(name))
        return found

    def _add(self, name: str, record: Ownership) -> None:
        """As `replace` does for a bundle that is new."""
        by, to, fencer = record.by, record.to, record.fencer
        self._note(by, name)
        if to is not None or fencer is not None:
            self._note(to, name)
            self._note(fencer, name)
        holder = to or by
        if holder is not None:
            self._count(holder.broker, record.bundle.namespace, 1)

    def copy(self) -> Holdings:
        """A copy; writes to either of the two do not affect the other."""
        self._own_sessions, self._own_namespaces, self._own_observed = set(), set(), set()
        return Holdings(dict(self._named), dict(self._totals), dict(self._spread), dict(self._observed))

    def bundles_naming(self, session: Session) -> Set[str]:
        """The names of the bundles whose newest record has the session as `by`, `to` or `fencer`."""
        return self._named.get(session, _NOTHING)

    def observed_at(self, broker: str) -> Set[str]:
        """The names of the bundles that the broker lists by its own metadata."""
        return self._observed.get(broker, _NOTHING)

    def total(self, broker: str) -> int:
        """How many bundles the broker owns or is about to own, over all its sessions."""
        return self._totals.get(broker, 0)

    def spread(self, namespace: str) -> Mapping[str, int]:
        """Broker -> number of this namespace's bundles that it owns or is about to own; brokers with 0 are absent."""
        return self._spread.get(namespace, _NOWHERE)

    def replace(self, old: Ownership | None, new: Ownership) -> None:
        """Update the index for a bundle's new record; `old` None: the bundle is new."""
        before = {old.by, old.to, old.fencer} if old is not None else set()
        after = {new.by, new.to, new.fencer}
        if before != after:
            name = str(new.bundle)
            for session in before - after:
                self._forget(session, name)
            for session in after - before:
                self._note(session, name)
        was, now = old and _holder(old), _holder(new)
        if was != now:
            namespace = new.bundle.namespace
            if was:
                self._count(was, namespace, -1)
            if now:
                self._count(now, namespace, 1)

    def count_observed(self, bundle: Bundle, before: str | None, now: str | None) -> None:
        """An observed bundle counts for another broker than before; None: for nobody."""
        if before != now:
            if before is not None:
                self._count(before, bundle.namespace, -1)
            if now is not None:
                self._count(now, bundle.namespace, 1)

    def list_observed(self, name: str, before: str | None, now: str | None) -> None:
        """Another broker than before lists an observed bundle; None: nobody does."""
        if before == now:
            return
        if before is not None:
            names = self._writable_observed(before)
            names.discard(name)
            if not names:
                del self._observed[before]
        if now is not None:
            self._writable_observed(now).add(name)

    def _writable_observed(self, broker: str) -> set[str]:
        if broker not in self._own_observed or broker not in self._observed:
            self._observed[broker] = set(self._observed.get(broker, ()))
            self._own_observed.add(broker)
        return self._observed[broker]

    def _note(self, session: Session | None, name: str) -> None:
        if session is not None:
            self._writable(session).add(name)

    def _forget(self, session: Session | None, name: str) -> None:
        if session is not None:
            names = self._writable(session)
            names.discard(name)
            if not names:
                del self._named[session]

    def _writable(self, session: Session) -> set[str]:
        if session not in self._own_sessions or session not in self._named:
            self._named[session] = set(self._named.get(session, ()))
            self._own_sessions.add(session)
        return self._named[session]

    def _count(self, broker: str, namespace: str, sign: int) -> None:
        if namespace not in self._own_namespaces or namespace not in self._spread:
            self._spread[namespace] = dict(self._spread.get(namespace, ()))
            self._own_namespaces.add(namespace)
        for key, counts in ((broker, self._totals), (broker, self._spread[namespace])):
            counts[key] = counts.get(key, 0) + sign
            if not counts[key]:
                del counts[key]
        if not self._spread[namespace]:
            del self._spread[namespace]


def _holder(record: Ownership) -> str | None:
    """The broker that a record counts for: its grantee, else its owner."""
    holder = record.to or record.by
    return holder.broker if holder is not None else None
