"""Names: sessions, bundles, topics.

A bundle is `tenant/namespace/0xLLLLLLLL_0xUUUUUUUU` and holds the topics whose CRC-32 lies in [lower, upper);
the last bundle of the ring is closed at 0xffffffff (Pulsar: NamespaceBundle, ConsistentHashingTopicBundleAssigner).
Everything here is a value: immutable, ordered, and parsed back from its own text form.
"""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from controller.domain.errors import BadRecord, shown

RING_END = 0xFFFFFFFF
MAX_BUNDLE_CHARS = 512  # of a bundle's name; `Bundle.parse` keeps 200,000 of them
MAX_NONCE_CHARS = 64
_BUNDLE = re.compile(r"([^/\s]+/[^/\s]+)/0x([0-9a-fA-F]{8})_0x([0-9a-fA-F]{8})")
_AS_JOURNALED = re.compile(r"[^/\s]+/[^/\s]+/0x[0-9a-f]{8}_0x[0-9a-f]{8}")
_PARTITION = re.compile(r"(.*)-partition-([0-9]{1,9})")
_TOPIC = re.compile(r"(persistent|non-persistent)://([^/\s]+)/([^/\s]+)/(\S+)")
_BROKER = re.compile(r"[A-Za-z0-9._\-\[\]:]{1,255}")
_SESSION = re.compile(r"(.*)#([0-9]{1,16})\.([^.]*)\.([0-9]{1,16})", re.DOTALL)


class Session(NamedTuple):
    """One session of a broker, under one lease. Leases, grants, events and inventories name all four parts."""

    broker: str
    incarnation: int
    nonce: str
    number: int

    def __str__(self) -> str:
        return f"{self.broker}#{self.incarnation}.{self.nonce}.{self.number}"

    @property
    def process(self) -> tuple[str, int, str]:
        """The process behind the session: broker id, incarnation, nonce."""
        return (self.broker, self.incarnation, self.nonce)

    @classmethod
    def parse(cls, text: str) -> Session:
        """Parse the text form. Raises BadRecord."""
        match = _SESSION.fullmatch(text)
        if not match:
            raise BadRecord("session", f"{shown(text)} is not broker#incarnation.nonce.number")
        return cls(match[1], int(match[2]), match[3], int(match[4]))


@dataclass(frozen=True, order=True, slots=True)
class Bundle:
    """A hash range of one namespace: [lower, upper), closed when upper is 0xffffffff."""

    namespace: str
    lower: int
    upper: int

    def __str__(self) -> str:
        return f"{self.namespace}/0x{self.lower:08x}_0x{self.upper:08x}"

    @classmethod
    @lru_cache(maxsize=200_000)
    def parse(cls, text: str) -> Bundle:
        """Parse a bundle's name; upper-case hex digits are accepted. Raises BadRecord, as for what is not printable."""
        match = _BUNDLE.fullmatch(text) if len(text) <= MAX_BUNDLE_CHARS else None
        if not match or not text.isprintable():
            raise BadRecord("bundle_name", f"{shown(text)} is not tenant/namespace/0xLLLLLLLL_0xUUUUUUUU")
        lower, upper = int(match[2], 16), int(match[3], 16)
        if lower >= upper:
            raise BadRecord("bundle_name", f"{shown(text)} is an empty range")
        return cls(match[1], lower, upper)

    @staticmethod
    def is_as_journaled(text: str) -> bool:
        """Whether a text is a bundle's name exactly as `str` writes it. Costs a fraction of `parse`, which reads other
        spellings as well."""
        return (
            len(text) <= MAX_BUNDLE_CHARS
            and _AS_JOURNALED.fullmatch(text) is not None
            and text.isprintable()
            and text[-19:-11] < text[-8:]  # digits of one case and number compare as the numbers do
        )

    def contains(self, hash_: int) -> bool:
        """Whether topics with this hash belong to the bundle."""
        return self.lower <= hash_ and (hash_ < self.upper or self.upper == RING_END)

    def overlaps(self, other: Bundle) -> bool:
        """Whether the two ranges share a hash."""
        return self.namespace == other.namespace and self.lower < other.upper and other.lower < self.upper

    def middle(self) -> int:
        """Pulsar's halving point, (upper - lower) / 2 above lower (range_equally_divide)."""
        return self.lower + (self.upper - self.lower) // 2

    def split_at(self, boundary: int) -> tuple[Bundle, Bundle]:
        """The two halves. Raises BadRecord when the boundary is not strictly inside."""
        if not self.lower < boundary < self.upper:
            raise BadRecord("split_boundary", f"0x{boundary:08x} is not strictly inside {self}")
        return Bundle(self.namespace, self.lower, boundary), Bundle(self.namespace, boundary, self.upper)


def topic_hash(topic: str) -> int:
    """CRC-32 of the full topic name (domain and partition suffix included), unsigned."""
    return zlib.crc32(topic.encode())


def namespace_of(topic: str) -> str:
    """The `tenant/namespace` of a full topic name. Raises BadRecord."""
    match = _TOPIC.fullmatch(topic)
    if not match or not topic.isprintable():
        raise BadRecord("topic_name", f"{shown(topic)} is not persistent://tenant/namespace/topic")
    return f"{match[2]}/{match[3]}"


MAX_PARTITIONS = 10_000


def partition_names(topic: str, partitions: int) -> list[str]:
    """The topics behind a partitioned topic; a topic with 0 partitions is itself."""
    return [f"{topic}-partition-{i}" for i in range(partitions)] if partitions else [topic]


def split_partition(topic: str) -> tuple[str, int | None]:
    """The topic that this one is a partition of, and its number; itself and None if it is none."""
    match = _PARTITION.fullmatch(topic)
    return (match[1], int(match[2])) if match else (topic, None)


def check_broker_id(text: str) -> str:
    """The id unchanged. Raises BadRecord: ids come from outside and end up in file names and logs."""
    if not _BROKER.fullmatch(text):
        allowed = "1 to 255 ASCII letters, digits and . _ - : [ ]"
        raise BadRecord("broker_id", f"{shown(text)} is no host:port or name of a broker, which is {allowed}")
    return text


def check_nonce(text: str) -> str:
    """The nonce of a process, unchanged. Raises BadRecord."""
    if not (text.isascii() and text.isalnum() and len(text) <= MAX_NONCE_CHARS):
        raise BadRecord("nonce", f"{shown(text)} is no nonce, which is 1 to {MAX_NONCE_CHARS} ASCII letters and digits")
    return text
