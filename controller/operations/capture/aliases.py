"""Numbers in place of the names of a slice: brokers, tenants, namespaces, topics, and controllers in ids.

Invariant: aliases are in the order of the names, because strategies break ties by name: with other names in the same
order, a round comes to the same plan. So they tell that order, and nothing else. Text that people wrote is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from controller.domain.errors import BallastError
from controller.policy.round import PACKED, pack_memory, unpack_memory

UNKNOWN = "unknown"
TAIL = "tail"  # the bundles of a report that are not listed, in the place of a bundle's name
_BUNDLE = re.compile(r"([^/\s]+)/([^/\s]+)/(0x[0-9a-fA-F]{8}_0x[0-9a-fA-F]{8})")
_TOPIC = re.compile(r"([a-z-]+)://([^/\s]+)/([^/\s]+)/(.+?)(-partition-\d+)?")
_SESSION = re.compile(r"(.+)#(\d+\.[^.#/]*\.\d+)")
_BUCKET = re.compile(r"(broker|namespace) (\S+)")  # of rate limits, in a strategy's memory
_OF_INSTANCE = re.compile(r"(.+?-\d+-[0-9a-f]{8})((?:-[0-9]+)*)")  # host, process and a random part; numbers after it
_CODE = re.compile(r"[\w.+=%\-]*")
_PEOPLES = frozenset({"who", "why", "text", "detail", "message", "error"})  # keys of what people or programs wrote
_NAMES = frozenset({"broker", "to", "source", "target", "bundle", "namespace", "topic", "owner", "tenant"})
_INFO = ("runtime", "authority", "can_fence", "version", "capacity")  # of what a broker tells of itself


class Aliases:
    """The aliases of these names. `topics`: full names, without partitions; `controllers`: their instances."""

    def __init__(
        self, brokers: Iterable[str], namespaces: Iterable[str], topics: Iterable[str], controllers: Iterable[str]
    ) -> None:
        spaces = {name for name in namespaces if name.count("/") == 1}
        # ranked with the slash that follows them in a bundle's name, so that the order of bundles stays
        tenants = _rank("tenant", (f"{name.partition('/')[0]}/" for name in spaces))
        numbers = _rank("namespace", (f"{name}/" for name in spaces))
        self._brokers = _rank("broker", brokers)
        self._namespaces = {
            name: f"{tenants[name.partition('/')[0] + '/']}/{numbers[name + '/']}" for name in sorted(spaces)
        }
        self._topics = _rank("topic", topics)
        self._controllers = _rank("controller", controllers)

    def broker(self, name: str) -> str:
        """Raises BallastError for a name that is not known, as the others do."""
        return _known(self._brokers, name)

    def namespace(self, name: str) -> str:
        """`tenant/namespace`; the empty name stays."""
        return _known(self._namespaces, name) if name else name

    def bundle(self, name: str) -> str:
        """`tenant/namespace/range`; the tail of a report keeps its name."""
        if name == TAIL:
            return name
        namespace, _, range_ = name.rpartition("/")
        return f"{self.namespace(namespace)}/{range_}"

    def session(self, text: str) -> str:
        """`broker#incarnation.nonce.number`."""
        broker, found, rest = text.rpartition("#")
        return f"{self.broker(broker)}{found}{rest}"

    def id(self, text: str) -> str:
        """An instance of the controller, or the id of something that one did, which begins with its name: that of its
        host. All else stays."""
        match = _OF_INSTANCE.fullmatch(text)
        return f"{self._controllers.get(match[1], UNKNOWN)}{match[2]}" if match else text

    def topic(self, name: str) -> str:
        """A full name, also of a partition; one that nobody created is `unknown`."""
        match = _TOPIC.fullmatch(name)
        if match is None:
            return UNKNOWN
        domain, tenant, namespace, local, partition = match.groups()
        alias = self._topics.get(f"{domain}://{tenant}/{namespace}/{local}", UNKNOWN)
        return f"{domain}://{self._namespaces.get(f'{tenant}/{namespace}', UNKNOWN)}/{alias}{partition or ''}"

    def text(self, text: str, key: str = "") -> str:
        """A text of any kind: names get their aliases, codes and numbers stay, all else is left out."""
        if key in _PEOPLES:
            return ""
        if text in self._brokers:
            return self._brokers[text]
        if text in self._namespaces:
            return self._namespaces[text]
        if _BUNDLE.fullmatch(text):
            return self.bundle(text) if text.rpartition("/")[0] in self._namespaces else UNKNOWN
        session = _SESSION.fullmatch(text)
        if session:
            return self.session(text) if session[1] in self._brokers else UNKNOWN
        bucket = _BUCKET.fullmatch(text)
        if bucket:
            return f"{bucket[1]} {self.text(bucket[2], bucket[1])}"
        if "://" in text:
            return self.topic(text) if _TOPIC.fullmatch(text) else ""
        if key in _NAMES and text:
            return UNKNOWN
        return self.id(text) if _CODE.fullmatch(text) else ""

    def document(self, value: Any, key: str = "") -> Any:
        """A JSON document with aliases, in keys as well. A strategy's deflated memory is inflated for it."""
        if isinstance(value, Mapping):
            if key == "info":
                value = {name: value[name] for name in _INFO if name in value}
            if set(value) == {PACKED}:
                return pack_memory(self.document(unpack_memory(value)))
            return {self.text(str(name)): self.document(inner, str(name)) for name, inner in value.items()}
        if isinstance(value, list | tuple):
            return [self.document(inner, key) for inner in value]
        return self.text(value, key) if isinstance(value, str) else value


def _rank(kind: str, names: Iterable[str]) -> dict[str, str]:
    """Name -> `kind-007`, as many digits for all, in the order of the names."""
    ordered = sorted({name for name in names if name})
    digits = max(3, len(str(len(ordered))))
    return {name: f"{kind}-{number:0{digits}d}" for number, name in enumerate(ordered, start=1)}


def _known(aliases: Mapping[str, str], name: str) -> str:
    if name not in aliases:
        raise BallastError(f"the slice names {name!r} where no name was expected: capture without --hash-names")
    return aliases[name]
