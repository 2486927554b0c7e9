"""Reconstructs what is known of a journal whose tables are lost: its highest epoch, its namespaces and topics.

Sources are the segment store (fences, topics), the last hour of agents' events, heartbeats and the journal feed, and
the commands that Kafka still has. The new journal's epochs start above all of theirs, so that no process of the old
cluster can write beside the new one, whatever it was granted.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from controller.agent.feed import check_number, parse_entry
from controller.brokers.reference.store.fences import Fence
from controller.bus.topics import MAX_RECORD_BYTES
from controller.domain.entries import Entry, Kind
from controller.domain.errors import BadRecord, ConfigError
from controller.domain.events import BrokerEvent, Heartbeat, parse_broker_event, parse_command, parse_heartbeat
from controller.domain.ids import MAX_PARTITIONS, Bundle, namespace_of, split_partition
from controller.domain.ring import MAX_BUNDLES_AT_CREATION
from controller.domain.state import JOURNAL, authority_of
from controller.domain.strict_json import parse_strictly
from controller.operations.text import count_text

LISTED = 100  # namespaces, and as many topics; the rest is only counted
STORE, EVENTS, FEED, COMMANDS = "store", "agents' events", "journal feed", "commands"
_NAMESPACE = re.compile(r"[^/\s]{1,256}/[^/\s]{1,256}")


@dataclass(slots=True)
class Trace:
    """The traces of a namespace or topic: `count` bundles or partitions, as far as known, and their sources."""

    count: int = 0
    sources: set[str] = field(default_factory=set)


@dataclass(slots=True)
class LostJournal:
    """Gathers the traces; each `saw_…` takes one record as it lies in Kafka, or one answer of the store."""

    epoch: int = 0  # the highest known
    namespaces: dict[str, Trace] = field(default_factory=dict)
    topics: dict[str, Trace] = field(default_factory=dict)
    unknowable: dict[str, str] = field(default_factory=dict)  # broker -> kind of runtime whose epochs are unknown
    _fenced: dict[str, set[tuple[int, int]]] = field(default_factory=dict)

    def note_fences(self, fences: Iterable[Fence]) -> None:
        """Note the store's fences, which cover every range that was ever served."""
        for fence in fences:
            self.epoch = max(self.epoch, fence.epoch)
            self._namespace(fence.namespace, STORE)
            self._fenced.setdefault(fence.namespace, set()).add((fence.lower, fence.upper))

    def note_topics(self, names: Iterable[str]) -> None:
        """Note the store's topics. Topics that clients created by writing come back that way and are not listed."""
        for name in names:
            namespace = _namespace_of(name)
            if namespace is not None:
                self._namespace(namespace, STORE)
            whole, number = split_partition(name)
            if number is not None:
                self._topic(whole, number + 1, STORE)

    def note_heartbeat(self, raw: bytes | None) -> None:
        """Note an agent's heartbeat, which states its kind of runtime."""
        try:
            beat = parse_heartbeat(raw or b"")
        except BadRecord:
            return
        if not isinstance(beat, Heartbeat):
            return
        if authority_of(beat.info) != JOURNAL or not beat.info.get("can_fence", True):
            self.unknowable[beat.session.broker] = str(beat.info.get("runtime", "reference"))

    def note_event(self, raw: bytes | None) -> None:
        """Note a broker event; answers and inventories contain epochs."""
        try:
            event = parse_broker_event(raw or b"")
        except BadRecord:
            return
        if event.kind == "observed":
            self.unknowable.setdefault(event.session.broker, "pulsar")
        else:
            self._note_epochs(event)

    def note_feed(self, raw: bytes | None) -> None:
        """Note published entries of the journal itself; one that cannot be read hides no other."""
        try:
            doc = parse_strictly(raw, MAX_RECORD_BYTES)
        except BadRecord:
            return
        rows = doc.get("entries") if isinstance(doc, dict) else None
        for row in rows if isinstance(rows, list) else ():
            with contextlib.suppress(BadRecord):
                self._note_entry(parse_entry(row))

    def note_command(self, raw: bytes | None) -> None:
        """Note a command; whether it was accepted is unknown."""
        try:
            command = parse_command(raw or b"")
        except BadRecord:
            return
        args = command.args
        if command.kind == "create_namespace" and _is_namespace(args.get("namespace")):
            trace, asked = self._namespace(args["namespace"], COMMANDS), args.get("bundles")
            trace.count = asked if type(asked) is int and 0 < asked <= MAX_BUNDLES_AT_CREATION else trace.count
        elif command.kind == "create_topic" and _namespace_of(str(args.get("topic"))) is not None:
            partitions = args.get("partitions")
            asked = partitions if type(partitions) is int and 0 < partitions <= MAX_PARTITIONS else 0
            self._topic(str(args["topic"]), asked, COMMANDS)

    def check_epochs_known(self) -> None:
        """Raise ConfigError when a broker's runtime could still serve at an unknown epoch."""
        if self.unknowable:
            named = ", ".join(f"{broker} ({runtime})" for broker, runtime in sorted(self.unknowable.items())[:10])
            raise ConfigError(
                f"--new-journal: it is unknown which epochs these brokers were granted: {named}. Restore the "
                "journal's tables, or start under another kafka.topic_prefix"
            )

    def lines(self) -> Iterator[str]:
        """A line for each namespace and topic that the operator has to create again."""
        for namespace, ranges in self._fenced.items():
            trace = self.namespaces[namespace]
            trace.count = trace.count or len(ranges)
        for name, trace in _list_first(self.namespaces):
            bundles = f", {count_text(trace.count, 'bundle')}" if trace.count else ""
            asked = f" --bundles {trace.count}" if trace.count else ""
            yield f"lost: namespace {name}{bundles} ({_sources(trace)}): ballast namespace create {name}{asked}"
        for name, trace in _list_first(self.topics):
            parts = f", {count_text(trace.count, 'partition')}" if trace.count else ""
            asked = f" --partitions {trace.count}" if trace.count else ""
            yield f"lost: topic {name}{parts} ({_sources(trace)}): ballast topic create {name}{asked}"
        for kind, found in (("namespaces", self.namespaces), ("topics", self.topics)):
            if len(found) > LISTED:
                yield f"lost: {len(found) - LISTED} more {kind}"
        if not self.namespaces:
            yield "lost: neither the store nor Kafka knows of a namespace"

    def _note_epochs(self, event: BrokerEvent) -> None:
        for name, epoch in event.serving.items():
            self._note_bundle(name, epoch, EVENTS)
        if event.bundle is not None:
            self._note_bundle(str(event.bundle), event.epoch or 0, EVENTS)

    def _note_entry(self, entry: Entry) -> None:
        data = entry.data
        if entry.bundle:
            self._note_bundle(entry.bundle, entry.epoch or 0, FEED)
        children = data.get("children")
        for name, epoch in children.items() if isinstance(children, dict) else ():
            self._note_bundle(name, check_number("epoch", epoch), FEED)
        if entry.kind is Kind.NAMESPACE_CREATED and _is_namespace(data.get("namespace")):
            trace, bundles = self._namespace(data["namespace"], FEED), data.get("bundles")
            trace.count = trace.count or (len(bundles) if isinstance(bundles, list) else 0)
        elif entry.kind is Kind.TOPIC_CREATED and _namespace_of(str(data.get("topic"))) is not None:
            self._topic(str(data["topic"]), check_number("partitions", data.get("partitions") or 0), FEED)

    def _note_bundle(self, name: str, epoch: int, source: str) -> None:
        self._namespace(Bundle.parse(name).namespace, source)
        self.epoch = max(self.epoch, epoch)

    def _namespace(self, name: str, source: str) -> Trace:
        trace = self.namespaces.setdefault(name, Trace())
        trace.sources.add(source)
        return trace

    def _topic(self, name: str, partitions: int, source: str) -> None:
        trace = self.topics.setdefault(name, Trace())
        trace.count = max(trace.count, partitions)
        trace.sources.add(source)


def _is_namespace(name: object) -> bool:
    return isinstance(name, str) and _NAMESPACE.fullmatch(name) is not None and name.isprintable()


def _namespace_of(topic: str) -> str | None:
    try:
        return namespace_of(topic)
    except BadRecord:
        return None


def _list_first(traces: Mapping[str, Trace]) -> list[tuple[str, Trace]]:
    return sorted(traces.items())[:LISTED]


def _sources(trace: Trace) -> str:
    return ", ".join(sorted(trace.sources))
