"""Bundles and namespaces as rows for people: owned ones, and those of a cluster that decides ownership itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

from controller.domain.entries import Entry, Kind
from controller.domain.errors import ConfigError, few_text, label
from controller.domain.facts import DENIED, find_other_balancer, is_suspect
from controller.domain.ids import Session
from controller.domain.observed import OBSERVED_STATES, ObservedCluster, bundles_of_ring
from controller.domain.ownership import Ownership, State
from controller.domain.pulsar_policies import placement_of
from controller.domain.settings.placement import PlacementSettings
from controller.domain.state import METADATA, ClusterState
from controller.ledger.partial.outline import Outline
from controller.operations.reading import NothingNamed
from controller.operations.text import count_text

LET_ONE_TAKE = "`ballast undrain BROKER`, or start another broker"
Row = dict[str, Any]


def ownership_row(record: Ownership) -> Row:
    """One bundle as of its newest journal entry."""
    return {
        "bundle": str(record.bundle),
        "state": record.state.value,
        "epoch": record.epoch,
        "owner": record.by.broker if record.by else None,
        "to": record.to.broker if record.to else None,
        "cause": record.cause or None,
        "entry_seq": record.seq,
        "moved_at_ms": record.moved_at_ms or None,
    }


def observed_row(cluster: ObservedCluster, name: str) -> Row:
    """One bundle as its cluster says; an open order's `to`, cause and entry."""
    seen, order = cluster.bundles[name], cluster.orders.get(name)
    return {
        "bundle": name,
        "state": cluster.state_of(name),
        "epoch": seen.seq,
        "owner": seen.broker,
        "to": order.target if order is not None else None,
        "cause": (order.decision_id or order.command_id) if order is not None else None,
        "entry_seq": order.seq if order is not None else seen.seq,
        "moved_at_ms": seen.moved_at_ms or None,
    }


def all_bundle_rows(state: ClusterState) -> list[Row]:
    """Owned and observed bundles; a cluster has either."""
    owned = [ownership_row(record) for record in state.bundles.values()]
    return owned + [observed_row(state.observed, name) for name in state.observed.bundles]


def bundle_states() -> list[str]:
    """The states that a row can have, of owned and of observed bundles."""
    return list(dict.fromkeys((*(state.value for state in State), *OBSERVED_STATES)))


class BundleCounts(NamedTuple):
    """How many bundles there are by state, by owner, and by the broker that they go to."""

    states: Counter[str]
    owned: Counter[str | None]
    coming: Counter[str | None]


def count_bundles(outline: Outline) -> BundleCounts:
    """As the rows of `all_bundle_rows` say, without making them: a page asks for a hundred thousand at once."""
    state = outline.state
    states: Counter[str] = Counter(record.state.value for record in state.bundles.values())
    owned: Counter[str | None] = Counter(r.by.broker for r in state.bundles.values() if r.by is not None)
    coming: Counter[str | None] = Counter(r.to.broker for r in state.bundles.values() if r.to is not None)
    states.update(row.state.value for row in outline.rest.values())
    owned.update(_by_broker(row.by for row in outline.rest.values()))
    coming.update(_by_broker(row.to for row in outline.rest.values()))
    observed = state.observed
    states.update(map(observed.state_of, observed.bundles))
    owned.update(seen.broker for seen in observed.bundles.values() if seen.broker is not None)
    coming.update(o.target for name, o in observed.orders.items() if o.target is not None and name in observed.bundles)
    return BundleCounts(states, owned, coming)


def _unknown_text(what: str, name: str, known: Sequence[str], listing: str) -> str:
    """Says that nothing has this name, and what there is. `listing`: the command that lists all of it."""
    there = f"there {'is' if len(known) == 1 else 'are'} {few_text(known)} (`{listing}` lists all)"
    return f"no {what} is named {label(name)}: {there if known else 'there is none yet'}"


def check_names(outline: Outline, namespace: str | None = None, broker: str | None = None) -> None:
    """Raise NothingNamed for a namespace or a broker that the cluster does not know."""
    found = ""
    if namespace is not None and namespace not in (spaces := _namespaces(outline)):
        found = _unknown_text("namespace", namespace, spaces, "ballast namespace list")
    elif broker is not None and broker not in (brokers := _brokers(outline)):
        found = _unknown_text("broker", broker, brokers, "ballast brokers")
    if found:
        raise NothingNamed(found)


def _namespaces(outline: Outline) -> list[str]:
    """In order."""
    state = outline.state
    bundles = (*outline.rest, *state.bundles, *state.observed.bundles)
    of_bundles = (name.rpartition("/")[0] for name in bundles)
    return sorted({*state.namespaces, *state.observed.rings, *of_bundles})


def _brokers(outline: Outline) -> list[str]:
    """All that ever registered, and that bundles name, in order."""
    counts = count_bundles(outline)
    return sorted({name for name in (*outline.state.brokers, *counts.owned, *counts.coming) if name is not None})


def _by_broker(sessions: Iterable[str | None]) -> Counter[str | None]:
    found = Counter[str | None]()
    for session, count in Counter(sessions).items():
        if session is not None:
            found[Session.parse(session).broker] += count
    return found


def find_order_obstacle(state: ClusterState, placement: PlacementSettings) -> str | None:
    """What keeps Ballast from sending orders to a cluster that decides ownership itself; None where nothing does.

    `placement`: as configured.
    """
    if state.authority != METADATA:
        return None
    facts, adoption = state.observed.facts, state.observed.adoption
    if adoption is not None and state.observed.released:
        who = adoption.who or "somebody"
        return f"the cluster was released by {who}: `ballast pulsar adopt --apply` takes it over again"
    if DENIED in facts:
        return f"the cluster lets Ballast send no orders: {facts[DENIED].get('why')}"
    try:
        placement_of(facts, placement)
    except ConfigError as error:
        return str(error)
    return find_other_balancer(facts, (b.id for b in state.live_brokers() if not is_suspect(facts, b.id)))


def nobody_takes_text(alive: int, drained: Collection[str], leaving: Collection[str]) -> str:
    """That none of the living brokers may take bundles; empty where one may, or where none is alive. `drained`,
    `leaving`: those of the living ones."""
    if not alive or len({*drained, *leaving}) < alive:
        return ""
    which = "the only one alive is" if alive == 1 else f"all {alive} alive are"
    words = " or ".join(word for word, ids in (("drained", drained), ("leaving", leaving)) if ids)
    return f"no broker may take bundles: {which} {words}"


def order_counts(state: ClusterState, recent: Iterable[Entry]) -> Row | None:
    """Orders that are open now, and those that ended in the `recent` entries, by outcome; None where there are none to
    give, because no broker decides ownership itself."""
    if state.authority != METADATA:
        return None
    ended = Counter(str(entry.data["outcome"]) for entry in recent if entry.kind is Kind.ORDER_ENDED)
    return {"open": len(state.observed.orders), "ended_last_hour": dict(sorted(ended.items()))}


def namespace_rows(state: ClusterState) -> list[Row]:
    """Every namespace with its live bundles and their owners."""
    found: dict[str, list[str | None]] = {}
    for namespace, bundles in state.namespaces.items():
        records = [state.bundles[str(bundle)] for bundle in bundles]
        found[namespace] = [record.by.broker if record.by is not None else None for record in records]
    for namespace, ring in state.observed.rings.items():
        seen = (state.observed.bundles.get(str(bundle)) for bundle in bundles_of_ring(namespace, ring))
        found[namespace] = [one.broker if one is not None else None for one in seen]
    return [_namespace_row(state, namespace, owners) for namespace, owners in sorted(found.items())]


def unassigned_text(state: ClusterState, namespace: str | None = None) -> str:
    """Says how many bundles of the rings no broker owns; empty where there are none, or Ballast assigns bundles."""
    rings = state.observed.rings
    rows = [row for row in namespace_rows(state) if row["namespace"] in rings] if rings else []
    left = sum(row["bundles"] - row["owned"] for row in rows if namespace in (None, row["namespace"]))
    if not left:
        return ""
    return f"{count_text(left, 'bundle')} without an owner: Pulsar assigns a bundle when a client first asks for it"


def _namespace_row(state: ClusterState, namespace: str, owners: list[str | None]) -> Row:
    holders = Counter(owner for owner in owners if owner is not None)
    return {
        "namespace": namespace,
        "bundles": len(owners),
        "topics_created": sum(_in_namespace(topic, namespace) for topic in state.topics),
        "owned": sum(holders.values()),
        "brokers": dict(sorted(holders.items())),
    }


def _in_namespace(topic: str, namespace: str) -> bool:
    return topic.partition("://")[2].startswith(f"{namespace}/")
