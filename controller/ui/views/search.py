"""The view *Search*: topic to bundle to owner; brokers, bundles, namespaces, rounds by part of a name; reasons."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from controller.domain.errors import BadRecord
from controller.domain.ids import Bundle, namespace_of, partition_names, topic_hash
from controller.domain.observed import bundles_of_ring
from controller.domain.reasons.table import REASON_TABLE
from controller.domain.reasons.words import describe_reason, find_reason
from controller.domain.ring import locate
from controller.domain.state import ClusterState
from controller.operations.explain import bundle_now
from controller.operations.text import count_text
from controller.ui.cluster import LiveCluster

MOST_HITS = 50  # of a kind
MOST_PARTITIONS = 200
Row = dict[str, Any]


def search(cluster: LiveCluster, query: str) -> Row:
    """What this text may mean, the most telling first. `hits` have kind, name and detail; a topic has its bundle."""
    words, state = query.strip(), cluster.state()
    if not words:
        return {"query": words, "topics": [], "hits": []}
    hits = [
        *_reasons(words),
        *islice(_brokers(state, words), MOST_HITS),
        *islice(_rounds(cluster, words), MOST_HITS),
        *islice(_namespaces(state, words), MOST_HITS),
        *islice(_bundles(state, words), MOST_HITS),
    ]
    return {"query": words, "topics": _topics(state, words), "hits": hits}


def _topics(state: ClusterState, words: str) -> list[Row]:
    """The bundle and owner of a topic, and of each of its partitions; a topic need not exist to have a bundle."""
    topic = words if "://" in words else f"persistent://{words}"
    try:
        namespace = namespace_of(topic)
    except BadRecord:
        return []
    ring = state.observed.rings.get(namespace)
    bundles = tuple(bundles_of_ring(namespace, ring)) if ring else state.namespaces.get(namespace, ())
    if not bundles or _is_bundle(words):
        return []
    rows = []
    for part in partition_names(topic, state.topics.get(topic, 0))[:MOST_PARTITIONS]:
        name = str(locate(bundles, topic_hash(part)))
        now = bundle_now(state, name) or {"owner": None, "state": None}
        row = {"topic": part, "created": topic in state.topics, "bundle": name}
        rows.append({**row, "owner": now["owner"], "state": now["state"]})
    return rows


def _is_bundle(words: str) -> bool:
    try:
        return bool(Bundle.parse(words))
    except BadRecord:
        return False


def _reasons(words: str) -> Iterator[Row]:
    reason = find_reason(words)
    if reason is not None:
        entry = REASON_TABLE[reason]
        detail = f"{describe_reason(reason.value)}. {entry.meaning} To do: {entry.act}"
        yield {"kind": "reason", "name": reason.value, "detail": detail}


def _brokers(state: ClusterState, words: str) -> Iterator[Row]:
    for broker in sorted(state.brokers.values(), key=lambda b: (b.id != words, b.id)):
        if words in broker.id:
            yield {"kind": "broker", "name": broker.id, "detail": "alive" if state.alive(broker.session) else "gone"}


def _rounds(cluster: LiveCluster, words: str) -> Iterator[Row]:
    if not any(character.isdigit() for character in words):
        return
    for row in cluster.evidence().rounds():
        whole = row["round_id"]
        if not row["challenger"] and (whole.startswith(words) or words.startswith(f"{whole}-")):
            yield {"kind": "round", "name": whole, "detail": f"{count_text(row['moves'], 'move')} by {row['strategy']}"}


def _namespaces(state: ClusterState, words: str) -> Iterator[Row]:
    counts = {name: len(bundles) for name, bundles in state.namespaces.items()}
    counts |= {name: len(ring) - 1 for name, ring in state.observed.rings.items()}
    for name, count in sorted(counts.items(), key=lambda item: (item[0] != words, item[0])):
        if words in name:
            yield {"kind": "namespace", "name": name, "detail": count_text(count, "bundle")}


def _bundles(state: ClusterState, words: str) -> Iterator[Row]:
    for name in (*state.bundles, *state.observed.bundles):
        if words in name:
            now = bundle_now(state, name)
            assert now is not None
            yield {"kind": "bundle", "name": name, "detail": f"{now['state']}, {now['owner'] or 'nobody'}"}
