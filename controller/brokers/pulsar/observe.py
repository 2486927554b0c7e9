"""What a broker owns, as Pulsar says: the answer of `ownedNamespaces`, without what nobody may move.

Left out are names that are no bundles of ours (heartbeat, SLA monitor, namespaces of version 1), the namespaces that
brokers use for themselves, and the excluded ones. A failed split can leave ranges outside the ring of a namespace;
where ranges overlap, the ring is read and decides.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from fnmatch import translate
from functools import lru_cache
from itertools import groupby, pairwise
from operator import attrgetter
from typing import Any
from urllib.parse import quote

import msgspec

from controller.brokers.pulsar.admin import PulsarAdmin
from controller.brokers.pulsar.numbers import NoObject
from controller.brokers.pulsar.outcomes import Answer, CallFailed, Outcome
from controller.domain.errors import BadRecord
from controller.domain.ids import RING_END, Bundle
from controller.policy.placement.constraints import is_system_namespace

_HEX = re.compile(r"0x[0-9a-fA-F]{1,8}")
Exclude = Callable[[str], bool]


def exclude_namespaces(patterns: Sequence[str]) -> Exclude:
    """Whether a namespace is left out: it is Pulsar's own, or matches a pattern such as `*/__kafka`."""
    matches = re.compile("|".join(translate(pattern) for pattern in patterns) or r"(?!)").fullmatch

    @lru_cache(maxsize=100_000)
    def is_excluded(namespace: str) -> bool:
        return is_system_namespace(namespace) or matches(namespace) is not None

    return is_excluded


def bundle_of(name: object, exclude: Exclude) -> Bundle | None:
    """The bundle of a name, or None for one that is left out."""
    if not isinstance(name, str):
        return None
    try:
        bundle = Bundle.parse(name)
    except BadRecord:
        return None
    return None if exclude(bundle.namespace) else bundle


class _Status(msgspec.Struct):
    is_active: Any = None


_OWNED = msgspec.json.Decoder(dict[str, _Status | NoObject])


def parse_owned(answer: Answer, exclude: Exclude) -> dict[Bundle, bool]:
    """Bundle -> whether it serves now (it does not while it is unloaded). Raises CallFailed."""
    owned = {}
    for name, status in answer.decode(_OWNED).items():
        bundle = bundle_of(name, exclude)
        if bundle is not None:
            owned[bundle] = not isinstance(status, _Status) or status.is_active is not False
    return owned


def parse_ring(answer: Answer, namespace: str) -> tuple[Bundle, ...]:
    """The bundles of a namespace, from the answer with its boundaries. Raises CallFailed."""
    boundaries = answer.mapping().get("boundaries")
    if not isinstance(boundaries, list) or not all(isinstance(b, str) and _HEX.fullmatch(b) for b in boundaries):
        raise answer.failure(Outcome.BAD_ANSWER, "no list of boundaries")
    hashes = [int(boundary, 16) for boundary in boundaries]
    if hashes != sorted(set(hashes)) or hashes[:1] != [0] or hashes[-1:] != [RING_END]:
        raise answer.failure(Outcome.BAD_ANSWER, "boundaries that are no ring")
    return tuple(Bundle(namespace, low, high) for low, high in pairwise(hashes))


def find_overlapping(bundles: Iterable[Bundle]) -> set[str]:
    """The namespaces in which ranges overlap."""
    found = set()
    in_order = sorted(set(bundles), key=attrgetter("namespace", "lower", "upper"))
    for namespace, group in groupby(in_order, key=attrgetter("namespace")):
        end = -1
        for bundle in group:
            if bundle.lower < end:
                found.add(namespace)
            end = max(end, bundle.upper)
    return found


async def read_ring(admin: PulsarAdmin, namespace: str) -> tuple[Bundle, ...] | None:
    """The bundles of a namespace; None if they cannot be read."""
    answer = await admin.get(f"/admin/v2/namespaces/{quote(namespace, safe='/')}/bundles")
    try:
        return parse_ring(answer, namespace)
    except CallFailed:
        return None
